//! The cluster's clock, estimated from the `Date` header of the API server's responses.
//!
//! The times in a pod are written by machines of the cluster and compared with the present. If the operator's own clock
//! differed from theirs by minutes, a starting pod would seem to be stuck, or a stuck pod to be starting.
//!
//! Between two responses, time passes by the monotonic clock. Setting our clock must not start or end a problem. It is read
//! once, at the start, and otherwise only if the cluster's clock differs from it by more than a day.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822::DateTimeParser};
use kube::{Client, client::Body};
use tokio::time::Instant;

/// How far the clocks of nodes and of the API server may differ from ours. Times further in the future are ignored.
pub(crate) const MAX_SKEW: SignedDuration = SignedDuration::from_mins(10);

/// Smaller offsets are ignored: `Date` has whole seconds, and the response took some time.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(2);
/// Larger offsets are ignored: a proxy may set a wrong `Date`, and a machine may boot with its clock in 1970.
const MAX_OFFSET: SignedDuration = SignedDuration::from_hours(24);
/// Slower responses are ignored.
const MAX_LATENCY: Duration = Duration::from_secs(5);
/// How many measurements are kept. Their median is the offset.
const MEASUREMENTS: usize = 5;
/// How long a measurement is used: either clock may be set at any time.
const MAX_AGE: Duration = Duration::from_secs(10 * 60);
/// A change of the offset that is logged.
const NOTABLE: SignedDuration = SignedDuration::from_secs(10);

/// The API server's time. Clones share the estimate.
#[derive(Clone, Debug, Default)]
pub struct ClusterClock(Arc<Mutex<Estimate>>);

impl ClusterClock {
    /// The present by the cluster's clock, or by ours until the API server has responded.
    #[must_use]
    pub(crate) fn now(&self) -> Timestamp {
        self.estimate().at(Instant::now())
    }

    /// Returns a client whose responses update this clock. Calls `count` after each request, with the status code if there
    /// was an answer.
    #[must_use]
    pub(crate) fn wrap_client(
        &self,
        client: Client,
        count: impl Fn(&Method, &Uri, Option<StatusCode>) + Clone + Send + Sync + 'static,
    ) -> Client {
        let clock = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, clock, count) = (client.clone(), clock.clone(), count.clone());
            async move {
                let sent = Instant::now();
                let (method, uri) = (request.method().clone(), request.uri().clone());
                let response: kube::Result<Response<Body>> = client.send(request).await;
                count(&method, &uri, response.as_ref().ok().map(Response::status));
                let response = response?;
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
        // The header is truncated to seconds, so half a second is missing on average.
        let date = date.saturating_add(SignedDuration::from_millis(500)).unwrap_or(date);
        let mut estimate = self.estimate();
        estimate.follow(wall, date, now);
        let offset = date.duration_since(estimate.local(now));
        match estimate.add(offset, now.saturating_duration_since(sent), now) {
            Notice::None => {}
            Notice::Offset(offset) => {
                let seconds = offset.as_secs();
                tracing::info!(seconds, "the cluster's clock differs from ours: times are compared with the cluster's");
            }
            Notice::TooLarge => {
                let hours = offset.as_hours();
                tracing::warn!(hours, "the API server's clock differs from ours by more than a day: it is ignored");
            }
        }
    }

    fn estimate(&self) -> MutexGuard<'_, Estimate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far the cluster's clock is ahead of the local time: that of our clock at the start, and what has passed since by the
/// monotonic clock.
#[derive(Debug)]
struct Estimate {
    start: (Instant, Timestamp),
    measurements: VecDeque<(Instant, SignedDuration)>,
    offset: SignedDuration,
    last_logged: SignedDuration,
    has_warned: bool,
}

/// A message to log after a measurement.
#[derive(Debug, PartialEq, Eq)]
enum Notice {
    None,
    /// The offset has changed.
    Offset(SignedDuration),
    /// The offset is too large to be true; logged once.
    TooLarge,
}

impl Default for Estimate {
    fn default() -> Self {
        Self::new(Instant::now(), Timestamp::now())
    }
}

impl Estimate {
    fn new(now: Instant, wall: Timestamp) -> Self {
        Self {
            start: (now, wall),
            measurements: VecDeque::new(),
            offset: SignedDuration::ZERO,
            last_logged: SignedDuration::ZERO,
            has_warned: false,
        }
    }

    fn local(&self, now: Instant) -> Timestamp {
        let (start, wall) = self.start;
        wall.saturating_add(now.saturating_duration_since(start)).unwrap_or(wall)
    }

    /// The cluster's time.
    fn at(&self, now: Instant) -> Timestamp {
        let local = self.local(now);
        local.saturating_add(self.offset).unwrap_or(local)
    }

    /// Starts again from our clock if it agrees with the cluster's now, and did not at the start: a machine may boot with its
    /// clock in 1970.
    fn follow(&mut self, wall: Timestamp, date: Timestamp, now: Instant) {
        let is_far = |time: Timestamp| date.duration_since(time).abs() > MAX_OFFSET;
        if is_far(self.local(now)) && !is_far(wall) {
            *self = Self { last_logged: self.last_logged, ..Self::new(now, wall) };
        }
    }

    fn add(&mut self, offset: SignedDuration, latency: Duration, now: Instant) -> Notice {
        if offset.abs() > MAX_OFFSET {
            return if std::mem::replace(&mut self.has_warned, true) { Notice::None } else { Notice::TooLarge };
        }
        if latency > MAX_LATENCY {
            return Notice::None;
        }
        self.measurements.retain(|(at, _)| now.saturating_duration_since(*at) < MAX_AGE);
        if self.measurements.len() == MEASUREMENTS {
            self.measurements.pop_front();
        }
        self.measurements.push_back((now, offset));
        let mut offsets: Vec<_> = self.measurements.iter().map(|(_, offset)| *offset).collect();
        offsets.sort_unstable();
        let median = offsets[offsets.len() / 2];
        self.offset = if median.abs() < TOLERANCE { SignedDuration::ZERO } else { median };
        if (self.offset - self.last_logged).abs() < NOTABLE {
            return Notice::None;
        }
        self.last_logged = self.offset;
        Notice::Offset(self.offset)
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
                estimate.add(seconds(*offset), *took, at);
                estimate.offset.as_secs()
            })
            .collect()
    }

    #[test]
    fn uses_the_first_measurement_immediately() {
        assert_eq!(offsets(&[(480, FAST)]), [480]);
        assert_eq!(offsets(&[(-480, FAST)]), [-480]);
    }

    #[test]
    fn ignores_small_offsets() {
        assert_eq!(offsets(&[(1, FAST), (-1, FAST), (0, FAST)]), [0, 0, 0]);
    }

    #[test]
    fn ignores_an_outlier_and_follows_a_lasting_change() {
        let measured = [480, 480, 480, -3600, 480, 0, 0, 0].map(|offset| (offset, FAST));
        assert_eq!(offsets(&measured), [480, 480, 480, 480, 480, 480, 0, 0]);
    }

    #[test]
    fn ignores_slow_responses_and_implausible_dates() {
        let slow = MAX_LATENCY + Duration::from_millis(1);
        assert_eq!(offsets(&[(480, slow), (60, MAX_LATENCY), (25 * 3600, FAST), (-25 * 3600, FAST)]), [0, 60, 60, 60]);
    }

    #[test]
    fn drops_old_measurements() {
        let (mut estimate, start) = (Estimate::default(), Instant::now());
        for _ in 0..MEASUREMENTS {
            estimate.add(seconds(480), FAST, start);
        }
        estimate.add(seconds(0), FAST, start + MAX_AGE);
        assert_eq!(estimate.offset, SignedDuration::ZERO);
    }

    #[test]
    fn logs_each_change_once() {
        let (mut estimate, now) = (Estimate::default(), Instant::now());
        let mut add = |offset| estimate.add(seconds(offset), FAST, now);
        assert_eq!(add(5), Notice::None, "not worth a line");
        assert_eq!(add(480), Notice::Offset(seconds(480)));
        assert_eq!(add(481), Notice::None);
        assert_eq!(add(90_000), Notice::TooLarge);
        assert_eq!(add(-90_000), Notice::None);
    }

    #[test]
    fn our_own_clock_may_be_set_at_any_time() {
        let (start, wall) = (Instant::now(), Timestamp::now());
        for ahead in [0, 480] {
            let mut estimate = Estimate::new(start, wall);
            for second in 0..100_u32 {
                // It is set back by five minutes after ten seconds, and forward by an hour after fifty.
                let step = [0, -300, 3600][usize::from(second >= 10) + usize::from(second >= 50)];
                let (now, passed) = (start + Duration::from_secs(second.into()), seconds(second.into()));
                let theirs = wall + passed + seconds(ahead);
                estimate.follow(wall + passed + seconds(step), theirs, now);
                if second % 7 == 0 {
                    estimate.add(theirs.duration_since(estimate.local(now)), FAST, now);
                }
                assert_eq!(estimate.at(now), theirs, "after {second} s");
            }
        }
    }

    #[test]
    fn follows_our_own_clock_once_it_agrees_with_the_cluster() {
        let (start, theirs) = (Instant::now(), Timestamp::now());
        let mut estimate = Estimate::new(start, Timestamp::UNIX_EPOCH);
        let mut measure = |wall, second| {
            let (now, theirs) = (start + Duration::from_secs(second), theirs + Duration::from_secs(second));
            estimate.follow(wall, theirs, now);
            estimate.add(theirs.duration_since(estimate.local(now)), FAST, now);
            estimate.at(now).duration_since(theirs).as_secs()
        };
        assert!(measure(Timestamp::UNIX_EPOCH, 1) < -MAX_OFFSET.as_secs(), "such an offset is not believed");
        assert_eq!(measure(theirs + Duration::from_secs(5), 5), 0);
        assert_eq!(measure(Timestamp::UNIX_EPOCH, 6), 0, "it is set to 1970 again");
    }

    #[test]
    fn takes_the_time_from_the_date_header() {
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
