//! Lists of words.

use std::sync::OnceLock;

/// The longest word in any list, in bytes.
const MAX_WORD: usize = 31;

/// A constant set of words.
#[derive(Debug)]
pub(super) struct Words {
    /// Separated by blanks.
    list: &'static str,
    index: OnceLock<Index>,
}

#[derive(Debug)]
struct Index {
    sorted: Box<[&'static str]>,
    /// By the last five bits of a first letter, the lengths of words, as bits. It rules most words out.
    lengths: [u32; 32],
    /// The last five bits of the words' last letters, as bits. They rule most endings out.
    last: u32,
}

impl Words {
    pub(super) const fn new(list: &'static str) -> Self {
        Self { list, index: OnceLock::new() }
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| {
            let mut sorted: Box<[&str]> = self.list.split_whitespace().collect();
            sorted.sort_unstable();
            let (mut lengths, mut last) = ([0; 32], 0);
            for word in &sorted {
                if let Some(lengths) = lengths.get_mut(slot(word)) {
                    *lengths |= 1 << word.len().min(MAX_WORD);
                }
                last |= 1 << last_slot(word);
            }
            Index { sorted, lengths, last }
        })
    }

    pub(super) fn contains(&self, word: &str) -> bool {
        let index = self.index();
        let lengths = index.lengths.get(slot(word)).copied().unwrap_or_default();
        word.len() <= MAX_WORD && lengths & (1 << word.len()) != 0 && index.sorted.binary_search(&word).is_ok()
    }

    /// Whether the list contains the word in lower case.
    pub(super) fn contains_lower(&self, word: &str) -> bool {
        let mut lower = [0; MAX_WORD];
        let Some(lower) = lower.get_mut(..word.len()) else { return false };
        lower.copy_from_slice(word.as_bytes());
        lower.make_ascii_lowercase();
        std::str::from_utf8(lower).is_ok_and(|word| self.contains(word))
    }

    /// Whether a text ends with a word of the list.
    pub(super) fn has_ending_of(&self, text: &str) -> bool {
        let index = self.index();
        index.last & (1 << last_slot(text)) != 0 && index.sorted.iter().any(|word| text.ends_with(word))
    }
}

fn last_slot(word: &str) -> u8 {
    word.as_bytes().last().copied().unwrap_or_default() & 31
}

fn slot(word: &str) -> usize {
    usize::from(word.as_bytes().first().copied().unwrap_or_default() & 31)
}
