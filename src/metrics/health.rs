//! Which webhooks fail, and why the operator is not ready or sends no heartbeat.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::api::NamespacedName;

/// How long a webhook may fail before the heartbeat stops: two attempts with the longest backoff of five minutes.
const TOLERATED: Duration = Duration::from_secs(10 * 60);

/// Why the operator is not ready, or sends no heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unhealthy {
    #[error("not all pods are known")]
    NotSynced,
    #[error("this replica does not lead")]
    NotLeader,
    #[error("a webhook has been failing for more than 10 minutes")]
    NotDelivering,
    #[error("the event loop makes no progress")]
    NotAlive,
}

/// A webhook that fails or cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailingWebhook<'a> {
    pub name: &'a str,
    /// Whether its receiver accepts messages, and refuses others for their content. What tenants' pods are called decides that,
    /// so the heartbeat does not depend on it.
    pub only_refuses: bool,
}

/// Since when the webhooks of an object, by name and UID, have been failing. Absent if the heartbeat does not depend on it.
#[derive(Debug, Default)]
pub(super) struct FailingWebhooks(HashMap<(NamespacedName, String), HashMap<String, Option<Instant>>>);

impl FailingWebhooks {
    pub(super) fn set(&mut self, object: &NamespacedName, uid: &str, failing: &[FailingWebhook<'_>], now: Instant) {
        let key = (object.clone(), uid.to_owned());
        if failing.is_empty() {
            self.0.remove(&key);
            return;
        }
        let known = self.0.entry(key).or_default();
        known.retain(|name, _| failing.iter().any(|webhook| webhook.name == name));
        for FailingWebhook { name, only_refuses } in failing {
            let since = known.entry((*name).to_owned()).or_default();
            *since = if *only_refuses { None } else { since.or(Some(now)) };
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether one has been failing for too long. Only webhooks of objects in these namespaces count; absent: all.
    pub(super) fn is_long(&self, namespaces: Option<&[String]>, now: Instant) -> bool {
        let counts = |namespace: &String| namespaces.is_none_or(|counted| counted.contains(namespace));
        let mut counted = self.0.iter().filter(|((object, _), _)| counts(&object.namespace));
        let is_long = |since: &Instant| now.saturating_duration_since(*since) > TOLERATED;
        counted.any(|(_, webhooks)| webhooks.values().flatten().any(is_long))
    }

    /// How many webhooks of each object fail now, sorted by object.
    pub(super) fn counts(&self) -> Vec<(NamespacedName, usize)> {
        let mut counts: Vec<_> =
            self.0.iter().map(|((object, _), webhooks)| (object.clone(), webhooks.len())).collect();
        counts.sort_unstable();
        // While an object of the same name replaces another one.
        counts.dedup_by(|a, b| a.0 == b.0);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn failing<const N: usize>(names: [&str; N]) -> [FailingWebhook<'_>; N] {
        names.map(|name| FailingWebhook { name, only_refuses: false })
    }

    fn after(start: Instant, minutes: u64) -> Instant {
        start + Duration::from_secs(60 * minutes)
    }

    #[test]
    fn delivers_only_while_synced_and_leading() {
        let (metrics, now) = (Metrics::default(), Instant::now());
        for (is_synced, is_leader, ready, delivering) in [
            (false, false, Err(Unhealthy::NotSynced), Err(Unhealthy::NotSynced)),
            (true, false, Ok(()), Err(Unhealthy::NotLeader)),
            (true, true, Ok(()), Ok(())),
            (false, true, Err(Unhealthy::NotSynced), Err(Unhealthy::NotSynced)),
        ] {
            metrics.set_synced(is_synced);
            metrics.set_leader(is_leader);
            assert_eq!((metrics.readiness(), metrics.is_delivering(None, now)), (ready, delivering));
        }
        let shop = NamespacedName::new("shop", "cluster");
        metrics.set_synced(true);
        metrics.set_failing_webhooks(&shop, "1", &failing(["ops"]), now);
        assert_eq!(metrics.is_delivering(None, after(now, 11)), Err(Unhealthy::NotDelivering));
        metrics.end_delivery();
        assert_eq!(metrics.is_delivering(None, after(now, 11)), Ok(()), "the next leader reports what fails");
    }

    #[test]
    fn a_receiver_that_only_refuses_does_not_end_the_heartbeat() {
        let (mut webhooks, start) = (FailingWebhooks::default(), Instant::now());
        let shop = NamespacedName::new("shop", "cluster");
        webhooks.set(&shop, "1", &[FailingWebhook { name: "ops", only_refuses: true }], start);
        assert!(!webhooks.is_long(None, after(start, 60)));
        assert_eq!(webhooks.counts(), [(shop.clone(), 1)]);
        webhooks.set(&shop, "1", &failing(["ops"]), after(start, 60));
        assert!(!webhooks.is_long(None, after(start, 69)));
        assert!(webhooks.is_long(None, after(start, 71)));
    }

    #[test]
    fn a_webhook_that_fails_for_ten_minutes_is_no_delivery() {
        let (mut webhooks, start) = (FailingWebhooks::default(), Instant::now());
        let (shop, ml) = (NamespacedName::new("shop", "cluster"), NamespacedName::new("ml", "cluster"));
        webhooks.set(&shop, "1", &failing(["ops"]), start);
        webhooks.set(&shop, "1", &failing(["ops", "dev"]), after(start, 9));
        assert!(!webhooks.is_long(None, after(start, 10)));
        assert!(webhooks.is_long(None, after(start, 11)));
        webhooks.set(&shop, "1", &failing(["dev"]), after(start, 11));
        assert!(!webhooks.is_long(None, after(start, 11)), "the other one fails for two minutes");
        webhooks.set(&ml, "2", &failing(["chat"]), start);
        let counted = ["shop".to_owned()];
        assert!(!webhooks.is_long(Some(&counted), after(start, 12)), "a tenant's webhook");
        assert!(webhooks.is_long(None, after(start, 12)));
        // A new object of the same name has its own state.
        webhooks.set(&ml, "3", &failing(["chat"]), after(start, 12));
        webhooks.set(&ml, "2", &[], after(start, 12));
        assert!(!webhooks.is_long(None, after(start, 13)));
        assert_eq!(webhooks.counts(), [(ml, 1), (shop, 1)]);
    }
}
