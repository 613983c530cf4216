//! Decodes pages and events in protobuf. The format is that of apimachinery's `protobuf` serializer: the magic bytes `k8s\0`
//! and a `runtime.Unknown` envelope. In a watch, each event follows its length in four bytes. kube supports JSON only.

use bytes::Bytes;
use kube::core::{Status, response::StatusSummary};
use prost::Message;

use super::{
    buffer::{Buffer, Malformed},
    decode::{Decoder, FromProtobuf, Part, WatchEvent, short_text},
    message::{self, AnyObject, ListMeta, TypeMeta},
};

/// The first bytes of an envelope.
const MAGIC: [u8; 4] = *b"k8s\0";
/// `Unknown.typeMeta` and `Unknown.raw`.
const TYPE_META: u64 = 1;
const RAW: u64 = 2;
/// `metadata` and `items` of any list.
const METADATA: u64 = 1;
const ITEMS: u64 = 2;

/// The position in a page.
#[derive(Debug, Default)]
pub(super) enum PageReader {
    /// Before the magic bytes.
    #[default]
    Start,
    /// In the envelope, before the list.
    Envelope { type_meta: TypeMeta },
    /// In the list, of which `left` bytes remain.
    List { left: usize, metadata: ListMeta },
}

impl PageReader {
    /// Takes the next part out of the buffer. Returns nothing until the part is complete.
    pub(super) fn next<K>(
        &mut self,
        buffer: &mut Buffer,
        decoder: &FromProtobuf<K>,
    ) -> Result<Option<Part<K>>, Malformed> {
        loop {
            match self {
                Self::Start => match buffer.take(MAGIC.len()) {
                    Some(magic) if *magic == MAGIC => *self = Self::Envelope { type_meta: TypeMeta::default() },
                    Some(_) => return Err(Malformed("no envelope")),
                    None => return Ok(None),
                },
                Self::Envelope { type_meta } => {
                    let Some(field) = buffer.peek_field()? else { return Ok(None) };
                    match field.number {
                        RAW if type_meta.kind.strip_suffix(b"List") == Some(decoder.kind.as_bytes()) => {
                            buffer.skip(field.header);
                            *self = Self::List { left: field.length, metadata: ListMeta::default() };
                        }
                        RAW => return Err(Malformed("a response of another type")),
                        number => {
                            let Some(content) = buffer.take_field(field)? else { return Ok(None) };
                            if number == TYPE_META {
                                *type_meta = TypeMeta::decode(content)?;
                            }
                        }
                    }
                }
                Self::List { left: 0, metadata } => {
                    let end = metadata.end().ok_or(Malformed("a list without a resource version"))?;
                    return Ok(Some(end));
                }
                Self::List { left, metadata } => {
                    let Some(field) = buffer.peek_field()? else { return Ok(None) };
                    let length = field.header.checked_add(field.length);
                    let after = length
                        .and_then(|length| left.checked_sub(length))
                        .ok_or(Malformed("an item beyond the end of its list"))?;
                    let Some(content) = buffer.take_field(field)? else { return Ok(None) };
                    *left = after;
                    match field.number {
                        METADATA => *metadata = ListMeta::decode(content)?,
                        ITEMS => return Ok(Some(Part::Object((decoder.decode)(content).object))),
                        _ => {}
                    }
                }
            }
        }
    }
}

/// Decodes a complete page. For benchmarks.
pub(crate) fn read_page<K>(bytes: &[u8], decoder: &Decoder<K>) -> Option<Vec<K>> {
    let (mut page, mut buffer, mut objects) = (PageReader::default(), Buffer::default(), Vec::new());
    buffer.push(bytes);
    loop {
        match page.next(&mut buffer, decoder.from_protobuf.as_ref()?).ok()?? {
            Part::Object(object) => objects.push(object),
            Part::End { .. } => return Some(objects),
        }
    }
}

/// Decodes an event of a watch.
pub(super) fn decode_event<K>(frame: Bytes, decoder: &FromProtobuf<K>) -> Result<WatchEvent<K>, Malformed> {
    let message::WatchEvent { kind, object } = message::WatchEvent::decode(frame)?;
    let message::Unknown { type_meta, raw } = envelope(&object.raw)?;
    let is_own = type_meta.kind == decoder.kind.as_bytes();
    match &kind[..] {
        b"ADDED" | b"MODIFIED" if is_own => Ok(WatchEvent::Applied((decoder.decode)(raw))),
        b"DELETED" if is_own => Ok(WatchEvent::Deleted((decoder.decode)(raw))),
        b"BOOKMARK" if is_own => {
            let bookmark = AnyObject::decode(raw)?.bookmark();
            bookmark.ok_or(Malformed("a bookmark without a resource version"))
        }
        b"ERROR" if type_meta.kind == "Status" => Ok(WatchEvent::Error(Box::new(message::Status::decode(raw)?.into()))),
        _ => Err(Malformed("an event of another type")),
    }
}

fn envelope(bytes: &Bytes) -> Result<message::Unknown, Malformed> {
    if !bytes.starts_with(&MAGIC) {
        return Err(Malformed("no envelope"));
    }
    Ok(message::Unknown::decode(bytes.slice(MAGIC.len()..))?)
}

/// Decodes a Status in its envelope, if the bytes are one.
pub(super) fn decode_status(bytes: &Bytes) -> Option<Status> {
    let message::Unknown { type_meta, raw } = envelope(bytes).ok()?;
    if type_meta.kind != "Status" {
        return None;
    }
    message::Status::decode(raw).ok().map(Into::into)
}

impl From<message::Status> for Status {
    fn from(status: message::Status) -> Self {
        Self {
            status: Some(StatusSummary::Failure),
            code: status.code.try_into().unwrap_or_default(),
            message: short_text(&status.message),
            reason: short_text(&status.reason),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests;
