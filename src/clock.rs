//! The cluster's clock.
//!
//! The times of pods are written by the cluster's machines, and compared with the present. If the operator's own
//! clock differs from theirs by minutes, a starting pod looks as if it had been stuck for long, or the other way
//! round. The `Date` of the API server's responses gives the difference.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderMap, Request, Response, header};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822::DateTimeParser};
use kube::{Client, client::Body};
use tokio::time::Instant;

/// A smaller difference is the resolution of `Date`, which has whole seconds, and the time on the way.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(2);
/// A larger difference is not believed: a proxy's made-up `Date`, or a machine that woke up in 1970.
const LIMIT: SignedDuration = SignedDuration::from_hours(24);
/// A response that took longer says too little about the present.
const SLOWEST: Duration = Duration::from_secs(5);
/// How many measurements count. Their median ignores the odd one out.
const MEASUREMENTS: usize = 5;
/// How long a measurement counts: either clock may have been set since.
const LIFETIME: Duration = Duration::from_secs(10 * 60);
/// A change that is worth a line in the log.
const NOTABLE: SignedDuration = SignedDuration::from_secs(10);

/// The time as the API server has it. Clones share what they know.
#[derive(Clone, Debug, Default)]
pub struct ClusterClock(Arc<Mutex<Estimate>>);

impl ClusterClock {
    /// The present, by the cluster's clock; by our own until the API server has answered.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        now.checked_add(self.estimate().offset).unwrap_or(now)
    }

    /// The same client, whose responses set this clock.
    #[must_use]
    pub fn wrap_client(&self, client: Client) -> Client {
        let clock = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, clock) = (client.clone(), clock.clone());
            async move {
                let sent = Instant::now();
                let response: Response<Body> = client.send(request).await?;
                clock.observe(response.headers(), sent);
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, namespace)
    }

    fn observe(&self, headers: &HeaderMap, sent: Instant) {
        let (now, wall) = (Instant::now(), Timestamp::now());
        let date = headers.get(header::DATE).and_then(|date| date.to_str().ok());
        let Some(date) = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok()) else { return };
        // The header is cut off to seconds: half of one is missing on average.
        let offset = date.duration_since(wall) + SignedDuration::from_millis(500);
        match self.estimate().measured(offset, now.saturating_duration_since(sent), now) {
            News::None => {}
            News::Moved(offset) => {
                let seconds = offset.as_secs();
                tracing::info!(seconds, "the cluster's clock differs from ours: times are compared with the cluster's");
            }
            News::Absurd => {
                let hours = offset.as_hours();
                tracing::warn!(hours, "the API server's clock differs from ours by more than a day: it is ignored");
            }
        }
    }

    fn estimate(&self) -> MutexGuard<'_, Estimate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far the cluster's clock is ahead of ours, from the latest measurements.
#[derive(Debug, Default)]
struct Estimate {
    measurements: VecDeque<(Instant, SignedDuration)>,
    offset: SignedDuration,
    /// The offset that the log last told.
    told: SignedDuration,
    has_warned: bool,
}

/// What the log should say.
#[derive(Debug, PartialEq, Eq)]
enum News {
    None,
    /// The clocks differ by this much, which is new.
    Moved(SignedDuration),
    /// The measurement can't be believed; said once.
    Absurd,
}

impl Estimate {
    fn measured(&mut self, offset: SignedDuration, took: Duration, now: Instant) -> News {
        if offset.abs() > LIMIT {
            return if std::mem::replace(&mut self.has_warned, true) { News::None } else { News::Absurd };
        }
        if took > SLOWEST {
            return News::None;
        }
        self.measurements.retain(|(at, _)| now.saturating_duration_since(*at) < LIFETIME);
        if self.measurements.len() == MEASUREMENTS {
            self.measurements.pop_front();
        }
        self.measurements.push_back((now, offset));
        let mut offsets: Vec<_> = self.measurements.iter().map(|(_, offset)| *offset).collect();
        offsets.sort_unstable();
        let median = offsets[offsets.len() / 2];
        self.offset = if median.abs() < TOLERANCE { SignedDuration::ZERO } else { median };
        if (self.offset - self.told).abs() < NOTABLE {
            return News::None;
        }
        self.told = self.offset;
        News::Moved(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_millis(3);

    fn seconds(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    /// The offset after each of these measurements, one a second.
    fn offsets(measured: &[(i64, Duration)]) -> Vec<i64> {
        let (mut estimate, start) = (Estimate::default(), Instant::now());
        let mut at = start;
        measured
            .iter()
            .map(|(offset, took)| {
                at += Duration::from_secs(1);
                estimate.measured(seconds(*offset), *took, at);
                estimate.offset.as_secs()
            })
            .collect()
    }

    #[test]
    fn the_first_measurement_counts_immediately() {
        assert_eq!(offsets(&[(480, FAST)]), [480]);
        assert_eq!(offsets(&[(-480, FAST)]), [-480]);
    }

    #[test]
    fn small_differences_are_ignored() {
        assert_eq!(offsets(&[(1, FAST), (-1, FAST), (0, FAST)]), [0, 0, 0]);
    }

    #[test]
    fn one_odd_measurement_changes_nothing_and_a_lasting_change_is_followed() {
        let measured = [480, 480, 480, -3600, 480, 0, 0, 0].map(|offset| (offset, FAST));
        assert_eq!(offsets(&measured), [480, 480, 480, 480, 480, 480, 0, 0]);
    }

    #[test]
    fn slow_responses_and_absurd_dates_do_not_count() {
        let slow = SLOWEST + Duration::from_millis(1);
        assert_eq!(offsets(&[(480, slow), (60, SLOWEST), (25 * 3600, FAST), (-25 * 3600, FAST)]), [0, 60, 60, 60]);
    }

    #[test]
    fn old_measurements_do_not_outvote_new_ones() {
        let (mut estimate, start) = (Estimate::default(), Instant::now());
        for _ in 0..MEASUREMENTS {
            estimate.measured(seconds(480), FAST, start);
        }
        estimate.measured(seconds(0), FAST, start + LIFETIME);
        assert_eq!(estimate.offset, SignedDuration::ZERO);
    }

    #[test]
    fn the_log_says_each_thing_once() {
        let (mut estimate, now) = (Estimate::default(), Instant::now());
        let mut news = |offset| estimate.measured(seconds(offset), FAST, now);
        assert_eq!(news(5), News::None, "not worth a line");
        assert_eq!(news(480), News::Moved(seconds(480)));
        assert_eq!(news(481), News::None);
        assert_eq!(news(90_000), News::Absurd);
        assert_eq!(news(-90_000), News::None);
    }

    #[test]
    fn the_present_is_that_of_the_header() {
        let clock = ClusterClock::default();
        let mut headers = HeaderMap::new();
        let server = Timestamp::now() - seconds(3600);
        let date = server.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        headers.insert(header::DATE, date.parse().unwrap());
        clock.observe(&headers, Instant::now());
        assert!(clock.now().duration_since(server).abs() < seconds(2), "{} is not {server}", clock.now());
        headers.insert(header::DATE, "yesterday".parse().unwrap());
        clock.observe(&headers, Instant::now());
        assert!(clock.now().duration_since(server).abs() < seconds(2));
    }
}
