//! Values of keys that are named like a credential, in whatever notation a log writes them.

mod names;
mod values;

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use self::values::{Context, Notation};
use crate::logs::pattern::constant;

/// What a key's name has in it, at least. [`names`] decides with the whole name.
static STEM: LazyLock<Regex> = LazyLock::new(|| {
    constant(
        r"(?xi-u)
          pass | pwd | secret | token | credential | authorization | cookie
        | (?:api|access|private|auth|account|signing|encryption|master|shared|session|storage|subscription
            |functions|client|host|service)[\ _.-]?key
        ",
    )
});

/// What stands between a variable's name and its value where they are fields of one thing, as in a
/// container's spec.
static VALUE_FIELD: LazyLock<Regex> = LazyLock::new(|| {
    constant(
        r#"(?i-u)\A\\{0,8}["']?[ \t\r]{0,8}(?:,|\n)[ \t\r]{0,64}\\{0,8}["']?value\\{0,8}["']?[ \t]{0,8}[:=][ \t]{0,8}"#,
    )
});

/// The longest name of a key that is looked at, in bytes, to either side of its stem.
const NAME: usize = 128;

/// How far a line may be indented for its key to count as its first word.
const INDENT: usize = 64;

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

/// Extends a stem to the whole of the name that it is in, which goes back no further than `floor`.
fn name_around(text: &str, stem: Range<usize>, floor: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let before = bytes.get(floor.max(stem.start.saturating_sub(NAME))..stem.start).unwrap_or_default();
    let after = bytes.get(stem.end..bytes.len().min(stem.end + NAME)).unwrap_or_default();
    let start = stem.start - before.iter().rev().take_while(|&&byte| is_name(byte)).count();
    let end = stem.end + after.iter().take_while(|&&byte| is_name(byte)).count();
    start..end
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Where the value of a key begins and how it is written, if the key has one and its name is a
/// credential's.
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
        let secret = names::judge(key, strict)?;
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
        // What is quoted after its key, but isn't before it, is the end of a phrase: only another
        // quotation can be its value.
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

/// Whether nothing but indentation, a list's dash or a shell's `export` stands before a key in its line.
/// Answers with the indentation.
fn leads_its_line(text: &str, start: usize) -> Option<usize> {
    let from = text.ceil_char_boundary(start.saturating_sub(INDENT));
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

/// Whether a parser complains of a token, as in "unexpected token: }".
fn follows_unexpected(text: &str, start: usize) -> bool {
    let from = text.ceil_char_boundary(start.saturating_sub(16));
    let head = text.get(from..start).unwrap_or_default().trim_end();
    ["unexpected", "Unexpected", "expected", "Expected"].iter().any(|word| head.ends_with(word))
}
