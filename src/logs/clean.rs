//! Converts the bytes of a log to text: valid UTF-8, without terminal control sequences or bidirectional characters,
//! redacted, and within bounds.
//!
//! The order matters. Control characters are removed first, so that they cannot hide a credential. The head of a cut text
//! is removed after redaction, because it is context for the rules. The text is cut to its bounds last, so that no cut
//! makes a credential unrecognizable.

use std::borrow::Cow;

use super::{Pattern, redact::Mask, redact_patterns};
use crate::{escapes::remove_escapes, partial_text::CUT};

/// At most this much of a cut text is removed because its first line is incomplete, in bytes. It is longer than any
/// credential, so the rest of a credential that was cut is always removed.
const MARGIN: usize = 8 * 1024;

/// A quarter of a text that is shorter, in bytes, may be less than a credential.
const SHORT: usize = 1024;

/// How much of a log to keep, and what to redact.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogPolicy {
    /// Lines from the end, 1 to 1,000.
    pub tail_lines: u32,
    /// Bytes from the end, after cleaning and redaction, 256 to 65,536.
    pub max_bytes: u32,
    /// Whether to redact credentials.
    pub redact: bool,
    /// Further patterns to redact.
    pub redact_patterns: Vec<Pattern>,
}

impl Default for LogPolicy {
    /// That of a spec without `logs`.
    fn default() -> Self {
        Self { tail_lines: 20, max_bytes: 4096, redact: true, redact_patterns: Vec::new() }
    }
}

/// A cleaned log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// The end of the text, at most the policy's lines and bytes, without blank lines at its end.
    pub text: String,
    /// Whether earlier lines, or the beginning of the first one, are missing.
    pub shortened: bool,
    /// Whether invalid UTF-8 was replaced by U+FFFD.
    pub lossy: bool,
    /// Whether the end of the text is masked because the user's patterns took too long.
    pub masked_whole: bool,
}

/// Cleans the end of a log. `cut` means that the bytes may start in the middle of a line. The first line is then removed,
/// because its first value may have lost its key. If that line is longer than 8 KiB or is the whole log, only a quarter
/// of the log and at most 8 KiB are removed.
#[must_use]
pub fn clean(raw: &[u8], cut: bool, policy: &LogPolicy) -> Cleaned {
    let margin = if cut { margin(raw) } else { 0 };
    let (head, rest) = raw.split_at(margin);
    let mut text = String::from_utf8_lossy(head).into_owned();
    let mark = text.len();
    text.push_str(&String::from_utf8_lossy(rest));
    let lossy = std::str::from_utf8(rest).is_err();

    let (text, mark) = remove_escapes(&text, mark);
    let from = if cut { shown_start(&text, mark) } else { 0 };
    let found = redact_patterns::find(&policy.redact_patterns, &text);
    let masked = Mask { credentials: policy.redact, patterns: &found.ranges, cut }.apply(&text, from);
    let (text, shortened) = last_lines(&collapse_carriage_returns(&masked), policy);
    Cleaned { text, shortened: shortened || cut, lossy, masked_whole: found.is_cut }
}

/// The text as one line, redacted, and whether its end is masked because the patterns took too long. If `…` marks that
/// the head of the text may be missing, its first line is removed, as by [`clean`].
pub(super) fn mask_line(text: &str, credentials: bool, patterns: &[Pattern]) -> (String, bool) {
    let (text, cut) = text.strip_prefix(CUT).map_or((text, false), |rest| (rest, true));
    let text = end_lines_at_cuts(text);
    let (text, mark) = remove_escapes(&text, if cut { margin(text.as_bytes()) } else { 0 });
    let from = if cut { shown_start(&text, mark) } else { 0 };
    let found = redact_patterns::find(patterns, &text);
    let masked = Mask { credentials, patterns: &found.ranges, cut }.apply(&text, from);
    (masked.split_whitespace().collect::<Vec<_>>().join(" "), found.is_cut)
}

/// The text with line breaks before the marks of cuts, which end it or a part of its sentence: a rule may need the end of a
/// line.
pub(super) fn end_lines_at_cuts(text: &str) -> Cow<'_, str> {
    if !text.contains(" …") {
        return Cow::Borrowed(text);
    }
    let text = text.replace(" …,", "\n…,").replace(" …;", "\n…;");
    Cow::Owned(text.strip_suffix(" …").map_or_else(|| text.clone(), |text| format!("{text}\n…")))
}

/// A log that lost its end, without the last word: too little of a secret may be left for it to be recognized. At most
/// 8 KiB are removed.
pub(super) fn without_last_word(raw: &[u8]) -> &[u8] {
    let word = raw.iter().rev().take(MARGIN).take_while(|byte| !byte.is_ascii_whitespace()).count();
    raw.get(..raw.len() - word).unwrap_or_default()
}

/// At most `limit` bytes of a line.
pub(super) fn shorten(line: &str, limit: usize) -> String {
    if line.len() <= limit {
        return line.to_owned();
    }
    let room = limit.saturating_sub('…'.len_utf8());
    let mut shown = line.get(..line.floor_char_boundary(room)).unwrap_or_default().to_owned();
    if limit >= '…'.len_utf8() {
        shown.push('…');
    }
    shown
}

/// The most bytes to remove from the head of a cut text, ending at a character boundary.
fn margin(raw: &[u8]) -> usize {
    let margin = (raw.len() / 4).min(MARGIN);
    let tail = raw.get(margin..).unwrap_or_default();
    margin + tail.iter().take(3).take_while(|&&byte| byte & 0b1100_0000 == 0b1000_0000).count()
}

/// Where the shown part of a cut text begins: after its first line or, if that is longer than the margin or is the whole
/// text, after the word at `mark`. Of a short text without a further word, nothing is shown.
fn shown_start(text: &str, mark: usize) -> usize {
    let head = text.get(..text.floor_char_boundary(MARGIN.max(mark))).unwrap_or_default();
    if let Some(end) = head.find('\n')
        && text.get(end..).is_some_and(|rest| !rest.trim().is_empty())
    {
        return end + 1;
    }
    let rest = text.get(mark..).unwrap_or_default();
    let blank = rest.char_indices().take(mark.max(SHORT)).find(|(_, letter)| letter.is_whitespace());
    let none = if rest.len() <= SHORT { rest.len() } else { 0 };
    mark + blank.map_or(none, |(at, letter)| at + letter.len_utf8())
}

/// Lets a carriage return overwrite its line, as on a terminal. The last state of a progress bar remains.
fn collapse_carriage_returns(text: &str) -> String {
    if !text.contains('\r') {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        shown.push_str(line.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or_default());
        shown.push_str(end);
    }
    shown
}

/// The last lines within the policy's bounds, and whether earlier ones were cut off.
fn last_lines(text: &str, policy: &LogPolicy) -> (String, bool) {
    let text = text.trim_end();
    let lines = usize::try_from(policy.tail_lines).unwrap_or(usize::MAX).max(1);
    let bytes = usize::try_from(policy.max_bytes).unwrap_or(usize::MAX);
    let by_lines = text.rmatch_indices('\n').nth(lines - 1).map_or(0, |(at, _)| at + 1);
    let by_bytes = text.ceil_char_boundary(text.len().saturating_sub(bytes));
    let from = by_lines.max(by_bytes);
    (text.get(from..).unwrap_or_default().to_owned(), from > 0)
}

#[cfg(test)]
mod tests;
