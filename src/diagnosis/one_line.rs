//! Makes texts from a cluster safe to print on one line of a terminal.

/// The longest `message` of a finding, in bytes.
pub(super) const MESSAGE_LIMIT: usize = 1024;
/// The longest `reason` or `status` of a finding, in bytes. Those of Kubernetes have at most about 40.
pub(super) const REASON_LIMIT: usize = 128;

const CUT: char = '…';

/// The text on one line of at most `limit` bytes. Whitespace becomes single spaces; control and bidirectional characters
/// become U+FFFD.
pub(super) fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::with_capacity(text.len().min(limit));
    for word in text.split_whitespace() {
        if line.len() > limit {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().map(|char| if is_control(char) { char::REPLACEMENT_CHARACTER } else { char }));
    }
    if line.len() > limit {
        line.truncate(line.floor_char_boundary(limit.saturating_sub(CUT.len_utf8())));
        line.push(CUT);
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
    fn joins_lines_and_replaces_control_characters() {
        assert_eq!(one_line("  a\r\n\tb\u{2028}c ", 99), "a b c");
        assert_eq!(one_line("\u{1b}[31mred\u{202e}der", 99), "\u{fffd}[31mred\u{fffd}der");
    }

    #[test]
    fn never_splits_a_character() {
        assert_eq!(one_line("éééé", 8), "éééé");
        assert_eq!(one_line("ééééé", 8), "éé…");
        assert_eq!(one_line(&"wort ".repeat(9), 10), "wort wo…");
        assert_eq!(one_line("wort wort", 4), "w…", "a first word that fills the line is not the whole text");
    }
}
