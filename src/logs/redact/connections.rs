//! Finds passwords in URLs and in data source names.

use std::ops::Range;

use super::{
    bytes::{
        ALNUM, BLANK, DASH, DIGIT, DOT, PERCENT, UNDERSCORE, URL_SAFE, WORD, is, is_at, length, line_before, near,
        rest_of_line, run, run_before,
    },
    found::Found,
    looks::{is_random, is_secret_like},
};

/// The longest user and password, in bytes.
const MAX_USERINFO: usize = 512;

/// `://user:password@host`. The password extends to the last `@`, because many do not escape it.
pub(super) fn userinfo(found: &Found<'_>, searched: &mut usize) -> Option<Range<usize>> {
    let (text, needle) = (found.text, &found.needle);
    // Most URLs have a slash or a question mark first.
    let first = length(text.as_bytes(), needle.end, |byte| matches!(byte, b':' | b'/' | b'?' | b'#' | b'@' | b' '));
    if matches!(text.as_bytes().get(needle.end + first), None | Some(b'/' | b'?' | b'#' | b' ' | b'\n')) {
        return None;
    }
    let rest = rest_of_line(text, needle.end, MAX_USERINFO);
    let length = rest
        .find(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '<' | '>' | '`'))
        .unwrap_or(rest.len());
    let rest = rest.get(..length)?;
    let Some(at) = rest.rfind('@') else {
        *searched = needle.end + length;
        return cut_userinfo(text, needle.end..needle.end + length);
    };
    let head = rest.get(..at)?;
    let user = head.find([':', '/', '?', '#']);
    match user.and_then(|end| head.as_bytes().get(end)) {
        // Not an address such as [fd00::1].
        Some(b':') if !head.starts_with('[') => {
            let start = user? + 1;
            let password = head.get(start..)?;
            *searched = needle.end + at;
            (!is_port(password)).then(|| needle.end + start..needle.end + at)
        }
        None if head.len() >= 20 && is_random(head, false) => Some(needle.end..needle.end + at),
        _ => None,
    }
}

/// The password of a URL at the end of a text that lost its own, with the host.
fn cut_userinfo(text: &str, rest: Range<usize>) -> Option<Range<usize>> {
    let (user, password) = text.get(rest.clone())?.split_once(':')?;
    let ends = text.as_bytes().get(rest.end..)?.iter().take(8).all(u8::is_ascii_whitespace);
    let named = user.bytes().all(|byte| is(byte, URL_SAFE | DOT | PERCENT));
    let is_password = is_secret_like(password) && !password.starts_with('/') && !is_port(password);
    (ends && named && is_password).then(|| rest.end - password.len()..rest.end)
}

/// Whether the text after the colon is a port and a path with an `@`, as in `http://registry:4873/@scope/name`.
fn is_port(password: &str) -> bool {
    let digits = password.bytes().take_while(u8::is_ascii_digit).count();
    (1..=5).contains(&digits) && matches!(password.as_bytes().get(digits), Some(b'/' | b'?' | b'#' | b','))
}

/// `%3A%2F%2Fuser%3Apassword%40host`
pub(super) fn encoded_userinfo(found: &Found<'_>, searched: &mut usize) -> Option<Range<usize>> {
    let (text, needle) = (found.text, &found.needle);
    let rest = rest_of_line(text, needle.end, MAX_USERINFO);
    let rest = rest.get(..rest.find(|letter: char| letter.is_whitespace() || letter == '&').unwrap_or(rest.len()))?;
    *searched = needle.end + rest.len();
    let at = rest.rfind("%40")?;
    let colon = rest.get(..at)?.find("%3A").or_else(|| rest.get(..at)?.find("%3a"))?;
    let user = rest.get(..colon)?;
    (!user.contains("%2F") && !user.contains("%2f")).then(|| needle.end + colon + 3..needle.end + at)
}

/// `user:password@tcp(host)`, as Go's drivers write it
pub(super) fn before_at(found: &Found<'_>, _: &mut usize) -> Option<Range<usize>> {
    let (text, needle) = (found.text, &found.needle);
    let head = line_before(text, needle.start, MAX_USERINFO);
    let start = head
        .rfind(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '=' | '`'))
        .map_or(0, |at| at + 1);
    let head = head.get(start..)?;
    let colon = head.find(':')?;
    let is_user = head.get(..colon)?.bytes().all(|byte| is(byte, URL_SAFE | DOT));
    let head_is_user = is_user && !head.get(colon..)?.starts_with("://");
    head_is_user.then(|| needle.start - (head.len() - colon - 1)..needle.start)
}

/// The user before a slash, and the password between it and a position: `scott/tiger@`.
fn slash_pair(text: &str, end: usize) -> Option<(Range<usize>, Range<usize>)> {
    let bytes = text.as_bytes();
    let length = run_before_password(bytes, end);
    let password = end - length..end;
    let slash = password.start.checked_sub(1).filter(|&at| bytes.get(at) == Some(&b'/'))?;
    let user = slash - run_before(bytes, slash, WORD, 64);
    let opens = user == 0
        || bytes
            .get(user - 1)
            .is_some_and(|&byte| is(byte, BLANK) || matches!(byte, b'"' | b'\'' | b'=' | b':' | b'\n' | b'('));
    (length > 0 && user < slash && opens && !is_at(bytes, user, DIGIT)).then_some((user..slash, password))
}

fn run_before_password(bytes: &[u8], end: usize) -> usize {
    let head = bytes.get(..end).unwrap_or_default();
    let stop = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'@' | b'"' | b'\'');
    head.iter().rev().take(128).take_while(|&&byte| !stop(byte)).count()
}

/// `user/password@//host`, as Oracle's clients write it
pub(super) fn oracle(found: &Found<'_>, _: &mut usize) -> Option<Range<usize>> {
    let (text, needle) = (found.text, &found.needle);
    slash_pair(text, needle.start).map(|(_, password)| password)
}

/// Words of a line that is about a connection to Oracle.
const ORACLE_WORDS: &[&str] = &[
    "sqlplus", "sqlldr", "expdp", "impdp", "rman", "connect", "conn ", "logon", "login", "dsn", "userid", "oracle",
    "ora-", "tns", "sql>", "jdbc",
];

/// `user/password@name`, where the line is about Oracle or a port follows; `user:password@host:port`
pub(super) fn oracle_or_pair(found: &Found<'_>, _: &mut usize) -> Option<Range<usize>> {
    let (text, needle) = (found.text, &found.needle);
    let bytes = text.as_bytes();
    if bytes.get(needle.end) == Some(&b'/') || needle.start == 0 {
        return None;
    }
    let host = run(bytes, needle.end, ALNUM | DOT | DASH | UNDERSCORE, 253);
    let port = bytes.get(needle.end + host) == Some(&b':') && is_at(bytes, needle.end + host + 1, DIGIT);
    // A line of code follows the name of a class: `QuorumCnxManager@493`.
    if run(bytes, needle.end, DIGIT, host) == host {
        return None;
    }
    if let Some((user, password)) = slash_pair(text, needle.start) {
        let head = line_before(text, user.start, 48).to_ascii_lowercase();
        let about = ORACLE_WORDS.iter().any(|word| head.contains(word));
        return (port || about).then_some(password);
    }
    // Without a scheme, only with a port: `user:password@host:5432`.
    let host_name = near(text, needle.end, needle.end + host);
    if host_name.starts_with("sha") {
        return None;
    }
    let length = run_before_password(bytes, needle.start);
    let pair = near(text, needle.start - length, needle.start);
    let (user, password) = pair.split_once(':')?;
    let fits = !user.is_empty()
        && user.bytes().all(|byte| is(byte, WORD | DOT | DASH))
        && !password.is_empty()
        && (port || (looks_mixed(password) && !NO_USERS.contains(&user)));
    fits.then(|| needle.start - password.len()..needle.start)
}

/// Words before a colon and a mail address, or before a package and its version.
const NO_USERS: &[&str] =
    &["mailto", "sip", "sips", "acct", "xmpp", "npm", "pkg", "docker", "image", "jsr", "file", "link"];

/// Whether a text has signs that neither names nor versions have, or small letters, capitals and digits.
fn looks_mixed(text: &str) -> bool {
    let any = |test: fn(&u8) -> bool| text.as_bytes().iter().any(test);
    text.len() >= 6
        && any(u8::is_ascii_alphabetic)
        && (any(|byte| b"!#$^*~".contains(byte))
            || (any(u8::is_ascii_digit) && any(u8::is_ascii_lowercase) && any(u8::is_ascii_uppercase)))
}
