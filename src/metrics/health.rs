//! Whether the operator watches and delivers, for the readiness probe and the heartbeat.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

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

/// At the beginning, nothing is synced, and the process is a follower until the event loop sets its role.
#[derive(Debug, Default)]
pub(super) struct Health {
    is_synced: AtomicBool,
    is_leader: AtomicBool,
    failing: Mutex<Failing>,
}

#[derive(Debug, Default)]
struct Failing {
    /// Counts how often delivery has ended.
    round: u64,
    /// Since when the webhooks of an object, by name and UID, have been failing. Absent if the heartbeat does not depend on it.
    webhooks: HashMap<(NamespacedName, String), HashMap<String, Option<Instant>>>,
}

impl Health {
    pub(super) fn set_synced(&self, is_synced: bool) {
        self.is_synced.store(is_synced, Relaxed);
    }

    pub(super) fn set_leader(&self, is_leader: bool) {
        self.is_leader.store(is_leader, Relaxed);
    }

    /// A follower is ready as well, because it can take over.
    pub(super) fn readiness(&self) -> Result<(), Unhealthy> {
        if self.is_synced.load(Relaxed) { Ok(()) } else { Err(Unhealthy::NotSynced) }
    }

    pub(super) fn is_delivering(&self, namespaces: Option<&[String]>, now: Instant) -> Result<(), Unhealthy> {
        self.readiness()?;
        if !self.is_leader.load(Relaxed) {
            return Err(Unhealthy::NotLeader);
        }
        let counts = |namespace: &String| namespaces.is_none_or(|counted| counted.contains(namespace));
        let failing = lock(&self.failing);
        let mut counted = failing.webhooks.iter().filter(|((object, _), _)| counts(&object.namespace));
        let is_long = |since: &Instant| now.saturating_duration_since(*since) > TOLERATED;
        let is_failing = counted.any(|(_, webhooks)| webhooks.values().flatten().any(is_long));
        if is_failing { Err(Unhealthy::NotDelivering) } else { Ok(()) }
    }

    /// The round of delivery that has begun, for [`set_failing_webhooks`](Self::set_failing_webhooks).
    pub(super) fn delivery_round(&self) -> u64 {
        lock(&self.failing).round
    }

    /// Forgets all failures. Later reports of the round that ends here are ignored.
    pub(super) fn end_delivery(&self) {
        let mut failing = lock(&self.failing);
        failing.round += 1;
        failing.webhooks.clear();
    }

    pub(super) fn set_failing_webhooks(
        &self,
        round: u64,
        object: &NamespacedName,
        uid: &str,
        webhooks: &[FailingWebhook<'_>],
        now: Instant,
    ) {
        let mut all = lock(&self.failing);
        if all.round != round {
            return;
        }
        let key = (object.clone(), uid.to_owned());
        if webhooks.is_empty() {
            all.webhooks.remove(&key);
            return;
        }
        let failing = all.webhooks.entry(key).or_default();
        failing.retain(|name, _| webhooks.iter().any(|webhook| webhook.name == name));
        for FailingWebhook { name, only_refuses } in webhooks {
            let since = failing.entry((*name).to_owned()).or_default();
            *since = if *only_refuses { None } else { since.or(Some(now)) };
        }
    }

    /// How many webhooks of each object fail now.
    pub(super) fn failing_webhooks(&self) -> Vec<(NamespacedName, usize)> {
        let failing = lock(&self.failing);
        failing.webhooks.iter().map(|((object, _), webhooks)| (object.clone(), webhooks.len())).collect()
    }
}

/// Locks values that stay valid if a thread panics.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing<const N: usize>(names: [&str; N]) -> [FailingWebhook<'_>; N] {
        names.map(|name| FailingWebhook { name, only_refuses: false })
    }

    #[test]
    fn a_receiver_that_only_refuses_does_not_end_the_heartbeat() {
        let (health, start) = (Health::default(), Instant::now());
        health.set_synced(true);
        health.set_leader(true);
        let shop = NamespacedName::new("shop", "cluster");
        let refusing = FailingWebhook { name: "ops", only_refuses: true };
        health.set_failing_webhooks(0, &shop, "1", &[refusing], start);
        assert_eq!(health.is_delivering(None, after(start, 60)), Ok(()));
        assert_eq!(health.failing_webhooks(), [(shop.clone(), 1)]);
        health.set_failing_webhooks(0, &shop, "1", &failing(["ops"]), after(start, 60));
        assert_eq!(health.is_delivering(None, after(start, 69)), Ok(()));
        assert_eq!(health.is_delivering(None, after(start, 71)), Err(Unhealthy::NotDelivering));
    }

    fn after(start: Instant, minutes: u64) -> Instant {
        start + Duration::from_secs(60 * minutes)
    }

    #[test]
    fn delivers_only_while_synced_and_leading() {
        let (health, now) = (Health::default(), Instant::now());
        assert_eq!(health.is_delivering(None, now), Err(Unhealthy::NotSynced));
        health.set_synced(true);
        assert_eq!((health.readiness(), health.is_delivering(None, now)), (Ok(()), Err(Unhealthy::NotLeader)));
        health.set_leader(true);
        assert_eq!((health.readiness(), health.is_delivering(None, now)), (Ok(()), Ok(())));
        health.set_leader(false);
        assert_eq!((health.readiness(), health.is_delivering(None, now)), (Ok(()), Err(Unhealthy::NotLeader)));
    }

    #[test]
    fn a_webhook_that_fails_for_ten_minutes_is_no_delivery() {
        let (health, start) = (Health::default(), Instant::now());
        health.set_synced(true);
        health.set_leader(true);
        let (shop, ml) = (NamespacedName::new("shop", "cluster"), NamespacedName::new("ml", "cluster"));
        health.set_failing_webhooks(0, &shop, "1", &failing(["ops"]), start);
        health.set_failing_webhooks(0, &shop, "1", &failing(["ops", "dev"]), after(start, 9));
        assert_eq!(health.is_delivering(None, after(start, 10)), Ok(()));
        assert_eq!(health.is_delivering(None, after(start, 11)), Err(Unhealthy::NotDelivering));
        health.set_failing_webhooks(0, &shop, "1", &failing(["dev"]), after(start, 11));
        assert_eq!(health.is_delivering(None, after(start, 11)), Ok(()), "the other one fails for two minutes");
        health.set_failing_webhooks(0, &ml, "2", &failing(["chat"]), start);
        let counted = ["shop".to_owned()];
        assert_eq!(health.is_delivering(Some(&counted), after(start, 12)), Ok(()), "a tenant's webhook");
        assert_eq!(health.is_delivering(None, after(start, 12)), Err(Unhealthy::NotDelivering));
        // A new object of the same name has its own state.
        health.set_failing_webhooks(0, &ml, "3", &failing(["chat"]), after(start, 12));
        health.set_failing_webhooks(0, &ml, "2", &[], after(start, 12));
        assert_eq!(health.is_delivering(None, after(start, 13)), Ok(()));
        let mut failing = health.failing_webhooks();
        failing.sort_unstable();
        assert_eq!(failing, [(ml, 1), (shop, 1)]);
    }

    #[test]
    fn a_report_of_a_round_that_has_ended_is_ignored() {
        let (health, now) = (Health::default(), Instant::now());
        let shop = NamespacedName::new("shop", "cluster");
        let round = health.delivery_round();
        health.set_failing_webhooks(round, &shop, "1", &failing(["ops"]), now);
        health.end_delivery();
        assert_eq!(health.failing_webhooks(), []);
        health.set_failing_webhooks(round, &shop, "1", &failing(["ops"]), now);
        assert_eq!(health.failing_webhooks(), []);
        health.set_failing_webhooks(health.delivery_round(), &shop, "1", &failing(["ops"]), now);
        assert_eq!(health.failing_webhooks(), [(shop, 1)]);
    }
}
