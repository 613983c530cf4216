//! Finds tokens by their format, independently of a key.

mod shapes;
mod unknown;

use std::ops::Range;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

pub(super) use self::unknown::find_in_word;
use super::{
    bytes::{self, ALNUM, BASE64, EQUALS, is_at, run, run_before, starts_word},
    pattern::Pattern,
    words::Words,
};

/// Base64 with or without padding.
pub(super) const CODEC: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The longest word that is examined, in bytes.
const MAX_RUN: usize = 1024;

/// How far from an AWS access key ID its secret is searched, in bytes.
const AWS_REACH: usize = 256;

/// The endings of files. What precedes them is a name: `key-….png`.
static FILES: Words = Words::new(
    "avi bin bmp bz2 class conf cpp crt css csv deb dll doc docx exe gif go gz html ico jar java jpeg jpg js json lock log \
     map md mjs mov mp3 mp4 pdf php png ppt py rb rpm rs scss so svg tar tgz ts tsx txt war webp whl woff woff2 xls xlsx \
     xml xz yaml yml zip zst",
);

/// The format of a token, but for its prefix.
pub(super) struct Shape {
    prefix: &'static str,
    /// The run that precedes the prefix. Otherwise a word begins with it.
    before: Option<Pattern>,
    after: Pattern,
    /// Whether the prefix stays, as that of a URL.
    keeps_prefix: bool,
}

/// Every shape, with its prefix to search for. None if a pattern is not supported.
pub(super) fn shapes() -> Option<Vec<(&'static str, Shape)>> {
    let prefixed = shapes::PREFIXED.iter().map(|&(prefixes, after)| (None, prefixes, after, false));
    let paths = shapes::PATHS.iter().map(|&(prefixes, after)| (None, prefixes, after, true));
    let around = shapes::AROUND.iter().map(|&(before, middles, after)| (Some(before), middles, after, false));
    let rows = prefixed.chain(paths).chain(around);
    let shapes = rows.flat_map(|(before, prefixes, after, keeps_prefix)| {
        prefixes.split('|').map(move |prefix| {
            let before = before.map(|before| Pattern::new(before).ok_or(())).transpose().ok()?;
            Some((prefix, Shape { prefix, before, after: Pattern::new(after)?, keeps_prefix }))
        })
    });
    shapes.collect()
}

/// The token of a shape whose prefix was found, without regard to case, at a range.
pub(super) fn find(text: &str, prefix: Range<usize>, shape: &Shape, ranges: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    if text.get(prefix.clone()) != Some(shape.prefix) {
        return;
    }
    let head = match &shape.before {
        Some(run) => run.length_before(bytes.get(..prefix.start).unwrap_or_default()),
        None => starts_word(bytes, prefix.start).then_some(0),
    };
    let (Some(head), Some(end)) = (head, shape.end(bytes, prefix.end)) else { return };
    let start = prefix.start - head;
    let token = text.get(start..end).unwrap_or_default();
    if (shape.prefix == "eyJ" && is_other_json(token)) || (!shape.keeps_prefix && is_file(text, start..end)) {
        return;
    }
    if matches!(shape.prefix, "AKIA" | "ASIA") {
        aws_secrets(bytes, start..end, ranges);
    }
    // The address of a bot: bot123456789:AA…
    let bot = if head > 0 && text.get(..start).is_some_and(|head| head.ends_with("bot")) { "bot".len() } else { 0 };
    ranges.push(if shape.keeps_prefix { prefix.end..end } else { start - bot..end });
}

/// Whether a token ends with the ending of a file, or one follows it.
fn is_file(text: &str, token: Range<usize>) -> bool {
    let end = token.end + run(text.as_bytes(), token.end, ALNUM | bytes::DOT, 16);
    let ending = text.get(token.start..end).and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
    ending.is_some_and(|ending| FILES.contains_lower(ending))
}

impl Shape {
    /// Where a token ends whose prefix ends at a position. At the end of the text, it may have lost its own end: then eight
    /// bytes of it must be there, with a digit among them, and the prefix must leave no doubt.
    fn end(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let found = self.after.match_at(bytes, at, false);
        let certain = self.prefix.contains(['_', '-', '.']) || matches!(self.prefix, "eyJ" | "AIza");
        let cut = || {
            let rest = bytes.get(at..found.cut?)?;
            (certain && rest.len() >= 8 && rest.iter().any(u8::is_ascii_digit)).then_some(at + rest.len())
        };
        found.end.or_else(cut)
    }
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
