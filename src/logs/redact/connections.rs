//! Finds passwords in URLs and in data source names.

use std::ops::Range;

use super::{
    bytes::{
        ALNUM, BLANK, DASH, DIGIT, DOT, PERCENT, TILDE, UNDERSCORE, URL_SAFE, WORD, is, is_at, length, line_before,
        near, rest_of_line, run, run_before, starts_word,
    },
    looks::{is_random, is_reference, is_secret_like},
};

/// The longest user and password, in bytes.
const MAX_USERINFO: usize = 512;

/// A text near which a credential may stand.
pub(super) struct Mark {
    pub needle: &'static str,
    find: fn(&str, Range<usize>, &mut usize) -> Option<Range<usize>>,
}

pub(super) const MARKS: &[Mark] = &[
    Mark { needle: "://", find: userinfo },
    Mark { needle: "%3A%2F%2F", find: encoded_userinfo },
    Mark { needle: "@tcp(", find: before_at },
    Mark { needle: "@unix(", find: before_at },
    Mark { needle: "@//", find: oracle },
    Mark { needle: "@(description", find: oracle },
    Mark { needle: "@", find: oracle_or_pair },
    Mark { needle: "code=", find: parameter },
    Mark { needle: "&p=", find: short_parameter },
    Mark { needle: "pin=", find: pin },
    Mark { needle: "pin\":", find: pin },
    Mark { needle: "<<< ", find: here_string },
    Mark { needle: " -p ", find: with_user },
    Mark { needle: "sig=", find: signature },
    Mark { needle: "signature=", find: signature },
    Mark { needle: "bearer", find: scheme },
    Mark { needle: "basic", find: scheme },
    Mark { needle: ":5432:", find: pgpass },
    Mark { needle: ":*:", find: pgpass },
    Mark { needle: "_auth", find: npm_auth },
];

/// Up to where each mark was searched.
#[derive(Default)]
pub(super) struct Connections {
    searched: [usize; MARKS.len()],
}

impl Connections {
    pub(super) fn find(&mut self, text: &str, needle: Range<usize>, mark: usize, ranges: &mut Vec<Range<usize>>) {
        let (Some(mark), Some(searched)) = (MARKS.get(mark), self.searched.get_mut(mark)) else { return };
        if needle.start < *searched {
            return;
        }
        if let Some(value) = (mark.find)(text, needle, searched) {
            *searched = value.end.max(*searched);
            let found = text.get(value.clone()).unwrap_or_default();
            if !found.is_empty() && !is_reference(found) && !is_masked(found) {
                ranges.push(value);
            }
        }
    }
}

/// Whether a value was masked by the program.
fn is_masked(value: &str) -> bool {
    value.bytes().all(|byte| matches!(byte, b'*' | b'x' | b'X' | b'.'))
}

/// `://user:password@host`. The password extends to the last `@`, because many do not escape it.
fn userinfo(text: &str, needle: Range<usize>, searched: &mut usize) -> Option<Range<usize>> {
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
fn encoded_userinfo(text: &str, needle: Range<usize>, searched: &mut usize) -> Option<Range<usize>> {
    let rest = rest_of_line(text, needle.end, MAX_USERINFO);
    let rest = rest.get(..rest.find(|letter: char| letter.is_whitespace() || letter == '&').unwrap_or(rest.len()))?;
    *searched = needle.end + rest.len();
    let at = rest.rfind("%40")?;
    let colon = rest.get(..at)?.find("%3A").or_else(|| rest.get(..at)?.find("%3a"))?;
    let user = rest.get(..colon)?;
    (!user.contains("%2F") && !user.contains("%2f")).then(|| needle.end + colon + 3..needle.end + at)
}

/// `user:password@tcp(host)`, as Go's drivers write it
fn before_at(text: &str, needle: Range<usize>, _: &mut usize) -> Option<Range<usize>> {
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
fn oracle(text: &str, needle: Range<usize>, _: &mut usize) -> Option<Range<usize>> {
    slash_pair(text, needle.start).map(|(_, password)| password)
}

/// Words of a line that is about a connection to Oracle.
const ORACLE_WORDS: &[&str] = &[
    "sqlplus", "sqlldr", "expdp", "impdp", "rman", "connect", "conn ", "logon", "login", "dsn", "userid", "oracle",
    "ora-", "tns", "sql>", "jdbc",
];

/// `user/password@name`, where the line is about Oracle or a port follows; `user:password@host:port`
fn oracle_or_pair(text: &str, needle: Range<usize>, _: &mut usize) -> Option<Range<usize>> {
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

/// `?code=…`, if the value looks random
fn parameter(text: &str, needle: Range<usize>, searched: &mut usize) -> Option<Range<usize>> {
    let value = parameter_value(text, &needle)?;
    *searched = value.end;
    text.get(value.clone()).is_some_and(|value| is_random(value, true)).then_some(value)
}

/// `pin=4931`
fn pin(text: &str, needle: Range<usize>, _: &mut usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let start = needle.end + run(bytes, needle.end, BLANK | super::bytes::QUOTE, 4);
    let length = run(bytes, start, DIGIT, 9);
    let named = !is_at(bytes, needle.start.wrapping_sub(1), ALNUM);
    (named && (4..=8).contains(&length) && !is_at(bytes, start + length, WORD | DOT)).then(|| start..start + length)
}

/// `-u user -p password`, of any program
fn with_user(text: &str, needle: Range<usize>, _: &mut usize) -> Option<Range<usize>> {
    let head = line_before(text, needle.start, 256);
    let named =
        [" -u ", " --user ", " --user=", " --username ", " --username=", " -U "].iter().any(|name| head.contains(name));
    let value = super::cursor::Cursor::new(text, needle.end).value();
    let is_password = |value: &str| is_secret_like(value) && !value.contains([':', '/']) && !value.starts_with('-');
    text.get(value.clone()).is_some_and(|value| named && is_password(value)).then_some(value)
}

/// `command <<< 'secret'`
fn here_string(text: &str, needle: Range<usize>, _: &mut usize) -> Option<Range<usize>> {
    let value = super::cursor::Cursor::new(text, needle.end).value();
    let is_frame = text.as_bytes().get(needle.start.wrapping_sub(1)) == Some(&b'<')
        || near(text, value.end, value.end + 4) == " >>>";
    let is_value = |value: &str| is_secret_like(value) && !value.contains(' ') && !is_frame;
    text.get(value.clone()).is_some_and(is_value).then_some(value)
}

/// `?u=user&p=password`, as clients of InfluxDB write it
fn short_parameter(text: &str, needle: Range<usize>, _: &mut usize) -> Option<Range<usize>> {
    let head = line_before(text, needle.start, 256);
    let query = head.rsplit([' ', '"', '\'']).next()?;
    let rest = rest_of_line(text, needle.end, 256);
    let length = rest.find([' ', '&', '"', '\'']).unwrap_or(rest.len());
    (query.contains("?u=") || query.contains("&u=")).then(|| needle.end..needle.end + length)
}

/// `?sig=…`, in signed URLs
fn signature(text: &str, needle: Range<usize>, _: &mut usize) -> Option<Range<usize>> {
    parameter_value(text, &needle).filter(|value| value.len() >= 8)
}

fn parameter_value(text: &str, needle: &Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let name = needle.start - run_before(bytes, needle.start, URL_SAFE, 16);
    let head = text.get(..name)?;
    // X-Amz-Signature, X-Goog-Signature; an encoded ampersand.
    let prefix = text.get(name..needle.start)?;
    let fits = (prefix.is_empty() || prefix.eq_ignore_ascii_case("x-amz-") || prefix.eq_ignore_ascii_case("x-goog-"))
        && head.ends_with(['?', '&', '#', ';'])
        || prefix == "u0026";
    let rest = rest_of_line(text, needle.end, 1024);
    let length = rest
        .find(|letter: char| letter.is_whitespace() || matches!(letter, '&' | '"' | '\'' | '<' | '>' | '\\'))
        .unwrap_or(rest.len());
    fits.then(|| needle.end..needle.end + length)
}

/// `Bearer …`, `Basic …`, also outside of headers
fn scheme(text: &str, needle: Range<usize>, _: &mut usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    if !starts_word(bytes, needle.start) {
        return None;
    }
    let gap = match bytes.get(needle.end..)? {
        [b'%', b'2', b'0', ..] => 3,
        [b'+', ..] => 1,
        // A list of protocols: `bearer, …`
        [b',', ..] => 1 + run(bytes, needle.end + 1, BLANK, 8),
        _ => run(bytes, needle.end, BLANK, 8),
    };
    let start = needle.end + gap;
    let body = run(bytes, start, URL_SAFE | DOT | TILDE | super::bytes::PLUS_SLASH, usize::MAX);
    let padding = run(bytes, start + body, super::bytes::EQUALS, 2);
    let token = text.get(start..start + body)?;
    let listed = bytes.get(needle.end) == Some(&b',');
    let fits = if listed { is_random(token, true) } else { is_token(token) };
    (gap > 0 && body >= 8 && fits).then(|| start..start + body + padding)
}

/// Distinguishes a token from a word such as "authentication": by its length, a digit, a sign, or a capital letter after a
/// small one.
fn is_token(token: &str) -> bool {
    token.len() >= 24
        || token.bytes().any(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'~'))
        || super::looks::has_hump(token)
}

/// `host:5432:database:user:password`, as in .pgpass
fn pgpass(text: &str, needle: Range<usize>, _: &mut usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let part = |at: usize| -> Option<usize> {
        let length = run(bytes, at, WORD | DASH | DOT, 128) + usize::from(bytes.get(at) == Some(&b'*'));
        (length > 0 && bytes.get(at + length) == Some(&b':')).then_some(at + length + 1)
    };
    let start = part(part(needle.end)?)?;
    let rest = rest_of_line(text, start, 128);
    let password = rest.split([' ', '"', '\'', '\t']).next()?;
    (password.len() >= 4 && is_secret_like(password) && !password.contains([':', '/']))
        .then(|| start..start + password.len())
}

/// npm's basic authorization: `_auth=…`
fn npm_auth(text: &str, needle: Range<usize>, _: &mut usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    if !starts_word(bytes, needle.start) {
        return None;
    }
    let sign = needle.end + run(bytes, needle.end, BLANK, 4);
    if !matches!(bytes.get(sign), Some(b'=' | b':')) {
        return None;
    }
    let start = sign + 1 + run(bytes, sign + 1, BLANK | super::bytes::QUOTE, 4);
    let length = run(bytes, start, super::bytes::BASE64 | super::bytes::EQUALS | URL_SAFE, 1024);
    (length >= 8).then(|| start..start + length)
}
