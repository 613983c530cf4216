//! Finds the values of keys that are named like a credential, in many notations.

mod names;
mod values;

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use self::values::{Context, Notation};
use crate::logs::pattern::constant;

/// A part of every such name. [`names`] decides with the whole name.
static STEM: LazyLock<Regex> = LazyLock::new(|| {
    constant(
        r"(?xi-u)
          pass | pwd | secret | token | credential | authorization | cookie
        | (?:api|access|private|auth|account|signing|encryption|master|shared|session|storage|subscription
            |functions|client|host|service)[\ _.-]?key
        ",
    )
});

/// The text between the name and the value of an environment variable in a container spec.
static VALUE_FIELD: LazyLock<Regex> = LazyLock::new(|| {
    constant(
        r#"(?i-u)\A\\{0,8}["']?[ \t\r]{0,8}(?:,|\n)[ \t\r]{0,64}\\{0,8}["']?value\\{0,8}["']?[ \t]{0,8}[:=][ \t]{0,8}"#,
    )
});

/// How much of a name is considered on either side of its stem, in bytes.
const MAX_NAME: usize = 128;

/// The largest indentation of a key that counts as the first word of its line.
const MAX_INDENT: usize = 64;

pub(super) fn find(text: &str, ranges: &mut Vec<Range<usize>>) {
    let mut done = 0;
    while let Some(stem) = STEM.find_at(text, done) {
        let name = name_around(text, stem.range(), done);
        done = name.end;
        let Some((at, context)) = value_of(text, &name) else { continue };
        if let Some(value) = values::find(text, at, &context) {
            done = done.max(value.end);
            ranges.push(value);
        }
    }
}

/// The whole name that contains a stem. It does not start before `floor`.
fn name_around(text: &str, stem: Range<usize>, floor: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let before = bytes.get(floor.max(stem.start.saturating_sub(MAX_NAME))..stem.start).unwrap_or_default();
    let after = bytes.get(stem.end..bytes.len().min(stem.end + MAX_NAME)).unwrap_or_default();
    let start = stem.start - before.iter().rev().take_while(|&&byte| is_name(byte)).count();
    let end = stem.end + after.iter().take_while(|&&byte| is_name(byte)).count();
    start..end
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Where the value of a key begins, and how it is written, if the key has a value and is named like a credential.
fn value_of(text: &str, name: &Range<usize>) -> Option<(usize, Context)> {
    let bytes = text.as_bytes();
    let key = text.get(name.clone())?;
    let is = |at: usize, byte: u8| bytes.get(at) == Some(&byte);
    let blanks = |at: usize| bytes.get(at..).unwrap_or_default().iter().take_while(|&&byte| is_blank(byte)).count();
    let quoted_before = name.start > 0 && is_quote(bytes.get(name.start - 1).copied());

    let mut at = name.end;
    let slashes = bytes.get(at..).unwrap_or_default().iter().take(8).take_while(|&&byte| byte == b'\\').count();
    let quoted_after = is_quote(bytes.get(at + slashes).copied());
    if quoted_after {
        at += slashes + 1;
    } else if is(at, b']') {
        at += 1;
    }
    let context = |notation, strict| -> Option<Context> {
        let secret = names::classify(key, strict)?;
        Some(Context { secret, notation, leads: leads_its_line(text, name.start) })
    };

    let gap = blanks(at);
    let sign = bytes.get(at + gap..).unwrap_or_default();
    let length = match sign {
        [b'=', b'=', b'=', ..] => 3,
        [b'=', b'=' | b'>', ..] | [b':', b'=', ..] => 2,
        [b'=', ..] => 1,
        // A path in code, or a URL's scheme.
        [b':', b':', ..] | [b':', b'/', b'/', ..] => 0,
        [b':', ..] if gap == 0 || quoted_after => 1,
        // <password>value</password>
        [b'>', ..] if gap == 0 && name.start > 0 && is(name.start - 1, b'<') => {
            return Some((at + 1, context(Notation::Element, false)?));
        }
        _ => 0,
    };
    if length > 0 {
        let value = at + gap + length;
        let value = value + blanks(value);
        let colon = sign.first() == Some(&b':') && length == 1;
        let capitals = !key.bytes().any(|byte| byte.is_ascii_lowercase());
        // A name with a quote after but not before it is the end of a quoted phrase. Its value must be quoted, too.
        let phrase = quoted_after && !quoted_before;
        if colon && (gap > 0 || phrase) && !is_quote(bytes.get(value).copied()) && !is(value, b'\\') {
            return None;
        }
        if is(name.start.wrapping_sub(1), b' ') && follows_unexpected(text, name.start) {
            return None;
        }
        let prose = colon && !quoted_after;
        let notation = if prose { Notation::Colon } else { Notation::Sign };
        return Some((value, context(notation, prose && !capitals)?));
    }
    if let Some(between) = VALUE_FIELD.find(text.get(name.end..)?) {
        return Some((name.end + between.end(), context(Notation::Sign, false)?));
    }
    if key.starts_with('-') {
        // --password value, or "--password", "value".
        let comma = if quoted_after && is(at + gap, b',') { 1 } else { 0 };
        let value = at + gap + comma;
        let value = value + blanks(value);
        if value > at && !is(value, b'-') && !is(value, b'\n') && (comma == 1) == quoted_after {
            return Some((value, context(Notation::Flag, true)?));
        }
    }
    None
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

fn is_quote(byte: Option<u8>) -> bool {
    matches!(byte, Some(b'"' | b'\'' | b'`'))
}

/// The indentation of a key, if only a list dash or a word such as `export` precedes it on its line.
fn leads_its_line(text: &str, start: usize) -> Option<usize> {
    let from = text.ceil_char_boundary(start.saturating_sub(MAX_INDENT));
    let head = text.get(from..start)?;
    let line = match head.rfind('\n') {
        Some(at) => head.get(at + 1..)?,
        None if from == 0 => head,
        None => return None,
    };
    let indent = line.len() - line.trim_start().len();
    let word = line.trim().trim_matches(['"', '\'', '-']).trim();
    matches!(word, "" | "export" | "ENV" | "set" | "env").then_some(indent)
}

/// Whether the key follows a parser's complaint, as in "unexpected token: }".
fn follows_unexpected(text: &str, start: usize) -> bool {
    let from = text.ceil_char_boundary(start.saturating_sub(16));
    let head = text.get(from..start).unwrap_or_default().trim_end();
    ["unexpected", "Unexpected", "expected", "Expected"].iter().any(|word| head.ends_with(word))
}
