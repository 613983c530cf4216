//! Private keys in PEM's armour, whole or with either end cut off.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use crate::logs::constant;

static MARKER: LazyLock<Regex> =
    LazyLock::new(|| constant(r"(?-u)-----(?:(BEGIN)|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"));

/// The longest block that is looked for, in bytes: a PGP key with many subkeys.
const BLOCK: usize = 64 * 1024;

pub(super) fn find(text: &str, cut: bool, ranges: &mut Vec<Range<usize>>) {
    let mut open = None;
    let mut free = 0;
    for marker in MARKER.captures_iter(text) {
        let Some(all) = marker.get(0) else { continue };
        if marker.get(1).is_some() {
            if let Some(begin) = open.replace(all.range()) {
                free = body_after(text, begin.end);
                ranges.push(begin.start..free);
            }
            continue;
        }
        let start = match open.take() {
            Some(begin) if all.start() - begin.end <= BLOCK => begin.start,
            Some(begin) => {
                ranges.push(begin.start..body_after(text, begin.end));
                body_before(text, free, all.start())
            }
            None => body_before(text, free, all.start()),
        };
        free = all.end();
        ranges.push(start..free);
    }
    if let Some(begin) = open {
        ranges.push(begin.start..body_after(text, begin.end));
    }
    if cut {
        ranges.push(0..headless(text));
    }
}

/// Where a block ends whose last line is missing: after the lines that look like its body.
fn body_after(text: &str, begin: usize) -> usize {
    let mut end = begin;
    let mut first = true;
    for line in text.get(begin..).unwrap_or_default().split_inclusive('\n') {
        // On the marker's own line a key goes on as long as its characters do: a key with escaped line
        // breaks stands on one line.
        if first && !line.trim().is_empty() {
            end += line.bytes().take_while(|&byte| is_escaped_body(byte)).count();
            if end < begin + line.trim_end().len() {
                return end;
            }
            end = begin + line.len();
        } else if first || is_body(line) {
            end += line.len();
        } else {
            break;
        }
        first = false;
    }
    let block = text.get(begin..end).unwrap_or_default();
    begin + block.trim_end().len()
}

/// Where a block begins whose first line is missing: before the lines that look like its body.
fn body_before(text: &str, from: usize, end: usize) -> usize {
    let head = text.get(from..end).unwrap_or_default();
    let mut start = end - head.bytes().rev().take_while(|&byte| is_escaped_body(byte)).count();
    while start > from && text.as_bytes().get(start - 1) == Some(&b'\n') {
        let above = text.get(from..start - 1).unwrap_or_default();
        let line = above.rsplit('\n').next().unwrap_or_default();
        if !is_body(line) {
            break;
        }
        start -= line.len() + 1;
    }
    start
}

/// Where the body of a block ends that has lost both its ends. Shorter lines than PEM's, and those of
/// hexadecimal digits, are taken for something else.
fn headless(text: &str) -> usize {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        let body = line.trim();
        let full = body.len() >= 48 && !body.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !(full && body.bytes().all(is_base64)) {
            break;
        }
        end += line.len();
    }
    text.get(..end).unwrap_or_default().trim_end().len()
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

fn is_escaped_body(byte: u8) -> bool {
    is_base64(byte) || matches!(byte, b'\\' | b' ' | b'\t' | b'\r')
}

/// Whether a line can be one of a block's: base64, one of the headers of an encrypted key, or empty.
fn is_body(line: &str) -> bool {
    let line = line.trim();
    line.bytes().all(is_base64)
        || ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:"].iter().any(|header| line.starts_with(header))
}
