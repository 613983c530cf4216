//! Counters, gauges and the histogram whose labels come from closed sets, except for [`ContainerLabels`], which
//! [`Terminations`](super::terminations::Terminations) bounds.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{
    api::ProblemKind,
    version::{REVISION, VERSION},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct KindLabel {
    pub(super) kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResultLabel {
    pub(super) result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResourceLabel {
    pub(super) resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct NotificationLabels {
    pub(super) format: &'static str,
    pub(super) result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) verb: &'static str,
    pub(super) resource: &'static str,
    pub(super) code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ContainerLabels {
    pub(super) namespace: String,
    pub(super) reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    /// Or "unknown": Prometheus drops labels without a value.
    revision: &'static str,
}

pub(super) type ByKind = Family<KindLabel, Counter>;

/// The resources that are watched.
const WATCHED: [&str; 3] = ["events", "orchestrs", "pods"];

/// The upper bounds of the buckets of the detection latency, in seconds. Most statuses are written after the debounce of
/// 20 ms, after waiting 150 ms for logs, or a second after the last one.
const LATENCY_BUCKETS: [f64; 11] = [0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.5, 5.0, 10.0, 60.0];

#[derive(Debug)]
pub(super) struct Instruments {
    pub(super) container_terminations: Family<ContainerLabels, Counter>,
    pub(super) incidents_opened: ByKind,
    pub(super) incidents_resolved: ByKind,
    pub(super) log_reads: Family<ResultLabel, Counter>,
    pub(super) notifications: Family<NotificationLabels, Counter>,
    pub(super) heartbeats: Family<ResultLabel, Counter>,
    pub(super) status_writes: Family<ResultLabel, Counter>,
    pub(super) api_requests: Family<RequestLabels, Counter>,
    pub(super) watch_restarts: Family<ResourceLabel, Counter>,
    pub(super) detection_latency: Histogram,
    pub(super) synced: Gauge,
    pub(super) unreadable_namespaces: Gauge,
    pub(super) leader: Gauge,
    pub(super) last_pod_event: Gauge,
    build: Family<BuildLabels, Gauge>,
}

impl Default for Instruments {
    /// Series of few labels begin at zero, because Prometheus does not count the first value of a series as an increase.
    fn default() -> Self {
        let instruments = Self {
            container_terminations: Family::default(),
            incidents_opened: Family::default(),
            incidents_resolved: Family::default(),
            log_reads: Family::default(),
            notifications: Family::default(),
            heartbeats: Family::default(),
            status_writes: Family::default(),
            api_requests: Family::default(),
            watch_restarts: Family::default(),
            detection_latency: Histogram::new(LATENCY_BUCKETS),
            synced: Gauge::default(),
            unreadable_namespaces: Gauge::default(),
            leader: Gauge::default(),
            last_pod_event: Gauge::default(),
            build: Family::default(),
        };
        for kind in ProblemKind::ALL {
            let label = KindLabel { kind: kind.as_str() };
            drop(instruments.incidents_opened.get_or_create(&label));
            drop(instruments.incidents_resolved.get_or_create(&label));
        }
        for resource in WATCHED {
            drop(instruments.watch_restarts.get_or_create(&ResourceLabel { resource }));
        }
        instruments
            .build
            .get_or_create(&BuildLabels { version: VERSION, revision: REVISION.unwrap_or("unknown") })
            .set(1);
        instruments
    }
}

impl Instruments {
    /// The encoder appends a full stop to each help text, and `_total` to the names of counters.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "orchestr_container_terminations",
            "Containers that failed while they were watched",
            self.container_terminations.clone(),
        );
        registry.register(
            "orchestr_incidents_opened",
            "Incidents that began while their Orchestr object was watched",
            self.incidents_opened.clone(),
        );
        registry.register(
            "orchestr_incidents_resolved",
            "Incidents that ended while their Orchestr object was watched",
            self.incidents_resolved.clone(),
        );
        registry.register("orchestr_log_reads", "Reads of container logs", self.log_reads.clone());
        registry.register(
            "orchestr_notifications",
            "Attempts to send a message to a webhook",
            self.notifications.clone(),
        );
        registry.register("orchestr_heartbeats", "Attempts to ping the heartbeat webhook", self.heartbeats.clone());
        registry.register(
            "orchestr_status_writes",
            "Writes of the status of Orchestr objects",
            self.status_writes.clone(),
        );
        registry.register("orchestr_api_requests", "Requests to the API server", self.api_requests.clone());
        registry.register(
            "orchestr_watch_restarts",
            "Lists and watches that failed and were started again",
            self.watch_restarts.clone(),
        );
        registry.register(
            "orchestr_detection_latency_seconds",
            "Time from the receipt of a change to the written status that shows it",
            self.detection_latency.clone(),
        );
        registry.register("orchestr_synced", "Whether all pods are known", self.synced.clone());
        registry.register(
            "orchestr_unreadable_namespaces",
            "Namespaces of --namespaces whose pods may not be read, while others may",
            self.unreadable_namespaces.clone(),
        );
        registry.register(
            "orchestr_leader",
            "Whether this replica writes statuses and sends alerts",
            self.leader.clone(),
        );
        registry.register(
            "orchestr_last_pod_event_timestamp_seconds",
            "When a change of a pod was received last, as seconds since 1970",
            self.last_pod_event.clone(),
        );
        registry.register(
            "orchestr_build_info",
            "The version and the git revision of the operator, as labels; always 1",
            self.build.clone(),
        );
    }
}
