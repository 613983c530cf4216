//! The end of a log as the kubelet sent it, and the part of it that a policy shows.

use std::fmt;

use arcstr::ArcStr;

use super::{
    clean::{Cleaned, LogPolicy, clean, end_lines_at_cuts},
    telling_line::telling_line,
};
use crate::{api::LogSource, partial_text::CUT};

/// Additional lines for redaction: a private key of 4096 bits has 52.
const CONTEXT_LINES: usize = 64;

/// The buffer is larger than `maxBytes` by this factor, because redaction and the removal of escape sequences shorten the
/// text.
const BUFFER_FACTOR: usize = 4;

/// The longest termination message that is certainly complete, in bytes: the kubelet keeps 2048 if it takes the message
/// from the end of the log.
const COMPLETE_MESSAGE: usize = 2047;

/// The end of a log, cleaned and redacted, within the bounds of its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    pub source: LogSource,
    /// Empty for [`LogSource::Unavailable`]. Shared: each reconcile looks up the tails of all failing containers, and may show
    /// only a small part of them.
    pub text: ArcStr,
    /// The line of a log that says most about why the program ended, see [`telling_line`]; may be empty.
    pub telling_line: ArcStr,
    /// Why there is no text, or what is missing from it; may be empty.
    pub note: String,
}

impl Tail {
    /// A tail without a text. The note must not quote a log.
    #[must_use]
    pub(crate) fn unavailable(note: impl Into<String>) -> Self {
        Self { source: LogSource::Unavailable, text: ArcStr::new(), telling_line: ArcStr::new(), note: note.into() }
    }
}

/// How much of a log a policy needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    lines: u32,
    bytes: u32,
}

impl Need {
    /// That of the default policy. A smaller policy needs no smaller read.
    const LEAST: Self = Self { lines: 20, bytes: 8 * 1024 };
    /// That of the largest policy.
    pub(super) const MOST: Self = Self { lines: 1000, bytes: 64 * 1024 };

    #[must_use]
    pub fn of(policy: &LogPolicy) -> Self {
        Self { lines: policy.tail_lines, bytes: policy.max_bytes }.or(Self::LEAST)
    }

    /// Enough for both, at most [`Need::MOST`].
    pub(super) fn or(self, other: Self) -> Self {
        let Self { lines, bytes } = Self::MOST;
        Self { lines: self.lines.max(other.lines).min(lines), bytes: self.bytes.max(other.bytes).min(bytes) }
    }

    pub(super) fn covers(self, other: Self) -> bool {
        self.lines >= other.lines && self.bytes >= other.bytes
    }

    /// How many lines to request: more than are shown, because redaction of a line may depend on the lines before it.
    pub(super) fn lines(self) -> usize {
        usize::try_from(self.lines).unwrap_or(usize::MAX).saturating_add(CONTEXT_LINES)
    }

    /// How many bytes of these lines to keep.
    pub(super) fn capacity(self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX).saturating_mul(BUFFER_FACTOR)
    }
}

/// The end of a log before cleaning and redaction, or why it could not be read. It is never shown or logged itself.
#[derive(Clone, PartialEq, Eq)]
pub struct LogEnd {
    pub(super) bytes: Box<[u8]>,
    /// What was read, if the log may have more.
    pub(super) read: Need,
    /// Whether the first line may be incomplete.
    pub(super) is_cut: bool,
    /// Whether fewer lines were requested than needed, because they are too long.
    pub(super) has_fewer_lines: bool,
    /// Why the log or a part of it is missing; may be empty.
    pub(super) note: String,
}

impl LogEnd {
    /// A log that could not be read. The note must not quote it.
    #[must_use]
    pub(super) fn missing(note: impl Into<String>) -> Self {
        let note = note.into();
        Self { bytes: Box::default(), read: Need::MOST, is_cut: false, has_fewer_lines: false, note }
    }

    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether another read could not show more under a policy that needs this much.
    #[must_use]
    pub(super) fn covers(&self, need: Need) -> bool {
        !self.is_cut || self.has_fewer_lines || self.read.covers(need)
    }

    /// The part that a policy shows, cleaned and redacted: the same, however much more was read. If there is no text, the
    /// termination message replaces it. The source is Current also if the instance is the previous one by now.
    #[must_use]
    pub fn show(&self, policy: &LogPolicy, termination_message: &str) -> Tail {
        let (body, is_cut) = self.needed(Need::of(policy));
        let cleaned = clean(body, is_cut, policy);
        if cleaned.text.trim().is_empty() {
            let note = if self.note.is_empty() { "the log is empty" } else { &self.note };
            return without_log(termination_message, note, policy);
        }
        tail(LogSource::Current, cleaned, self.note.clone(), self.has_fewer_lines)
    }

    /// The end that this need would have read, and whether its first line may be incomplete.
    fn needed(&self, need: Need) -> (&[u8], bool) {
        let start = self.bytes.len().saturating_sub(need.capacity());
        let body = self.bytes.get(start..).unwrap_or_default();
        let mut breaks = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
        // The last line ends with the first of these, if it is complete.
        let nth = need.lines() - usize::from(!body.ends_with(b"\n"));
        let line = breaks.nth(nth).map_or(0, |at| at + 1);
        (body.get(line..).unwrap_or_default(), self.is_cut || start > 0 || line > 0)
    }
}

impl fmt::Debug for LogEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, note, .. } = self;
        f.debug_struct("LogEnd").field("bytes", &bytes.len()).field("note", note).finish_non_exhaustive()
    }
}

/// The termination message, if the instance left one, or else nothing but the note.
fn without_log(message: &str, note: &str, policy: &LogPolicy) -> Tail {
    let (message, has_lost_head) = message.strip_prefix(CUT).map_or((message, false), |rest| (rest, true));
    let message = end_lines_at_cuts(message);
    let cleaned = clean(message.as_bytes(), has_lost_head || message.len() > COMPLETE_MESSAGE, policy);
    if cleaned.text.trim().is_empty() {
        return Tail::unavailable(note);
    }
    tail(LogSource::TerminationMessage, cleaned, note.to_owned(), false)
}

fn tail(source: LogSource, cleaned: Cleaned, note: String, has_fewer_lines: bool) -> Tail {
    let mut notes = vec![note];
    if cleaned.shortened || has_fewer_lines {
        notes.push("earlier lines left out".to_owned());
    }
    if cleaned.masked_whole {
        notes.push(
            "masked to the end, because spec.logs.redactPatterns take too long on this text or are wrong".to_owned(),
        );
    }
    if cleaned.lossy {
        notes.push("invalid UTF-8 is shown as U+FFFD".to_owned());
    }
    notes.retain(|note| !note.is_empty());
    // A termination message is not a log.
    let telling_line = match source {
        LogSource::TerminationMessage => String::new(),
        _ => telling_line(&cleaned.text),
    };
    Tail { source, text: cleaned.text.into(), telling_line: telling_line.into(), note: notes.join("; ") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::logs::MASK;

    fn policy(tail_lines: u32, max_bytes: u32) -> LogPolicy {
        LogPolicy { tail_lines, max_bytes, redact: true, redact_patterns: Vec::new() }
    }

    /// What a read for this need returns of a log.
    fn read(log: &str, need: Need) -> LogEnd {
        let from = log.trim_end_matches('\n').rmatch_indices('\n').nth(need.lines() - 1).map_or(0, |(at, _)| at + 1);
        let lines = &log.as_bytes()[from..];
        let bytes = &lines[lines.len().saturating_sub(need.capacity())..];
        LogEnd {
            bytes: bytes.into(),
            read: need,
            is_cut: bytes.len() < log.len(),
            has_fewer_lines: false,
            note: String::new(),
        }
    }

    #[test]
    fn masks_a_credential_in_the_kept_end() {
        let end = read("password=hunter2\nlast\n", Need::LEAST);
        assert_eq!(end.show(&policy(20, 4096), "").text, format!("password={MASK}\nlast"));
        let open = LogPolicy { redact: false, ..policy(20, 4096) };
        assert_eq!(end.show(&open, "").text, "password=hunter2\nlast", "each policy by itself");
        assert!(!format!("{end:?}").contains("hunter"));
    }

    #[test]
    fn a_policy_needs_a_further_read_only_if_the_log_has_more() {
        let log: String = (0..2000).map(|line| format!("line {line}\n")).collect();
        let end = read(&log, Need::of(&policy(1, 256)));
        assert!(end.covers(Need::of(&policy(20, 8192))) && !end.covers(Need::of(&policy(21, 256))));
        assert!(read("short\n", Need::LEAST).covers(Need::MOST), "the whole log was read");
        assert!(LogEnd::missing("gone").covers(Need::MOST));
    }

    proptest! {
        /// Whatever was read in addition for another policy, a policy shows the same text.
        #[test]
        fn shows_the_same_however_much_was_read(
            lengths in prop::collection::vec(prop_oneof![9 => 0..200_usize, 1 => 0..9000_usize], 0..400),
            ends_with_break in any::<bool>(),
            (tail_lines, max_bytes) in (1..400_u32, 256..20_000_u32),
        ) {
            let lines = (0..).zip(lengths).map(|(number, length)| format!("{number} {}", "€".repeat(length / 3)));
            let mut log = lines.collect::<Vec<_>>().join("\n");
            log.push_str(if ends_with_break { "\n" } else { "" });
            let policy = policy(tail_lines, max_bytes);
            let (shallow, deep) = (read(&log, Need::of(&policy)), read(&log, Need::MOST));
            prop_assert!(deep.covers(Need::of(&policy)));
            prop_assert_eq!(shallow.show(&policy, ""), deep.show(&policy, ""));
        }
    }
}
