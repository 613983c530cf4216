//! Finds the values of keys in XML, and of names that follow their values.

use std::ops::Range;

use super::context::{Notation, Place};
use crate::logs::redact::bytes::{NAME, line_before, rest_of_line, run_before};

/// The most of a tag, and of a value, that is searched, in bytes.
const MAX_TAG: usize = 256;
const MAX_VALUE: usize = 1024;

/// Attributes that hold the name of a setting.
const NAMES: &[&str] = &["name", "key", "id", "Name", "Key", "N"];

/// The value of the name at a range.
pub(super) fn value(text: &str, name: &Range<usize>) -> Option<Place> {
    let bytes = text.as_bytes();
    match name.start.checked_sub(1).and_then(|at| bytes.get(at)) {
        Some(b'<' | b':') => element(text, name),
        Some(b'"' | b'\'') => attribute(text, name).or_else(|| reversed(text, name)),
        _ => None,
    }
}

fn place(start: usize, length: usize) -> Place {
    Place { start, end: Some(start + length), notation: Notation::Element, strict: false, certain: false }
}

/// `<ns:Password Type="text">value</`
fn element(text: &str, name: &Range<usize>) -> Option<Place> {
    let bytes = text.as_bytes();
    if bytes.get(name.start - 1) == Some(&b':') {
        let namespace = run_before(bytes, name.start - 1, NAME, 32);
        let open = (name.start - 1 - namespace).checked_sub(1)?;
        if bytes.get(open) != Some(&b'<') {
            return None;
        }
    }
    let tag = rest_of_line(text, name.end, MAX_TAG);
    let attributes = tag.find('>')?;
    let inside = tag.get(..attributes)?;
    if !(inside.is_empty() || inside.starts_with(' ')) || inside.ends_with('/') || inside.contains('<') {
        return None;
    }
    content(text, name.end + attributes + 1)
}

/// The text of an element.
fn content(text: &str, start: usize) -> Option<Place> {
    let content = rest_of_line(text, start, MAX_VALUE);
    // Without an end, it is the description of an option: `--password <password>  the password`.
    let length = content.find('<').filter(|&length| length > 0)?;
    Some(place(start, length))
}

/// `<add key="password" value="value"/>`, `<entry key="password">value</entry>`
fn attribute(text: &str, name: &Range<usize>) -> Option<Place> {
    let head = line_before(text, name.start - 1, 32);
    if !NAMES.iter().any(|attribute| {
        head.strip_suffix('=')
            .and_then(|head| head.strip_suffix(attribute))
            .is_some_and(|head| head.ends_with([' ', '\t']))
    }) {
        return None;
    }
    let tag = rest_of_line(text, name.end + 1, MAX_TAG);
    let end = tag.find('>');
    let inside = tag.get(..end.unwrap_or(tag.len()))?;
    if let Some(value) = inside.find(" value=").or_else(|| inside.find(" Value=")) {
        let start = name.end + 1 + value + " value=".len();
        let quote = text.get(start..)?.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
        let value = rest_of_line(text, start + 1, MAX_VALUE);
        return Some(place(start + 1, value.find(quote).unwrap_or(value.len())));
    }
    let end = end.filter(|_| !inside.ends_with('/') && !inside.contains('<'))?;
    content(text, name.end + 1 + end + 1)
}

/// `"value":"value","name":"DB_PASSWORD"`
fn reversed(text: &str, name: &Range<usize>) -> Option<Place> {
    let line = line_before(text, name.start, MAX_VALUE);
    let offset = name.start - line.len();
    let quotes = ['"', '\''];
    let head = line.strip_suffix(quotes)?.trim_end().strip_suffix(':')?.trim_end().strip_suffix(quotes)?;
    let head =
        ["name", "key", "Name", "Key"].iter().find_map(|field| head.strip_suffix(field)?.strip_suffix(quotes))?;
    let map = head.rfind(['{', '[']).map_or(0, |open| open + 1);
    let fields = head.get(map..)?;
    let value = ["value", "Value"].iter().find_map(|field| fields.find(field).map(|at| at + field.len()))?;
    let rest = fields.get(value..)?.strip_prefix(quotes)?.trim_start().strip_prefix(':')?.trim_start();
    let quote = rest.chars().next().filter(|letter| quotes.contains(letter))?;
    let length = rest.get(1..)?.find(quote)?;
    Some(place(offset + map + fields.len() - rest.len() + 1, length))
}
