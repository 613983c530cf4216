//! Finds the values of keys that are named like a credential, in many notations.

mod harmless;
mod markup;
mod names;
mod values;

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

pub(super) use self::harmless::{is_random, is_reference, is_secret_like};
use self::values::{Context, Notation};
use crate::logs::pattern::constant;

/// A part of every such name. [`names`] decides with the whole name.
static STEM: LazyLock<Regex> = LazyLock::new(|| {
    constant(
        r"(?xi-u)
          (?:api|access|private|auth|account|signing|encryption|master|shared|session|storage|subscription
            |functions|client|host|service|unseal|root|license|secret)\ key(?:\ [0-9])?
        | pass | pwd | pw\b | secret | token | credential | auth | cookie | key | [_-]pat\b | salt\b | seed | pepper\b
        | mnemonic | otp\b | recovery_?code | community | sess(?:ion)?_?id | connect\.sid
        ",
    )
});

/// The text between the name and the value of an environment variable in a container spec.
static VALUE_FIELD: LazyLock<Regex> = LazyLock::new(|| {
    constant(
        r#"(?i-u)\A\\{0,8}["']?[ \t\r]{0,8}(?:,|\n)?[ \t\r]{0,64}\\{0,8}["']?value\\{0,8}["']?[ \t]{0,8}[:=][ \t]{0,8}"#,
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
    markup::find(text, ranges);
}

/// The whole name that contains a stem. It does not start before `floor`.
fn name_around(text: &str, stem: Range<usize>, floor: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let before = bytes.get(floor.max(stem.start.saturating_sub(MAX_NAME))..stem.start).unwrap_or_default();
    let after = bytes.get(stem.end..bytes.len().min(stem.end + MAX_NAME)).unwrap_or_default();
    let mut start = stem.start - before.iter().rev().take_while(|&&byte| is_name(byte)).count();
    // The letter of an escaped line break or tab is no part of the name: `\r\ncookie`.
    let escaped = start > floor && bytes.get(start - 1) == Some(&b'\\');
    if escaped && start < stem.start && matches!(bytes.get(start), Some(b'n' | b'r' | b't')) {
        start += 1;
    }
    let end = stem.end + after.iter().take_while(|&&byte| is_name(byte)).count();
    start..end
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Where the value of a key begins, and how it is written, if the key has a value and is named like a credential.
fn value_of<'a>(text: &'a str, name: &Range<usize>) -> Option<(usize, Context<'a>)> {
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
    }
    if is(at, b']') {
        at += 1;
    }
    let context = |notation, strict| -> Option<Context<'_>> {
        let secret = names::classify(key, strict)?;
        Some(Context { key, secret, notation, leads: leads_its_line(text, name.start) })
    };
    let head = text.get(..name.start).unwrap_or_default();
    // In ${NAME:?message}, what follows the colon is no value.
    if within_arn(text, name.start) || head.ends_with("${") {
        return None;
    }

    let gap = blanks(at);
    let sign = bytes.get(at + gap..).unwrap_or_default();
    let length = match sign {
        [b'%', b'3', b'D' | b'd', ..] if gap == 0 => 3,
        // A comparison with a variable.
        [b'=', b'=', b'=', rest @ ..] if is_quote(first_after_blanks(rest)) => 3,
        [b'=', b'=', rest @ ..] if is_quote(first_after_blanks(rest)) => 2,
        [b'=', b'=', ..] => return None,
        [b'=', b'>', ..] | [b':', b'=', ..] => 2,
        [b'-', b'>', ..] if gap > 0 => 2,
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
        // A path, as in "open /run/token: permission denied".
        if colon && !quoted_after && value > at + gap + length && head.ends_with('/') {
            return None;
        }
        if is(name.start.wrapping_sub(1), b' ')
            && harmless::follows_parser_word(text, name.start)
            && !harmless::is_secret_like(
                text.get(value..).unwrap_or_default().split_whitespace().next().unwrap_or_default(),
            )
        {
            return None;
        }
        let prose = colon && !quoted_after;
        let notation = if prose { Notation::Colon } else { Notation::Sign };
        return Some((value, context(notation, prose && !capitals)?));
    }
    if let Some(between) = VALUE_FIELD.find(text.get(name.end..)?) {
        return Some((name.end + between.end(), context(Notation::Sign, false)?));
    }
    if quoted_before && quoted_after && is(at, b',') {
        // ("DB_PASSWORD", "value"), as in a call or in a pair.
        let opens = name.start.checked_sub(2).and_then(|at| bytes.get(at));
        let value = at + 1 + blanks(at + 1);
        if opens == Some(&b'(') && is_quote(bytes.get(value).copied()) {
            return Some((value, context(Notation::Sign, true)?));
        }
    }
    if gap > 0 && !quoted_before && !quoted_after && !key.starts_with('-') && is_setting(text, name) {
        let value = at + gap;
        let line = text.get(value..)?.lines().next().unwrap_or_default().trim_end();
        if !line.contains(char::is_whitespace) && harmless::is_secret_like(line.trim_matches(['"', '\''])) {
            return Some((value, context(Notation::Flag, true)?));
        }
    }
    if quoted_before && quoted_after && gap > 0 && is_quote(sign.first().copied()) {
        // "authorization" "value", as in nginx.
        return Some((at + gap, context(Notation::Sign, true)?));
    }
    if key.starts_with('-') {
        // --password value, or "--password", "value".
        let comma = if quoted_after && is(at + gap, b',') { 1 } else { 0 };
        let value = at + gap + comma;
        let value = value + blanks(value);
        // Several spaces separate a flag from its description.
        let described = gap > 1 && !quoted_after;
        if value > at && !described && !is(value, b'-') && !is(value, b'\n') && (comma == 1) == quoted_after {
            return Some((value, context(Notation::Flag, true)?));
        }
    }
    None
}

/// Whether a name is written as that of a setting, at the start of its line: `bind_pw value`, `ENV KEY value`.
fn is_setting(text: &str, name: &Range<usize>) -> bool {
    let key = text.get(name.clone()).unwrap_or_default();
    let line = text.get(text.ceil_char_boundary(name.start.saturating_sub(MAX_INDENT))..name.start).unwrap_or_default();
    let line = line.rsplit('\n').next().unwrap_or_default().trim_end();
    let written = key.contains('_') || matches!(key, "requirepass" | "masterauth" | "masterpass");
    let first = line.is_empty() || ["ENV", "setx", "SET"].iter().any(|word| line.ends_with(word));
    written && first
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
    // An escaped line break starts a line, too.
    let line = line.rsplit_once("\\n").map_or(line, |(_, line)| line);
    let indent = line.len() - line.trim_start().len();
    let word = line.trim().trim_matches(['"', '\'', '-']).trim();
    matches!(word, "" | "export" | "ENV" | "ARG" | "set" | "env").then_some(indent)
}

/// Whether the name is a part of an ARN, as in `arn:aws:secretsmanager:eu-west-1:1:secret:name`.
fn within_arn(text: &str, start: usize) -> bool {
    let head = text.get(text.ceil_char_boundary(start.saturating_sub(MAX_NAME))..start).unwrap_or_default();
    let word = head.rsplit(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '=')).next();
    head.ends_with(':') && word.is_some_and(|word| word.starts_with("arn:"))
}

fn first_after_blanks(bytes: &[u8]) -> Option<u8> {
    bytes.iter().copied().take(8).find(|&byte| !is_blank(byte))
}
