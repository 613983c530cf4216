//! Reads a YAML stream document by document, without a bound on its length.

use std::io::{self, BufRead, Read};

use serde::de::DeserializeSeed;
use serde_json::Value;

use crate::cli::yaml;

use super::{
    document::{Document, Reading},
    file_error::FileError,
};

/// Reads the documents of the input.
pub(super) fn read(input: impl BufRead, reading: &mut Reading<'_>) -> Result<(), FileError> {
    let mut documents = Documents::new(input);
    while documents.next()? {
        let before = documents.lines;
        serde_yaml::with_deserializer_from_reader_with_options(&mut documents, yaml::options(), |deserializer| {
            Document::<Value>::of(reading).deserialize(deserializer)
        })
        .map_err(|error| match error {
            serde_yaml::Error::IOError { cause } => FileError::Io(cause),
            error => FileError::Syntax(before + error.location().map_or(1, |location| location.line()), "YAML"),
        })?;
    }
    Ok(())
}

/// The documents of a YAML stream, which end at lines that begin with `---`. No other line of YAML may begin so.
///
/// As a [`Read`] it ends at the end of each document, until [`next`](Self::next) starts the next one.
struct Documents<R> {
    input: R,
    line: Vec<u8>,
    /// How many bytes of `line` were returned by `read`.
    consumed: usize,
    /// How many lines come before `line`.
    lines: u64,
    /// Whether `line` separates two documents.
    at_separator: bool,
}

impl<R: BufRead> Documents<R> {
    fn new(input: R) -> Self {
        Self { input, line: Vec::new(), consumed: 0, lines: 0, at_separator: false }
    }

    /// Starts the next document that contains more than comments. Returns false at the end of the input.
    fn next(&mut self) -> io::Result<bool> {
        loop {
            self.at_separator = false;
            let content = self.line[self.consumed..].trim_ascii();
            if !content.is_empty() && !content.starts_with(b"#") {
                return Ok(true);
            }
            if !self.read_line()? {
                return Ok(false);
            }
        }
    }

    fn read_line(&mut self) -> io::Result<bool> {
        self.lines += u64::from(!self.line.is_empty());
        self.line.clear();
        self.consumed = 0;
        self.input.read_until(b'\n', &mut self.line)?;
        if let Some(rest) = self.line.strip_prefix(b"---")
            && rest.first().is_none_or(u8::is_ascii_whitespace)
        {
            self.at_separator = true;
            self.consumed = 3;
        }
        Ok(!self.line.is_empty())
    }
}

impl<R: BufRead> Read for Documents<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.consumed == self.line.len() && !self.at_separator {
            if !self.read_line()? {
                return Ok(0);
            }
        }
        if self.at_separator {
            return Ok(0);
        }
        let rest = &self.line[self.consumed..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.consumed += count;
        Ok(count)
    }
}
