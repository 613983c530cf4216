//! What comes after an attempt to deliver: a table, and nothing else.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};

use super::{
    address::AddressRefusal,
    incident::{between, later},
};
use crate::backoff::doubled;

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptOutcome {
    /// The receiver answered.
    Answered {
        /// The HTTP status.
        status: u16,
        /// The header `Retry-After`, by [`retry_after`].
        retry_after: Option<Duration>,
    },
    /// The host's name is not known (DNS).
    Unresolved,
    /// The host is there, and nothing listens at the port.
    ConnectionRefused,
    /// No connection came about for another reason.
    Unreachable,
    /// The connection broke, after the request was begun.
    Interrupted,
    /// The webhook's timeout ended, after the request was begun.
    TimedOut,
    /// The receiver's certificate isn't one that we trust.
    Untrusted,
    /// The address isn't one that we connect to.
    AddressRefused(AddressRefusal),
    /// The webhook can't be used as it is: a Secret, a key or a right is missing, or a value in it is
    /// none. The text is ours, and names no value.
    Unusable(String),
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The receiver has taken it.
    Delivered,
    /// Send the same message again, not before.
    Retry {
        /// When.
        at: Timestamp,
    },
    /// Send the same message again with less in it, not before.
    Shrink {
        /// When.
        at: Timestamp,
    },
    /// Trying again soon is no use: a person must change something. Still, look again then.
    Probe {
        /// When.
        at: Timestamp,
    },
    /// Never again, until the webhook or its Secret changes.
    Stop,
}

/// The shortest time between two attempts.
const FIRST: Duration = Duration::from_secs(1);
/// The longest time between two attempts that the backoff asks for.
const LONGEST_BACKOFF: Duration = Duration::from_secs(5 * 60);
/// The longest time to the next attempt: a receiver may ask for so much.
pub(super) const LONGEST: Duration = Duration::from_secs(60 * 60);
/// How often something that a person must change is looked at again.
const PROBE: Duration = Duration::from_secs(30 * 60);
/// How many attempts in a row are answered with 403 or 404 before a person must change something: a proxy's default
/// backend answers so during a rollout of the receiver.
const REFUSALS: u32 = 3;
/// The least time to the second of them; twice as long to the third. With their jitter all are within a minute.
const REFUSED: Duration = Duration::from_secs(10);

impl AttemptOutcome {
    /// Whether the receiver answered 403 or 404.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Answered { status: 403 | 404, .. })
    }
}

impl AttemptOutcome {
    /// Whether the receiver may have taken the message although the attempt failed.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        match self {
            Self::Answered { status, .. } => matches!(status, 408 | 500 | 502..=599),
            Self::Interrupted | Self::TimedOut => true,
            Self::Unresolved
            | Self::ConnectionRefused
            | Self::Unreachable
            | Self::Untrusted
            | Self::AddressRefused(_)
            | Self::Unusable(_) => false,
        }
    }

    /// Why it failed, in words without anything that the receiver said but its status.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Answered { status, .. } => {
                let hint = match status {
                    300..=399 => ": redirects are not followed, the URL must be the final one",
                    401 | 403 => ": it wants other credentials",
                    404 => ": there is no such webhook",
                    410 => ": the webhook was deleted",
                    413 => ": the message is too large for it",
                    429 => ": too many messages",
                    _ => "",
                };
                format!("the receiver answered {status}{hint}")
            }
            Self::Unresolved => "the host name of the receiver cannot be resolved".to_owned(),
            Self::ConnectionRefused => "the receiver's host refuses the connection".to_owned(),
            Self::Unreachable => "no connection to the receiver".to_owned(),
            Self::Interrupted => "the connection broke before the receiver answered".to_owned(),
            Self::TimedOut => "the receiver did not answer in time".to_owned(),
            Self::Untrusted => "the receiver's certificate is not trusted".to_owned(),
            Self::AddressRefused(refusal) => format!("the receiver's address is refused: {refusal}"),
            Self::Unusable(problem) => problem.clone(),
        }
    }
}

/// The attempts that failed until now, this one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures {
    /// Since the last success.
    pub all: u32,
    /// Those of them that were answered with 403 or 404, in a row.
    pub refusals: u32,
}

/// What comes after the outcome of an attempt.
///
/// `random` is between 0 and 1: the backoff has full jitter, so that many senders don't come back at once.
#[must_use]
pub fn next(outcome: &AttemptOutcome, failures: Failures, now: Timestamp, random: f64) -> Step {
    let after = |wait| later(now, wait).unwrap_or(Timestamp::MAX);
    let again = |asked: Option<Duration>| {
        let asked = asked.unwrap_or_default().min(LONGEST);
        Step::Retry { at: after(backoff(failures.all, random).max(asked)) }
    };
    match outcome {
        AttemptOutcome::Answered { status, retry_after } => match status {
            200..=299 => Step::Delivered,
            403 | 404 if failures.refusals < REFUSALS => {
                let wait = REFUSED * failures.refusals.max(1);
                Step::Retry { at: after(wait + wait.mul_f64(fraction(random))) }
            }
            410 => Step::Stop,
            413 => Step::Shrink { at: after(FIRST) },
            501 => Step::Probe { at: after(PROBE) },
            408 | 425 | 429 | 500..=599 => again(*retry_after),
            _ => Step::Probe { at: after(PROBE) },
        },
        AttemptOutcome::Unresolved
        | AttemptOutcome::ConnectionRefused
        | AttemptOutcome::Unreachable
        | AttemptOutcome::Interrupted
        | AttemptOutcome::TimedOut => again(None),
        AttemptOutcome::Untrusted | AttemptOutcome::AddressRefused(_) | AttemptOutcome::Unusable(_) => {
            Step::Probe { at: after(PROBE) }
        }
    }
}

/// A wait between a second and a limit that doubles with each failure, up to five minutes.
fn backoff(failures: u32, random: f64) -> Duration {
    let limit = doubled(FIRST, failures, LONGEST_BACKOFF);
    FIRST + (limit - FIRST).mul_f64(fraction(random))
}

fn fraction(random: f64) -> f64 {
    if random.is_finite() { random.clamp(0.0, 1.0) } else { 1.0 }
}

/// Reads the header `Retry-After`: seconds, also with a fraction, or a date.
#[must_use]
pub fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        let wait = Duration::try_from_secs_f64(seconds).ok();
        return if seconds.is_finite() && seconds >= 0.0 { Some(wait.unwrap_or(Duration::MAX)) } else { None };
    }
    let date = DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(between(now, date))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn answered(status: u16) -> AttemptOutcome {
        AttemptOutcome::Answered { status, retry_after: None }
    }

    fn failures(all: u32) -> Failures {
        Failures { all, refusals: 0 }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn each_status_has_its_step() {
        for status in 100..=599_u16 {
            let expected = match status {
                200..=299 => Step::Delivered,
                408 | 425 | 429 => Step::Retry { at: at(2) },
                410 => Step::Stop,
                413 => Step::Shrink { at: at(1) },
                500 | 502..=599 => Step::Retry { at: at(2) },
                _ => Step::Probe { at: at(1_800) },
            };
            let tired = Failures { all: 1, refusals: 3 };
            assert_eq!(next(&answered(status), tired, NOW, 1.0), expected, "{status}");
        }
        for outcome in [
            AttemptOutcome::Unresolved,
            AttemptOutcome::ConnectionRefused,
            AttemptOutcome::Unreachable,
            AttemptOutcome::Interrupted,
            AttemptOutcome::TimedOut,
        ] {
            assert_eq!(next(&outcome, failures(1), NOW, 0.0), Step::Retry { at: at(1) }, "{outcome:?}");
        }
        for outcome in [
            AttemptOutcome::Untrusted,
            AttemptOutcome::AddressRefused(AddressRefusal::LinkLocal),
            AttemptOutcome::Unusable(String::new()),
        ] {
            assert_eq!(next(&outcome, failures(1), NOW, 0.0), Step::Probe { at: at(1_800) }, "{outcome:?}");
        }
    }

    #[test]
    fn the_backoff_grows_from_a_second_to_five_minutes() {
        let longest: Vec<_> = (0..=10).map(|failures| backoff(failures, 1.0).as_secs()).collect();
        assert_eq!(longest, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        for failures in [0, 1, 7, u32::MAX] {
            assert_eq!(backoff(failures, 0.0), FIRST);
            for random in [f64::NAN, f64::INFINITY, -3.0, 7.0, 0.5] {
                assert!((FIRST..=LONGEST_BACKOFF).contains(&backoff(failures, random)), "{failures} {random}");
            }
        }
        assert_eq!(backoff(3, 0.5), Duration::from_millis(4_500));
    }

    #[test]
    fn a_403_or_404_is_tried_three_times_within_a_minute() {
        for status in [403, 404] {
            for random in [0.0, 0.5, 1.0] {
                let (mut now, mut tries) = (NOW, 1);
                // Other failures before it do not count.
                while let Step::Retry { at } =
                    next(&answered(status), Failures { all: 9, refusals: tries }, now, random)
                {
                    (now, tries) = (at, tries + 1);
                }
                assert_eq!(tries, 3, "{status}");
                assert!(now <= at(60), "{status}: the third try is at {now}");
            }
        }
    }

    #[test]
    fn a_receiver_is_given_the_time_it_asks_for_up_to_an_hour() {
        let step = |asked| {
            next(
                &AttemptOutcome::Answered { status: 429, retry_after: Some(Duration::from_secs(asked)) },
                failures(3),
                NOW,
                1.0,
            )
        };
        assert_eq!(step(3), Step::Retry { at: at(8) }, "the backoff is longer");
        assert_eq!(step(90), Step::Retry { at: at(90) });
        assert_eq!(step(u64::MAX), Step::Retry { at: at(3_600) });
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
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
    fn only_what_may_have_arrived_is_uncertain() {
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
