//! Which part of a log to keep, and the kept part.

use arcstr::ArcStr;

use crate::api::LogSource;

use super::Pattern;

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

/// The end of a log, cleaned and redacted, within the bounds of its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    pub source: LogSource,
    /// Empty for [`LogSource::Unavailable`]. Shared: each reconcile looks up the tails of all failing containers, and may show
    /// only a small part of them.
    pub text: ArcStr,
    /// The line of a log that says most about why the program ended, see [`telling_line`](super::telling_line); may be empty.
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
