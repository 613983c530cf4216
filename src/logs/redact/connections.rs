//! Finds passwords in URLs, and before hosts.

use std::ops::Range;

use super::{
    looks::{is_random, is_secret_like},
    text::{
        ALNUM, DIGIT, Found, LETTER, LOWER, NAME, UPPER, WORD, class, has, is_all, is_at, length, line_before, near,
        rest_of_line, run, run_before,
    },
};

/// The longest user and password, in bytes.
const MAX_USERINFO: usize = 512;

/// `://user:password@host`. The password extends to the last `@`, because many do not escape it.
pub(super) fn userinfo(found: &Found<'_>, searched: &mut usize) -> Option<Range<usize>> {
    let (text, start) = (found.text, found.needle.end);
    // Most URLs have a slash or a question mark first.
    let first = length(text.as_bytes(), start, |byte| b":/?#@ ".contains(&byte));
    if matches!(text.as_bytes().get(start + first), None | Some(b'/' | b'?' | b'#' | b' ' | b'\n')) {
        return None;
    }
    let rest = rest_of_line(text, start, MAX_USERINFO);
    let ends = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '<' | '>' | '`');
    let rest = rest.split(ends).next()?;
    let Some(at) = rest.rfind('@') else {
        *searched = start + rest.len();
        return cut_userinfo(text, start..start + rest.len());
    };
    let head = rest.get(..at)?;
    match head.find([':', '/', '?', '#']) {
        // Not an address such as [fd00::1].
        Some(colon) if head.get(colon..)?.starts_with(':') && !head.starts_with('[') => {
            *searched = start + at;
            (!is_port(head.get(colon + 1..)?)).then_some(start + colon + 1..start + at)
        }
        None if head.len() >= 20 && is_random(head, false) => Some(start..start + at),
        _ => None,
    }
}

/// The password of a URL at the end of a text that lost its own, with the host.
fn cut_userinfo(text: &str, rest: Range<usize>) -> Option<Range<usize>> {
    let (user, password) = text.get(rest.clone())?.split_once(':')?;
    let ends = text.as_bytes().get(rest.end..)?.iter().take(8).all(u8::is_ascii_whitespace);
    let is_password = is_secret_like(password) && !password.starts_with('/') && !is_port(password);
    (ends && is_all(user, NAME | class(b"%%")) && is_password).then(|| rest.end - password.len()..rest.end)
}

/// Whether the text after the colon is a port and a path with an `@`, as in `http://registry:4873/@scope/name`.
fn is_port(password: &str) -> bool {
    let digits = run(password.as_bytes(), 0, DIGIT, 6);
    (1..=5).contains(&digits) && matches!(password.as_bytes().get(digits), Some(b'/' | b'?' | b'#' | b','))
}

/// Words of a line that is about a connection to Oracle.
const ORACLE_WORDS: &[&str] = &[
    "sqlplus", "sqlldr", "expdp", "impdp", "rman", "connect", "conn ", "logon", "login", "dsn", "userid", "oracle",
    "ora-", "tns", "sql>", "jdbc",
];

/// Words before a colon and a mail address, or before a package and its version.
const NO_USERS: &[&str] =
    &["mailto", "sip", "sips", "acct", "xmpp", "npm", "pkg", "docker", "image", "jsr", "file", "link"];

/// `user/password@name`, where the line is about Oracle or a port follows; `user:password@host:port`
pub(super) fn before_host(found: &Found<'_>, _: &mut usize) -> Option<Range<usize>> {
    let (text, bytes, at) = (found.text, found.bytes(), found.needle.start);
    let host = run(bytes, at + 1, ALNUM | class(b"..--__"), 253);
    // A line of code follows the name of a class: `QuorumCnxManager@493`.
    if at == 0 || is_at(bytes, at + 1, class(b"//")) || run(bytes, at + 1, DIGIT, host) == host {
        return None;
    }
    let has_port = bytes.get(at + 1 + host) == Some(&b':') && is_at(bytes, at + 2 + host, DIGIT);
    let stops = |byte: &u8| byte.is_ascii_whitespace() || b"/@\"'".contains(byte);
    let length = bytes.get(..at)?.iter().rev().take(128).take_while(|byte| !stops(byte)).count();
    let start = at - length;
    if length > 0 && bytes.get(start.wrapping_sub(1)) == Some(&b'/') {
        let user = start - 1 - run_before(bytes, start - 1, WORD, 64);
        let opens = user == 0 || is_at(bytes, user - 1, class(b"  \t\t\r\r\n\n\"\"''==::(("));
        if user < start - 1 && opens && !is_at(bytes, user, DIGIT) {
            let head = line_before(text, user, 48).to_ascii_lowercase();
            return (has_port || ORACLE_WORDS.iter().any(|word| head.contains(word))).then_some(start..at);
        }
    }
    // Without a scheme, only with a port: `user:password@host:5432`.
    if near(text, at + 1, at + 1 + host).starts_with("sha") {
        return None;
    }
    let (user, password) = near(text, start, at).split_once(':')?;
    let fits = !user.is_empty()
        && is_all(user, NAME)
        && !password.is_empty()
        && (has_port || (looks_mixed(password) && !NO_USERS.contains(&user)));
    fits.then(|| at - password.len()..at)
}

/// Whether a text has signs that neither names nor versions have, or small letters, capitals and digits.
fn looks_mixed(text: &str) -> bool {
    let is_mixed = has(text, DIGIT) && has(text, LOWER) && has(text, UPPER);
    text.len() >= 6 && has(text, LETTER) && (has(text, class(b"!!##$$^^**~~")) || is_mixed)
}
