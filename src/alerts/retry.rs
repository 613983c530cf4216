//! Decides what follows an attempt to deliver a message: a table of outcomes. Pure.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};

use super::{
    address::AddressRefusal,
    formats::RenderError,
    times::{duration_between, later},
};
use crate::backoff::doubled;

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptOutcome {
    Answered {
        status: u16,
        /// The header `Retry-After`, parsed by [`retry_after`].
        retry_after: Option<Duration>,
    },
    /// A success whose body says that it is a failure for which another status stands.
    Reported {
        status: u16,
        /// The code of the error, from a closed set.
        code: &'static str,
        retry_after: Option<Duration>,
    },
    /// The receiver refuses the message for its content: 400, 413, 422, or a success that says so.
    Refused {
        status: u16,
        /// The code of the error, if it is one of a closed set.
        code: &'static str,
        /// The beginning of the answer. It may quote the message, but none of the request's secrets.
        words: String,
    },
    /// The webhook's template fails for this message, so nothing was sent.
    Unrendered(RenderError),
    /// DNS has no address for the host.
    Unresolved,
    /// Nothing listens at the port.
    ConnectionRefused,
    /// The connection failed for another reason.
    Unreachable,
    /// The connection broke after part of the request was sent.
    Interrupted,
    /// The webhook's timeout expired after part of the request was sent.
    TimedOut,
    /// The receiver's certificate is not trusted.
    Untrusted,
    AddressRefused(AddressRefusal),
    /// A Secret, a key or a permission is missing, or a value is invalid. The text contains no value of a Secret.
    Unusable(String),
}

/// The action after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    Delivered,
    /// Send the message again, rarely if a person has to change something first.
    Retry {
        at: Timestamp,
    },
    /// Send less: the message with less detail, or a part of it. If nothing can be left out, the same again, but later.
    Reduce {
        at: Timestamp,
        same_at: Timestamp,
    },
    /// Send nothing until the webhook or its Secret changes.
    Stop,
}

const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(5 * 60);
/// The limit for a receiver's `Retry-After`.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(60 * 60);
const PROBE_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// The same after 401, 403 and 404, at least and at most: a gateway gives these answers while the receiver behind it or its
/// credentials are replaced.
const REFUSAL_PROBE_INTERVAL: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(120)];
/// How many 403 or 404 answers in a row are retried quickly: a proxy's default backend gives them while the receiver is
/// rolled out.
const MAX_REFUSALS: u32 = 3;
/// The minimum wait after the first refusal; twice as long after the second. With jitter, all attempts are within a
/// minute.
const REFUSAL_BACKOFF: Duration = Duration::from_secs(10);

impl AttemptOutcome {
    /// Whether the receiver answered 403 or 404.
    #[must_use]
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Answered { status: 403 | 404, .. } | Self::Reported { status: 403 | 404, .. })
    }

    /// Whether the receiver may have processed the message although the attempt failed.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        match self {
            Self::Answered { status, .. } | Self::Reported { status, .. } => matches!(status, 408 | 500 | 502..=599),
            _ => matches!(self, Self::Interrupted | Self::TimedOut),
        }
    }

    /// A name from a closed set, for metrics.
    #[must_use]
    pub(crate) fn as_str(&self) -> &'static str {
        self.name_and_reason().0
    }

    /// [`reason`](Self::reason) with what the receiver says about a message that it refuses, for the status. It may quote the
    /// message, so it must not be logged.
    #[must_use]
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Refused { words, .. } if !words.is_empty() => format!("{}: “{words}”", self.reason()),
            Self::Unrendered(error) if !error.detail.is_empty() => format!("{}: “{}”", self.reason(), error.detail),
            _ => self.reason(),
        }
    }

    /// Why the attempt failed. Of the receiver's answer, it contains only the status code.
    #[must_use]
    pub fn reason(&self) -> String {
        self.name_and_reason().1
    }

    fn name_and_reason(&self) -> (&'static str, String) {
        let (name, reason) = match self {
            Self::Answered { status, .. } | Self::Reported { status, .. } | Self::Refused { status, .. } => {
                let (name, hint) = match status {
                    200..=299 => ("delivered", ", but says that it refuses the message"),
                    300..=399 => ("rejected", ": redirects are not followed, so the URL must be the final one"),
                    401 | 403 => ("rejected", ": it does not accept the credentials"),
                    404 => ("rejected", ": the webhook does not exist"),
                    410 => ("rejected", ": the webhook was deleted"),
                    413 => ("rejected", ": the message is too large"),
                    429 => ("rate_limited", ": too many messages"),
                    500..=599 => ("server_error", ""),
                    _ => ("rejected", ""),
                };
                let name = if matches!(self, Self::Refused { .. }) { "rejected" } else { name };
                let code = match self {
                    Self::Reported { code, .. } | Self::Refused { code, .. } if !code.is_empty() => {
                        format!(" ({code})")
                    }
                    _ => String::new(),
                };
                return (name, format!("the receiver answered {status}{code}{hint}"));
            }
            Self::Unrendered(error) => return ("unrendered", format!("the message cannot be rendered: {error}")),
            Self::AddressRefused(why) => {
                return ("address_refused", format!("the receiver's address is refused: {why}"));
            }
            Self::Unusable(problem) => ("unusable", problem.as_str()),
            Self::Unresolved => ("unresolved", "the host name of the receiver cannot be resolved"),
            Self::ConnectionRefused => ("connection_refused", "the receiver's host refuses the connection"),
            Self::Unreachable => ("unreachable", "no connection to the receiver"),
            Self::Interrupted => ("interrupted", "the connection broke before the receiver answered"),
            Self::TimedOut => ("timed_out", "the receiver did not answer in time"),
            Self::Untrusted => ("untrusted", "the receiver's certificate is not trusted"),
        };
        (name, reason.to_owned())
    }
}

/// Decides what follows an attempt. `failures` counts the failed ones since the last success, and `refusals` the answers 403 and
/// 404 in a row, both with this one.
///
/// `random` is from 0 to 1. The backoff has full jitter, so that many senders do not retry simultaneously.
#[must_use]
pub(super) fn decide(
    outcome: &AttemptOutcome,
    failures: u32,
    refusals: u32,
    now: Timestamp,
    random: f64,
) -> RetryDecision {
    use AttemptOutcome as Outcome;
    let after = |wait| later(now, wait).unwrap_or(Timestamp::MAX);
    let again = |asked: Option<Duration>| backoff(failures, random).max(asked.unwrap_or_default().min(MAX_WAIT));
    let between = |least: Duration, most: Duration| least + (most - least).mul_f64(fraction(random));
    let wait = match outcome {
        Outcome::Answered { status, retry_after } | Outcome::Reported { status, retry_after, .. } => match status {
            200..=299 => return RetryDecision::Delivered,
            410 => return RetryDecision::Stop,
            400 | 413 | 422 => None,
            403 | 404 if refusals < MAX_REFUSALS => {
                let least = REFUSAL_BACKOFF * refusals.max(1);
                Some(between(least, least * 2))
            }
            401 | 403 | 404 => Some(between(REFUSAL_PROBE_INTERVAL[0], REFUSAL_PROBE_INTERVAL[1])),
            408 | 425 | 429 | 500 | 502..=599 => Some(again(*retry_after)),
            _ => Some(PROBE_INTERVAL),
        },
        Outcome::Refused { .. } | Outcome::Unrendered(_) => None,
        Outcome::Unresolved
        | Outcome::ConnectionRefused
        | Outcome::Unreachable
        | Outcome::Interrupted
        | Outcome::TimedOut => Some(again(None)),
        Outcome::Untrusted | Outcome::AddressRefused(_) | Outcome::Unusable(_) => Some(PROBE_INTERVAL),
    };
    match wait {
        Some(wait) => RetryDecision::Retry { at: after(wait) },
        None => RetryDecision::Reduce { at: after(MIN_BACKOFF), same_at: after(PROBE_INTERVAL) },
    }
}

/// A random duration from one second to a limit that doubles with each failure, up to five minutes.
fn backoff(failures: u32, random: f64) -> Duration {
    let limit = doubled(MIN_BACKOFF, failures, MAX_BACKOFF);
    MIN_BACKOFF + (limit - MIN_BACKOFF).mul_f64(fraction(random))
}

fn fraction(random: f64) -> f64 {
    if random.is_finite() { random.clamp(0.0, 1.0) } else { 1.0 }
}

/// Parses the header `Retry-After`: seconds, possibly with a fraction, or an HTTP date.
#[must_use]
pub(super) fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        let wait = Duration::try_from_secs_f64(seconds).ok();
        return if seconds.is_finite() && seconds >= 0.0 { Some(wait.unwrap_or(Duration::MAX)) } else { None };
    }
    let date = DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(duration_between(now, date))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn answered(status: u16) -> AttemptOutcome {
        AttemptOutcome::Answered { status, retry_after: None }
    }

    fn retry(seconds: i64) -> RetryDecision {
        RetryDecision::Retry { at: Timestamp::from_second(seconds).unwrap() }
    }

    #[test]
    fn decides_by_status_code_or_error() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let (again, rarely) = (retry(2), retry(1_800));
        let less = RetryDecision::Reduce { at: at(1), same_at: at(1_800) };
        let of_status = |status| match status {
            200..=299 => RetryDecision::Delivered,
            401 | 403 | 404 => retry(120),
            410 => RetryDecision::Stop,
            400 | 413 | 422 => less,
            408 | 425 | 429 | 500 | 502..=599 => again,
            _ => rarely,
        };
        let statuses = (100..=599).map(|status| (answered(status), of_status(status)));
        let errors = [
            (AttemptOutcome::Unresolved, again),
            (AttemptOutcome::ConnectionRefused, again),
            (AttemptOutcome::Unreachable, again),
            (AttemptOutcome::Interrupted, again),
            (AttemptOutcome::TimedOut, again),
            (AttemptOutcome::Refused { status: 200, code: "", words: String::new() }, less),
            (AttemptOutcome::Unrendered(RenderError::new("body", None, "")), less),
            (AttemptOutcome::Untrusted, rarely),
            (AttemptOutcome::AddressRefused(AddressRefusal::LinkLocal), rarely),
            (AttemptOutcome::Unusable(String::new()), rarely),
        ];
        for (outcome, expected) in statuses.chain(errors) {
            assert_eq!(decide(&outcome, 1, 3, NOW, 1.0), expected, "{outcome:?}");
        }
    }

    #[test]
    fn backoff_grows_from_one_second_to_five_minutes() {
        let longest: Vec<_> = (0..=10).map(|failures| backoff(failures, 1.0).as_secs()).collect();
        assert_eq!(longest, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        for failures in [0, 1, 7, u32::MAX] {
            assert_eq!(backoff(failures, 0.0), MIN_BACKOFF);
            for random in [f64::NAN, f64::INFINITY, -3.0, 7.0, 0.5] {
                assert!((MIN_BACKOFF..=MAX_BACKOFF).contains(&backoff(failures, random)), "{failures} {random}");
            }
        }
        assert_eq!(backoff(3, 0.5), Duration::from_millis(4_500));
    }

    #[test]
    fn attempts_403_and_404_three_times_within_a_minute() {
        // Earlier failures of other kinds do not count.
        for (refusals, random, seconds) in
            [(1, 0.0, 10), (1, 0.5, 15), (1, 1.0, 20), (2, 0.0, 20), (2, 1.0, 40), (3, 0.0, 60), (9, 1.0, 120)]
        {
            for status in [403, 404] {
                assert_eq!(decide(&answered(status), 9, refusals, NOW, random), retry(seconds), "{refusals} {random}");
            }
        }
    }

    #[test]
    fn explains_status_codes_that_a_person_can_do_something_about() {
        for (status, hint) in [
            (302, ": redirects are not followed, so the URL must be the final one"),
            (401, ": it does not accept the credentials"),
            (403, ": it does not accept the credentials"),
            (404, ": the webhook does not exist"),
            (410, ": the webhook was deleted"),
            (413, ": the message is too large"),
            (429, ": too many messages"),
            (500, ""),
        ] {
            assert_eq!(answered(status).reason(), format!("the receiver answered {status}{hint}"));
        }
    }

    #[test]
    fn honours_retry_after_up_to_an_hour() {
        for (asked, waits) in [(3, 8), (90, 90), (u64::MAX, 3_600)] {
            let outcome = AttemptOutcome::Answered { status: 429, retry_after: Some(Duration::from_secs(asked)) };
            assert_eq!(decide(&outcome, 3, 0, NOW, 1.0), retry(waits), "the backoff is 8 s");
        }
    }

    #[test]
    fn parses_retry_after_as_seconds_or_a_date() {
        let now = "2026-07-01T10:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("120", Some(120_000)),
            (" 0 ", Some(0)),
            ("0.65", Some(650)),
            ("Wed, 01 Jul 2026 10:01:30 GMT", Some(90_000)),
            ("Wed, 01 Jul 2026 09:00:00 GMT", Some(0)),
            ("-1", None),
            ("NaN", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after(text, now).map(|wait| wait.as_millis()), expected, "{text}");
        }
        assert_eq!(retry_after("1e300", now), Some(Duration::MAX));
    }

    #[test]
    fn is_uncertain_only_if_the_request_may_have_arrived() {
        for status in [408, 500, 502, 503, 504] {
            assert!(answered(status).is_uncertain(), "{status}");
        }
        for status in [301, 400, 401, 403, 404, 410, 413, 425, 429, 501] {
            assert!(!answered(status).is_uncertain(), "{status}");
        }
        assert!(AttemptOutcome::TimedOut.is_uncertain() && AttemptOutcome::Interrupted.is_uncertain());
        assert!(!AttemptOutcome::Unreachable.is_uncertain() && !AttemptOutcome::Untrusted.is_uncertain());
    }
}
