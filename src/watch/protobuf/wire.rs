//! The wire format, as far as it must be parsed before a message is complete.

use bytes::{Buf, Bytes, BytesMut};

/// The longest message that is accepted, in bytes. etcd's default limit for an object is 1.5 MiB.
const MESSAGE_LIMIT: u64 = 64 << 20;

/// A malformed response. The text never quotes its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server's protobuf cannot be read: {0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

impl From<prost::DecodeError> for Malformed {
    fn from(_: prost::DecodeError) -> Self {
        Self("a message of another type")
    }
}

/// Received bytes that have not been consumed yet.
#[derive(Debug, Default)]
pub(crate) struct Buffer(BytesMut);

/// The header of a length-delimited field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub number: u64,
    pub length: usize,
    /// The length of the header itself.
    pub header: usize,
}

impl Buffer {
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.0.extend_from_slice(chunk);
    }

    /// Takes `count` bytes, if they have arrived.
    pub(crate) fn take(&mut self, count: usize) -> Option<Bytes> {
        (self.0.len() >= count).then(|| self.0.split_to(count).freeze())
    }

    /// Drops up to `count` bytes, and returns how many.
    pub(crate) fn skip(&mut self, count: usize) -> usize {
        let count = count.min(self.0.len());
        self.0.advance(count);
        count
    }

    /// Takes a message that follows its length in four bytes, if it has arrived.
    pub(crate) fn take_frame(&mut self) -> Result<Option<Bytes>, Malformed> {
        let Some(length) = self.0.first_chunk::<4>() else { return Ok(None) };
        let length = bounded(u32::from_be_bytes(*length).into())?;
        if self.0.len() < 4 + length {
            return Ok(None);
        }
        self.0.advance(4);
        Ok(self.take(length))
    }

    /// The header of the next field, if it has arrived. Every field of an envelope and a list is length-delimited. The
    /// length is bounded only by [`take_field`](Self::take_field): a list may be longer than any message.
    pub(crate) fn peek_field(&self) -> Result<Option<Field>, Malformed> {
        let Some((key, key_bytes)) = varint(&self.0)? else { return Ok(None) };
        if key & 7 != 2 {
            return Err(Malformed("a field that is not length-delimited"));
        }
        let Some((length, length_bytes)) = varint(&self.0[key_bytes..])? else { return Ok(None) };
        let length = usize::try_from(length).map_err(|_| TOO_LONG)?;
        Ok(Some(Field { number: key >> 3, length, header: key_bytes + length_bytes }))
    }

    /// Takes the content of the next field, if it has arrived.
    pub(crate) fn take_field(&mut self, field: Field) -> Result<Option<Bytes>, Malformed> {
        let length = bounded(field.length as u64)?;
        if self.0.len() < field.header + length {
            return Ok(None);
        }
        self.0.advance(field.header);
        Ok(self.take(length))
    }
}

const TOO_LONG: Malformed = Malformed("a message that is too long");

fn bounded(length: u64) -> Result<usize, Malformed> {
    let length = Some(length).filter(|length| *length <= MESSAGE_LIMIT).and_then(|length| usize::try_from(length).ok());
    length.ok_or(TOO_LONG)
}

/// Parses a varint, if it has arrived. Returns its value and its length.
fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, Malformed> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() < 9 { Ok(None) } else { Err(Malformed("a number that is too large")) }
}
