//! The documents of a YAML stream.

use std::{io::BufRead, marker::PhantomData};

use granit_parser::{ErrorKind, InputIoError};
use serde::{Deserialize, de::DeserializeSeed};
use serde_json::Value;

use super::{Document, YamlError};

/// Next line, line separator and paragraph separator. For kubectl, whose YAML is 1.1, these end a line: it writes a
/// text with one in several lines, without another line break. As line breaks, they do not make the next field a part
/// of the text.
const BREAKS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

/// Reads JSON, or the first document of YAML; null if there is none. The parsers' errors may quote the text, so they are not kept.
pub(in crate::cli) fn json_or_yaml(text: &str) -> Option<Value> {
    let yaml = || first_document(text.as_bytes()).ok().map(Option::unwrap_or_default);
    serde_json::from_str(text).ok().or_else(yaml)
}

/// Reads the first document of the input, if it has one.
pub(super) fn first_document<T: for<'de> Deserialize<'de>>(input: impl BufRead) -> Result<Option<T>, YamlError> {
    let mut documents = Documents::new(input);
    if documents.begin_next()? { documents.deserialize(PhantomData).map(Some) } else { Ok(None) }
}

/// The documents of a YAML stream, which end at lines that begin with `---`. No other line of YAML may begin so.
///
/// As an iterator of characters it ends at the end of each document, until [`begin_next`](Self::begin_next) begins the
/// next one.
pub(in crate::cli) struct Documents<R> {
    input: R,
    line: String,
    /// How many bytes of `line` were returned.
    consumed: usize,
    /// How many lines come before `line`.
    lines: u64,
    /// Whether `line` separates two documents.
    at_separator: bool,
}

impl<R: BufRead> Documents<R> {
    pub(in crate::cli) fn new(input: R) -> Self {
        Self { input, line: String::new(), consumed: 0, lines: 0, at_separator: false }
    }

    /// Begins the next document that contains more than comments. Returns false at the end of the input.
    pub(in crate::cli) fn begin_next(&mut self) -> Result<bool, YamlError> {
        loop {
            self.at_separator = false;
            let content = self.rest().trim();
            if !content.is_empty() && !content.starts_with('#') {
                return Ok(true);
            }
            let is_any = self.read_line().map_err(|error| YamlError::of(&error, self.lines + 1))?;
            if !is_any {
                return Ok(false);
            }
        }
    }

    /// Deserializes the document that has begun. The line of an error is that of the whole input.
    pub(in crate::cli) fn deserialize<'de, S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, YamlError> {
        let before = self.lines;
        Document::deserialize(&mut *self, seed).map_err(|error| match error {
            YamlError::Syntax(line) => YamlError::Syntax(before + line),
            error => error,
        })
    }

    fn rest(&self) -> &str {
        self.line.get(self.consumed..).unwrap_or_default()
    }

    fn read_line(&mut self) -> Result<bool, ErrorKind> {
        self.lines += u64::from(!self.line.is_empty());
        self.consumed = 0;
        let mut line = std::mem::take(&mut self.line).into_bytes();
        line.clear();
        let read = self.input.read_until(b'\n', &mut line);
        read.map_err(|error| ErrorKind::InputIo { error: InputIoError::from_io(error) })?;
        self.line =
            String::from_utf8(line).map_err(|_| ErrorKind::InputDecoding { message: "it is not UTF-8".to_owned() })?;
        if let Some(rest) = self.line.strip_prefix("---")
            && rest.bytes().next().is_none_or(|next| next.is_ascii_whitespace())
        {
            self.at_separator = true;
            self.consumed = 3;
        }
        Ok(!self.line.is_empty())
    }
}

impl<R: BufRead> Iterator for Documents<R> {
    type Item = Result<char, ErrorKind>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.at_separator && self.rest().is_empty() {
            match self.read_line() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        if self.at_separator {
            return None;
        }
        let character = self.rest().chars().next()?;
        self.consumed += character.len_utf8();
        Some(Ok(if BREAKS.contains(&character) { '\n' } else { character }))
    }
}
