//! Finds the end of a value, and decides whether to redact it.

use std::ops::Range;

use super::{
    code::is_code,
    context::{Context, Notation},
    harmless,
    names::Secret,
};
use crate::logs::redact::{
    bytes::{self, is_blank, is_quote, length, rest_of_line},
    looks::is_secret_like,
    words::Words,
};

/// The most of a line of code that is examined, in bytes.
const MAX_CODE: usize = 256;

/// The value that begins at a byte, if it must be redacted.
pub(super) fn find(text: &str, at: usize, context: &Context<'_>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied();
    if context.notation == Notation::Element {
        let end = at + length(bytes, at, |byte| byte == b'<');
        return redactable(text, at..end, context);
    }
    // PHP prints the type and length of a string, perhaps on the next line.
    let below = at + bytes.get(at..)?.iter().take(64).take_while(|byte| byte.is_ascii_whitespace()).count();
    let at = if text.get(below..)?.starts_with("string(") { below } else { at };
    let rest = text.get(at..)?;
    let at = match rest.strip_prefix("string(").and_then(|rest| rest.split_once(") ")) {
        Some((length, _)) if length.len() <= 6 && length.bytes().all(|byte| byte.is_ascii_digit()) => {
            at + 9 + length.len()
        }
        _ => at,
    };
    // Go's spew does so, too: (string) (len=8) "value"
    let at = match text.get(at..)?.strip_prefix("(string) (len=").and_then(|rest| rest.split_once(") ")) {
        Some((length, _)) if length.len() <= 6 && length.bytes().all(|byte| byte.is_ascii_digit()) => {
            at + 16 + length.len()
        }
        _ => at,
    };
    // The brackets of a list of header values.
    let list = matches!(context.secret, Secret::Authorization | Secret::Cookie) && byte(at) == Some(b'[');
    let at = if list { at + 1 + bytes::run(bytes, at + 1, bytes::BLANK, 8) } else { at };
    // String prefixes, as in b'…'.
    let at = at + usize::from(byte(at).is_some_and(|byte| b"bBrRuUfF".contains(&byte)) && is_quote(byte(at + 1)));
    let slashes = length(bytes, at, |byte| byte != b'\\').min(8);
    if is_quote(byte(at + slashes)) {
        let quote = byte(at + slashes)?;
        if slashes == 0 && byte(at + 1) == Some(quote) && byte(at + 2) == Some(quote) {
            let start = at + 3;
            let rest = text.get(start..)?;
            let end = rest.find([char::from(quote), '\n']).unwrap_or(rest.len());
            return redactable(text, start..start + end, context);
        }
        let start = at + slashes + 1;
        let end = closing_quote(bytes, start, quote, slashes);
        if context.secret == Secret::Authorization {
            return authorization(text, start, Some(end), context);
        }
        return redactable(text, start..end, context);
    }
    // In the environment, `PASSWORD=open(!)sesame` is no call.
    let is_variable = !context.name.has_lower && at > 0 && byte(at - 1) == Some(b'=');
    let code = rest_of_line(text, at, MAX_CODE);
    let is_call = |code: &str| code.contains("(\"") || code.contains("('") || code.contains("()");
    if context.notation != Notation::Flag
        && (!is_variable || is_call(code) || !code.contains('('))
        && is_code(code, context)
    {
        return None;
    }
    match byte(at)? {
        b'\n' => return items(text, at, context),
        b'{' if byte(at + 1) != Some(b'{') => return braced(text, at, context),
        b'(' if context.name.last() == "auth" => return second_of_pair(text, at),
        b'[' => return redactable(text, at..closing_bracket(bytes, at), context),
        b'|' | b'>' | b'!' => {
            if let Some(block) = indented_block(text, at, context) {
                return Some(block);
            }
        }
        _ => {}
    }
    let end = match (context.secret, context.leads) {
        (Secret::Authorization, _) => return authorization(text, at, None, context),
        (Secret::Cookie, _) => cookies(bytes, at),
        (Secret::Plural, _) if context.name.last() == "codes" => line_value(bytes, at),
        (Secret::Opaque, _) => word_value(bytes, at),
        (_, Some(_)) if context.notation != Notation::Flag => line_value(bytes, at),
        _ => word_value(bytes, at),
    };
    redactable(text, at..end, context)
}

/// A password that a connection string has in braces: `PWD={…};`
fn braced(text: &str, at: usize, context: &Context<'_>) -> Option<Range<usize>> {
    let rest = rest_of_line(text, at + 1, 128);
    let inner = rest.split('}').next()?;
    let ends = matches!(rest.as_bytes().get(inner.len() + 1), None | Some(b';' | b'"' | b'\''));
    let is_value = ends && is_secret_like(inner) && !inner.contains([' ', ':', '=', ',', '"']);
    is_value.then(|| redactable(text, at + 1..at + 1 + inner.len(), context))?
}

/// The password of `auth=('user', 'password')`.
fn second_of_pair(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = rest_of_line(text, at + 1, 256);
    let mut quotes = rest.match_indices(['"', '\'']).map(|(at, _)| at).take(4);
    let (first, second) = (quotes.next()?, quotes.next()?);
    let (third, fourth) = (quotes.next()?, quotes.next()?);
    let fits = first == 0 && rest.get(second + 1..third)?.trim() == "," && third + 1 < fourth;
    fits.then(|| at + 1 + third + 1..at + 1 + fourth)
}

/// Where the value of a cookie header ends.
fn cookies(bytes: &[u8], at: usize) -> usize {
    let end = at + length(bytes, at, |byte| matches!(byte, b'\n' | b'"' | b'\''));
    (at..end).find(|&at| begins_escaped_line(bytes, at)).unwrap_or(end)
}

/// Whether an escaped line break follows, and another key after it, or the end of the text.
fn begins_escaped_line(bytes: &[u8], at: usize) -> bool {
    let rest = bytes.get(at..).unwrap_or_default();
    let length = match rest {
        [b'\\', b'r', b'\\', b'n', ..] => 4,
        [b'\\', b'n', ..] => 2,
        _ => return false,
    };
    matches!(rest.get(length), None | Some(b'\\' | b'"' | b'\'')) || begins_pair(bytes, at + length)
}

/// The items of a YAML list below a key whose name is that of credentials.
fn items(text: &str, at: usize, context: &Context<'_>) -> Option<Range<usize>> {
    let indent = context.leads?;
    let start = at + 1;
    // A mapping that holds the value itself.
    let below = rest_of_line(text, start, 1024);
    let depth = below.len() - below.trim_start().len();
    if depth > indent
        && let Some(value) = below.trim_start().strip_prefix("value: ")
    {
        let from = start + below.len() - value.len();
        return redactable(text, from..from + value.trim_end().len(), context);
    }
    let (mut first, mut end) = (None, start);
    let mut position = start;
    for line in text.get(start..)?.split_inclusive('\n') {
        let Some(item) = line.trim().strip_prefix("- ") else { break };
        let item = item.trim_matches(['"', '\'']);
        if item.contains([' ', ':']) || !is_secret_like(item) || context.secret == Secret::Opaque {
            break;
        }
        first = first.or_else(|| line.find("- ").map(|dash| position + dash + 2));
        end = position + line.trim_end().len();
        position += line.len();
    }
    redactable(text, first?..end, context)
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
            // YAML and SQL write a quote within quotes twice.
            b'\''
                if quote == b'\''
                    && at > start
                    && (bytes.get(at + 1) == Some(&quote) || bytes.get(at - 1) == Some(&quote)) =>
            {
                run = 0
            }
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
            || begins_escaped_line(bytes, at)
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
        if byte == b'\n' || is_blank(byte) || begins_escaped_line(bytes, at) || ends_encoded(bytes, at) {
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

/// Whether an encoded ampersand follows.
fn ends_encoded(bytes: &[u8], at: usize) -> bool {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.starts_with(b"%26") || rest.starts_with(b"\\u0026") || rest.starts_with(b"&amp;")
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
    let name =
        rest.iter().take(64).take_while(|&&byte| bytes::is(byte, bytes::NAME) || matches!(byte, b'[' | b']')).count();
    let rest = rest.get(name..).unwrap_or_default();
    let rest = rest.get(usize::from(quote == 1 && is_quote(rest.first().copied()))..).unwrap_or_default();
    matches!(rest.first(), Some(b'=' | b':'))
}

/// The lines of a YAML block: the following lines that are indented further than the key.
fn indented_block(text: &str, at: usize, context: &Context<'_>) -> Option<Range<usize>> {
    let indent = context.leads?;
    let header = text.get(at..)?.split('\n').next()?;
    let header_end = header.trim_end().trim_start_matches(|letter: char| letter == '!' || letter.is_ascii_alphabetic());
    if !matches!(header_end.trim_start().trim_start_matches(['|', '>']), "" | "-" | "+")
        || !header_end.contains(['|', '>'])
    {
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

/// Authorization schemes that are followed by several parameters, any of which may be secret.
static SCHEMES_WITH_PARAMETERS: Words = Words::new("digest hawk hmac oauth mac aws4-hmac-sha256");

/// The credential of an authorization header, without its scheme. It ends at the closing quote, if it is quoted.
fn authorization(text: &str, at: usize, quotation: Option<usize>, context: &Context<'_>) -> Option<Range<usize>> {
    let bytes = text.get(..quotation.unwrap_or(text.len()))?.as_bytes();
    let ends_word = |byte| is_blank(byte) || matches!(byte, b'"' | b'\'' | b'\\' | b',');
    let end = quotation.unwrap_or_else(|| line_value(bytes, at));
    let value = text.get(at..end)?;
    // A single small word is not a credential: `authorization: rbac`.
    let is_mode = value.len() < 16 && value.bytes().all(|byte| byte.is_ascii_lowercase());
    if is_mode || harmless::is_harmless(value, &Context { notation: Notation::Colon, ..*context }) {
        return None;
    }
    let word = at + length(bytes, at, ends_word);
    let next = word + length(bytes, word, |byte| !is_blank(byte));
    let scheme = text.get(at..word)?.to_ascii_lowercase();
    let range = match scheme.as_str() {
        "bearer" | "basic" | "apikey" | "negotiate" | "ntlm" => next..next + length(bytes, next, ends_word),
        scheme if SCHEMES_WITH_PARAMETERS.contains(scheme) => next..next + length(bytes, next, |_| false),
        // The name of any other scheme is kept; what follows extends to the end of the value.
        _ if is_scheme(&scheme)
            && is_blank_at(bytes, word)
            && next < bytes.len()
            && bytes.get(next) != Some(&b'\n') =>
        {
            let parameters = text.get(next..)?.split(['\n', ' ']).next()?.contains('=');
            let stop = |byte| quotation.is_none() && !parameters && matches!(byte, b'"' | b'\'' | b'\\');
            let end = if parameters || quotation.is_some() { bytes.len() } else { line_value(bytes, next) };
            next..end.min(next + length(bytes, next, stop))
        }
        _ => at..quotation.unwrap_or(word),
    };
    redactable(text, range, context)
}

/// Whether the first word of an authorization header is the name of a scheme, not a credential.
fn is_scheme(word: &str) -> bool {
    (2..=32).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && word.bytes().filter(u8::is_ascii_digit).count() <= 4
}

fn is_blank_at(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_some_and(|&byte| is_blank(byte))
}

/// The range, unless its text is a placeholder, a reference or a remark.
pub(super) fn redactable(text: &str, range: Range<usize>, context: &Context<'_>) -> Option<Range<usize>> {
    let value = text.get(range.clone())?;
    (!harmless::is_harmless(value, context)).then_some(range)
}
