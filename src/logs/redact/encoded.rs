//! Finds credentials that are encoded in base64, and the private parts of JSON web keys.

use std::{ops::Range, sync::LazyLock};

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use regex::Regex;

use super::{keys, shapes};
use crate::logs::pattern::constant;

/// The shortest and the longest encoded text that is decoded, in bytes.
const MIN_ENCODED: usize = 24;
const MAX_ENCODED: usize = 8 * 1024;

const CODEC: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// How far from the type of a JSON web key its other members are searched, in bytes.
const KEY_REACH: usize = 4 * 1024;

static KEY_MEMBER: LazyLock<Regex> =
    LazyLock::new(|| constant(r#""(?:d|p|q|dp|dq|qi|k)\\{0,8}"[ \t]{0,8}:[ \t]{0,8}\\{0,8}"([A-Za-z0-9_-]{16,})"#));

pub(super) fn find(text: &str, ranges: &mut Vec<Range<usize>>) {
    json_web_keys(text, ranges);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let word = bytes.get(at..).unwrap_or_default();
        let length = word.iter().take_while(|&&byte| is_base64(byte)).count();
        if (MIN_ENCODED..=MAX_ENCODED).contains(&length)
            && let Some(encoded) = text.get(at..at + length)
            && holds_credential(encoded)
        {
            let padding =
                word.get(length..).unwrap_or_default().iter().take(2).take_while(|&&byte| byte == b'=').count();
            ranges.push(at..at + length + padding);
        }
        at += length.max(1);
    }
}

/// Whether a word decodes to a text that contains a credential, such as a connection string.
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
    keys::find(&decoded, &mut found);
    shapes::find(&decoded, &mut found);
    !found.is_empty()
}

fn is_text(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t')
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

fn json_web_keys(text: &str, ranges: &mut Vec<Range<usize>>) {
    let mut searched = 0;
    for (kind, _) in text.match_indices("\"kty") {
        let from = text.ceil_char_boundary(kind.saturating_sub(KEY_REACH)).max(searched);
        let to = text.floor_char_boundary((kind + KEY_REACH).min(text.len()));
        let Some(near) = text.get(from..to) else { continue };
        let members = KEY_MEMBER.captures_iter(near).filter_map(|found| found.get(1));
        ranges.extend(members.map(|member| from + member.start()..from + member.end()));
        searched = to;
    }
}
