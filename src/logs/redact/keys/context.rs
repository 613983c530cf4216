//! What a key and its notation indicate about the value, before the value is examined.

use super::names::{Name, Secret};
use crate::logs::redact::{bytes::rest_of_line, looks::is_random};

/// What the key indicates about its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub name: &'a Name,
    pub secret: Secret,
    pub notation: Notation,
    /// The indentation, if the key is the first word of its line. The value then extends to the end of the line and may
    /// contain spaces.
    pub leads: Option<usize>,
    /// Whether the name is often that of an entry, whose value may be a hash.
    pub of_data: bool,
}

/// How a key is separated from its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    /// An equals sign, or a colon after a quoted key.
    Sign,
    /// A colon, as in a sentence.
    Colon,
    /// A space, as after a command-line flag.
    Flag,
    /// An XML tag.
    Element,
}

/// Where a value begins.
#[derive(Debug)]
pub(super) struct Place {
    pub start: usize,
    /// Where it ends, if that is known already.
    pub end: Option<usize>,
    pub notation: Notation,
    /// Whether only certain suffixes are allowed in the name, because the notation also occurs in prose.
    pub strict: bool,
    /// Whether the name must leave no doubt.
    pub certain: bool,
}

impl Place {
    pub(super) fn new(start: usize, notation: Notation, strict: bool) -> Self {
        Self { start, end: None, notation, strict, certain: false }
    }

    /// Whether the value looks random, and not like a hash with its algorithm.
    pub(super) fn has_random(&self, text: &str) -> bool {
        let value = rest_of_line(text, self.start, 256).split_whitespace().next().unwrap_or_default();
        let value = value.trim_matches(['"', '\'', ',', ';']);
        value.len() >= 24 && is_random(value, false)
    }
}
