//! Counters, gauges and the histogram. The values of their labels come from closed sets, except for those of container
//! terminations, which [`Terminations`](super::labels::Terminations) bounds.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Metric, Registry},
};

use super::labels::Labels;
use crate::{
    api::ProblemKind,
    version::{REVISION, VERSION},
};

/// Counters by the values of labels.
pub(super) type Counters<const N: usize> = Family<Labels<N>, Counter>;

/// The resources that are watched.
const WATCHED: [&str; 3] = ["events", "orchestrs", "pods"];

/// What may become of a line of the alert log.
const ALERT_LOG_RESULTS: [&str; 3] = ["written", "dropped", "failed"];

/// The upper bounds of the buckets of the detection latency, in seconds. Most statuses are written after the debounce of
/// 20 ms, after waiting 150 ms for logs, or a second after the last one.
const LATENCY_BUCKETS: [f64; 11] = [0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.5, 5.0, 10.0, 60.0];

#[derive(Debug)]
pub(super) struct Instruments {
    pub(super) container_terminations: Counters<2>,
    pub(super) incidents_opened: Counters<1>,
    pub(super) incidents_resolved: Counters<1>,
    pub(super) log_reads: Counters<1>,
    pub(super) notifications: Counters<2>,
    pub(super) alert_log_lines: Counters<1>,
    pub(super) heartbeats: Counters<1>,
    pub(super) status_writes: Counters<1>,
    pub(super) api_requests: Counters<3>,
    pub(super) watch_restarts: Counters<1>,
    pub(super) detection_latency: Histogram,
    pub(super) synced: Gauge,
    pub(super) unreadable_namespaces: Gauge,
    pub(super) leader: Gauge,
    pub(super) last_pod_event: Gauge,
}

impl Instruments {
    /// Registers all of them. Series of few labels begin at zero, because Prometheus does not count the first value of a
    /// series as an increase.
    pub(super) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("orchestr");
        let detection_latency = Histogram::new(LATENCY_BUCKETS);
        let latency_help = "Time from the receipt of a change to the written status that shows it";
        registry.register("detection_latency_seconds", latency_help, detection_latency.clone());
        let build_help = "The version and the git revision of the operator, as labels; always 1";
        let build: Family<Labels<2>, Gauge> = add(registry, "build_info", build_help);
        // Prometheus drops labels without a value.
        let revision = REVISION.unwrap_or("unknown");
        build.get_or_create(&[("version", VERSION.into()), ("revision", revision.into())]).set(1);
        let instruments = Self {
            container_terminations: add(
                registry,
                "container_terminations",
                "Containers that failed while they were watched",
            ),
            incidents_opened: add(
                registry,
                "incidents_opened",
                "Incidents that began while their Orchestr object was watched",
            ),
            incidents_resolved: add(
                registry,
                "incidents_resolved",
                "Incidents that ended while their Orchestr object was watched",
            ),
            log_reads: add(registry, "log_reads", "Reads of container logs"),
            notifications: add(registry, "notifications", "Attempts to send a message to a webhook"),
            alert_log_lines: add(registry, "alert_log_lines", "Lines of --alert-log"),
            heartbeats: add(registry, "heartbeats", "Attempts to ping the heartbeat webhook"),
            status_writes: add(registry, "status_writes", "Writes of the status of Orchestr objects"),
            api_requests: add(registry, "api_requests", "Requests to the API server"),
            watch_restarts: add(registry, "watch_restarts", "Lists and watches that failed and were started again"),
            detection_latency,
            synced: add(registry, "synced", "Whether all pods are known"),
            unreadable_namespaces: add(
                registry,
                "unreadable_namespaces",
                "Namespaces of --namespaces whose pods may not be read, while others may",
            ),
            leader: add(registry, "leader", "Whether this replica writes statuses and sends alerts"),
            last_pod_event: add(
                registry,
                "last_pod_event_timestamp_seconds",
                "When a change of a pod was received last, as seconds since 1970",
            ),
        };
        for kind in ProblemKind::ALL {
            let label = [("kind", kind.as_str().into())];
            drop(instruments.incidents_opened.get_or_create(&label));
            drop(instruments.incidents_resolved.get_or_create(&label));
        }
        for result in ALERT_LOG_RESULTS {
            drop(instruments.alert_log_lines.get_or_create(&[("result", result.into())]));
        }
        for resource in WATCHED {
            drop(instruments.watch_restarts.get_or_create(&[("resource", resource.into())]));
        }
        instruments
    }
}

/// The encoder appends a full stop to the help text, and `_total` to the name of a counter.
fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}
