//! Reads YAML that kubectl has written, of any length.
//!
//! kubectl writes text without quotes unless its own parser would take it for something else. So `12e400`, which may be a part
//! of a hash, means text: no number can be that large. serde-saphyr, whose parser this uses, takes it for infinity, and either
//! rejects the whole file or loses the text. About one in a hundred short hashes of commits looks like that, in a label for
//! instance.

mod documents;

use std::io;

use granit_parser::{ErrorKind, Event, FallibleBufferedInput, Parser, ScalarStyle, ScanError, Tag};
use serde::{
    Deserializer,
    de::{self, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor, value::StringDeserializer},
    forward_to_deserialize_any,
};

pub(super) use documents::{Documents, json_or_yaml};

/// How deep YAML may nest; pods come to about a dozen levels.
const MAX_DEPTH: usize = 64;

/// Why a document cannot be read. No message contains text of it, because it may be a secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum YamlError {
    #[error("{0}")]
    Io(io::Error),
    /// A line of the document, beginning with 1, that is not YAML or that kubectl does not write: such as aliases, which could
    /// make a short text take any amount of memory.
    #[error("line {0} is not YAML")]
    Syntax(u64),
    /// What the target type says, which may quote the document.
    #[error("it has another shape")]
    Shape,
}

impl de::Error for YamlError {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Self::Shape
    }
}

impl YamlError {
    /// An error of the parser, or of its input, in this line.
    fn of(error: &ErrorKind, line: u64) -> Self {
        match error {
            // The parser keeps the error itself.
            ErrorKind::InputIo { error } => {
                let kind = error.io_error().map_or(io::ErrorKind::Other, io::Error::kind);
                Self::Io(io::Error::new(kind, error.message().to_owned()))
            }
            _ => Self::Syntax(line),
        }
    }
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        Self::of(error.kind(), error.marker().line() as u64)
    }
}

/// A document as a deserializer of self-describing values.
pub(super) struct Document<C: Iterator<Item = Result<char, ErrorKind>>> {
    parser: Parser<'static, FallibleBufferedInput<C>>,
    /// The line of the last event.
    line: u64,
    depth: usize,
}

impl<C: Iterator<Item = Result<char, ErrorKind>>> Document<C> {
    /// Deserializes the document with these characters.
    pub(super) fn deserialize<'de, S: DeserializeSeed<'de>>(characters: C, seed: S) -> Result<S::Value, YamlError> {
        let mut document = Self { parser: Parser::new_from_fallible_iter(characters), line: 1, depth: 0 };
        let value = seed.deserialize(&mut document)?;
        loop {
            match document.next()? {
                Event::DocumentEnd => {}
                Event::StreamEnd => return Ok(value),
                _ => return Err(YamlError::Syntax(document.line)),
            }
        }
    }

    fn next(&mut self) -> Result<Event<'static>, YamlError> {
        let (event, span) = self.parser.next_event().ok_or(YamlError::Syntax(self.line))??;
        self.line = span.start.line() as u64;
        Ok(event)
    }

    /// The next event of the content.
    fn next_of_content(&mut self) -> Result<Event<'static>, YamlError> {
        loop {
            match self.next()? {
                Event::StreamStart | Event::DocumentStart(..) => {}
                event => return Ok(event),
            }
        }
    }

    /// Whether the next event is this one, which is consumed then.
    fn ends_with(&mut self, end: &Event<'_>) -> Result<bool, YamlError> {
        let peeked = self.parser.peek().ok_or(YamlError::Syntax(self.line))??;
        let is_end = peeked.0 == *end;
        if is_end {
            self.next()?;
        }
        Ok(is_end)
    }

    /// Visits the elements of a sequence or mapping.
    fn visit<T>(
        &mut self,
        end: Event<'static>,
        visit: impl FnOnce(&mut Elements<'_, C>) -> Result<T, YamlError>,
    ) -> Result<T, YamlError> {
        if self.depth == MAX_DEPTH {
            return Err(YamlError::Syntax(self.line));
        }
        self.depth += 1;
        let mut elements = Elements { document: self, end, is_over: false };
        let value = visit(&mut elements)?;
        // A visitor that leaves elements unread would continue in the middle of them.
        let is_over = elements.is_over()?;
        self.depth -= 1;
        if is_over { Ok(value) } else { Err(YamlError::Shape) }
    }
}

impl<'de, C: Iterator<Item = Result<char, ErrorKind>>> Deserializer<'de> for &mut Document<C> {
    type Error = YamlError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        match self.next_of_content()? {
            Event::Scalar(text, style, _, tag) => visit_scalar(text.into_owned(), style, tag.as_deref(), visitor),
            Event::SequenceStart(..) => self.visit(Event::SequenceEnd, |elements| visitor.visit_seq(elements)),
            Event::MappingStart(..) => self.visit(Event::MappingEnd, |elements| visitor.visit_map(elements)),
            // An empty document.
            Event::DocumentEnd | Event::StreamEnd => visitor.visit_unit(),
            _ => Err(YamlError::Syntax(self.line)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The elements of a sequence, or the entries of a mapping, up to an event.
struct Elements<'a, C: Iterator<Item = Result<char, ErrorKind>>> {
    document: &'a mut Document<C>,
    end: Event<'static>,
    is_over: bool,
}

impl<C: Iterator<Item = Result<char, ErrorKind>>> Elements<'_, C> {
    fn is_over(&mut self) -> Result<bool, YamlError> {
        self.is_over = self.is_over || self.document.ends_with(&self.end)?;
        Ok(self.is_over)
    }
}

impl<'de, C: Iterator<Item = Result<char, ErrorKind>>> SeqAccess<'de> for &mut Elements<'_, C> {
    type Error = YamlError;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, YamlError> {
        if self.is_over()? { Ok(None) } else { seed.deserialize(&mut *self.document).map(Some) }
    }
}

impl<'de, C: Iterator<Item = Result<char, ErrorKind>>> MapAccess<'de> for &mut Elements<'_, C> {
    type Error = YamlError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, YamlError> {
        if self.is_over()? {
            return Ok(None);
        }
        match self.document.next()? {
            Event::Scalar(key, ..) => {
                let key: StringDeserializer<YamlError> = key.into_owned().into_deserializer();
                seed.deserialize(key).map(Some)
            }
            _ => Err(YamlError::Syntax(self.document.line)),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, YamlError> {
        seed.deserialize(&mut *self.document)
    }
}

/// Visits a scalar as text, unless it is a plain one that kubectl writes for another value.
fn visit_scalar<'de, V: Visitor<'de>>(
    text: String,
    style: ScalarStyle,
    tag: Option<&Tag>,
    visitor: V,
) -> Result<V::Value, YamlError> {
    let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.core_suffix() == Some("str"));
    match text.as_str() {
        _ if is_text => visitor.visit_string(text),
        "" | "~" | "null" | "Null" | "NULL" => visitor.visit_unit(),
        "true" | "True" | "TRUE" => visitor.visit_bool(true),
        "false" | "False" | "FALSE" => visitor.visit_bool(false),
        _ => match number(&text) {
            Some(Number::Unsigned(number)) => visitor.visit_u64(number),
            Some(Number::Signed(number)) => visitor.visit_i64(number),
            Some(Number::Float(number)) => visitor.visit_f64(number),
            None => visitor.visit_string(text),
        },
    }
}

enum Number {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

/// A number as JSON has it. Others, such as `0x1f`, `.5` and `12e400`, are text.
fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let has_leading_zero = digits.starts_with('0') && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    if !digits.starts_with(|first: char| first.is_ascii_digit()) || has_leading_zero {
        return None;
    }
    let float = || text.parse().ok().filter(|float: &f64| float.is_finite()).map(Number::Float);
    text.parse().map(Number::Unsigned).or_else(|_| text.parse().map(Number::Signed)).ok().or_else(float)
}

#[cfg(test)]
mod tests;
