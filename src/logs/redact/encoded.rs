//! Finds credentials that are encoded in base64, and the private parts of JSON web keys.

use std::ops::Range;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::{
    bytes::{BASE64, BLANK, EQUALS, URL_SAFE, near, run},
    search,
};

/// The shortest and the longest encoded text that is decoded, in bytes.
pub(super) const MIN_ENCODED: usize = 24;
const MAX_ENCODED: usize = 8 * 1024;

pub(super) const CODEC: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The words in base64 within a range that decode to a text that contains a credential, such as a connection string.
pub(super) fn find(text: &str, range: Range<usize>, ranges: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut at = range.start;
    while at < range.end {
        let length = run(bytes, at, BASE64, range.end - at);
        if (MIN_ENCODED..=MAX_ENCODED).contains(&length)
            && let Some(encoded) = text.get(at..at + length)
            && holds_credential(encoded)
        {
            ranges.push(at..at + length + run(bytes, at + length, EQUALS, 2));
        }
        at += length.max(1);
    }
}

/// Whether a word decodes to a text that contains a credential.
fn holds_credential(encoded: &str) -> bool {
    // The first characters rule most words out: text in base64 has a high bit of zero in each byte.
    let start = CODEC.decode(encoded.get(..8).unwrap_or_default()).unwrap_or_default();
    if start.is_empty() || !start.iter().all(|&byte| is_text(byte)) {
        return false;
    }
    let Some(decoded) = CODEC.decode(encoded).ok().filter(|bytes| bytes.iter().all(|&byte| is_text(byte))) else {
        return false;
    };
    let Ok(decoded) = String::from_utf8(decoded) else { return false };
    let mut found = Vec::new();
    search::plain(&decoded, &mut found);
    !found.is_empty()
}

fn is_text(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t')
}

/// The member with the type of a JSON web key.
pub(super) const KEY_TYPE: &str = "\"kty";

/// How far from the type of a JSON web key its other members are searched, in bytes.
const KEY_REACH: usize = 4 * 1024;

/// The private members of a JSON web key.
const PRIVATE_MEMBERS: &[&str] = &["d", "p", "q", "dp", "dq", "qi", "k"];

/// The private members of the JSON web key whose type was found at a position. They are not searched before `from`.
pub(super) fn find_key(text: &str, kind: usize, from: usize, ranges: &mut Vec<Range<usize>>) -> usize {
    let bytes = text.as_bytes();
    let mut at = kind.saturating_sub(KEY_REACH).max(from);
    let to = (kind + KEY_REACH).min(text.len());
    while let Some(quote) = bytes.get(at..to).and_then(|rest| rest.iter().position(|&byte| byte == b'"')) {
        let name = at + quote + 1;
        at = name;
        let Some(member) = PRIVATE_MEMBERS
            .iter()
            .find(|member| near(text, name, name + member.len()) == **member && ends(bytes, name + member.len()))
        else {
            continue;
        };
        let mut value = name + member.len();
        value += slashes(bytes, value) + 1;
        value += run(bytes, value, BLANK, 8);
        if bytes.get(value) != Some(&b':') {
            continue;
        }
        value += 1 + run(bytes, value + 1, BLANK, 8);
        value += slashes(bytes, value) + 1;
        let length = run(bytes, value, URL_SAFE, usize::MAX);
        if length >= 16 {
            ranges.push(value..value + length);
            at = value + length;
        }
    }
    to
}

/// Whether a name ends at a quote, perhaps an escaped one.
fn ends(bytes: &[u8], at: usize) -> bool {
    bytes.get(at + slashes(bytes, at)) == Some(&b'"')
}

fn slashes(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take(8).take_while(|&&byte| byte == b'\\').count()
}
