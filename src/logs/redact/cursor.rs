//! Reads a text from a position on.

use std::ops::Range;

use super::bytes::{self, BLANK, Class, is_at, run};

/// A position in a text. Methods that find what they look for move it.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes().get(self.at).copied()
    }

    /// Skips bytes of a class, and returns their number.
    pub(super) fn skip(&mut self, class: Class) -> usize {
        let length = run(self.bytes(), self.at, class, 1024);
        self.at += length;
        length
    }

    pub(super) fn blanks(&mut self) -> bool {
        self.skip(BLANK) > 0
    }

    /// Skips a text, without regard to case.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self
            .bytes()
            .get(self.at..self.at + text.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(text.as_bytes()));
        self.at += if found { text.len() } else { 0 };
        found
    }

    /// Skips one of several words and the blanks after it.
    pub(super) fn eat_word(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| {
            let mut ahead = *self;
            let found = ahead.eat(word)
                && bytes::ends_word(ahead.bytes(), ahead.at)
                && (ahead.blanks() || ahead.peek().is_none_or(|byte| !is_at(&[byte], 0, bytes::ALNUM)));
            if found {
                *self = ahead;
            }
            found
        })
    }

    /// The range up to the first byte for which `stop` is true, or the end of the line, at most `limit` bytes.
    pub(super) fn until(&mut self, limit: usize, stop: impl Fn(u8) -> bool) -> Range<usize> {
        let start = self.at;
        let rest = self.bytes().get(start..).unwrap_or_default();
        self.at += rest.iter().take(limit).take_while(|&&byte| byte != b'\n' && !stop(byte)).count();
        start..self.at
    }

    /// The range of a word up to a blank or a quote. A quote before it is skipped.
    pub(super) fn value(&mut self) -> Range<usize> {
        if self.peek().is_some_and(|byte| is_at(&[byte], 0, bytes::QUOTE)) {
            let quote = self.peek();
            self.at += 1;
            return self.until(512, |byte| Some(byte) == quote);
        }
        self.until(512, |byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`'))
    }

    pub(super) fn at_line_end(&self) -> bool {
        let mut ahead = *self;
        ahead.blanks();
        matches!(ahead.peek(), None | Some(b'\n'))
    }
}
