//! Text that is wrapped to the width of the terminal.

use std::io::{self, Write};

use textwrap::{Options, WordSplitter};

use super::printable::printable;

/// Writes a text at this indentation, wrapped. Nothing if the text is empty.
pub(super) fn write_wrapped(out: &mut impl Write, width: usize, indent: usize, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let (first, rest) = (" ".repeat(indent), " ".repeat(indent + 2));
    let options = Options::new(width)
        .initial_indent(&first)
        .subsequent_indent(if indent == 0 { "" } else { &rest })
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation);
    // Line breaks of a message from a cluster could pass as further entries.
    let text = printable(&text.replace(['\n', '\t'], " "));
    textwrap::wrap(&text, options).iter().try_for_each(|line| writeln!(out, "{line}"))
}
