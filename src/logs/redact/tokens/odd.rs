//! Tokens that have no prefix, and tokens of unknown issuers.

use std::ops::Range;

use crate::logs::redact::{
    bytes::{
        ALNUM, BASE64, Class, DIGIT, DOT, EQUALS, HEX, TILDE, UNDERSCORE, URL_SAFE, ends_word, is_at, run, run_before,
    },
    looks::has_random_end,
    words::Words,
};

/// The middle of a token, and what stands before and after it.
struct Around {
    middle: &'static str,
    before: (Class, usize, usize),
    after: (Class, usize, usize),
}

const AROUNDS: &[Around] = &[
    // Telegram's bots
    Around { middle: ":AA", before: (DIGIT, 8, 10), after: (URL_SAFE, 32, 40) },
    // Azure's client secrets
    Around { middle: "7Q~", before: (URL_SAFE | DOT | TILDE, 3, 3), after: (URL_SAFE | DOT | TILDE, 31, 40) },
    Around { middle: "8Q~", before: (URL_SAFE | DOT | TILDE, 3, 3), after: (URL_SAFE | DOT | TILDE, 31, 40) },
    // Terraform Cloud
    Around { middle: ".atlasv1.", before: (ALNUM, 14, 14), after: (URL_SAFE | EQUALS, 40, 200) },
    // MaxMind
    Around { middle: "_mmk", before: (ALNUM | UNDERSCORE, 36, 36), after: (ALNUM, 0, 0) },
    // Mailchimp
    Around { middle: "-us", before: (HEX, 32, 32), after: (DIGIT, 1, 2) },
];

pub(in crate::logs::redact) fn middles() -> impl Iterator<Item = &'static str> {
    AROUNDS.iter().map(|around| around.middle)
}

/// The token around a middle that was found, without regard to case, at a range.
pub(in crate::logs::redact) fn find_around(text: &str, middle: Range<usize>, ranges: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let found = text.get(middle.clone()).unwrap_or_default();
    for around in AROUNDS.iter().filter(|around| around.middle == found) {
        let (class, min, max) = around.before;
        let before = run_before(bytes, middle.start, class, max + 1);
        let (class, shortest, longest) = around.after;
        let after = run(bytes, middle.end, class, longest + 1);
        if (min..=max).contains(&before) && (shortest..=longest).contains(&after) {
            let start = middle.start - before;
            let bot = usize::from(bytes.get(..start).is_some_and(|head| head.ends_with(b"bot"))) * 3;
            ranges.push(start - bot..middle.end + after);
        }
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
        // New Relic, Azure DevOps
        [one] => {
            (one.len() == 40 && one.ends_with("NRAL"))
                || (one.len() == 84 && one.get(76..80) == Some("AZDO"))
                || (one.len() == 84 && one.get(52..57) == Some("JQQJ9"))
                || is_of_unknown_issuer(one)
        }
        _ => false,
    };
    if is_token {
        ranges.push(word.clone());
    }
    // Azure's storage and service keys. A SHA-512 has the same length.
    if found.len() >= 43 && is_at(bytes, word.end, EQUALS) {
        azure_key(text, word, ranges);
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

fn azure_key(text: &str, word: Range<usize>, ranges: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let length = run_before(bytes, word.end, BASE64, 90);
    let start = word.end - length;
    let padding = run(bytes, word.end, EQUALS, 3);
    let head = text.get(..start).unwrap_or_default();
    let key = text.get(start..word.end).unwrap_or_default();
    let fits = match (length, padding) {
        (86, 2) => !DIGESTS.iter().any(|digest| head.ends_with(digest)),
        // The issuer's signature at its place
        (43, 1) => ["AIoT", "+ASb", "+AEh", "+ARm"].iter().any(|mark| key.get(33..37) == Some(mark)),
        _ => false,
    };
    if fits && ends_word(bytes, word.end + padding) {
        ranges.push(start..word.end + padding);
    }
}
