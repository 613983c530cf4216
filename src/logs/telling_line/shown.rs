//! The part of a line that is quoted: without its time, and of structured logs the message and the error.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::level::{field, json_fields, level, of_klog};

/// The most characters of a quotation.
pub(super) const MOST: usize = 160;
/// Keys of the message and of the error in JSON and logfmt; the first one that a line has counts.
const MESSAGES: [&str; 8] = ["msg", "message", "@m", "@mt", "renderedmessage", "event", "short_message", "errmsg"];
const ERRORS: [&str; 6] = ["error", "err", "error.message", "exception", "@x", "reason"];

/// One line of at most [`MOST`] characters.
pub(super) fn shown(line: &str) -> String {
    let bare = without_box(line).trim_end();
    let text = match structured(bare) {
        Some(text) => Cow::Owned(text),
        None => Cow::Borrowed(without_time(bare)),
    };
    let mut letters = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut quoted: String = letters.by_ref().take(MOST).collect();
    if letters.next().is_some() {
        quoted.pop();
        quoted.push('…');
    }
    quoted
}

/// A line without the frame that some programs draw around a message.
pub(super) fn without_box(line: &str) -> &str {
    let bare =
        line.trim_start_matches(|letter: char| letter.is_whitespace() || ('\u{2500}'..='\u{257f}').contains(&letter));
    bare.strip_prefix("| ").unwrap_or(bare)
}

/// The message and the error of a line of JSON; empty if it has none.
pub(super) fn json_message(line: &str) -> Option<String> {
    json_fields(line).map(|_| structured(line).unwrap_or_default())
}

/// The message and the error of a line of JSON or logfmt.
fn structured(line: &str) -> Option<String> {
    let fields = if line.starts_with('{') { json_fields(line) } else { None };
    let value = |keys: &[&str]| match &fields {
        Some(fields) => keys.iter().find_map(|key| json_text(fields.get(*key)?)),
        None => keys.iter().find_map(|key| Some(Cow::Borrowed(field(line, key)?))),
    };
    if fields.is_none() && field(line, "level").or_else(|| field(line, "lvl")).is_none() {
        return None;
    }
    let parts = [value(&MESSAGES), value(&ERRORS)];
    let mut parts = parts.into_iter().flatten().filter(|part| !part.trim().is_empty());
    let message = parts.next()?;
    match parts.next() {
        Some(error) if !message.contains(&*error) => Some(format!("{message}: {error}")),
        _ => Some(message.into_owned()),
    }
}

/// The text of a JSON value, or of the message in it. Escapes stay, except for line breaks and tabs.
fn json_text(value: &RawValue) -> Option<Cow<'_, str>> {
    let text = value.get();
    if text.starts_with('{') {
        let fields = json_fields(text)?;
        return fields
            .get("message")
            .or_else(|| fields.get("msg"))
            .filter(|message| message.get().starts_with('"'))
            .and_then(|message| json_text(message));
    }
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    Some(if text.contains('\\') {
        Cow::Owned(text.replace("\\n", " ").replace("\\t", " "))
    } else {
        Cow::Borrowed(text)
    })
}

/// A line from its level on, if a time is before it; of klog, its message.
fn without_time(line: &str) -> &str {
    if of_klog(line).is_some() {
        return line.split_once("] ").map_or(line, |(_, message)| message);
    }
    let is_time = |text: &str| text.bytes().filter(u8::is_ascii_digit).count() >= 4;
    if let Some((_, at)) = level(line)
        && let Some((head, rest)) = line.split_at_checked(at)
        && is_time(head)
    {
        return rest;
    }
    // Such as `2026/11/23 10:11:12 `.
    let words = line.trim_start_matches(|letter: char| letter.is_ascii_digit() || "-/:.,+TZ ".contains(letter));
    let time = line.get(..line.len() - words.len()).unwrap_or_default();
    if time.contains(' ') && is_time(time) && !words.is_empty() { words } else { line }
}
