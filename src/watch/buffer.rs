//! The bytes of a response that have not been consumed yet.

use bytes::{Buf, Bytes, BytesMut};

/// The longest message in protobuf, and the longest event in JSON, in bytes. etcd's default limit for an object is 1.5 MiB.
const MESSAGE_LIMIT: u64 = 64 << 20;
const LINE_LIMIT: usize = 16 << 20;

/// A malformed response. The text never quotes its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server's response cannot be read: {0}")]
pub(super) struct Malformed(pub(super) &'static str);

impl From<prost::DecodeError> for Malformed {
    fn from(_: prost::DecodeError) -> Self {
        Self("a message of another type")
    }
}

impl From<Malformed> for kube::Error {
    fn from(malformed: Malformed) -> Self {
        Self::Service(Box::new(malformed))
    }
}

const TOO_LONG: Malformed = Malformed("a message that is too long");

/// Received bytes.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: BytesMut,
    /// How many of the bytes are known to contain no end of a line.
    searched: usize,
}

/// The header of a length-delimited field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) number: u64,
    pub(super) length: usize,
    /// The length of the header itself.
    pub(super) header: usize,
}

impl Buffer {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes `count` bytes, if they have arrived.
    pub(super) fn take(&mut self, count: usize) -> Option<Bytes> {
        (self.bytes.len() >= count).then(|| self.bytes.split_to(count).freeze())
    }

    /// Drops up to `count` bytes, and returns how many.
    pub(super) fn skip(&mut self, count: usize) -> usize {
        let count = count.min(self.bytes.len());
        self.bytes.advance(count);
        count
    }

    /// Takes a line without its end, if it has arrived. Empty lines are skipped.
    pub(super) fn take_line(&mut self) -> Result<Option<Bytes>, Malformed> {
        while let Some(end) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') {
            let line = self.bytes.split_to(self.searched + end).freeze();
            self.skip(1);
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
        self.searched = self.bytes.len();
        if self.searched > LINE_LIMIT { Err(TOO_LONG) } else { Ok(None) }
    }

    /// Takes a message that follows its length in four bytes, if it has arrived.
    pub(super) fn take_frame(&mut self) -> Result<Option<Bytes>, Malformed> {
        let Some(length) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = bounded(u32::from_be_bytes(*length).into())?;
        if self.bytes.len() < 4 + length {
            return Ok(None);
        }
        self.skip(4);
        Ok(self.take(length))
    }

    /// The header of the next field, if it has arrived. Every field of an envelope and a list is length-delimited. The
    /// length is bounded only by [`take_field`](Self::take_field): a list may be longer than any message.
    pub(super) fn peek_field(&self) -> Result<Option<Field>, Malformed> {
        let Some((key, key_bytes)) = varint(&self.bytes)? else { return Ok(None) };
        if key & 7 != 2 {
            return Err(Malformed("a field that is not length-delimited"));
        }
        let Some((length, length_bytes)) = varint(&self.bytes[key_bytes..])? else { return Ok(None) };
        let length = usize::try_from(length).map_err(|_| TOO_LONG)?;
        Ok(Some(Field { number: key >> 3, length, header: key_bytes + length_bytes }))
    }

    /// Takes the content of the next field, if it has arrived.
    pub(super) fn take_field(&mut self, field: Field) -> Result<Option<Bytes>, Malformed> {
        let length = bounded(field.length as u64)?;
        if self.bytes.len() < field.header + length {
            return Ok(None);
        }
        self.skip(field.header);
        Ok(self.take(length))
    }
}

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
