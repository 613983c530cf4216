//! Texts that come from a cluster or a file, made safe for the page. This is the only place that puts them into markup.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use maud::{Markup, html};

use crate::report::{end_within, even_share};

use super::super::{
    document::{age, lasted},
    safe::{TAB, log_line, printable},
};

/// The longest text other than a log, in characters.
const LIMIT: usize = 1024;

/// A name or a sentence. The element isolates it: letters that are written from right to left do not move its surroundings.
pub(super) fn untrusted(text: &str) -> Markup {
    html! { bdi { (shortened(text)) } }
}

/// The head of a table.
pub(super) fn head(columns: &[&str]) -> Markup {
    html! { thead { tr { @for column in columns { th scope="col" { (column) } } } } }
}

/// One line without control characters, at most [`LIMIT`] characters.
pub(super) fn shortened(text: &str) -> String {
    let text = text.trim_end();
    let end = text.char_indices().nth(LIMIT).map(|(end, _)| end);
    let line = printable(&text[..end.unwrap_or(text.len())].replace(['\r', '\n', '\t'], " "));
    if end.is_some() { line + "…" } else { line }
}

/// The lines of a log without control characters.
pub(super) fn log_text(log: &str) -> String {
    log.split('\n').map(log_line).collect::<Vec<_>>().join("\n")
}

/// How many bytes a log takes in the page.
pub(super) fn log_size(log: &str) -> usize {
    log.chars().map(size_in_page).sum()
}

/// The end of a log that takes at most `size` bytes in the page.
pub(super) fn log_end(log: &str, size: usize) -> &str {
    end_within(log, size, size_in_page)
}

/// How many bytes of the page each of these logs may take, if all of them together may take `room`.
pub(super) fn log_share<'a>(logs: impl Iterator<Item = &'a str>, room: usize) -> usize {
    even_share(logs.map(log_size).collect(), room)
}

/// The largest size of a character after [`log_text`] and the escaping of markup.
fn size_in_page(character: char) -> usize {
    match character {
        '\n' => 1,
        '\t' => TAB.len(),
        '&' => "&amp;".len(),
        '<' => "&lt;".len(),
        '>' => "&gt;".len(),
        '"' => "&quot;".len(),
        // One that is replaced becomes U+FFFD.
        c => c.len_utf8().max(if c.is_ascii() && !c.is_ascii_control() { 1 } else { 3 }),
    }
}

/// When a problem began, and how long it had lasted at the time of the report.
pub(super) fn since(time: &Time, at_latest: bool, as_of: Option<Timestamp>) -> Markup {
    html! {
        "since " (instant(time.0)) @if at_latest { " or earlier" }
        @if let Some(as_of) = as_of { " (" (lasted(time, at_latest, as_of)) ")" }
    }
}

/// How long before the time of the report a problem began, such as `at least 34m ago`.
pub(super) fn began(time: &Time, at_latest: bool, as_of: Option<Timestamp>) -> Markup {
    match as_of {
        Some(as_of) => html! { (lasted(time, at_latest, as_of)) " ago" },
        None => instant(time.0),
    }
}

pub(super) fn instant(time: Timestamp) -> Markup {
    html! { time datetime=(time.strftime("%Y-%m-%dT%H:%M:%SZ")) { (time.strftime("%Y-%m-%d %H:%M:%S UTC")) } }
}

/// How long before the time of the report an instant was, such as `34m ago`; the instant, if that time is unknown.
pub(super) fn ago(time: Timestamp, as_of: Option<Timestamp>) -> Markup {
    match as_of {
        Some(as_of) => html! { (age(time, as_of)) " ago" },
        None => instant(time),
    }
}
