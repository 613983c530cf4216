//! Finds what the first line of a text that lost its head may have announced: the rest of a private key, and values whose key
//! was on that line.

use std::ops::Range;

use super::{
    looks::{is_random, is_secret_like},
    private_keys::is_base64,
};

/// The most lines that are examined.
const MAX_LINES: usize = 64;

/// How many other fields may precede the field `value`.
const MAX_FIELDS: usize = 4;

/// The lines below the first one that continue it: `value: …`, the items of a list, and lines of a block. Each is a single
/// word, which sentences and stack traces are not.
pub(super) fn find(text: &str, ranges: &mut Vec<Range<usize>>) {
    ranges.push(0..private_key(text));
    let Some(mut at) = text.find('\n').map(|end| end + 1) else { return };
    // A value alone after an empty line: `Password for the user:␤␤…`
    let rest = text.get(at..).unwrap_or_default();
    let alone = rest.strip_prefix('\n').unwrap_or(if at == 1 { rest } else { "" });
    let word = alone.split('\n').next().unwrap_or_default().trim_end();
    if is_random(word, false) {
        let start = text.len() - alone.len();
        ranges.push(start..start + word.len());
    }
    // Other fields may precede the value of a name.
    let mut fields = 0..MAX_FIELDS;
    for line in text.get(at..).unwrap_or_default().split_inclusive('\n').take(MAX_LINES) {
        let Some(value) = continuation(line) else {
            let is_field = line.starts_with([' ', '\t']) && (line.contains(": ") || line.trim_start().starts_with('#'));
            if !is_field || fields.next().is_none() {
                return;
            }
            at += line.len();
            continue;
        };
        let start = at + line.len() - line.trim_start().len();
        let end = at + line.trim_end().len();
        ranges.push(end - value.len().min(end - start)..end);
        at += line.len();
    }
}

/// The value of a line that continues another.
fn continuation(line: &str) -> Option<&str> {
    let line = line.trim_end();
    let text = line.trim_start();
    let is_indented = text.len() < line.len();
    let named = ["value:", "\"value\":", "value ="].iter().find_map(|name| text.strip_prefix(name));
    let named =
        named.or_else(|| text.strip_prefix("string(").and_then(|rest| rest.split_once(") ")).map(|(_, value)| value));
    let item = text.strip_prefix("- ");
    let value = named.or(item).unwrap_or(text).trim();
    let fits = if named.is_some() { is_indented && value.len() >= 4 } else { is_indented || item.is_some() };
    let is_word = !value.is_empty() && !value.contains(char::is_whitespace);
    (fits && is_word && (named.is_some() || is_secret_like(value))).then_some(value)
}

/// Where a private key without BEGIN and END lines ends, if the text starts with one. Its first line may be incomplete, so it is
/// not checked. Lines of hexadecimal digits, and lines much shorter or longer than those of PEM (64), OpenSSH (70) and
/// MIME (76), do not count.
fn private_key(text: &str) -> usize {
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
