//! Finds the end of a value, and decides whether to redact it.

use std::ops::Range;

use super::{
    is_blank, is_quote,
    names::{Secret, among},
};

/// What the key indicates about its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    pub secret: Secret,
    pub notation: Notation,
    /// The indentation, if the key is the first word of its line. The value then extends to the end of the line and may
    /// contain spaces.
    pub leads: Option<usize>,
}

/// How a key is separated from its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    /// An equals sign, or a colon after a quoted key.
    Sign,
    /// A colon, as in a sentence.
    Colon,
    /// A space, as after a command-line flag.
    Flag,
    /// An XML tag.
    Element,
}

/// Values that are no secret.
const PLACEHOLDERS: &str = "yes no YES NO true false null nil none None True False NULL undefined <nil> <none> <unset> <empty> \
    <redacted> <hidden> (none) (empty)";

/// First words of a remark about a credential.
const REMARKS: &str = "a an and argument by can cannot configmaps could denied does empty error expired failed failure flag \
    for forbidden from has if in incorrect instead invalid is malformed mismatch missing must no not of \
    option or rejected required secret secrets serviceaccounts should the to unable unauthorized \
    unexpected unknown verification was with wrong";

/// The value that begins at a byte, if it must be redacted.
pub(super) fn find(text: &str, at: usize, context: &Context) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied();
    if context.notation == Notation::Element {
        let end = at + length(bytes, at, |byte| byte == b'<');
        return redactable(text, at..end, context);
    }
    // String prefixes, as in b'…'.
    let at = at + usize::from(byte(at).is_some_and(|byte| b"bBrRuUfF".contains(&byte)) && is_quote(byte(at + 1)));
    let slashes = length(bytes, at, |byte| byte != b'\\').min(8);
    if is_quote(byte(at + slashes)) {
        let start = at + slashes + 1;
        let end = closing_quote(bytes, start, byte(at + slashes)?, slashes);
        if context.secret == Secret::Authorization {
            return authorization(text, start, Some(end), context);
        }
        return redactable(text, start..end, context);
    }
    match byte(at)? {
        b'\n' => return None,
        b'{' if byte(at + 1) != Some(b'{') => return None,
        b'[' => return redactable(text, at..closing_bracket(bytes, at), context),
        b'|' | b'>' => {
            if let Some(block) = indented_block(text, at, context) {
                return Some(block);
            }
        }
        _ => {}
    }
    let end = match (context.secret, context.leads) {
        (Secret::Authorization, _) => return authorization(text, at, None, context),
        (Secret::Cookie, _) => at + length(bytes, at, |byte| matches!(byte, b'\n' | b'"' | b'\'')),
        (_, Some(_)) if context.notation != Notation::Flag => line_value(bytes, at),
        _ => word_value(bytes, at),
    };
    redactable(text, at..end, context)
}

/// The number of bytes on this line before the first for which `stop` is true.
fn length(bytes: &[u8], at: usize, stop: impl Fn(u8) -> bool) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take_while(|&&byte| byte != b'\n' && !stop(byte)).count()
}

/// Where a quoted value ends: before its closing quote, or at the end of the line. Quotes within a quoted text are escaped
/// by backslashes; the closing quote has as many as the opening one.
fn closing_quote(bytes: &[u8], start: usize, quote: u8, slashes: usize) -> usize {
    let mut run = 0;
    for (offset, &byte) in bytes.get(start..).unwrap_or_default().iter().enumerate() {
        let at = start + offset;
        match byte {
            b'\n' => return at,
            b'\\' => run += 1,
            _ if byte == quote && (run <= slashes || (slashes == 0 && run % 2 == 0)) => return at - run.min(slashes),
            _ => run = 0,
        }
    }
    bytes.len()
}

/// Where a bracket closes, or the end of the line.
fn closing_bracket(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, &byte) in bytes.get(start..).unwrap_or_default().iter().enumerate() {
        match byte {
            b'\n' => return start + offset,
            b'[' => depth += 1,
            b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return start + offset + 1;
                }
            }
            _ => {}
        }
    }
    bytes.len()
}

/// Where a value ends that extends to the end of its line, or to the next key on that line.
fn line_value(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'\n'
            || (is_blank(byte) && begins_pair(bytes, at))
            || (is_separator(byte) && begins_pair(bytes, at + 1))
        {
            break;
        }
        at += 1;
    }
    while at > start && bytes.get(at - 1).is_some_and(|&byte| is_blank(byte) || matches!(byte, b',' | b';')) {
        at -= 1;
    }
    at
}

/// Where a value of one word ends.
fn word_value(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        if byte == b'\n' || is_blank(byte) {
            break;
        }
        if is_separator(byte) && (next.is_none_or(|next| next.is_ascii_whitespace()) || begins_pair(bytes, at + 1)) {
            break;
        }
        if is_quote(Some(byte)) && at > start {
            if bytes.get(at - 1).is_some_and(|&before| matches!(before, b'(' | b'[' | b'{' | b'=' | b':' | b',')) {
                at = (closing_quote(bytes, at + 1, byte, 0) + 1).min(bytes.len());
                continue;
            }
            if next.is_none_or(|next| next.is_ascii_whitespace() || b",;:.}])>".contains(&next)) {
                break;
            }
        }
        at += 1;
    }
    at
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'&' | b';' | b',' | b'|')
}

/// Whether another key and its separator follow, perhaps after spaces.
fn begins_pair(bytes: &[u8], at: usize) -> bool {
    let rest = bytes.get(at..).unwrap_or_default();
    let blanks = rest.iter().take(8).take_while(|&&byte| is_blank(byte)).count();
    let rest = rest.get(blanks..).unwrap_or_default();
    let quote = usize::from(is_quote(rest.first().copied()));
    let rest = rest.get(quote..).unwrap_or_default();
    if !rest.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_') {
        return false;
    }
    let name = rest.iter().take(64).take_while(|&&byte| super::is_name(byte) || matches!(byte, b'[' | b']')).count();
    let rest = rest.get(name..).unwrap_or_default();
    let rest = rest.get(usize::from(quote == 1 && is_quote(rest.first().copied()))..).unwrap_or_default();
    matches!(rest.first(), Some(b'=' | b':'))
}

/// The lines of a YAML block: the following lines that are indented further than the key.
fn indented_block(text: &str, at: usize, context: &Context) -> Option<Range<usize>> {
    let indent = context.leads?;
    let header = text.get(at..)?.split('\n').next()?;
    if !matches!(header.trim_end().trim_start_matches(['|', '>']), "" | "-" | "+") {
        return None;
    }
    let start = at + header.len() + 1;
    let mut end = start;
    for line in text.get(start..)?.split_inclusive('\n') {
        let depth = line.len() - line.trim_start().len();
        if depth <= indent && !line.trim().is_empty() {
            break;
        }
        end += line.len();
    }
    let block = text.get(start..end)?;
    let head = block.len() - block.trim_start().len();
    (head < block.len()).then(|| start + head..start + block.trim_end().len())
}

/// The credential of an authorization header, without a known scheme. It ends at the closing quote, if it is quoted.
fn authorization(text: &str, at: usize, quotation: Option<usize>, context: &Context) -> Option<Range<usize>> {
    let bytes = text.get(..quotation.unwrap_or(text.len()))?.as_bytes();
    let ends_word = |byte| is_blank(byte) || matches!(byte, b'"' | b'\'' | b'\\' | b',');
    let word = at + length(bytes, at, ends_word);
    let next = word + length(bytes, word, |byte| !is_blank(byte));
    let range = match text.get(at..word)?.to_ascii_lowercase().as_str() {
        "bearer" | "basic" | "token" | "apikey" | "negotiate" | "ntlm" => next..next + length(bytes, next, ends_word),
        // Several parameters, any of which may be secret.
        "digest" | "hawk" | "hmac" | "oauth" | "aws4-hmac-sha256" => next..next + length(bytes, next, |_| false),
        _ => at..quotation.unwrap_or(word),
    };
    redactable(text, range, context)
}

/// The range, unless its text is a placeholder, a reference or a remark.
fn redactable(text: &str, range: Range<usize>, context: &Context) -> Option<Range<usize>> {
    let value = text.get(range.clone())?;
    let bare = value.trim().trim_end_matches([',', ';', ')', '}', ']']);
    if bare.is_empty() || among(PLACEHOLDERS, bare) || bare.bytes().all(|byte| byte == b'*') {
        return None;
    }
    if is_reference(bare) || is_path(bare) {
        return None;
    }
    match context.secret {
        Secret::Object if is_object(bare) => return None,
        Secret::Plural if bare.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => return None,
        _ => {}
    }
    if matches!(context.notation, Notation::Colon | Notation::Flag) {
        let word =
            bare.split(|letter: char| !letter.is_ascii_alphabetic() && letter != '\'').next().unwrap_or_default();
        let alone =
            bare.get(word.len()..).is_none_or(|rest| rest.is_empty() || rest.starts_with([' ', ',', '.', ':', ';']));
        if alone && (among(REMARKS, &word.to_ascii_lowercase()) || word.ends_with("n't")) {
            return None;
        }
    }
    Some(range)
}

/// Whether the value is a variable: `${NAME}`, `$(NAME)`, `{{ .name }}`.
fn is_reference(value: &str) -> bool {
    (value.starts_with("${") || value.starts_with("$(") || value.starts_with("{{"))
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"${}()_.- ".contains(&byte))
}

/// Whether the value is a path such as `/run/secrets/db`. AWS secrets may begin with a slash, too, but contain capitals.
fn is_path(value: &str) -> bool {
    value.starts_with('/')
        && value.bytes().filter(|&byte| byte == b'/').count() >= 2
        && value.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"/._-".contains(&byte))
}

/// Whether the value is the namespace and name of a Kubernetes object, as controllers log a Secret.
fn is_object(value: &str) -> bool {
    let is_part = |part: &str| {
        part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.'))
            && part.bytes().any(|byte| byte.is_ascii_lowercase())
    };
    value.split_once('/').is_some_and(|(namespace, name)| is_part(namespace) && is_part(name))
}
