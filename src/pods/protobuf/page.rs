//! A page of a list, of which pods are handed on while it still comes.

use prost::Message;

use crate::{pods::WatchedPod, watch::list_watch};

use super::{
    convert::{seen, text},
    message::{ListMeta, MAGIC, RAW, TYPE_META, TypeMeta},
    wire::{Buffer, Malformed},
};

/// `PodList.metadata`.
const METADATA: u64 = 1;
/// `PodList.items`.
const ITEMS: u64 = 2;

/// Where in a page we are.
#[derive(Debug, Default)]
pub(super) enum Page {
    /// Before the magic bytes.
    #[default]
    Start,
    /// In the envelope, before the list.
    Envelope { kind: TypeMeta },
    /// In the list, with so many bytes of it to come.
    List { left: usize, metadata: ListMeta },
}

pub(super) type Part = list_watch::Part<WatchedPod>;

impl Page {
    /// Takes the next part out of the buffer. There is none as long as more must come first.
    pub(super) fn next(&mut self, buffer: &mut Buffer) -> Result<Option<Part>, Malformed> {
        loop {
            match self {
                Self::Start => match buffer.take(MAGIC.len()) {
                    Some(magic) if *magic == MAGIC => *self = Self::Envelope { kind: TypeMeta::default() },
                    Some(_) => return Err(Malformed("no envelope")),
                    None => return Ok(None),
                },
                Self::Envelope { kind } => {
                    let Some(field) = buffer.peek_field()? else { return Ok(None) };
                    match field.number {
                        RAW if kind.kind == "PodList" => {
                            buffer.skip(field.header);
                            *self = Self::List { left: field.length, metadata: ListMeta::default() };
                        }
                        RAW => return Err(Malformed("an answer of another type")),
                        number => {
                            let Some(content) = buffer.take_field(field)? else { return Ok(None) };
                            if number == TYPE_META {
                                *kind = TypeMeta::decode(content)?;
                            }
                        }
                    }
                }
                Self::List { left: 0, metadata } => {
                    let token = Some(text(&metadata.continue_token)).filter(|token| !token.is_empty());
                    let resource_version = text(&metadata.resource_version);
                    if token.is_none() && resource_version.is_empty() {
                        return Err(Malformed("a list without a version"));
                    }
                    return Ok(Some(Part::End { token, resource_version }));
                }
                Self::List { left, metadata } => {
                    let Some(field) = buffer.peek_field()? else { return Ok(None) };
                    let length = field.header.checked_add(field.length);
                    let after = length
                        .and_then(|length| left.checked_sub(length))
                        .ok_or(Malformed("a list that is longer than itself"))?;
                    let Some(content) = buffer.take_field(field)? else { return Ok(None) };
                    *left = after;
                    match field.number {
                        METADATA => *metadata = ListMeta::decode(content)?,
                        ITEMS => return Ok(Some(Part::Object(seen(content)))),
                        _ => {}
                    }
                }
            }
        }
    }
}
