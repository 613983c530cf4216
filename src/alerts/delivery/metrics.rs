//! What delivery counts. Labels are formats only: names of objects and webhooks are without number.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::{alerts::retry::AttemptOutcome, api::WebhookFormat};

/// Upper bounds of the latency's buckets, in seconds; what takes longer counts in none of them.
pub const LATENCY_BUCKETS: [f64; 9] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// All formats, in the order of the schema.
pub const FORMATS: [WebhookFormat; 7] = [
    WebhookFormat::Generic,
    WebhookFormat::Alertmanager,
    WebhookFormat::Slack,
    WebhookFormat::Discord,
    WebhookFormat::Teams,
    WebhookFormat::PagerDuty,
    WebhookFormat::CloudEvents,
];

/// Counters since the process began, one set for each format.
#[derive(Debug, Default)]
pub struct DeliveryMetrics {
    formats: [FormatMetrics; FORMATS.len()],
}

/// The counters of one format.
#[derive(Debug, Default)]
pub struct FormatMetrics {
    /// Messages that a receiver took.
    pub sent: AtomicU64,
    /// Attempts that failed.
    pub failed: AtomicU64,
    /// Attempts beyond each message's first.
    pub retried: AtomicU64,
    /// Problems that ended before the receiver could be told of them.
    pub dropped: AtomicU64,
    /// Attempts by how long they took, each counted in the one bucket of [`LATENCY_BUCKETS`] it falls into.
    pub latency: [AtomicU64; LATENCY_BUCKETS.len()],
    /// How many attempts `latency_micros` sums up.
    pub latency_count: AtomicU64,
    /// The attempts' time, in microseconds.
    pub latency_micros: AtomicU64,
}

impl DeliveryMetrics {
    /// The counters of one format.
    #[must_use]
    pub fn of(&self, format: WebhookFormat) -> &FormatMetrics {
        let index = match format {
            WebhookFormat::Generic => 0,
            WebhookFormat::Alertmanager => 1,
            WebhookFormat::Slack => 2,
            WebhookFormat::Discord => 3,
            WebhookFormat::Teams => 4,
            WebhookFormat::PagerDuty => 5,
            WebhookFormat::CloudEvents => 6,
        };
        &self.formats[index]
    }
}

impl FormatMetrics {
    /// Counts an attempt.
    pub fn attempted(&self, outcome: &AttemptOutcome, is_retry: bool, latency: Duration) {
        let taken = matches!(outcome, AttemptOutcome::Answered { status: 200..=299, .. });
        if taken { &self.sent } else { &self.failed }.fetch_add(1, Relaxed);
        self.retried.fetch_add(u64::from(is_retry), Relaxed);
        let seconds = latency.as_secs_f64();
        if let Some(bucket) = LATENCY_BUCKETS.iter().position(|bound| seconds <= *bound) {
            self.latency[bucket].fetch_add(1, Relaxed);
        }
        self.latency_count.fetch_add(1, Relaxed);
        self.latency_micros.fetch_add(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Counts problems that were never told.
    pub fn dropped(&self, count: i64) {
        self.dropped.fetch_add(u64::try_from(count).unwrap_or_default(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_counts_once_for_its_format() {
        let metrics = DeliveryMetrics::default();
        let slack = metrics.of(WebhookFormat::Slack);
        let taken = AttemptOutcome::Answered { status: 204, retry_after: None };
        slack.attempted(&AttemptOutcome::TimedOut, false, Duration::from_secs(90));
        slack.attempted(&taken, true, Duration::from_millis(50));
        slack.dropped(3);
        let counts = [&slack.sent, &slack.failed, &slack.retried, &slack.dropped, &slack.latency_count];
        assert_eq!(counts.map(|counter| counter.load(Relaxed)), [1, 1, 1, 3, 2]);
        assert_eq!(
            slack.latency.iter().map(|bucket| bucket.load(Relaxed)).collect::<Vec<_>>(),
            [0, 1, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(slack.latency_micros.load(Relaxed), 90_050_000);
        for (index, format) in FORMATS.into_iter().enumerate() {
            assert_eq!(metrics.of(format).sent.load(Relaxed), u64::from(index == 2), "{format:?}");
        }
    }
}
