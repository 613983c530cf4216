//! Incidents as alerts of Prometheus: labels that name one, annotations that describe it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    budget::Shape,
    message_text::{self, FAREWELL},
};
use crate::{
    alerts::{Alert, Notification, sanitize},
    api::MessageKind,
};

/// An alert as Alertmanager knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelledAlert {
    /// What names it; never anything that changes while it goes on, as Alertmanager takes other labels for another
    /// alert. That is why the reason is an annotation.
    pub labels: BTreeMap<&'static str, String>,
    /// What describes it.
    pub annotations: BTreeMap<&'static str, String>,
    /// When it began.
    pub starts: Timestamp,
    /// When it was over; absent while it goes on.
    pub ends: Option<Timestamp>,
}

/// How much of a message its alerts may take, in bytes of JSON, at their shortest: with what every message has, it stays
/// below the 64 KiB that a carrier of CloudEvents must forward.
pub(super) const ROOM: usize = 48_000;

/// How much an alert takes at its shortest, at most.
pub(super) fn needs(alert: &Alert) -> usize {
    // Times, the labels that all alerts of a message have, and the names of fields.
    const REST: usize = 900;
    let texts = [&alert.namespace, &alert.owner.kind, &alert.owner.name, &alert.container, &alert.reason];
    let escaped = |text: &&String| serde_json::to_string(text).map_or(0, |text| text.len());
    // Each is a label, and part of the summary.
    REST + 2 * texts.iter().map(escaped).sum::<usize>()
}

/// The alerts of a notification, what began first, and how many of its incidents aren't among them.
pub(super) fn alerts(notification: &Notification, shape: Shape) -> (Vec<LabelledAlert>, u64) {
    let all = notification.started.iter().chain(&notification.resolved).chain(&notification.ongoing);
    let mut alerts: Vec<_> = all.map(|alert| of(notification, alert, shape)).collect();
    let mut omitted = notification.hidden;
    if let Some(storm) = &notification.storm {
        omitted = omitted.saturating_add(storm.count);
        let mut labels = common(notification);
        labels.insert("alertname", "OrchestrStorm".to_owned());
        // Each webhook tells one by one as many as it has room for: their storms differ.
        labels.insert("webhook", sanitize::single_line(&notification.webhook, 63));
        let summary = match storm.resolved_at {
            None => format!("{} more problems, too many to be told one by one", storm.count),
            Some(_) if notification.object_deleted => FAREWELL.to_owned(),
            Some(_) => "The problems that were too many to be told one by one are over".to_owned(),
        };
        alerts.push(LabelledAlert {
            labels,
            annotations: BTreeMap::from([
                ("summary", summary),
                ("problems", storm.count.to_string()),
                ("reasons", message_text::reasons(&notification.reasons)),
            ]),
            starts: storm.since.min(notification.now),
            ends: storm.resolved_at.map(|ended| ended.max(storm.since)),
        });
    }
    (alerts, omitted)
}

fn of(notification: &Notification, alert: &Alert, shape: Shape) -> LabelledAlert {
    let mut labels = common(notification);
    let reason = sanitize::single_line(&alert.reason, 128);
    let kind = if notification.kind == MessageKind::Test { "Test" } else { alert.kind.as_str() };
    for (name, value) in [
        ("alertname", kind.to_owned()),
        ("kind", kind.to_owned()),
        ("namespace", sanitize::single_line(&alert.namespace, 63)),
        ("owner_kind", sanitize::single_line(&alert.owner.kind, 63)),
        ("owner_name", sanitize::single_line(&alert.owner.name, 253)),
        ("container", sanitize::single_line(&alert.container, 63)),
    ] {
        // To Prometheus an empty label is an absent one.
        if !value.is_empty() {
            labels.insert(name, value);
        }
    }
    let (logs, note) = message_text::logs(alert, shape.logs);
    let examples = if shape.message == 0 { 0 } else { 3 };
    let pods: Vec<String> =
        alert.example_pods.iter().take(examples).map(|pod| sanitize::single_line(pod, 253)).collect();
    let mut annotations = BTreeMap::from([("summary", format!("{reason} in {}", message_text::place(alert)))]);
    for (name, value) in [
        ("reason", reason),
        ("note", if notification.object_deleted { FAREWELL.to_owned() } else { String::new() }),
        ("description", sanitize::single_line(&alert.message, shape.message)),
        ("pods", if alert.pods == 0 { String::new() } else { alert.pods.to_string() }),
        ("example_pods", pods.join(", ")),
        ("logs", logs),
        ("log_note", note),
    ] {
        if !value.is_empty() {
            annotations.insert(name, value);
        }
    }
    LabelledAlert {
        labels,
        annotations,
        starts: alert.since.min(notification.now),
        ends: alert.resolved_at.map(|ended| ended.max(alert.since)),
    }
}

/// The labels that all alerts of an object have, and those of no other object, in whatever cluster.
pub(super) fn group(notification: &Notification) -> BTreeMap<&'static str, String> {
    let source = &notification.source;
    let object = format!(
        "{}/{}",
        sanitize::single_line(&source.object.namespace, 63),
        sanitize::single_line(&source.object.name, 253)
    );
    let mut labels = BTreeMap::from([("orchestr", object)]);
    for (name, value) in [("cluster", &source.cluster), ("orchestr_uid", &source.uid)] {
        if !value.is_empty() {
            labels.insert(name, sanitize::single_line(value, 63));
        }
    }
    labels
}

fn common(notification: &Notification) -> BTreeMap<&'static str, String> {
    let test = notification.kind == MessageKind::Test;
    let severity = if test { "info" } else { "warning" };
    let mut labels = group(notification);
    labels.insert("severity", severity.to_owned());
    if test {
        labels.insert("test", "true".to_owned());
    }
    labels
}

/// The fingerprint that Alertmanager gives to a set of labels (`LabelSet.Fingerprint` of
/// prometheus/common): FNV-1a of the sorted names and values, a byte 255 after each.
pub(super) fn fingerprint(labels: &BTreeMap<&'static str, String>) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = OFFSET;
    for (name, value) in labels {
        for text in [*name, value] {
            for byte in text.bytes().chain([255]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
            }
        }
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_is_alertmanagers() {
        // The first is the offset itself: the fingerprint that Prometheus has for no labels.
        assert_eq!(fingerprint(&BTreeMap::new()), "cbf29ce484222325");
        let labels =
            BTreeMap::from([("name", "garland, briggs".to_owned()), ("fear", "love is not enough".to_owned())]);
        assert_eq!(fingerprint(&labels), format!("{:016x}", 5_799_056_148_416_392_346_u64));
    }
}
