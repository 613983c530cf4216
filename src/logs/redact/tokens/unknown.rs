//! Tokens of unknown issuers, and tokens without a fixed part.

use std::ops::Range;

use crate::logs::redact::{
    bytes::{BASE64, ends_word, run_before},
    looks::has_random_end,
    words::Words,
};

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
pub(in crate::logs::redact) fn find_in_word(text: &str, word: Range<usize>, ranges: &mut Vec<Range<usize>>) {
    let Some(found) = text.get(word.clone()) else { return };
    let bytes = text.as_bytes();
    let dots: Vec<&str> = found.splitn(4, '.').collect();
    let is_token = match dots.as_slice() {
        // Discord's bots
        [id, time, mac] => {
            (23..=29).contains(&id.len())
                && time.len() == 6
                && mac.len() >= 27
                && (id.starts_with(['M', 'N', 'O']) || id.bytes().any(|byte| byte.is_ascii_digit()))
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
    let mixed =
        random.bytes().any(|byte| byte.is_ascii_uppercase()) && random.bytes().any(|byte| byte.is_ascii_lowercase());
    // Ids with a prefix have up to 29 characters.
    let long = mixed
        && random.len() >= 34
        && random.bytes().filter(u8::is_ascii_digit).count() >= 3
        && prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'))
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
