//! What a webhook's spec asks for, and the pace that its receiver bears.

use std::time::Duration;

use jiff::Timestamp;

use super::incident::{Incident, later};
use crate::{
    api::{GoDuration, Webhook, WebhookFormat, limits, matches_reason},
    backoff::doubled,
    glob::Glob,
    spec_error::{SpecError, duration, globs},
};

/// A webhook that can be used: defaults applied, durations read, patterns compiled.
#[derive(Clone, Debug)]
pub struct NotificationPolicy {
    /// The webhook's name.
    pub name: String,
    /// What the receiver reads.
    pub format: WebhookFormat,
    /// An incident younger than this is not told.
    pub after: Duration,
    /// How often an incident that lasts is told again; zero: never.
    pub repeat_every: Duration,
    /// Whether the receiver is told that an incident is over.
    pub send_resolved: bool,
    /// How long one request may take.
    pub timeout: Duration,
    /// How fast it may go.
    pub pace: Pace,
    namespaces: Option<Vec<Glob>>,
    reasons: Option<Vec<String>>,
}

/// How fast a receiver is told, and how much is kept for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The least time from a message that was taken to the next. A first message doesn't wait.
    pub interval: Duration,
    /// Whether a message tells of one incident only.
    pub single: bool,
    /// How many incidents are told one by one. Beyond them, a storm is told as a whole.
    pub tracked: usize,
    /// How often everything is sent again to a receiver that forgets.
    pub resend: Option<Duration>,
    /// The least time that an incident must be gone before it is over, while its owner still has pods.
    pub hold: Duration,
    /// The longest that an incident that comes back again and again is held.
    pub longest_hold: Duration,
    /// How long an incident must be gone whose owner has no pod left. It is not zero because a StatefulSet has none
    /// between the deletion of its only pod and the creation of the next.
    pub settle: Duration,
    /// How long a webhook remembers that an incident was over: one that comes back within this time is
    /// held for twice as long.
    pub memory: Duration,
    /// How often a storm is told again while its members change but don't double.
    pub storm_interval: Duration,
}

/// A pod's node may have a clock that is ahead of ours. An incident that claims to begin later than
/// this from now is as old as any: it must not be kept back until then.
const CLOCK_SKEW: Duration = Duration::from_secs(60);

impl Pace {
    /// The pace for a format.
    ///
    /// Slack, Discord and Teams take about one message a second, but nobody reads so many: what happens
    /// within half a minute of a message is told in the next. PagerDuty wakes people one incident at a
    /// time, and takes about 120 events a minute. Alertmanager groups by itself; it forgets a firing
    /// alert after 5 minutes (`resolve_timeout`), and Prometheus re-sends every minute too.
    #[must_use]
    pub const fn of(format: WebhookFormat) -> Self {
        let group = Self {
            interval: Duration::from_secs(30),
            single: false,
            tracked: 100,
            resend: None,
            hold: Duration::from_secs(30),
            longest_hold: Duration::from_secs(5 * 60),
            settle: Duration::from_secs(2),
            memory: Duration::from_secs(15 * 60),
            storm_interval: Duration::from_secs(5 * 60),
        };
        match format {
            WebhookFormat::Generic
            | WebhookFormat::CloudEvents
            | WebhookFormat::Slack
            | WebhookFormat::Discord
            | WebhookFormat::Teams => group,
            WebhookFormat::PagerDuty => Self { interval: Duration::from_secs(2), single: true, tracked: 20, ..group },
            WebhookFormat::Alertmanager => {
                Self { interval: Duration::from_secs(5), tracked: 250, resend: Some(Duration::from_secs(60)), ..group }
            }
        }
    }
}

impl NotificationPolicy {
    /// Reads the webhook that stands at `index` of `spec.webhooks`.
    ///
    /// # Errors
    /// When a value can't be used.
    pub fn new(index: usize, webhook: &Webhook) -> Result<Self, SpecError> {
        let field = |name: &str| format!("spec.webhooks[{index}].{name}");
        let read = |name: &str, value: &Option<GoDuration>, range, default: u64| {
            duration(&field(name), value.as_ref(), &range, Duration::from_secs(default))
        };
        let timeout = read("timeout", &webhook.timeout, limits::TIMEOUT, 10)?;
        let wanted = webhook.match_.clone().unwrap_or_default();
        let namespaces = wanted.namespaces.filter(|patterns| !patterns.is_empty());
        Ok(Self {
            name: webhook.name.clone(),
            format: webhook.format,
            after: read("after", &webhook.after, limits::AFTER, 30)?,
            repeat_every: read("repeatEvery", &webhook.repeat_every, limits::REPEAT_EVERY, 4 * 60 * 60)?,
            send_resolved: webhook.send_resolved.unwrap_or(true),
            timeout,
            pace: Pace::of(webhook.format),
            namespaces: namespaces.map(|patterns| globs(&field("match.namespaces"), &patterns)).transpose()?,
            reasons: wanted.reasons.filter(|reasons| !reasons.is_empty()),
        })
    }

    /// Whether the receiver is sent such incidents. `earlier` are reasons that the incident had before: a webhook that
    /// matched one of them goes on to match, as the trouble is still the same.
    #[must_use]
    pub fn matches(&self, incident: &Incident, earlier: &[String]) -> bool {
        self.matching_reason(incident, earlier).is_some()
    }

    /// The reason by which an incident matches: the present one if it does, else one that it had before.
    pub(super) fn matching_reason<'a>(&self, incident: &'a Incident, earlier: &'a [String]) -> Option<&'a str> {
        let in_namespaces =
            self.namespaces.as_ref().is_none_or(|globs| globs.iter().any(|glob| glob.is_match(&incident.namespace)));
        let wanted = |reason: &&String| {
            self.reasons
                .as_ref()
                .is_none_or(|names| names.iter().any(|name| matches_reason(name, incident.kind, reason)))
        };
        [&incident.reason].into_iter().chain(earlier).find(wanted).filter(|_| in_namespaces).map(String::as_str)
    }

    /// When an incident is old enough to be told; absent for never.
    pub(super) fn ripe_at(&self, incident: &Incident, now: Timestamp) -> Option<Timestamp> {
        if later(now, CLOCK_SKEW).is_some_and(|limit| incident.since > limit) {
            return Some(now);
        }
        later(incident.since, incident.tolerated.saturating_add(self.after))
    }

    /// How long an incident that came back so often must be gone before it is over. `after` has no part in it: it
    /// delays the beginning, not the end.
    pub(super) fn hold(&self, returns: i64) -> Duration {
        let doublings = u32::try_from(returns.clamp(0, 16)).unwrap_or(16);
        doubled(self.pace.hold, doublings, self.pace.longest_hold)
    }

    /// How long an incident that the receiver knows nothing of must be gone before it isn't sent at all, if the
    /// receiver takes no messages.
    pub(super) fn give_up(&self, returns: i64) -> Duration {
        let turns = if self.pace.single { u32::try_from(self.pace.tracked).unwrap_or(u32::MAX) } else { 1 };
        self.hold(returns).saturating_add(self.pace.interval.saturating_mul(turns.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Match, SecretKeyRef, SecretKeySource};

    fn webhook() -> Webhook {
        Webhook {
            name: "ops".to_owned(),
            format: WebhookFormat::Slack,
            url_from: SecretKeySource { secret_key_ref: SecretKeyRef { name: "s".to_owned(), key: "url".to_owned() } },
            signing_key_from: None,
            headers_from: None,
            ca_from: None,
            after: None,
            repeat_every: None,
            send_resolved: None,
            match_: None,
            timeout: None,
        }
    }

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let policy = NotificationPolicy::new(0, &webhook()).unwrap();
        assert_eq!(policy.after, Duration::from_secs(30));
        assert_eq!(policy.repeat_every, Duration::from_secs(14_400));
        assert_eq!(policy.timeout, Duration::from_secs(10));
        assert!(policy.send_resolved);
    }

    #[test]
    fn a_value_that_cannot_be_used_is_named() {
        let mut bad = webhook();
        bad.timeout = Some(GoDuration::from("1h"));
        let error = NotificationPolicy::new(3, &bad).unwrap_err();
        assert_eq!(error.to_string(), "spec.webhooks[3].timeout: must be from 1s to 1m, not 1h");
        let mut bad = webhook();
        bad.after = Some(GoDuration::from("soon"));
        assert!(NotificationPolicy::new(0, &bad).unwrap_err().to_string().starts_with("spec.webhooks[0].after: "));
        let mut bad = webhook();
        bad.match_ = Some(Match { namespaces: Some(vec!["[".to_owned()]), reasons: None });
        assert!(
            NotificationPolicy::new(0, &bad)
                .unwrap_err()
                .to_string()
                .starts_with("spec.webhooks[0].match.namespaces[0]: ")
        );
    }

    #[test]
    fn what_keeps_coming_back_is_held_longer_up_to_a_limit() {
        let policy = NotificationPolicy::new(0, &webhook()).unwrap();
        let held: Vec<_> = [0, 1, 2, 5, i64::MAX].map(|returns| policy.hold(returns).as_secs()).into();
        assert_eq!(held, [30, 60, 120, 300, 300]);
        let slow = NotificationPolicy { after: Duration::from_secs(3_600), ..policy };
        assert_eq!(slow.hold(0).as_secs(), 30, "what delays the beginning does not delay the end");
    }

    #[test]
    fn after_counts_from_when_it_was_first_a_problem() {
        let policy = NotificationPolicy::new(0, &webhook()).unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut incident = Incident {
            key: "k".to_owned(),
            namespace: "shop".to_owned(),
            owner: crate::api::Owner { kind: "Deployment".to_owned(), name: "cart".to_owned() },
            container: String::new(),
            kind: crate::api::ProblemKind::Unschedulable,
            reason: "Unschedulable".to_owned(),
            since: at(1000),
            tolerated: Duration::from_secs(60),
            pods: 1,
            example_pods: Vec::new(),
            message: String::new(),
            logs: std::sync::Arc::from(""),
            log_note: String::new(),
        };
        assert_eq!(policy.ripe_at(&incident, at(1060)), Some(at(1090)));
        incident.tolerated = Duration::ZERO;
        assert_eq!(policy.ripe_at(&incident, at(1060)), Some(at(1030)));
    }
}
