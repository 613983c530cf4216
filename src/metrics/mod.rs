//! What the operator measures, for Prometheus and for the heartbeat.
//!
//! [`Metrics`] is a handle that the parts of the operator are passed: they count what happens where it happens, and report
//! the state of each object. The page is encoded from it on [another thread](crate::telemetry).

mod health;
mod instruments;
mod labels;
mod page;
mod process;
mod state;

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::{
    api::{NamespacedName, ProblemKind},
    report::Incident,
};

pub use self::health::Unhealthy;
#[cfg(test)]
pub(crate) use self::state::ProblemCount;
pub(crate) use self::{health::FailingWebhook, page::Format, state::ObjectReport};

use self::{
    instruments::{Counters, Instruments},
    labels::Terminations,
    page::{Objects, ObjectsCollector, Shown, encode, lock},
    process::ProcessCollector,
};

/// Clones share the values. At the beginning, nothing is synced, and the process is a follower until the event loop sets its
/// role.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    instruments: Instruments,
    terminations: Mutex<Terminations>,
    objects: Arc<Objects>,
    registry: Registry,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(Shown::Nothing)
    }
}

impl Metrics {
    fn new(shown: Shown) -> Self {
        let mut registry = Registry::default();
        let instruments = Instruments::new(&mut registry);
        let objects = Arc::new(Objects { shown, state: Mutex::default(), failing: Mutex::default() });
        registry.register_collector(Box::new(ObjectsCollector(Arc::clone(&objects))));
        registry.register_collector(Box::new(ProcessCollector));
        Self(Arc::new(Shared { instruments, terminations: Mutex::default(), objects, registry }))
    }

    /// Metrics that also keep the state of the objects, for a page.
    #[must_use]
    pub fn with_state() -> Self {
        Self::new(Shown::Incidents)
    }

    /// The same for a page that counts problems, and names no namespace, owner or cause.
    #[must_use]
    pub fn without_incidents() -> Self {
        Self::new(Shown::Counts)
    }

    /// Encodes all metrics.
    ///
    /// # Errors
    /// If a value cannot be encoded.
    pub(crate) fn page(&self, format: Format) -> Result<String, fmt::Error> {
        encode(&self.0.registry, format)
    }

    /// Whether the state of objects is wanted.
    pub(crate) fn wants_state(&self) -> bool {
        self.0.objects.shown != Shown::Nothing
    }

    /// Why the operator is not ready, if it is not. A follower is ready as well, because it can take over.
    pub fn readiness(&self) -> Result<(), Unhealthy> {
        if self.0.instruments.synced.get() == 1 { Ok(()) } else { Err(Unhealthy::NotSynced) }
    }

    /// Why a dead man's switch should go off, if it should. Only webhooks of objects in these namespaces count; absent: all.
    ///
    /// # Errors
    /// While the operator does not lead, is not synced, or could not deliver for longer than is tolerated.
    pub fn is_delivering(&self, namespaces: Option<&[String]>, now: Instant) -> Result<(), Unhealthy> {
        self.readiness()?;
        if self.0.instruments.leader.get() == 0 {
            Err(Unhealthy::NotLeader)
        } else if lock(&self.0.objects.failing).is_long(namespaces, now) {
            Err(Unhealthy::NotDelivering)
        } else {
            Ok(())
        }
    }

    pub(crate) fn set_unreadable_namespaces(&self, namespaces: usize) {
        self.0.instruments.unreadable_namespaces.set(namespaces.try_into().unwrap_or(i64::MAX));
    }

    pub(crate) fn set_synced(&self, is_synced: bool) {
        self.0.instruments.synced.set(i64::from(is_synced));
    }

    /// Whether this replica writes and sends. False until this is called.
    pub fn set_leader(&self, is_leader: bool) {
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
        self.0.instruments.status_writes.get_or_create(&[("result", result.into())]).inc();
    }

    pub(crate) fn log_read(&self, result: &'static str) {
        self.0.instruments.log_reads.get_or_create(&[("result", result.into())]).inc();
    }

    pub(crate) fn notification_sent(&self, format: &'static str, result: &'static str) {
        let labels = [("format", format.into()), ("result", result.into())];
        self.0.instruments.notifications.get_or_create(&labels).inc();
    }

    /// A line of the alert log was `written`, was `dropped` because too many waited, or `failed` to be written.
    pub(crate) fn alert_log_line(&self, result: &'static str) {
        self.0.instruments.alert_log_lines.get_or_create(&[("result", result.into())]).inc();
    }

    pub(crate) fn heartbeat_sent(&self, result: &'static str) {
        self.0.instruments.heartbeats.get_or_create(&[("result", result.into())]).inc();
    }

    pub(crate) fn api_request(&self, verb: &'static str, resource: &'static str, code: String) {
        let labels = [("verb", verb.into()), ("resource", resource.into()), ("code", code.into())];
        self.0.instruments.api_requests.get_or_create(&labels).inc();
    }

    pub(crate) fn watch_failed(&self, resource: &'static str) {
        self.0.instruments.watch_restarts.get_or_create(&[("resource", resource.into())]).inc();
    }

    /// A container failed while it was watched.
    pub(crate) fn container_terminated(&self, namespace: &str, reason: &str) {
        let namespace = if self.0.objects.shown == Shown::Counts { "" } else { namespace };
        let labels = lock(&self.0.terminations).labels(namespace, reason);
        self.0.instruments.container_terminations.get_or_create(&labels).inc();
    }

    /// An object's pods are known.
    pub(crate) fn object_reported(&self, object: &NamespacedName, report: &ObjectReport<'_>, incidents: &[Incident]) {
        if !self.wants_state() {
            return;
        }
        let changes = lock(&self.0.objects.state).report(object, report, incidents);
        let count = |counters: &Counters<1>, kind: ProblemKind| {
            counters.get_or_create(&[("kind", kind.as_str().into())]).inc();
        };
        changes.opened.into_iter().for_each(|kind| count(&self.0.instruments.incidents_opened, kind));
        changes.resolved.into_iter().for_each(|kind| count(&self.0.instruments.incidents_resolved, kind));
    }

    /// Nothing is known about an object's pods: it is gone, paused or invalid, or its pods cannot be read.
    pub(crate) fn object_withdrawn(&self, object: &NamespacedName) {
        lock(&self.0.objects.state).withdraw(object);
    }

    /// This replica has stopped delivering, so it cannot report webhooks that fail.
    pub(crate) fn end_delivery(&self) {
        lock(&self.0.objects.failing).clear();
    }

    /// The webhooks of an object that fail or cannot be used now. The UID separates it from an earlier one of its name.
    pub(crate) fn set_failing_webhooks(
        &self,
        object: &NamespacedName,
        uid: &str,
        failing: &[FailingWebhook<'_>],
        now: Instant,
    ) {
        lock(&self.0.objects.failing).set(object, uid, failing, now);
    }
}
