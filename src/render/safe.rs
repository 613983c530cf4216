//! Texts from a cluster or a file, made safe for a terminal, a document and the runner of GitHub Actions.

use textwrap::{Options, WordSplitter};
use unicode_width::UnicodeWidthChar;

use crate::logs::clean_text;

/// The longest message or evidence, in bytes.
const TEXT_LIMIT: usize = 1024;
/// The runner of GitHub Actions reads `##[command]`, an older form, anywhere in a line.
const OLDER_FORM: &str = "##[";

/// What replaces a tab.
pub(super) const TAB: &str = "    ";

/// A line of a log that can be printed. A tab is harmless, and common in stack traces.
pub(super) fn log_line(line: &str) -> String {
    printable(&line.replace('\t', TAB))
}

/// A text of several lines for an XML document, which cannot contain most control characters, even escaped, nor the last two
/// characters of the first plane.
pub(super) fn xml_text(text: &str) -> String {
    let lines = text.split('\n').map(|line| log_line(line).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Replaces control characters and those that change the writing direction by U+FFFD: the text may come from anyone.
pub(crate) fn printable(text: &str) -> String {
    let is_control = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_control(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A text from the cluster on one line: redacted, because the output of a command may have many readers.
pub(crate) fn clean(text: &str) -> String {
    printable(&clean_text(text, None, TEXT_LIMIT))
}

/// The beginning of a line, at most this many terminal columns.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if end_of_first(text, width) == text.len() {
        return text.to_owned();
    }
    let end = end_of_first(text, width.saturating_sub(1));
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// Where the longest beginning of the text that takes at most this many terminal columns ends.
pub(super) fn end_of_first(text: &str, width: usize) -> usize {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or_default();
        used > width
    });
    end.map_or(text.len(), |(end, _)| end)
}

/// A text at this indentation, wrapped, each line with its end. Nothing if the text is empty.
pub(super) fn wrapped(width: usize, indent: usize, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let (first, rest) = (" ".repeat(indent), " ".repeat(indent + 2));
    let options = Options::new(width)
        .initial_indent(&first)
        .subsequent_indent(if indent == 0 { "" } else { &rest })
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation);
    // Line breaks of a message from a cluster could pass as further entries.
    let text = printable(&text.replace(['\n', '\t'], " "));
    textwrap::wrap(&text, options).iter().map(|line| format!("{line}\n")).collect()
}

/// Text that the runner reads no command from. Besides the older form, it reads `::command::` at the beginning of a line,
/// after white space.
pub(crate) fn without_commands(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_start();
        if content.starts_with("::") {
            let (indent, _) = line.split_at(line.len() - content.len());
            harmless += indent;
            harmless += ": :";
            harmless += &without_older_form(content.get(2..).unwrap_or_default());
        } else {
            harmless += &without_older_form(line);
        }
    }
    harmless
}

pub(crate) fn without_older_form(text: &str) -> String {
    text.replace(OLDER_FORM, "# #[")
}

/// The message of a workflow command, `::error title=TITLE::MESSAGE`, escaped as `@actions/core` does. Nothing in it can end
/// the line, which begins a further command.
pub(super) fn data(text: &str) -> String {
    without_older_form(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property, such as the title. Nothing in it can end the value.
pub(super) fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn leaves_no_command_in_a_text() {
        for (text, expected) in [
            ("shop  cart-a  Error\n", "shop  cart-a  Error\n"),
            ("::stop-commands::x\n  ::error::y", ": :stop-commands::x\n  : :error::y"),
            ("a ::error::b", "a ::error::b"),
            ("| ##[add-mask]a\n###[b", "| # #[add-mask]a\n## #[b"),
            (":::", ": ::"),
        ] {
            assert_eq!(without_commands(text), expected);
        }
    }

    proptest! {
        #[test]
        fn no_text_contains_a_command(text in "(?s)(::|##\\[|#|:|[ \n\t\u{2028}]|.){0,30}") {
            let harmless = without_commands(&text);
            prop_assert!(!harmless.contains(OLDER_FORM), "{harmless:?}");
            prop_assert!(harmless.split('\n').all(|line| !line.trim_start().starts_with("::")), "{harmless:?}");
        }
    }
}
