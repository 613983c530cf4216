//! Finds private keys: those in PEM format, complete or without either end, and the private parts of JSON web keys.

use std::ops::Range;

use super::{
    bytes::{BLANK, DIGIT, UPPER, URL_SAFE, near, run, run_before},
    looks::is_random,
};

/// The longest block that is recognized, in bytes: a PGP key with many subkeys.
const MAX_BLOCK: usize = 64 * 1024;

pub(super) fn find_pem(text: &str, cut: bool, ranges: &mut Vec<Range<usize>>) {
    let mut open = None;
    let mut free = 0;
    for (begins, all) in markers(text) {
        if begins {
            if let Some(begin) = open.replace(all.clone()) {
                free = body_after(text, begin.end);
                ranges.push(begin.start..free);
            }
            continue;
        }
        let start = match open.take() {
            Some(begin) if all.start - begin.end <= MAX_BLOCK => begin.start,
            Some(begin) => {
                ranges.push(begin.start..body_after(text, begin.end));
                body_before(text, free, all.start)
            }
            None => body_before(text, free, all.start),
        };
        free = all.end;
        ranges.push(start..free);
    }
    if let Some(begin) = open {
        ranges.push(begin.start..body_after(text, begin.end));
    }
    if cut {
        ranges.push(0..headless(text));
    }
}

/// The lines that begin and end private keys: whether it begins one, and its range.
fn markers(text: &str) -> impl Iterator<Item = (bool, Range<usize>)> {
    text.match_indices("PRIVATE KEY").filter_map(|(at, key)| {
        let bytes = text.as_bytes();
        let kind = run_before(bytes, at, UPPER | DIGIT | BLANK, 48);
        let head = text.get(..at)?;
        let words = head.get(at - kind..)?;
        let begins = words.starts_with("BEGIN ");
        if !(begins || words.starts_with("END ")) || !head.get(..at - kind)?.ends_with("-----") {
            return None;
        }
        let rest = text.get(at + key.len()..)?;
        let block = if rest.starts_with(" BLOCK-----") { " BLOCK".len() } else { 0 };
        rest.get(block..)?.starts_with("-----").then(|| (begins, at - kind - 5..at + key.len() + block + 5))
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

/// Where a block without BEGIN and END lines ends, if the text starts with one. Its first line may be incomplete, so it is
/// not checked. Lines of hexadecimal digits, and lines much shorter or longer than those of PEM (64), OpenSSH (70) and
/// MIME (76), do not count.
fn headless(text: &str) -> usize {
    let first = text.find('\n').map_or(text.len(), |end| end + 1);
    let begins = text.get(..first).unwrap_or_default().trim_end();
    let begins = !begins.is_empty() && begins.bytes().all(is_base64);
    let mut end = first;
    for line in text.get(first..).unwrap_or_default().split_inclusive('\n') {
        let body = line.trim();
        let full = (48..=76).contains(&body.len()) && !body.bytes().all(|byte| byte.is_ascii_hexdigit());
        // The last line is shorter.
        let is_last = (16..48).contains(&body.len()) && (end > first || (begins && is_random(body, true)));
        if !((full || is_last) && body.bytes().all(is_base64)) {
            break;
        }
        end += line.len();
        if !full {
            break;
        }
    }
    if end == first { 0 } else { text.get(..end).unwrap_or_default().trim_end().len() }
}

fn is_base64(byte: u8) -> bool {
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

/// The private members of a JSON web key.
const PRIVATE_MEMBERS: &[&str] = &["d", "p", "q", "dp", "dq", "qi", "k"];

/// The private members of the JSON web key whose type was found at a position. They are not searched before `from`.
pub(super) fn find_in_web_key(text: &str, kind: usize, from: usize, ranges: &mut Vec<Range<usize>>) -> usize {
    let bytes = text.as_bytes();
    let mut at = kind.saturating_sub(KEY_REACH).max(from);
    let to = (kind + KEY_REACH).min(text.len());
    while let Some(quote) = bytes.get(at..to).and_then(|rest| rest.iter().position(|&byte| byte == b'"')) {
        let name = at + quote + 1;
        at = name;
        let Some(member) = PRIVATE_MEMBERS
            .iter()
            .find(|member| near(text, name, name + member.len()) == **member && ends_name(bytes, name + member.len()))
        else {
            continue;
        };
        let mut value = name + member.len();
        value += slashes(bytes, value) + 1;
        value += run(bytes, value, BLANK, 8);
        if bytes.get(value) != Some(&b':') {
            continue;
        }
        value += 1 + run(bytes, value + 1, BLANK, 8);
        value += slashes(bytes, value) + 1;
        let length = run(bytes, value, URL_SAFE, usize::MAX);
        if length >= 16 {
            ranges.push(value..value + length);
            at = value + length;
        }
    }
    to
}

/// Whether a name ends at a quote, perhaps an escaped one.
fn ends_name(bytes: &[u8], at: usize) -> bool {
    bytes.get(at + slashes(bytes, at)) == Some(&b'"')
}

fn slashes(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take(8).take_while(|&&byte| byte == b'\\').count()
}
