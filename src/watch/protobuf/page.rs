//! Decodes a page of a list. Each object is returned as soon as it is complete, while the rest of the page still arrives.

use kube::Resource;
use prost::Message;

use crate::watch::collection::Part;

use super::{
    Decode,
    decode::status_text,
    message::{ListMeta, MAGIC, RAW, TYPE_META, TypeMeta},
    wire::{Buffer, Malformed},
};

/// `metadata` of any list.
const METADATA: u64 = 1;
/// `items` of any list.
const ITEMS: u64 = 2;

/// The position in a page.
#[derive(Debug, Default)]
pub(crate) enum PageReader {
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
    pub(crate) fn next<D: Decode>(&mut self, buffer: &mut Buffer) -> Result<Option<Part<D::Object>>, Malformed> {
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
                        RAW if is_list_of::<D>(&type_meta.kind) => {
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
                    let token = Some(status_text(&metadata.continue_token)).filter(|token| !token.is_empty());
                    let resource_version = status_text(&metadata.resource_version);
                    if token.is_none() && resource_version.is_empty() {
                        return Err(Malformed("a list without a resource version"));
                    }
                    return Ok(Some(Part::End { token, resource_version }));
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
                        ITEMS => return Ok(Some(Part::Object(D::decode(content).object))),
                        _ => {}
                    }
                }
            }
        }
    }
}

fn is_list_of<D: Decode>(kind: &[u8]) -> bool {
    kind.strip_suffix(b"List").is_some_and(|kind| kind == D::Api::kind(&()).as_bytes())
}
