//! The intervals and limits of a receiver.

use std::time::Duration;

/// How often a receiver is sent messages, and how many alerts are tracked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// The minimum time from a delivered message to the next. The first message is sent without waiting.
    pub group_interval: Duration,
    /// Whether each message is about one incident only.
    pub single_incident: bool,
    /// How many incidents are tracked one by one. Those beyond them are the storm.
    pub max_incidents: usize,
    /// How often everything is sent again to a receiver that expires alerts.
    pub resend_interval: Option<Duration>,
    /// How long an alert keeps firing after its incident is gone, if its owner still has pods. Doubles each time that
    /// the incident returns.
    pub keep_firing_for: Duration,
    pub max_keep_firing_for: Duration,
    /// The same if the owner has no pods left. Not zero, because a StatefulSet has none between the deletion of its only
    /// pod and the creation of the next.
    pub keep_deleted_firing_for: Duration,
    /// How long a resolved alert stays in the status, to recognize that its incident returns.
    pub resolved_retention: Duration,
    /// The minimum time between two messages about a storm whose incidents change but do not double.
    pub storm_interval: Duration,
    /// The same if a critical incident joined it.
    pub critical_storm_interval: Duration,
    /// The minimum time between two mentions because of incidents of one namespace.
    pub mention_interval: Duration,
}

impl Pacing {
    /// For messages to people: changes within 30 s after a message are grouped into the next. Most receivers accept about one
    /// message a second, which is more than people can read.
    pub const GROUPED: Self = Self {
        group_interval: Duration::from_secs(30),
        single_incident: false,
        max_incidents: 100,
        resend_interval: None,
        keep_firing_for: Duration::from_secs(30),
        max_keep_firing_for: Duration::from_secs(5 * 60),
        keep_deleted_firing_for: Duration::from_secs(2),
        resolved_retention: Duration::from_secs(15 * 60),
        storm_interval: Duration::from_secs(5 * 60),
        critical_storm_interval: Duration::from_secs(60),
        mention_interval: Duration::from_secs(5 * 60),
    };

    /// Divides all times, for tests.
    #[must_use]
    pub fn divided_by(self, divisor: u32) -> Self {
        Self {
            group_interval: self.group_interval / divisor,
            resend_interval: self.resend_interval.map(|interval| interval / divisor),
            keep_firing_for: self.keep_firing_for / divisor,
            max_keep_firing_for: self.max_keep_firing_for / divisor,
            keep_deleted_firing_for: self.keep_deleted_firing_for / divisor,
            resolved_retention: self.resolved_retention / divisor,
            storm_interval: self.storm_interval / divisor,
            critical_storm_interval: self.critical_storm_interval / divisor,
            mention_interval: self.mention_interval / divisor,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divides_all_times_and_no_limits() {
        let pacing = Pacing {
            group_interval: Duration::from_secs(5),
            max_incidents: 250,
            resend_interval: Some(Duration::from_secs(60)),
            ..Pacing::GROUPED
        };
        assert_eq!(pacing.divided_by(1), pacing);
        let expected = Pacing {
            group_interval: Duration::from_millis(500),
            single_incident: false,
            max_incidents: 250,
            resend_interval: Some(Duration::from_secs(6)),
            keep_firing_for: Duration::from_secs(3),
            max_keep_firing_for: Duration::from_secs(30),
            keep_deleted_firing_for: Duration::from_millis(200),
            resolved_retention: Duration::from_secs(90),
            storm_interval: Duration::from_secs(30),
            critical_storm_interval: Duration::from_secs(6),
            mention_interval: Duration::from_secs(30),
        };
        assert_eq!(pacing.divided_by(10), expected);
    }
}
