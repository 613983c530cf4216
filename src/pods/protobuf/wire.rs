//! The wire format, as far as it must be understood before a message is complete.

use bytes::{Buf, Bytes, BytesMut};

/// The longest message that is taken, in bytes. etcd refuses objects of over 1.5 MiB unless it is told otherwise.
const MESSAGE_LIMIT: u64 = 64 << 20;

/// An answer that is not what it says it is. Tells nothing of what stood there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server's protobuf cannot be read: {0}")]
pub(super) struct Malformed(pub(super) &'static str);

impl From<prost::DecodeError> for Malformed {
    fn from(_: prost::DecodeError) -> Self {
        Self("a message of another type")
    }
}

/// What has come and was not yet taken.
#[derive(Debug, Default)]
pub(super) struct Buffer(BytesMut);

/// A field's number and, where it is itself made of bytes, how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub number: u64,
    pub length: usize,
    /// The bytes that number and length take.
    pub header: usize,
}

impl Buffer {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.0.extend_from_slice(chunk);
    }

    /// Takes so many bytes, if they are there.
    pub(super) fn take(&mut self, count: usize) -> Option<Bytes> {
        (self.0.len() >= count).then(|| self.0.split_to(count).freeze())
    }

    /// Drops at most so many bytes, and returns how many.
    pub(super) fn skip(&mut self, count: usize) -> usize {
        let count = count.min(self.0.len());
        self.0.advance(count);
        count
    }

    /// A message behind its length of four bytes, if it is there.
    pub(super) fn take_frame(&mut self) -> Result<Option<Bytes>, Malformed> {
        let Some(length) = self.0.first_chunk::<4>() else { return Ok(None) };
        let length = bounded(u32::from_be_bytes(*length).into())?;
        if self.0.len() < 4 + length {
            return Ok(None);
        }
        self.0.advance(4);
        Ok(self.take(length))
    }

    /// The field that comes next, if its header is there. All fields where this is used are made of bytes, and only those
    /// that are taken whole are bounded.
    pub(super) fn peek_field(&self) -> Result<Option<Field>, Malformed> {
        let Some((key, key_bytes)) = varint(&self.0)? else { return Ok(None) };
        if key & 7 != 2 {
            return Err(Malformed("a field that is not made of bytes"));
        }
        let Some((length, length_bytes)) = varint(&self.0[key_bytes..])? else { return Ok(None) };
        let length = usize::try_from(length).map_err(|_| Malformed("a message beyond all bounds"))?;
        Ok(Some(Field { number: key >> 3, length, header: key_bytes + length_bytes }))
    }

    /// A field's content, if all of it is there.
    pub(super) fn take_field(&mut self, field: Field) -> Result<Option<Bytes>, Malformed> {
        let length = bounded(field.length as u64)?;
        if self.0.len() < field.header + length {
            return Ok(None);
        }
        self.0.advance(field.header);
        Ok(self.take(length))
    }
}

fn bounded(length: u64) -> Result<usize, Malformed> {
    let length = Some(length).filter(|length| *length <= MESSAGE_LIMIT).and_then(|length| usize::try_from(length).ok());
    length.ok_or(Malformed("a message beyond all bounds"))
}

/// A number of seven bits a byte and how many bytes it takes, if it is there.
fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, Malformed> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() < 9 { Ok(None) } else { Err(Malformed("a number beyond all bounds")) }
}
