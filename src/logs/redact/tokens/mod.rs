//! Finds tokens by their format, independently of a key.

mod odd;
mod shapes;

use std::ops::Range;

use base64::Engine as _;

use self::shapes::{Part, Shape};
use super::{
    bytes::{self, ALNUM, BASE64, EQUALS, is_at, run, run_before, starts_word},
    encoded::CODEC,
};

pub(super) use self::odd::{find_around, find_in_word, middles};

/// The longest run within a token that is examined if something must follow, in bytes.
const MAX_RUN: usize = 1024;

/// How far from an AWS access key ID its secret is searched, in bytes.
const AWS_REACH: usize = 256;

/// Each prefix, with the index of its shape.
pub(super) fn prefixes() -> impl Iterator<Item = (&'static str, usize)> {
    let indexed = shapes::SHAPES.iter().enumerate();
    indexed.flat_map(|(index, shape)| shape.prefixes.iter().map(move |prefix| (*prefix, index)))
}

/// The token of a shape whose prefix was found, without regard to case, at a range.
pub(super) fn find(text: &str, prefix: Range<usize>, shape: usize, ranges: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let Some(shape) = shapes::SHAPES.get(shape) else { return };
    let found = text.get(prefix.clone()).unwrap_or_default();
    if !starts_word(bytes, prefix.start) || !shape.prefixes.contains(&found) {
        return;
    }
    let Some(end) = end(bytes, prefix.end, shape).or_else(|| cut_end(bytes, prefix.end, found, shape)) else { return };
    if found == "eyJ" && is_other_json(text.get(prefix.start..end).unwrap_or_default()) {
        return;
    }
    if matches!(found, "AKIA" | "ASIA") {
        aws_secrets(bytes, prefix.start..end, ranges);
    }
    ranges.push(if shape.keeps_prefix { prefix.end..end } else { prefix.start..end });
}

/// Where a token ends whose prefix ends at a position.
fn end(bytes: &[u8], mut at: usize, shape: &Shape) -> Option<usize> {
    for (index, part) in shape.rest.iter().enumerate() {
        let is_last = index + 1 == shape.rest.len();
        match *part {
            Part::Run(class, min, max) => {
                let length = run(bytes, at, class, if is_last { usize::MAX } else { MAX_RUN });
                if length < min || length > max {
                    return None;
                }
                at += length;
            }
            Part::Text(text) => {
                if !bytes.get(at..)?.starts_with(text.as_bytes()) {
                    return None;
                }
                at += text.len();
            }
            Part::Maybe(text) => {
                if bytes.get(at..)?.starts_with(text.as_bytes()) {
                    at += text.len();
                }
            }
            Part::End => {
                if !bytes::ends_word(bytes, at) {
                    return None;
                }
            }
        }
    }
    Some(at)
}

/// The end of the text, if a token of the shape may have lost its own: at least eight bytes of the first run are there, with
/// a digit among them. The prefix must leave no doubt.
fn cut_end(bytes: &[u8], at: usize, prefix: &str, shape: &Shape) -> Option<usize> {
    if !prefix.contains(['_', '-', '.']) && !matches!(prefix, "eyJ" | "AIza") {
        return None;
    }
    let rest = bytes.get(at..bytes.len().min(at + MAX_RUN + 1))?.trim_ascii_end();
    if !(8..=MAX_RUN).contains(&rest.len()) || !rest.iter().any(u8::is_ascii_digit) {
        return None;
    }
    let Some(Part::Run(class, _, max)) = shape.rest.first() else { return None };
    let first = run(bytes, at, *class, MAX_RUN);
    if first > *max {
        return None;
    }
    let second = rest.get(first + 1..).filter(|_| first >= 8);
    let ends_in_second = second.is_some_and(|second| {
        shape.rest.get(1..).unwrap_or_default().iter().any(|part| match part {
            Part::Run(class, ..) => second.iter().all(|&byte| bytes::is(byte, *class)),
            _ => false,
        })
    });
    (first == rest.len() || ends_in_second).then_some(at + rest.len())
}

/// Whether a word in base64 is JSON, but no part of a JSON web token: the cursor of a list, a source map.
fn is_other_json(word: &str) -> bool {
    if word.contains('.') {
        return false;
    }
    let head = word.get(..word.len().min(64) / 4 * 4).unwrap_or_default();
    let Some(decoded) = CODEC.decode(head).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else { return false };
    let Some((name, _)) = decoded.strip_prefix("{\"").and_then(|rest| rest.split_once('"')) else { return false };
    decoded.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && !["alg", "typ", "kid", "enc", "cty", "jku", "x5t", "sub", "iss", "aud", "exp", "iat", "jti"].contains(&name)
}

/// The secrets that stand near an AWS access key ID: 40 characters of base64 that are no SHA-1.
fn aws_secrets(bytes: &[u8], id: Range<usize>, ranges: &mut Vec<Range<usize>>) {
    let mut at = id.start.saturating_sub(AWS_REACH);
    at += run(bytes, at, BASE64, AWS_REACH);
    let to = (id.end + AWS_REACH).min(bytes.len());
    while at < to {
        let length = run(bytes, at, BASE64, MAX_RUN);
        let word = bytes.get(at..at + length).unwrap_or_default();
        let is_hash = word.iter().all(u8::is_ascii_hexdigit);
        if length == 40 && !is_hash && !is_at(bytes, at + length, EQUALS) && run_before(bytes, at, ALNUM, 1) == 0 {
            ranges.push(at..at + length);
        }
        at += length.max(1);
    }
}
