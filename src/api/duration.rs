//! Durations in Go's syntax: `90s`, `1h30m`, `1.5h`. jiff reads other ones: not `.5s`, `1.5h30m` or `30m1h`, which the schema
//! accepts, but `5 minutes` and `PT5M`, which kubectl does not.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

/// A non-negative duration in the syntax of Go's `time.ParseDuration`, kept as the user wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GoDuration(String);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    #[error("is not a duration such as 90s, 5m or 1h30m")]
    Syntax,
    /// More than the 292 years that Go's 64 bits of nanoseconds hold.
    #[error("is longer than a duration can be")]
    Overflow,
}

impl GoDuration {
    /// # Errors
    /// When the text is not a duration. The schema rejects such texts, but an object may be older than the schema.
    pub fn parse(&self) -> Result<Duration, ParseDurationError> {
        parse(&self.0)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for GoDuration {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Formats whole seconds in the largest unit without a remainder: `168h`, not `604800s`.
pub(crate) fn whole(duration: Duration) -> String {
    match duration.as_secs() {
        0 => "0s".to_owned(),
        seconds if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

fn parse(text: &str) -> Result<Duration, ParseDurationError> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.is_empty() {
        return Err(ParseDurationError::Syntax);
    }
    let mut rest = text;
    // Whole nanoseconds up to a hundred days, which is more than any field of the spec allows.
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(ParseDurationError::Syntax)?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let unit = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3_600e9,
            _ => return Err(ParseDurationError::Syntax),
        };
        nanos += number.parse::<f64>().map_err(|_| ParseDurationError::Syntax)? * unit;
        rest = after;
    }
    if nanos > i64::MAX as f64 {
        return Err(ParseDurationError::Overflow);
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

impl FromStr for GoDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text)?;
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_syntax_of_go() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("1ns", 1),
            ("2us", 2_000),
            ("2µs", 2_000),
            ("3ms", 3_000_000),
            ("90s", 90_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1m0.001s", 60_001_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn rejects_other_texts() {
        use ParseDurationError::{Overflow, Syntax};
        for (text, error) in [
            ("", Syntax),
            ("5", Syntax),
            ("-5s", Syntax),
            ("5 s", Syntax),
            ("s", Syntax),
            (".s", Syntax),
            ("1.2.3s", Syntax),
            ("1d", Syntax),
            ("1é", Syntax),
            ("99999999999999999999s", Overflow),
            ("9999999h", Overflow),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }
}
