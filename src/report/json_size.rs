//! Computes the size of a value as JSON without writing it.
//!
//! The size is the larger of two encodings: `serde_json`'s, and that of Go's encoder in the API server, which also
//! escapes `<`, `>`, `&`, U+2028 and U+2029.

use std::io;

use serde::Serialize;

/// The size of a value in bytes. It may be a few bytes too large if the value holds other characters of U+2028's block,
/// such as typographic quotes.
pub(crate) fn size(value: &impl Serialize) -> usize {
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

/// The bytes that a character takes within a JSON string.
pub(super) fn escaped(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        '\0'..='\x1f' => 6,
        '\x7f' => 1,
        character => {
            let mut buffer = [0; 4];
            character.encode_utf8(&mut buffer).bytes().map(unescaped).sum()
        }
    }
}

/// The size in Go's encoding of a byte that serde_json does not escape.
fn unescaped(byte: u8) -> usize {
    match byte {
        b'<' | b'>' | b'&' => 6,
        // The first byte of U+2028, U+2029 and their neighbours: with the two that follow it makes 6.
        0xe2 => 4,
        _ => 1,
    }
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0 += buffer.iter().map(|byte| unescaped(*byte)).sum::<usize>();
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_at_least_the_bytes_that_serde_json_writes() {
        for character in ('\0'..='\u{3000}').chain(['\u{fffd}', '💥', char::MAX]) {
            let text = character.to_string();
            let written = serde_json::to_string(&text).unwrap();
            assert!(escaped(character) + 2 >= written.len(), "{character:?}");
            assert!(escaped(character) + 2 >= size(&text) || matches!(character, '\x08' | '\x0c'), "{character:?}");
            assert_eq!(
                written.contains("\\u"),
                character < ' ' && escaped(character) == 6 && !matches!(character, '\x08' | '\x0c'),
                "{character:?}"
            );
        }
        assert_eq!("<>&\u{2028}\u{2029}".chars().map(escaped).sum::<usize>(), 5 * 6);
        assert_eq!(size(&"<>&\u{2028}\u{2029}"), 5 * 6 + 2);
    }
}
