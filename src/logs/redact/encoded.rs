//! Finds tokens of unknown issuers and credentials that are encoded in base64. Both are in long words.

use std::ops::Range;

use base64::Engine as _;

use super::{
    search,
    text::{BASE64, Class, NAME, class, run, run_before},
    tokens::{self, CODEC},
};

/// The shortest and the longest encoded text that is decoded, in bytes.
const MIN_ENCODED: usize = 24;
const MAX_ENCODED: usize = 8 * 1024;

/// The credentials in the long words of a text.
pub(super) fn find(text: &str, ranges: &mut Vec<Range<usize>>) {
    words(text, |word| {
        tokens::find_in_word(text, word.clone(), ranges);
        find_in_word(text, word, ranges);
    });
}

/// Letters, digits and the signs of base64, and of names.
const IN_WORD: Class = BASE64 | NAME;

/// Calls `visit` with each long word of letters, digits and the signs of base64.
fn words(text: &str, mut visit: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    // No word extends over this position.
    let mut at = 0;
    while at + MIN_ENCODED <= bytes.len() {
        // Most words are short, so the end of a long one is examined first.
        let end = at + MIN_ENCODED;
        let last = run_before(bytes, end, IN_WORD, MIN_ENCODED);
        if last < MIN_ENCODED {
            at = end - last;
            continue;
        }
        let word = at..end + run(bytes, end, IN_WORD, usize::MAX);
        at = word.end;
        visit(word);
    }
}

/// The words in base64 within a range that decode to a text that contains a credential, such as a connection string.
fn find_in_word(text: &str, range: Range<usize>, ranges: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut at = range.start;
    while at < range.end {
        let length = run(bytes, at, BASE64, range.end - at);
        if (MIN_ENCODED..=MAX_ENCODED).contains(&length)
            && let Some(encoded) = text.get(at..at + length)
            && holds_credential(encoded)
        {
            ranges.push(at..at + length + run(bytes, at + length, class(b"=="), 2));
        }
        at += length.max(1);
    }
}

/// Whether a word decodes to a text that contains a credential.
fn holds_credential(encoded: &str) -> bool {
    // The first characters rule most words out: text in base64 has a high bit of zero in each byte.
    let mut start = [0; 6];
    let decoded = CODEC.decode_slice(encoded.get(..8).unwrap_or_default(), &mut start);
    if decoded != Ok(start.len()) || !start.iter().all(|&byte| is_text(byte)) {
        return false;
    }
    let Some(decoded) = CODEC.decode(encoded).ok().filter(|bytes| bytes.iter().all(|&byte| is_text(byte))) else {
        return false;
    };
    let Ok(decoded) = String::from_utf8(decoded) else { return false };
    let mut found = Vec::new();
    search::find(&decoded, &mut found);
    !found.is_empty()
}

fn is_text(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn visits_all_long_words(parts in prop::collection::vec("[aZ9+/_.-]{0,30}|[ =\n\"é]", 0..12)) {
            let text = parts.concat();
            let mut visited = Vec::new();
            words(&text, |word| visited.push(text.get(word).unwrap()));
            let in_word = |letter: char| letter.is_ascii_alphanumeric() || "+/_.-".contains(letter);
            let long: Vec<_> =
                text.split(|letter| !in_word(letter)).filter(|word| word.len() >= MIN_ENCODED).collect();
            prop_assert_eq!(visited, long);
        }
    }
}
