//! Texts from a cluster or a file, made safe for a terminal.

/// Replaces control characters and those that change the writing direction by U+FFFD: the text may come from anyone.
pub(super) fn printable(text: &str) -> String {
    let is_control = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_control(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
