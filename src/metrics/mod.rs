//! What the operator measures, for Prometheus and for the heartbeat.
//!
//! [`Metrics`] is a handle that the parts of the operator are passed: they count what happens where it happens, and report
//! the state of each object. The [page](crate::telemetry) is encoded from it on another thread.

mod address;
mod clean;
mod health;
mod instruments;
mod series;
mod state;
mod terminations;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    api::{NamespacedName, ProblemKind},
    report::Incident,
};

#[cfg(test)]
pub(crate) use self::state::ProblemCount;
pub use self::{
    address::{AddressError, MetricsAddress},
    health::Unhealthy,
};
pub(crate) use self::{health::FailingWebhook, state::ObjectReport};

use self::{
    health::{Health, lock},
    instruments::Instruments,
    state::State,
    terminations::Terminations,
};

/// Clones share the values.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    instruments: Instruments,
    terminations: Mutex<Terminations>,
    health: Health,
    /// Absent if metrics are not served. Then the state of the objects takes no memory.
    state: Option<Mutex<State>>,
    /// Whether the page names no namespaces, owners and causes, because others than the administrator may read it.
    hides_incidents: bool,
}

impl Metrics {
    /// Metrics that also keep the state of the objects, for a page.
    #[must_use]
    pub fn with_state() -> Self {
        Self(Arc::new(Shared { state: Some(Mutex::default()), ..Shared::default() }))
    }

    /// The same for a page that counts problems, and names no namespace, owner or cause.
    #[must_use]
    pub fn without_incidents() -> Self {
        Self(Arc::new(Shared { state: Some(Mutex::default()), hides_incidents: true, ..Shared::default() }))
    }

    /// Whether the state of objects is wanted.
    pub(crate) fn wants_state(&self) -> bool {
        self.0.state.is_some()
    }

    /// Why the operator is not ready, if it is not.
    pub fn readiness(&self) -> Result<(), Unhealthy> {
        self.0.health.readiness()
    }

    /// Why a dead man's switch should go off, if it should. Only webhooks of objects in these namespaces count; absent: all.
    ///
    /// # Errors
    /// While the operator does not lead, is not synced, or could not deliver for longer than is tolerated.
    pub fn is_delivering(&self, namespaces: Option<&[String]>, now: Instant) -> Result<(), Unhealthy> {
        self.0.health.is_delivering(namespaces, now)
    }

    pub(crate) fn set_unreadable_namespaces(&self, namespaces: usize) {
        self.0.instruments.unreadable_namespaces.set(namespaces.try_into().unwrap_or(i64::MAX));
    }

    pub(crate) fn set_synced(&self, is_synced: bool) {
        self.0.health.set_synced(is_synced);
        self.0.instruments.synced.set(i64::from(is_synced));
    }

    /// Whether this replica writes and sends. False until this is called.
    pub fn set_leader(&self, is_leader: bool) {
        self.0.health.set_leader(is_leader);
        self.0.instruments.leader.set(i64::from(is_leader));
    }

    pub(crate) fn pods_received(&self, at: Timestamp) {
        self.0.instruments.last_pod_event.set(at.as_second());
    }

    /// A status that shows a change was written this long after the change was received.
    pub(crate) fn detected(&self, latency: Duration) {
        self.0.instruments.detection_latency.observe(latency.as_secs_f64());
    }

    pub(crate) fn status_written(&self, result: &'static str) {
        self.0.instruments.status_writes.get_or_create(&instruments::ResultLabel { result }).inc();
    }

    pub(crate) fn log_read(&self, result: &'static str) {
        self.0.instruments.log_reads.get_or_create(&instruments::ResultLabel { result }).inc();
    }

    pub(crate) fn notification_sent(&self, format: &'static str, result: &'static str) {
        self.0.instruments.notifications.get_or_create(&instruments::NotificationLabels { format, result }).inc();
    }

    pub(crate) fn heartbeat_sent(&self, result: &'static str) {
        self.0.instruments.heartbeats.get_or_create(&instruments::ResultLabel { result }).inc();
    }

    pub(crate) fn api_request(&self, verb: &'static str, resource: &'static str, code: &'static str) {
        self.0.instruments.api_requests.get_or_create(&instruments::RequestLabels { verb, resource, code }).inc();
    }

    pub(crate) fn watch_failed(&self, resource: &'static str) {
        self.0.instruments.watch_restarts.get_or_create(&instruments::ResourceLabel { resource }).inc();
    }

    /// A container failed while it was watched.
    pub(crate) fn container_terminated(&self, namespace: &str, reason: &str) {
        let namespace = if self.0.hides_incidents { "" } else { namespace };
        let labels = lock(&self.0.terminations).labels(namespace, reason);
        self.0.instruments.container_terminations.get_or_create(&labels).inc();
    }

    /// An object's pods are known.
    pub(crate) fn object_reported(&self, object: &NamespacedName, report: &ObjectReport<'_>, incidents: &[Incident]) {
        let Some(state) = &self.0.state else { return };
        let changes = lock(state).report(object, report, incidents);
        for kind in changes.opened {
            self.count_incident(&self.0.instruments.incidents_opened, kind);
        }
        for kind in changes.resolved {
            self.count_incident(&self.0.instruments.incidents_resolved, kind);
        }
    }

    /// Nothing is known about an object's pods: it is gone, paused or invalid, or its pods cannot be read.
    pub(crate) fn object_withdrawn(&self, object: &NamespacedName) {
        if let Some(state) = &self.0.state {
            lock(state).withdraw(object);
        }
    }

    /// Identifies the time in which this replica delivers. It ends when the replica stops leading.
    pub(crate) fn delivery_round(&self) -> u64 {
        self.0.health.delivery_round()
    }

    /// This replica has stopped delivering, so it cannot report webhooks that fail.
    pub(crate) fn end_delivery(&self) {
        self.0.health.end_delivery();
    }

    /// The webhooks of an object that fail or cannot be used now. The UID separates it from an earlier one of its name. A
    /// report of a round of delivery that has ended is ignored.
    pub(crate) fn set_failing_webhooks(
        &self,
        round: u64,
        object: &NamespacedName,
        uid: &str,
        failing: &[FailingWebhook<'_>],
        now: Instant,
    ) {
        self.0.health.set_failing_webhooks(round, object, uid, failing, now);
    }

    fn count_incident(&self, counters: &instruments::ByKind, kind: ProblemKind) {
        counters.get_or_create(&instruments::KindLabel { kind: kind.as_str() }).inc();
    }
}
