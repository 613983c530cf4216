//! Texts from a cluster or a file, made safe for a terminal.

use crate::logs::clean_text;

/// The longest message or evidence, in bytes.
const TEXT_LIMIT: usize = 1024;

/// Replaces control characters and those that change the writing direction by U+FFFD: the text may come from anyone.
pub(super) fn printable(text: &str) -> String {
    let is_control = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_control(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A text from the cluster on one line: redacted, because the output of a command may have many readers.
pub(super) fn clean(text: &str) -> String {
    printable(&clean_text(text, None, TEXT_LIMIT))
}
