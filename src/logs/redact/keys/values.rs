//! Finds the end of a value, and decides whether to redact it.

use std::ops::Range;

use super::{
    harmless::{self, Context, is_code},
    names::Secret,
    notation::Notation::{Colon, Flag},
};
use crate::logs::redact::{
    looks::is_secret_like,
    pattern::Pattern,
    text::{
        ALNUM, BLANK, LETTER, LOWER, NAME, Words, class, is_all, is_at, is_blank, is_quote, length, rest_of_line, run,
    },
};

/// The most of a line of code that is examined, in bytes.
const MAX_CODE: usize = 256;

/// What PHP and Go's spew print before a value, `string(7) "value"` and `(string) (len=7) "value"`.
static BEFORE: Pattern = Pattern::new(r"(?:\s*string\(\d{1,6}\) |\(string\) \(len=\d{1,6}\) )?()");
/// PWD={value};
static BRACED: Pattern = Pattern::new(r#"\{([^\s:=,"}]{6,128})\}(?:[;"']|$)"#);
/// auth=('user', 'password')
static PAIR: Pattern = Pattern::new(r"\({argument}{quoted}");
/// The head of a block in YAML.
static BLOCK: Pattern = Pattern::new(r"[!A-Za-z]*{gap}[|>]+[+-]?$");

/// The value that begins at a byte, if it must be redacted.
pub(super) fn find(text: &str, at: usize, context: &Context<'_>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied();
    let at = BEFORE.value(text, at)?.start;
    // The brackets of a list of header values.
    let is_list = matches!(context.secret, Secret::Authorization | Secret::Cookie) && byte(at) == Some(b'[');
    let at = if is_list { at + 1 + run(bytes, at + 1, BLANK, 8) } else { at };
    // The letter of a text of bytes, as in b'…'.
    let at = at + usize::from(is_at(bytes, at, class(b"bbBBrrRRuuUUffFF")) && is_quote(byte(at + 1)));
    let slashes = run(bytes, at, class(b"\\\\"), 8);
    if let Some(quote) = byte(at + slashes).filter(|&byte| is_quote(Some(byte))) {
        let is_triple = slashes == 0 && byte(at + 1) == Some(quote) && byte(at + 2) == Some(quote);
        let start = at + slashes + if is_triple { 3 } else { 1 };
        let end = match is_triple {
            true => start + length(bytes, start, |byte| byte == quote),
            false => closing_quote(bytes, start, quote, slashes),
        };
        return match context.secret {
            Secret::Authorization if !is_triple => authorization(text, start, Some(end), context),
            _ => redactable(text, start..end, context),
        };
    }
    // In the environment, `PASSWORD=open(!)sesame` is no call.
    let is_variable = !context.name.has_lower && at > 0 && byte(at - 1) == Some(b'=');
    let code = rest_of_line(text, at, MAX_CODE);
    let is_call = |code: &str| code.contains("(\"") || code.contains("('") || code.contains("()");
    if context.notation != Flag && (!is_variable || is_call(code) || !code.contains('(')) && is_code(code, context) {
        return None;
    }
    match byte(at)? {
        b'\n' => return items(text, at, context),
        b'{' if byte(at + 1) != Some(b'{') => {
            let value = BRACED.value(text, at)?;
            return redactable(text, value, context)
                .filter(|value| text.get(value.clone()).is_some_and(is_secret_like));
        }
        b'(' if context.name.last() == "auth" => return PAIR.value(text, at),
        b'[' => return redactable(text, at..closing_bracket(bytes, at), context),
        b'|' | b'>' | b'!' if BLOCK.match_at(bytes, at, false).end.is_some() => {
            if let Some(block) = indented_block(text, at, context) {
                return Some(block);
            }
        }
        _ => {}
    }
    let end = match (context.secret, context.leads) {
        (Secret::Authorization, _) => return authorization(text, at, None, context),
        (Secret::Cookie, _) => end_of(bytes, at, End::Quote),
        (Secret::Plural, _) if context.name.last() == "codes" => end_of(bytes, at, End::Pair),
        (Secret::Opaque, _) => end_of(bytes, at, End::Blank),
        (_, Some(_)) if context.notation != Flag => end_of(bytes, at, End::Pair),
        _ => end_of(bytes, at, End::Blank),
    };
    redactable(text, at..end, context)
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
    let inner = below.trim_start();
    if below.len() - inner.len() > indent
        && let Some(value) = inner.strip_prefix("value: ")
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
    let end = start
        + length(bytes, start, |byte| {
            depth += usize::from(byte == b'[');
            depth = depth.saturating_sub(usize::from(byte == b']'));
            depth == 0
        });
    end + usize::from(bytes.get(end) == Some(&b']'))
}

/// Where a value ends that is not quoted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// At the end of its line, or before the next key on that line.
    Pair,
    /// Like that, or at a blank that is not between quotes.
    Blank,
    /// At the end of its line, or at a quote.
    Quote,
}

fn end_of(bytes: &[u8], start: usize, ends: End) -> usize {
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        let is_before_blank = next.is_none_or(|next| next.is_ascii_whitespace());
        let is_end = match ends {
            End::Quote => matches!(byte, b'"' | b'\''),
            End::Pair if is_blank(byte) => begins_pair(bytes, at),
            End::Pair => is_separator(byte) && begins_pair(bytes, at + 1),
            End::Blank if is_quote(Some(byte)) && at > start => {
                if is_at(bytes, at - 1, class(b"(([[{{==::,,")) {
                    at = (closing_quote(bytes, at + 1, byte, 0) + 1).min(bytes.len());
                    continue;
                }
                is_before_blank || next.is_some_and(|next| b",;:.}])>".contains(&next))
            }
            End::Blank => {
                is_blank(byte)
                    || ends_encoded(bytes, at)
                    || is_separator(byte) && (is_before_blank || begins_pair(bytes, at + 1))
            }
        };
        if is_end || byte == b'\n' || begins_escaped_line(bytes, at) {
            break;
        }
        at += 1;
    }
    let trailing = class(b"  \t\t\r\r,,;;");
    while ends == End::Pair && at > start && is_at(bytes, at - 1, trailing) {
        at -= 1;
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
    let start = at + run(bytes, at, BLANK, 8);
    let is_quoted = is_quote(bytes.get(start).copied());
    let name = start + usize::from(is_quoted);
    if !is_at(bytes, name, LETTER | class(b"__")) {
        return false;
    }
    let end = name + run(bytes, name, NAME | class(b"[[]]"), 64);
    let end = end + usize::from(is_quoted && is_quote(bytes.get(end).copied()));
    matches!(bytes.get(end), Some(b'=' | b':'))
}

/// The lines of a YAML block: the following lines that are indented further than the key.
fn indented_block(text: &str, at: usize, context: &Context<'_>) -> Option<Range<usize>> {
    let indent = context.leads?;
    let start = at + length(text.as_bytes(), at, |_| false) + 1;
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
    let end = quotation.unwrap_or_else(|| end_of(bytes, at, End::Pair));
    let value = text.get(at..end)?;
    // A single small word is not a credential: `authorization: rbac`.
    let is_mode = value.len() < 16 && is_all(value, LOWER);
    if is_mode || harmless::is_harmless(value, &Context { notation: Colon, ..*context }) {
        return None;
    }
    let word = at + length(bytes, at, ends_word);
    let next = word + length(bytes, word, |byte| !is_blank(byte));
    let scheme = text.get(at..word)?.to_ascii_lowercase();
    let range = match scheme.as_str() {
        "bearer" | "basic" | "apikey" | "negotiate" | "ntlm" => next..next + length(bytes, next, ends_word),
        scheme if SCHEMES_WITH_PARAMETERS.contains(scheme) => next..next + length(bytes, next, |_| false),
        // The name of any other scheme is kept; what follows extends to the end of the value.
        _ if is_scheme(&scheme) && is_at(bytes, word, BLANK) && bytes.get(next).is_some_and(|&byte| byte != b'\n') => {
            let parameters = text.get(next..)?.split(['\n', ' ']).next()?.contains('=');
            let stop = |byte| quotation.is_none() && !parameters && matches!(byte, b'"' | b'\'' | b'\\');
            let end = if parameters || quotation.is_some() { bytes.len() } else { end_of(bytes, next, End::Pair) };
            next..end.min(next + length(bytes, next, stop))
        }
        _ => at..quotation.unwrap_or(word),
    };
    redactable(text, range, context)
}

/// Whether the first word of an authorization header is the name of a scheme, not a credential.
fn is_scheme(word: &str) -> bool {
    (2..=32).contains(&word.len())
        && is_all(word, ALNUM | class(b"--"))
        && word.bytes().filter(u8::is_ascii_digit).count() <= 4
}

/// The range, unless its text is a placeholder, a reference or a remark.
pub(super) fn redactable(text: &str, range: Range<usize>, context: &Context<'_>) -> Option<Range<usize>> {
    let value = text.get(range.clone())?;
    (!harmless::is_harmless(value, context)).then_some(range)
}
