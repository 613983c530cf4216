//! Recognizes code that computes a value, which is no credential: `token = os.environ["SMTP_TOKEN"]`.

use super::{context::Context, names::Name};
use crate::logs::redact::{
    bytes::{self, ALNUM, DIGIT, LETTER, UNDERSCORE, WORD, is_at, run},
    looks::is_secret_like,
    words::Words,
};

/// Words that may precede an expression.
static KEYWORDS: Words = Words::new("await new not return yield mut move");

/// Objects whose fields are variables.
static OBJECTS: Words = Words::new(
    "self this process os config cfg conf args opts options settings ctx req request user params env var local module \
     data secrets props state event body input spec app context session cls obj account client form payload vars values \
     import ENV Deno Bun System Environment credentials creds Rails Application Settings",
);

/// Types whose parameters are in angle brackets.
static GENERIC_TYPES: Words = Words::new("Option Vec Box Arc Secret Optional List Maybe Map Result Rc Cow");

/// Types, and values that a declaration gives.
static TYPES: Words =
    Words::new("string str String int bytes text nil null None varchar Buffer Uint8Array SecretString");

/// Where the value begins behind a type: `String = "value"`.
pub(super) fn after_type(rest: &str) -> Option<usize> {
    let (name, _) = rest.split_once(" = ")?;
    let name = name.split_once(" | ").map_or(name, |(name, _)| name).trim_end_matches('?');
    (name == "string" || name == "String" || name == "SecretString").then(|| rest.find(" = ").map(|at| at + 3))?
}

/// The longest name in an expression, in bytes.
const MAX_NAME: usize = 64;

/// Whether the rest of a line, after a key and its sign, is code that computes the value.
pub(super) fn is_code(rest: &str, context: &Context<'_>) -> bool {
    let bytes = rest.as_bytes();
    let Some(expression) = Expression::parse(bytes) else { return false };
    let head = rest.get(expression.head.clone()).unwrap_or_default();
    let has_path = expression.path_end > expression.head.end;
    let next = bytes.get(expression.end).copied();
    let after = bytes.get(expression.end + 1).copied().unwrap_or_default();
    // Some("…") and Secret('…') are printed values, not code.
    let calls = rest.get(expression.end + 1..).and_then(|inner| inner.split(')').next()).unwrap_or_default();
    let printed = !has_path
        && head.starts_with(|letter: char| letter.is_ascii_uppercase())
        && !(calls.starts_with(|letter: char| letter.is_ascii_lowercase()) && calls.contains(['.', '(', '[']));
    match next {
        Some(b'(') => !printed && !has_secret_literal(rest.get(expression.end + 1..).unwrap_or_default()),
        Some(b'[') => (bytes::is(after, bytes::LOWER) && has_path) || matches!(after, b'"' | b'\'' | b'$'),
        Some(b'<') => (bytes::is(after, LETTER) || after == b'&') && GENERIC_TYPES.contains(head),
        None | Some(b',' | b';' | b')' | b'}' | b']' | b'?' | b':' | b' ' | b'\t' | b'|') => {
            if has_path {
                return OBJECTS.contains(head.trim_start_matches('$'));
            }
            // api_key: str = Field(…)
            if TYPES.contains(head)
                && let Some(value) = rest.get(expression.end..).and_then(|rest| rest.strip_prefix(" = "))
            {
                return !has_secret_literal(value);
            }
            let declared = rest.get(expression.end..).is_some_and(|rest| rest.starts_with(" | "))
                || matches!(next, None | Some(b';' | b',' | b')' | b'|' | b'?'));
            let variable = !head.bytes().any(|byte| byte.is_ascii_digit());
            // password=password, but not PASSWORD=password.
            (TYPES.contains(head) && declared)
                || (context.name.has_lower && variable && Name::new(head).last() == context.name.last())
        }
        _ => false,
    }
}

/// A path of identifiers, after keywords and signs.
struct Expression {
    head: std::ops::Range<usize>,
    path_end: usize,
    /// After `!` or `?`.
    end: usize,
}

impl Expression {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut start = 0;
        loop {
            let word = run(bytes, start, LETTER, 8);
            let keyword = bytes.get(start..start + word).and_then(|word| std::str::from_utf8(word).ok());
            if keyword.is_some_and(|word| KEYWORDS.contains(word)) && bytes.get(start + word) == Some(&b' ') {
                start += word + 1;
            } else if matches!(bytes.get(start), Some(b'&' | b'*' | b'!' | b'@')) && start < MAX_NAME {
                start += 1;
            } else {
                break;
            }
        }
        let dollar = usize::from(bytes.get(start) == Some(&b'$'));
        let end = identifier(bytes, start + dollar)?;
        let mut path_end = end;
        while let Some(next) = separator(bytes, path_end).and_then(|at| identifier(bytes, at)) {
            path_end = next;
        }
        let mark = usize::from(matches!(bytes.get(path_end), Some(b'!' | b'?')));
        Some(Self { head: start..end, path_end, end: path_end + mark })
    }
}

/// Where an identifier ends.
fn identifier(bytes: &[u8], at: usize) -> Option<usize> {
    is_at(bytes, at, LETTER | UNDERSCORE).then(|| at + run(bytes, at, WORD, MAX_NAME))
}

/// Where the sign between two identifiers of a path ends.
fn separator(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at..)? {
        [b'.', ..] => Some(at + 1),
        [b'?', b'.', ..] | [b':', b':', ..] | [b'-', b'>', ..] => Some(at + 2),
        _ => None,
    }
}

/// Whether a call has a quoted argument that looks like a secret, not like a name.
fn has_secret_literal(arguments: &str) -> bool {
    let line = arguments.split('\n').next().unwrap_or_default();
    line.split(['"', '\''])
        .skip(1)
        .step_by(2)
        .any(|literal| !literal.contains(' ') && is_secret_like(literal) && !is_name(literal))
}

/// Whether a text is the name of a variable or a header.
fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_uppercase() || bytes::is(byte, DIGIT | UNDERSCORE))
        || (!text.bytes().any(|byte| byte.is_ascii_digit())
            && text.bytes().all(|byte| bytes::is(byte, ALNUM) || b"_-.:/".contains(&byte)))
}
