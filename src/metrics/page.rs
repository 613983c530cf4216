//! The page of metrics, in the format that the scraper accepts.

use std::{
    fmt::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeLabelSet, EncodeMetric,
        text::{encode_eof, encode_registry},
    },
    metrics::{MetricType, gauge::ConstGauge},
    registry::Registry,
};

use super::{
    health::FailingWebhooks,
    state::{OBJECTS, ObjectSeries, State},
};

/// A format of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    OpenMetrics,
    /// The older text format, which every tool reads.
    Prometheus,
}

impl Format {
    /// OpenMetrics if the header `Accept` names it.
    pub(crate) fn accepted(accept: &str) -> Self {
        let names_it = |media: &str| {
            let mut parts = media.split(';').map(str::trim);
            parts.next() == Some("application/openmetrics-text") && !parts.any(|part| matches!(part, "q=0" | "q=0.0"))
        };
        if accept.split(',').any(names_it) { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Encodes all metrics.
pub(super) fn encode(registry: &Registry, format: Format) -> Result<String, fmt::Error> {
    let mut page = String::new();
    encode_registry(&mut page, registry)?;
    match format {
        Format::OpenMetrics => encode_eof(&mut page)?,
        Format::Prometheus => page = older(&page),
    }
    Ok(page)
}

/// Converts OpenMetrics to the older format: there, the comments about a counter name it with `_total`. Each metric has a
/// comment with its help, and then one with its type.
fn older(page: &str) -> String {
    let mut older = String::with_capacity(page.len());
    let mut help = "";
    for line in page.lines() {
        let metric = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '));
        // Writing to a string cannot fail.
        let _ = match (metric, line.strip_prefix("# HELP ")) {
            (None, Some(text)) => {
                help = text;
                continue;
            }
            (Some((name, "counter")), _) => {
                let text = help.strip_prefix(name).unwrap_or_default();
                writeln!(older, "# HELP {name}_total{text}\n# TYPE {name}_total counter")
            }
            (Some(_), _) => writeln!(older, "# HELP {help}\n{line}"),
            (None, None) => writeln!(older, "{line}"),
        };
    }
    older
}

/// What the page shows of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// There is no page. Then the state of the objects takes no memory.
    Nothing,
    /// No names of namespaces, owners and causes, because others than the administrator may read the page.
    Counts,
    Incidents,
}

/// What the objects report.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) shown: Shown,
    pub(super) state: Mutex<State>,
    pub(super) failing: Mutex<FailingWebhooks>,
}

/// Locks values that stay valid if a thread panics.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copies the state of the objects while it is locked, and encodes the copy.
#[derive(Debug)]
pub(super) struct ObjectsCollector(pub(super) Arc<Objects>);

impl Collector for ObjectsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if self.0.shown == Shown::Nothing {
            return Ok(());
        }
        let mut snapshot = lock(&self.0.state).snapshot();
        // Incidents whose names were cut may have the same labels, but a page must not have a series twice.
        snapshot.incidents.sort_unstable();
        snapshot.incidents.dedup_by(|a, b| a.0 == b.0);
        let objects: Vec<_> = snapshot.objects.iter().map(|(name, series)| (name.to_string(), series)).collect();
        let mut failing = lock(&self.0.failing).counts();
        let omitted_failing = failing.len().saturating_sub(OBJECTS);
        failing.truncate(OBJECTS);

        const PODS: (&str, &str) = ("orchestr_pods", "Pods that an Orchestr object selects.");
        const PROBLEM_PODS: (&str, &str) = ("orchestr_problem_pods", "Pods with a problem.");
        const FAILING: (&str, &str) =
            ("orchestr_failing_webhooks", "Webhooks of an Orchestr object that fail or cannot be used.");
        if self.0.shown == Shown::Incidents {
            let of_object = |name| [("object", name)];
            let pods = objects.iter().map(|(name, own)| (of_object(name.as_str()), count(own.pods)));
            family(&mut encoder, PODS, pods)?;
            let problems = objects.iter().flat_map(|(name, own)| {
                own.problems.iter().map(move |(labels, pods)| ((of_object(name), labels.as_slice()), count(*pods)))
            });
            family(&mut encoder, PROBLEM_PODS, problems)?;
            let causes = objects.iter().flat_map(|(name, own)| {
                own.common_causes.iter().map(move |(labels, pods)| ((of_object(name), labels.as_slice()), *pods))
            });
            let help = "Pods whose problems have a cause in common.";
            family(&mut encoder, ("orchestr_common_cause_pods", help), causes)?;
            let incidents = || snapshot.incidents.iter().map(|(labels, ..)| labels.as_slice());
            let pods = incidents().zip(snapshot.incidents.iter().map(|(_, pods, _)| count(*pods)));
            family(&mut encoder, ("orchestr_incident_pods", "Pods of an incident."), pods)?;
            let help = "When an incident began, as seconds since 1970.";
            let since = incidents().zip(snapshot.incidents.iter().map(|(.., since)| *since));
            family(&mut encoder, ("orchestr_incident_start_time_seconds", help), since)?;
            let failing: Vec<_> = failing.iter().map(|(object, own)| (object.to_string(), *own)).collect();
            let failing = failing.iter().map(|(name, own)| (of_object(name), count(*own)));
            family(&mut encoder, FAILING, failing)?;
        } else {
            // Where tenants share a cluster, an object is in the namespace of its tenant.
            let sum = |of: &dyn Fn(&ObjectSeries) -> u64| count(objects.iter().map(|(_, own)| of(own)).sum::<u64>());
            total(&mut encoder, PODS, sum(&|object| object.pods))?;
            total(&mut encoder, PROBLEM_PODS, sum(&|object| object.problems.iter().map(|(_, pods)| pods).sum()))?;
            snapshot.omitted_incidents = 0;
            if !failing.is_empty() {
                total(&mut encoder, FAILING, count(failing.iter().map(|(_, own)| own).sum::<usize>()))?;
            }
        }
        for (name, help, omitted) in [
            ("orchestr_incident_series_omitted", "Incidents that have no series", snapshot.omitted_incidents),
            ("orchestr_object_series_omitted", "Orchestr objects that have no series", snapshot.omitted_objects),
            (
                "orchestr_failing_webhook_series_omitted",
                "Orchestr objects with failing webhooks that have no series",
                omitted_failing,
            ),
        ] {
            total(&mut encoder, (name, &format!("{help} because there are too many.")), count(omitted))?;
        }
        Ok(())
    }
}

/// Encodes a gauge of several values. Without any, it is left out.
fn family(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    values: impl IntoIterator<Item = (impl EncodeLabelSet, i64)>,
) -> fmt::Result {
    let mut values = values.into_iter().peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

fn total(encoder: &mut DescriptorEncoder<'_>, (name, help): (&str, &str), value: i64) -> fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn count(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}
#[cfg(test)]
mod tests {
    use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

    use super::*;

    #[test]
    fn negotiates_the_format() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.1";
        for (accept, format) in [
            (prometheus, Format::OpenMetrics),
            ("text/plain, application/openmetrics-text ; version=1.0.0", Format::OpenMetrics),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            ("text/html,*/*;q=0.8", Format::Prometheus),
            ("", Format::Prometheus),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }

    #[test]
    fn both_formats_have_the_same_samples() {
        let mut registry = Registry::default();
        let counter = Family::<Vec<(String, String)>, Counter>::default();
        counter.get_or_create(&vec![("reason".to_owned(), "a\n# TYPE \"b\" counter\\".to_owned())]).inc();
        registry.register("orchestr_a", "A counter", counter);
        registry.register("orchestr_b", "A gauge", Gauge::<i64>::default());
        let sample = r##"orchestr_a_total{reason="a\n# TYPE \"b\" counter\\"} 1"##;
        assert_eq!(
            encode(&registry, Format::OpenMetrics).unwrap(),
            format!(
                "# HELP orchestr_a A counter.\n# TYPE orchestr_a counter\n{sample}\n\
                 # HELP orchestr_b A gauge.\n# TYPE orchestr_b gauge\norchestr_b 0\n# EOF\n"
            )
        );
        assert_eq!(
            encode(&registry, Format::Prometheus).unwrap(),
            format!(
                "# HELP orchestr_a_total A counter.\n# TYPE orchestr_a_total counter\n{sample}\n\
                 # HELP orchestr_b A gauge.\n# TYPE orchestr_b gauge\norchestr_b 0\n"
            )
        );
    }
}
