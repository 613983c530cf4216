//! Texts from a cluster or a file, made safe for a terminal or a document.

use unicode_width::UnicodeWidthChar;

use crate::logs::clean_text;

/// The longest message or evidence, in bytes.
const TEXT_LIMIT: usize = 1024;

/// A text of several lines for an XML document, which cannot contain most control characters, even escaped, nor the last two
/// characters of the first plane. A tab is harmless, and common in stack traces.
pub(super) fn xml_text(text: &str) -> String {
    let lines = text
        .split('\n')
        .map(|line| printable(&line.replace('\t', "    ")).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}"));
    lines.collect::<Vec<_>>().join("\n")
}

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

/// The beginning of a line, at most this many terminal columns.
pub(super) fn cut(text: &str, width: usize) -> String {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or_default();
        used > width
    });
    match end {
        // A column is needed for the ellipsis, and a wide character takes two.
        Some((end, _)) => {
            let mut short: String = text.get(..end).unwrap_or_default().to_owned();
            while short.chars().map(|c| c.width().unwrap_or_default()).sum::<usize>() >= width.max(1) {
                short.pop();
            }
            short + "…"
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_a_line_to_the_width_of_the_terminal() {
        for (width, expected) in [(8, "容器失敗"), (7, "容器失…"), (6, "容器…"), (2, "…"), (0, "…")] {
            assert_eq!(cut("容器失敗", width), expected, "{width}");
        }
        assert_eq!(cut("short", 80), "short");
    }

    #[test]
    fn a_text_for_xml_keeps_its_lines() {
        assert_eq!(xml_text("a\tb\r\n\u{1b}[1m\u{ffff}\n"), "a    b\u{fffd}\n\u{fffd}[1m\u{fffd}\n");
    }
}
