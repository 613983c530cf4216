//! Encodes the state of the objects.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, LabelSetEncoder},
    metrics::{MetricType, gauge::ConstGauge},
    registry::Registry,
};

use super::{
    Metrics,
    health::lock,
    state::{IncidentLabels, OBJECTS, ObjectSeries},
};

/// Copies the state while it is locked, and encodes the copy.
#[derive(Debug)]
struct StateCollector(Metrics);

impl Metrics {
    /// Registers all metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        self.0.instruments.register(registry);
        registry.register_collector(Box::new(StateCollector(self.clone())));
    }
}

/// Labels by name.
struct Labels<'a, const N: usize>([(&'static str, &'a str); N]);

impl<const N: usize> EncodeLabelSet for Labels<'_, N> {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        self.0.encode(encoder)
    }
}

fn of_incident(labels: &IncidentLabels) -> Labels<'_, 7> {
    Labels([
        ("namespace", &labels.namespace),
        ("owner_kind", &labels.owner_kind),
        ("owner_name", &labels.owner_name),
        ("container", &labels.container),
        ("kind", labels.kind),
        ("reason", &labels.reason),
        ("cause", labels.cause),
    ])
}

/// Encodes a gauge. Without any values, it is left out.
fn gauge<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (Labels<'a, N>, i64)>,
) -> fmt::Result {
    let mut values = values.into_iter().peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        if N == 0 {
            return ConstGauge::new(value).encode(metric);
        }
        let own = metric.encode_family(&labels)?;
        ConstGauge::new(value).encode(own)?;
    }
    Ok(())
}

fn count(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

impl Collector for StateCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let shared = &self.0.0;
        let Some(state) = &shared.state else { return Ok(()) };
        let mut snapshot = lock(state).snapshot();
        snapshot.objects.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        // Incidents whose names were cut may have the same labels, but a page must not have a series twice.
        snapshot.incidents.sort_unstable();
        snapshot.incidents.dedup_by(|a, b| a.0 == b.0);
        let objects: Vec<_> = snapshot.objects.iter().map(|object| (object.name.to_string(), object)).collect();
        let problems_of = |object: &ObjectSeries| object.problems.iter().map(|own| own.pods).sum::<u64>();

        const PODS: (&str, &str) = ("orchestr_pods", "Pods that an Orchestr object selects.");
        const PROBLEM_PODS: (&str, &str) = ("orchestr_problem_pods", "Pods with a problem.");
        if shared.hides_incidents {
            // Where tenants share a cluster, an object is in the namespace of its tenant.
            let sum =
                |of: &dyn Fn(&ObjectSeries) -> u64| count(objects.iter().map(|(_, object)| of(object)).sum::<u64>());
            gauge(&mut encoder, PODS.0, PODS.1, [(Labels([]), sum(&|object| object.pods))])?;
            gauge(&mut encoder, PROBLEM_PODS.0, PROBLEM_PODS.1, [(Labels([]), sum(&problems_of))])?;
            snapshot.incidents.clear();
            snapshot.omitted_incidents = 0;
        } else {
            let pods = objects.iter().map(|(name, object)| (Labels([("object", name)]), count(object.pods)));
            gauge(&mut encoder, PODS.0, PODS.1, pods)?;
            let problems = objects.iter().flat_map(|(name, object)| object.problems.iter().map(move |own| (name, own)));
            let problems = problems.map(|(name, own)| {
                let labels = [("object", name.as_str()), ("namespace", &own.namespace), ("reason", &own.reason)];
                (Labels(labels), count(own.pods))
            });
            gauge(&mut encoder, PROBLEM_PODS.0, PROBLEM_PODS.1, problems)?;
        }
        let causes = objects.iter().flat_map(|(name, object)| object.common_causes.iter().map(move |own| (name, own)));
        gauge(
            &mut encoder,
            "orchestr_common_cause_pods",
            "Pods whose problems have a cause in common.",
            causes.filter(|_| !shared.hides_incidents).map(|(name, own)| {
                let labels = [("object", name.as_str()), ("cause_kind", &own.kind), ("cause_name", &own.name)];
                (Labels(labels), own.pods)
            }),
        )?;
        gauge(
            &mut encoder,
            "orchestr_incident_pods",
            "Pods of an incident.",
            snapshot.incidents.iter().map(|(labels, pods, _)| (of_incident(labels), count(*pods))),
        )?;
        gauge(
            &mut encoder,
            "orchestr_incident_start_time_seconds",
            "When an incident began, as seconds since 1970.",
            snapshot.incidents.iter().map(|(labels, _, since)| (of_incident(labels), *since)),
        )?;
        gauge(
            &mut encoder,
            "orchestr_incident_series_omitted",
            "Incidents that have no series because there are too many.",
            [(Labels([]), count(snapshot.omitted_incidents))],
        )?;
        gauge(
            &mut encoder,
            "orchestr_object_series_omitted",
            "Orchestr objects that have no series because there are too many.",
            [(Labels([]), count(snapshot.omitted_objects))],
        )?;
        let mut failing = shared.health.failing_webhooks();
        failing.sort_unstable();
        failing.dedup_by(|a, b| a.0 == b.0);
        let omitted_failing = failing.len().saturating_sub(OBJECTS);
        failing.truncate(OBJECTS);
        const FAILING: (&str, &str) =
            ("orchestr_failing_webhooks", "Webhooks of an Orchestr object that fail or cannot be used.");
        if shared.hides_incidents {
            let sum = failing.iter().map(|(_, webhooks)| count(*webhooks)).sum::<i64>();
            gauge(&mut encoder, FAILING.0, FAILING.1, (sum > 0).then_some((Labels([]), sum)))?;
        } else {
            let failing: Vec<_> = failing.into_iter().map(|(object, own)| (object.to_string(), own)).collect();
            let failing = failing.iter().map(|(object, webhooks)| (Labels([("object", object)]), count(*webhooks)));
            gauge(&mut encoder, FAILING.0, FAILING.1, failing)?;
        }
        gauge(
            &mut encoder,
            "orchestr_failing_webhook_series_omitted",
            "Orchestr objects with failing webhooks that have no series because there are too many.",
            [(Labels([]), count(omitted_failing))],
        )
    }
}
