//! Makes texts from a cluster safe to print on one line of a terminal.

use crate::{
    escapes::remove_escapes,
    partial_text::{self, CUT},
};

/// The longest `message` of a finding, in bytes.
pub(super) const MESSAGE_LIMIT: usize = 1024;
/// The longest `reason` or `status` of a finding, in bytes. Those of Kubernetes have at most about 40.
pub(super) const REASON_LIMIT: usize = 128;

/// The text on one line of at most `limit` bytes. Whitespace becomes single spaces. Escape sequences and characters that
/// hide or reorder others are removed, because they would hide a credential from the redaction that follows.
pub(super) fn one_line(text: &str, limit: usize) -> String {
    let (text, _) = remove_escapes(text, 0);
    partial_text::cut(&joined(&text, limit, |char| char), limit)
}

/// A reason on one line of at most [`REASON_LIMIT`] bytes. Control and bidirectional characters become U+FFFD, so that two
/// reasons stay two.
pub(super) fn reason_line(reason: &str) -> String {
    let shown = |char: char| if is_control(char) { char::REPLACEMENT_CHARACTER } else { char };
    let mut line = joined(reason, REASON_LIMIT, shown);
    if line.len() > REASON_LIMIT {
        line.truncate(line.floor_char_boundary(REASON_LIMIT - CUT.len_utf8()));
        line.push(CUT);
    }
    line
}

/// The words, at least as many as fit.
fn joined(text: &str, limit: usize, shown: impl Fn(char) -> char) -> String {
    let mut line = String::with_capacity(text.len().min(limit));
    for word in text.split_whitespace() {
        if line.len() > limit {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().map(&shown));
    }
    line
}

fn is_control(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_lines() {
        assert_eq!(one_line("  a\r\n\tb\u{2028}c ", 99), "a b c");
        assert_eq!(reason_line(" a\n b"), "a b");
    }

    #[test]
    fn removes_what_could_hide_a_credential_from_redaction() {
        assert_eq!(one_line("\u{1b}[31mpassword\u{1b}[0m=x", 99), "password=x");
        assert_eq!(one_line("passw\u{200e}ord=\u{202e}x\u{0}", 99), "password=x");
    }

    #[test]
    fn replaces_control_characters_in_reasons() {
        assert_eq!(reason_line("\u{1b}[31mred\u{202e}der"), "\u{fffd}[31mred\u{fffd}der");
        assert_eq!(reason_line(&"x".repeat(999)), "x".repeat(REASON_LIMIT - 3) + "…");
    }

    #[test]
    fn never_splits_a_character() {
        assert_eq!(one_line("éééé", 8), "éééé");
        assert_eq!(reason_line(&"é".repeat(99)), "é".repeat(62) + "…");
        assert_eq!(one_line(&"wort ".repeat(9), 10), "wort …");
        assert_eq!(one_line("wort wort", 4), "…", "a first word that fills the line is not the whole text");
    }
}
