//! A place in a text where a phrase may begin.

use std::ops::Range;

use super::bytes::{BLANK, QUOTE, is_at, line_before, run};

/// Where a text was found that begins a phrase.
pub(super) struct Found<'a> {
    pub text: &'a str,
    pub needle: Range<usize>,
}

impl Found<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    pub(super) fn needle(&self) -> &str {
        self.text.get(self.needle.clone()).unwrap_or_default()
    }

    /// Whether further words may follow, as in a sentence. Such phrases take longest.
    pub(super) fn is_in_sentence(&self) -> bool {
        self.needle().ends_with(' ') || is_at(self.bytes(), self.needle.end, BLANK)
    }

    /// Where the needle ends, with further blanks if it ends with one.
    pub(super) fn end(&self) -> usize {
        let blanks = if self.needle().ends_with(' ') { run(self.bytes(), self.needle.end, BLANK, 64) } else { 0 };
        self.needle.end + blanks
    }

    /// The line up to the needle.
    pub(super) fn head(&self) -> &str {
        line_before(self.text, self.needle.start, 256)
    }

    /// The value without the sign that ends a sentence, if no quote follows.
    pub(super) fn without_stop(&self, value: Range<usize>) -> Range<usize> {
        let text = self.text.get(value.clone()).unwrap_or_default();
        let is_quoted = is_at(self.bytes(), value.end, QUOTE);
        let kept = if is_quoted { text } else { text.trim_end_matches(['.', ',', ';', ')', ':', '!']) };
        value.start..value.start + kept.len()
    }
}
