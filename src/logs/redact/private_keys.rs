//! Finds private keys: those in PEM format, complete or without either end, and the private parts of JSON web keys.

use std::ops::Range;

use super::pattern::Pattern;

/// The longest block that is recognized, in bytes: a PGP key with many subkeys.
const MAX_BLOCK: usize = 64 * 1024;

pub(super) fn find_pem(text: &str, ranges: &mut Vec<Range<usize>>) {
    let mut open: Option<Range<usize>> = None;
    let mut free = 0;
    for (begins, marker) in markers(text) {
        let start = match open.take() {
            Some(begin) if !begins && marker.start - begin.end <= MAX_BLOCK => begin.start,
            unfinished => {
                if let Some(begin) = unfinished {
                    free = body_after(text, begin.end);
                    ranges.push(begin.start..free);
                }
                if begins {
                    open = Some(marker);
                    continue;
                }
                body_before(text, free, marker.start)
            }
        };
        free = marker.end;
        ranges.push(start..free);
    }
    if let Some(begin) = open {
        ranges.push(begin.start..body_after(text, begin.end));
    }
}

static MARKER: Pattern = Pattern::new(r"-----(?:(BEGIN)|END) [A-Z\d \t\r]{0,48}?PRIVATE KEY(?: BLOCK)?-----");

/// The lines that begin and end private keys: whether it begins one, and its range.
fn markers(text: &str) -> impl Iterator<Item = (bool, Range<usize>)> {
    let mut end = 0;
    text.match_indices("-----").filter_map(move |(at, _)| {
        let found = MARKER.match_at(text.as_bytes(), at, false);
        let marker = at..found.end.filter(|_| at >= end)?;
        end = marker.end;
        Some((found.value.is_some(), marker))
    })
}

/// Where a block without an END line ends: after the lines that look like its body.
fn body_after(text: &str, begin: usize) -> usize {
    let rest = text.get(begin..).unwrap_or_default();
    // A key with escaped line breaks continues on the line of its marker.
    let mut end = rest.bytes().take_while(|&byte| is_escaped_body(byte)).count();
    if let Some(below) = rest.get(end..).and_then(|rest| rest.strip_prefix('\n')) {
        end += 1;
        for line in below.split_inclusive('\n') {
            match kind(line) {
                Line::Other => break,
                Line::Body => end += line.len(),
                Line::Last => {
                    end += line.len();
                    break;
                }
            }
        }
    }
    begin + rest.get(..end).unwrap_or_default().trim_end().len()
}

/// Where a block without a BEGIN line begins: before the lines that look like its body, but not before `from`.
fn body_before(text: &str, from: usize, end: usize) -> usize {
    let head = text.get(from..end).unwrap_or_default();
    let mut start = head.len() - head.bytes().rev().take_while(|&byte| is_escaped_body(byte)).count();
    let mut last = start == head.len();
    while let Some(above) = head.get(..start).and_then(|head| head.strip_suffix('\n')) {
        let line = above.rsplit('\n').next().unwrap_or_default();
        match kind(line) {
            Line::Body => {}
            Line::Last if last => {}
            Line::Last | Line::Other => break,
        }
        last = false;
        start = above.len() - line.len();
    }
    let block = head.get(start..).unwrap_or_default();
    from + start + (block.len() - block.trim_start().len())
}

pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

fn is_escaped_body(byte: u8) -> bool {
    is_base64(byte) || matches!(byte, b'\\' | b' ' | b'\t' | b'\r')
}

/// The role of a line in a block.
enum Line {
    /// A full line, a header of an encrypted key, or an empty line.
    Body,
    /// A shorter line, which can only be the last one.
    Last,
    Other,
}

/// The shortest full line, in bytes. Those of PEM have 64, those of OpenSSH 70.
const FULL: usize = 24;

fn kind(line: &str) -> Line {
    let line = line.trim();
    let header = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:"].iter().any(|name| line.starts_with(name));
    if line.is_empty() || header {
        Line::Body
    } else if !line.bytes().all(is_base64) {
        Line::Other
    } else if line.len() >= FULL {
        Line::Body
    } else {
        Line::Last
    }
}

/// The member with the type of a JSON web key.
pub(super) const KEY_TYPE: &str = "\"kty";

/// How far from the type of a JSON web key its other members are searched, in bytes.
const KEY_REACH: usize = 4 * 1024;

/// The value of a private member of a JSON web key, after the quote before its name. Quotes may be escaped.
static MEMBER: Pattern = Pattern::new(r#"(?:d|p|q|dp|dq|qi|k)\\*"{gap}:{gap}\\*"([\w-]{16,})"#);

/// The private members of the JSON web key whose type was found at a position. They are not searched before `from`.
pub(super) fn find_in_web_key(text: &str, kind: usize, from: usize, ranges: &mut Vec<Range<usize>>) -> usize {
    let bytes = text.as_bytes();
    let mut at = kind.saturating_sub(KEY_REACH).max(from);
    let to = (kind + KEY_REACH).min(text.len());
    while let Some(quote) = bytes.get(at..to).and_then(|rest| rest.iter().position(|&byte| byte == b'"')) {
        at += quote + 1;
        if let Some(value) = MEMBER.match_at(bytes, at, false).complete() {
            at = value.end;
            ranges.push(value);
        }
    }
    to
}
