//! Finds tokens by their format, independently of a key: those in the table of [`shapes`], those of unknown issuers, and
//! those without a fixed part.

use std::ops::Range;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::{
    looks::has_random_end,
    pattern::Pattern,
    shapes::{AROUND, PATHS, PREFIXED},
    text::{
        ALNUM, BASE64, DIGIT, LOWER, UPPER, Words, class, ends_word, has, is_all, is_at, run, run_before, starts_word,
    },
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
    /// The run that precedes the prefix. Otherwise a word begins with it.
    before: Option<Pattern>,
    after: Pattern,
    /// Whether the prefix stays, as that of a URL.
    keeps_prefix: bool,
}

/// Every shape, with the prefixes to search for.
pub(super) fn shapes() -> impl Iterator<Item = (&'static str, Shape)> {
    let prefixed = PREFIXED.iter().map(|&(prefixes, after)| (None, prefixes, after, false));
    let paths = PATHS.iter().map(|&(prefixes, after)| (None, prefixes, after, true));
    let around = AROUND.iter().map(|&(before, middles, after)| (Some(before), middles, after, false));
    prefixed.chain(paths).chain(around).map(|(before, prefixes, after, keeps_prefix)| {
        (prefixes, Shape { before: before.map(Pattern::new), after: Pattern::new(after), keeps_prefix })
    })
}

impl Shape {
    /// The token whose prefix was found, without regard to case, at a range.
    pub(super) fn find(&self, text: &str, found: Range<usize>, prefix: &str, ranges: &mut Vec<Range<usize>>) {
        let bytes = text.as_bytes();
        if text.get(found.clone()) != Some(prefix) {
            return;
        }
        let head = match &self.before {
            Some(run) => run.length_before(bytes.get(..found.start).unwrap_or_default()),
            None => starts_word(bytes, found.start).then_some(0),
        };
        // A long run of a letter contains a prefix at each byte, but begins only one word.
        let Some(head) = head else { return };
        let Some(end) = self.end(bytes, found.end, prefix) else { return };
        let start = found.start - head;
        let token = text.get(start..end).unwrap_or_default();
        if (prefix == "eyJ" && is_other_json(token)) || (!self.keeps_prefix && is_file(text, start..end)) {
            return;
        }
        if matches!(prefix, "AKIA" | "ASIA") {
            aws_secrets(bytes, start..end, ranges);
        }
        // The address of a bot: bot123456789:AA…
        let bot = if head > 0 && text.get(..start).is_some_and(|head| head.ends_with("bot")) { "bot".len() } else { 0 };
        ranges.push(if self.keeps_prefix { found.end..end } else { start - bot..end });
    }

    /// Where a token ends whose prefix ends at a position. At the end of the text, it may have lost its own end: then eight
    /// bytes of it must be there, with a digit among them, and the prefix must leave no doubt.
    fn end(&self, bytes: &[u8], at: usize, prefix: &str) -> Option<usize> {
        let found = self.after.match_at(bytes, at, false);
        let certain = prefix.contains(['_', '-', '.']) || matches!(prefix, "eyJ" | "AIza");
        let cut = || {
            let rest = bytes.get(at..found.cut?)?;
            (certain && rest.len() >= 8 && rest.iter().any(u8::is_ascii_digit)).then_some(at + rest.len())
        };
        found.end.or_else(cut)
    }
}

/// Whether a token ends with the ending of a file, or one follows it.
fn is_file(text: &str, token: Range<usize>) -> bool {
    let end = token.end + run(text.as_bytes(), token.end, ALNUM | class(b".."), 16);
    let ending = text.get(token.start..end).and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
    ending.is_some_and(|ending| FILES.contains_lower(ending))
}

/// Whether a word in base64 is JSON, but no part of a JSON web token: the cursor of a list, a source map.
fn is_other_json(word: &str) -> bool {
    if word.contains('.') {
        return false;
    }
    let head = word.get(..word.len().min(64) / 4 * 4).unwrap_or_default();
    let Some(decoded) = CODEC.decode(head).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else { return false };
    let Some((name, _)) = decoded.strip_prefix("{\"").and_then(|rest| rest.split_once('"')) else { return false };
    is_all(&decoded, class(b" ~"))
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
        if length == 40 && !is_hash && !is_at(bytes, at + length, class(b"==")) && run_before(bytes, at, ALNUM, 1) == 0
        {
            ranges.push(at..at + length);
        }
        at += length.max(1);
    }
}

/// Words of a prefix that announce a secret: `acme_live_…`, `vendor-pat-…`.
static SECRET_PREFIXES: Words = Words::new("sk key apikey token tok secret pat pw pwd oauth jwt");

/// Words of a prefix that announce a secret if what follows has small letters, capitals and digits.
static LIKELY_PREFIXES: Words =
    Words::new("api live prod test auth access refresh cred priv private bot svc session sess sa ak rk");

/// Words of a prefix that announce something public.
static PUBLIC_PREFIXES: Words = Words::new(
    "pk pub public id kid req request trace span txn cus evt ch pi sub price sha sha1 sha256 sha384 sha512 md5 h1 etag hash digest",
);

/// The token that is a word of letters, digits, dashes, underscores and dots.
pub(super) fn find_in_word(text: &str, word: Range<usize>, ranges: &mut Vec<Range<usize>>) {
    let Some(found) = text.get(word.clone()) else { return };
    let bytes = text.as_bytes();
    let dots: Vec<&str> = found.splitn(4, '.').collect();
    let is_token = match dots.as_slice() {
        // Discord's bots
        [id, time, mac] => {
            (23..=29).contains(&id.len())
                && time.len() == 6
                && mac.len() >= 27
                && (id.starts_with(['M', 'N', 'O']) || has(id, DIGIT))
        }
        // Vault, before its prefixes
        ["s", token] => token.len() == 24 && has_random_end(token),
        [one] => is_of_unknown_issuer(one),
        _ => false,
    };
    if is_token {
        ranges.push(word.clone());
    }
    // Azure's storage and service keys have the length of a SHA-512.
    let start = word.end - run_before(bytes, word.end, BASE64, 90);
    let ends = bytes.get(word.end..).is_some_and(|rest| rest.starts_with(b"==") && ends_word(rest, 2));
    if word.end - start == 86
        && ends
        && !DIGESTS.iter().any(|digest| text.get(..start).is_some_and(|head| head.ends_with(digest)))
    {
        ranges.push(start..word.end + 2);
    }
}

/// Whether a word is a random value behind a prefix that announces a secret.
fn is_of_unknown_issuer(word: &str) -> bool {
    let Some((prefix, random)) = word.rsplit_once(['_', '-']) else { return false };
    let mixed = has(random, UPPER) && has(random, LOWER);
    // Ids with a prefix have up to 29 characters.
    let long = mixed
        && random.len() >= 34
        && random.bytes().filter(u8::is_ascii_digit).count() >= 3
        && is_all(prefix, LOWER | DIGIT | class(b"__--"))
        && prefix.len() <= 20;
    let announces =
        |part: &str| SECRET_PREFIXES.contains_lower(part) || (mixed && LIKELY_PREFIXES.contains_lower(part));
    prefix.len() <= 40
        && has_random_end(random)
        && (long || prefix.split(['_', '-']).any(announces))
        && !prefix.split(['_', '-']).any(|part| PUBLIC_PREFIXES.contains_lower(part))
}

/// What precedes the SHA-512 of a package.
const DIGESTS: &[&str] = &[
    "sha512-",
    "sha512:",
    "sha512=",
    "integrity ",
    "integrity\": \"",
    "integrity\":\"",
    "integrity=",
    "digest=",
    "sha512 ",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_right() {
        for (prefixes, shape) in shapes() {
            assert!(shape.after.is_right() && shape.before.is_none_or(|before| before.is_right()), "{prefixes}");
        }
    }
}
