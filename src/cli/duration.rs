//! Durations as flags accept them.

use std::time::Duration;

use crate::api::{GoDuration, ParseDurationError};

/// Parses a duration such as `90s` or `1h30m`.
pub(super) fn duration(text: &str) -> Result<Duration, ParseDurationError> {
    GoDuration::from(text).parse()
}
