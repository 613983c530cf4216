//! Classes of ASCII bytes, runs of them, and the boundaries of words.

/// A set of bytes: any combination of the constants below.
pub(super) type Class = u16;

pub(super) const DIGIT: Class = 1;
/// The letters a to f, and the other small letters.
pub(super) const LOWER_HEX: Class = 1 << 1;
const LOWER_REST: Class = 1 << 2;
const UPPER_HEX: Class = 1 << 3;
const UPPER_REST: Class = 1 << 4;
pub(super) const UNDERSCORE: Class = 1 << 5;
pub(super) const DASH: Class = 1 << 6;
pub(super) const DOT: Class = 1 << 7;
pub(super) const EQUALS: Class = 1 << 8;
/// The two characters of base64 that are no letters or digits.
pub(super) const PLUS_SLASH: Class = 1 << 9;
pub(super) const PERCENT: Class = 1 << 11;
/// Space, tab and carriage return.
pub(super) const BLANK: Class = 1 << 12;
pub(super) const QUOTE: Class = 1 << 13;

pub(super) const LOWER: Class = LOWER_HEX | LOWER_REST;
pub(super) const UPPER: Class = UPPER_HEX | UPPER_REST;
pub(super) const LETTER: Class = LOWER | UPPER;
pub(super) const ALNUM: Class = DIGIT | LETTER;
pub(super) const WORD: Class = ALNUM | UNDERSCORE;
/// base64url, without padding.
pub(super) const URL_SAFE: Class = WORD | DASH;
/// base64, without padding.
pub(super) const BASE64: Class = ALNUM | PLUS_SLASH;
pub(super) const HEX: Class = DIGIT | LOWER_HEX;
pub(super) const ANY_HEX: Class = HEX | UPPER_HEX;
/// The names of keys.
pub(super) const NAME: Class = WORD | DASH | DOT;

const CLASSES: [Class; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0_usize;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'f' => LOWER_HEX,
            b'g'..=b'z' => LOWER_REST,
            b'A'..=b'F' => UPPER_HEX,
            b'G'..=b'Z' => UPPER_REST,
            b'_' => UNDERSCORE,
            b'-' => DASH,
            b'.' => DOT,
            b'=' => EQUALS,
            b'+' | b'/' => PLUS_SLASH,
            b'%' => PERCENT,
            b' ' | b'\t' | b'\r' => BLANK,
            b'"' | b'\'' | b'`' => QUOTE,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

/// Whether a byte belongs to a class.
pub(super) fn is(byte: u8, class: Class) -> bool {
    CLASSES[usize::from(byte)] & class != 0
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
pub(super) fn length(bytes: &[u8], at: usize, stop: impl Fn(u8) -> bool) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take_while(|&&byte| byte != b'\n' && !stop(byte)).count()
}

/// Whether a word starts at a position. The letter of an escaped line break, or the digits of a percent-encoded sign, are
/// no part of a word: `\ntoken`, `%3Dtoken`.
pub(super) fn starts_word(bytes: &[u8], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).and_then(|at| bytes.get(at)).copied();
    match before(1) {
        Some(byte) if is(byte, WORD) => {
            (matches!(byte, b'n' | b'r' | b't') && before(2) == Some(b'\\'))
                || (before(3) == Some(b'%') && is(byte, ANY_HEX) && before(2).is_some_and(|byte| is(byte, ANY_HEX)))
        }
        _ => true,
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
