//! Classes of ASCII bytes, runs of them, the boundaries of words and lines, places in a text, and lists of words.

use std::{ops::Range, sync::OnceLock};

/// A set of ASCII bytes, as bits. Classes are combined with `|`.
pub(super) type Class = u128;

pub(super) const DIGIT: Class = class(b"09");
pub(super) const LOWER: Class = class(b"az");
pub(super) const UPPER: Class = class(b"AZ");
pub(super) const LETTER: Class = LOWER | UPPER;
pub(super) const ALNUM: Class = DIGIT | LETTER;
pub(super) const WORD: Class = ALNUM | class(b"__");
/// base64url, without padding.
pub(super) const URL_SAFE: Class = WORD | class(b"--");
/// base64, without padding.
pub(super) const BASE64: Class = ALNUM | class(b"++//");
/// The names of keys.
pub(super) const NAME: Class = URL_SAFE | class(b"..");
/// Space, tab and carriage return.
pub(super) const BLANK: Class = class(b"  \t\t\r\r");
pub(super) const QUOTE: Class = class(b"\"\"''``");

/// The class of ranges, each of which is given by its first and its last byte.
pub(super) const fn class(ranges: &[u8]) -> Class {
    let (mut class, mut at) = (0, 0);
    while at + 1 < ranges.len() {
        let mut byte = ranges[at];
        while byte <= ranges[at + 1] {
            class |= 1 << byte;
            byte += 1;
        }
        at += 2;
    }
    class
}

/// Whether a byte belongs to a class.
pub(super) fn is(byte: u8, class: Class) -> bool {
    byte < 128 && class >> byte & 1 != 0
}

/// Whether all bytes of a text belong to a class.
pub(super) fn is_all(text: &str, class: Class) -> bool {
    text.bytes().all(|byte| is(byte, class))
}

/// Whether a byte of a text belongs to a class.
pub(super) fn has(text: &str, class: Class) -> bool {
    text.bytes().any(|byte| is(byte, class))
}

/// Whether the byte at a position belongs to a class.
pub(super) fn is_at(bytes: &[u8], at: usize, class: Class) -> bool {
    bytes.get(at).is_some_and(|&byte| is(byte, class))
}

/// The number of bytes of a class that follow a position, at most `limit`.
pub(super) fn run(bytes: &[u8], at: usize, class: Class, limit: usize) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take(limit).take_while(|&&byte| is(byte, class)).count()
}

/// The number of bytes of a class that precede a position, at most `limit`.
pub(super) fn run_before(bytes: &[u8], at: usize, class: Class, limit: usize) -> usize {
    bytes.get(..at).unwrap_or_default().iter().rev().take(limit).take_while(|&&byte| is(byte, class)).count()
}

/// The number of bytes on this line before the first for which `stop` is true.
pub(super) fn length(bytes: &[u8], at: usize, mut stop: impl FnMut(u8) -> bool) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take_while(|&&byte| byte != b'\n' && !stop(byte)).count()
}

/// Whether a word starts at a position. The letter of an escaped line break, or the digits of a percent-encoded sign, are
/// no part of a word: `\ntoken`, `%3Dtoken`.
pub(super) fn starts_word(bytes: &[u8], at: usize) -> bool {
    match bytes.get(..at).unwrap_or_default() {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', first, second] if first.is_ascii_hexdigit() && second.is_ascii_hexdigit() => true,
        [.., before] => !is(*before, WORD),
        [] => true,
    }
}

/// Whether a word ends before a position.
pub(super) fn ends_word(bytes: &[u8], at: usize) -> bool {
    !is_at(bytes, at, WORD)
}

/// A part of a text, between two bytes that may lie within characters.
pub(super) fn near(text: &str, from: usize, to: usize) -> &str {
    let from = text.ceil_char_boundary(from.min(text.len()));
    let to = text.floor_char_boundary(to.min(text.len())).max(from);
    text.get(from..to).unwrap_or_default()
}

/// The rest of the line from a position on, at most `limit` bytes.
pub(super) fn rest_of_line(text: &str, at: usize, limit: usize) -> &str {
    let rest = near(text, at, at.saturating_add(limit));
    rest.split('\n').next().unwrap_or_default()
}

/// The line up to a position, at most `limit` bytes.
pub(super) fn line_before(text: &str, at: usize, limit: usize) -> &str {
    let head = near(text, at.saturating_sub(limit), at);
    head.rsplit('\n').next().unwrap_or_default()
}

pub(super) fn is_blank(byte: u8) -> bool {
    is(byte, BLANK)
}

pub(super) fn is_quote(byte: Option<u8>) -> bool {
    byte.is_some_and(|byte| is(byte, QUOTE))
}

/// A place in a text where a needle was found.
pub(super) struct Found<'a> {
    pub text: &'a str,
    pub needle: Range<usize>,
}

impl<'a> Found<'a> {
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    pub(super) fn needle(&self) -> &'a str {
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
    pub(super) fn head(&self) -> &'a str {
        line_before(self.text, self.needle.start, 256)
    }
}

/// The longest word in any list, in bytes.
const MAX_WORD: usize = 31;

/// A constant set of words.
#[derive(Debug)]
pub(super) struct Words {
    /// Separated by blanks.
    list: &'static str,
    index: OnceLock<Index>,
}

/// What rules most words and endings out, by the last five bits of a letter.
#[derive(Debug, Default)]
struct Index {
    sorted: Vec<&'static str>,
    /// The lengths of the words with this first letter, as bits.
    lengths: [u32; 32],
    /// The last letters of the words, as bits.
    last: u32,
}

impl Words {
    pub(super) const fn new(list: &'static str) -> Self {
        Self { list, index: OnceLock::new() }
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| {
            let mut index = Index { sorted: self.list.split_whitespace().collect(), ..Index::default() };
            index.sorted.sort_unstable();
            for word in &index.sorted {
                index.lengths[slot(word.bytes().next())] |= 1 << word.len().min(MAX_WORD);
                index.last |= 1 << slot(word.bytes().last());
            }
            index
        })
    }

    pub(super) fn contains(&self, word: &str) -> bool {
        let index = self.index();
        let lengths = index.lengths[slot(word.bytes().next())];
        word.len() <= MAX_WORD && lengths >> word.len() & 1 != 0 && index.sorted.binary_search(&word).is_ok()
    }

    /// Whether the list contains the word in lower case.
    pub(super) fn contains_lower(&self, word: &str) -> bool {
        word.len() <= MAX_WORD && self.contains(&word.to_ascii_lowercase())
    }

    /// Whether a text ends with a word of the list.
    pub(super) fn has_ending_of(&self, text: &str) -> bool {
        let index = self.index();
        index.last >> slot(text.bytes().last()) & 1 != 0 && index.sorted.iter().any(|word| text.ends_with(word))
    }
}

fn slot(letter: Option<u8>) -> usize {
    usize::from(letter.unwrap_or_default() & 31)
}
