//! Arithmetic with the times of a status.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The time from one instant to another; zero if the second is earlier.
pub(super) fn duration_between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// `None` beyond the year 9999.
pub(super) fn later(from: Timestamp, by: Duration) -> Option<Timestamp> {
    from.checked_add(by).ok()
}

pub(super) fn has_elapsed(since: Option<&Time>, duration: Duration, now: Timestamp) -> bool {
    since.is_some_and(|since| duration_between(since.0, now) >= duration)
}

pub(super) fn elapses_at(since: Option<&Time>, duration: Duration) -> Option<Timestamp> {
    since.and_then(|since| later(since.0, duration))
}

/// Truncates to whole seconds, as the API stores times: the status in memory then equals the stored one.
pub(super) fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_never_negative_and_times_never_overflow() {
        let (early, late) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(90).unwrap());
        assert_eq!(duration_between(early, late), Duration::from_secs(90));
        assert_eq!(duration_between(late, early), Duration::ZERO);
        assert_eq!(later(Timestamp::MAX, Duration::from_secs(1)), None);
        assert_eq!(later(early, Duration::MAX), None);
    }
}
