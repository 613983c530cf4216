//! What is asked of a log, and what came of it.

use std::hash::{Hash, Hasher};

use regex::Regex;

use crate::api::LogSource;

/// How much of a log is kept, and what is masked in it.
#[derive(Clone, Debug)]
pub struct LogPolicy {
    /// Lines from the end: 1 to 1,000.
    pub tail_lines: u32,
    /// Bytes from the end, after cleaning and masking: 256 to 65,536.
    pub max_bytes: u32,
    /// Whether credentials are masked.
    pub redact: bool,
    /// Further patterns whose matches are masked.
    pub redact_patterns: Vec<Regex>,
}

/// The end of a log, fit for a status: valid text without control characters, masked, within its
/// policy's bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Where it comes from.
    pub source: LogSource,
    /// The text; empty for [`LogSource::Unavailable`].
    pub text: String,
    /// Why there is none, or what was cut; often empty.
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
    /// No log, for a reason in plain words that quotes nothing of a log.
    #[must_use]
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self { source: LogSource::Unavailable, text: String::new(), note: why.into() }
    }
}
