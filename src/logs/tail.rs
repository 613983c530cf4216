//! Which part of a log to keep, and the kept part.

use std::hash::{Hash, Hasher};

use regex::Regex;

use crate::api::LogSource;

/// How much of a log to keep, and what to redact.
#[derive(Clone, Debug)]
pub struct LogPolicy {
    /// Lines from the end, 1 to 1,000.
    pub tail_lines: u32,
    /// Bytes from the end, after cleaning and redaction, 256 to 65,536.
    pub max_bytes: u32,
    /// Whether to redact credentials.
    pub redact: bool,
    /// Further patterns to redact.
    pub redact_patterns: Vec<Regex>,
}

/// The end of a log, cleaned and redacted, within the bounds of its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    pub source: LogSource,
    /// Empty for [`LogSource::Unavailable`].
    pub text: String,
    /// Why there is no text, or what is missing from it; may be empty.
    pub note: String,
}

impl PartialEq for LogPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.tail_lines == other.tail_lines
            && self.max_bytes == other.max_bytes
            && self.redact == other.redact
            && self.redact_patterns.iter().map(Regex::as_str).eq(other.redact_patterns.iter().map(Regex::as_str))
    }
}

impl Eq for LogPolicy {}

impl Hash for LogPolicy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.tail_lines, self.max_bytes, self.redact).hash(state);
        for pattern in &self.redact_patterns {
            pattern.as_str().hash(state);
        }
    }
}

impl Tail {
    /// A tail without a text. The note must not quote a log.
    #[must_use]
    pub(crate) fn unavailable(note: impl Into<String>) -> Self {
        Self { source: LogSource::Unavailable, text: String::new(), note: note.into() }
    }
}
