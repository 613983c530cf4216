//! Incidents as Prometheus alerts: labels identify an alert, annotations describe it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ring::digest::{Context, SHA256};
use serde_json::Value;

use super::{
    facts::{self, Layout, shrink_to_fit},
    message_text,
};
use crate::{
    alerts::{Alert, Incident, Notification, sanitize},
    api::{Cause, MessageKind, TEAM_LENGTH},
    hex::hex,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelledAlert {
    /// They never change while the incident lasts, because Alertmanager considers other labels another alert. That is why
    /// the reason and the cause are annotations.
    pub labels: BTreeMap<&'static str, String>,
    pub annotations: BTreeMap<&'static str, String>,
    pub starts: Timestamp,
    /// `None` while firing.
    pub ends: Option<Timestamp>,
}

/// The budget for alerts in a message, in bytes of JSON. With the rest, a message stays below the 64 KiB that CloudEvents
/// intermediaries must forward.
pub(super) const NAMES_BUDGET: usize = 48_000;

/// Renders as much of a notification as fits into this many bytes of JSON.
pub(super) fn fit(notification: &Notification, limit: usize, body: impl Fn(Layout) -> Value) -> Value {
    const FULL: Layout = Layout { detailed: 1, logs: 4_000, message: 1_000, facts: 0 };
    shrink_to_fit(notification, FULL, limit, body, |body| body.to_string().len())
}

/// An upper bound of an alert's size when it is shown without log and message.
pub(super) fn min_size(alert: &Alert) -> usize {
    /// Times, common labels and field names.
    const FIXED: usize = 900;
    /// The label with the team.
    const TEAM: usize = 16;
    // The annotations with the number of the owner's pods, that a cause is no longer common, and the number of incidents that
    // ended while they were held back.
    let annotations = [(alert.of > 0, 32), (alert.remaining > 0, 96), (alert.held_back > 0, 96)];
    let Incident { namespace, owner, container, reason, .. } = &alert.incident;
    let texts: [&str; 5] = [namespace, &owner.kind, &owner.name, container, reason];
    let escaped = |text: &&str| serde_json::to_string(text).map_or(0, |text| text.len());
    let cause = if alert.cause == Cause::Unknown { 0 } else { alert.cause.as_str().len() + 8 };
    // Each is a label or annotation, and part of the summary.
    FIXED
        + 2 * (texts.iter().map(escaped).sum::<usize>() + cause)
        + if alert.team.is_empty() { 0 } else { 2 * (TEAM + alert.team.len()) }
        + annotations.into_iter().filter(|(is_shown, _)| *is_shown).map(|(_, size)| size).sum::<usize>()
}

/// The alerts of a notification, newly firing ones first, and the number of incidents that are omitted.
pub(super) fn alerts(notification: &Notification, layout: Layout) -> (Vec<LabelledAlert>, u64) {
    let all = notification.started.iter().chain(&notification.resolved).chain(&notification.ongoing);
    let mut alerts: Vec<_> = all.map(|alert| labelled(notification, alert, layout)).collect();
    let mut omitted = notification.omitted;
    if let Some(storm) = &notification.storm {
        omitted = omitted.saturating_add(storm.count);
        let mut labels = common_labels(notification);
        labels.insert("alertname", "OrchestrStorm".to_owned());
        // The storms of two webhooks differ, because each format has its own limit.
        labels.insert("webhook", sanitize::single_line(&notification.webhook, 63));
        labels.insert("severity", storm.first_severity.as_str().to_owned());
        let summary = match storm.resolved_at {
            None => format!("{} more problems, too many to list", storm.count),
            Some(_) => match notification.farewell {
                Some(farewell) => message_text::farewell(farewell).to_owned(),
                None => "The problems that were too many to list are over".to_owned(),
            },
        };
        let mut annotations = BTreeMap::from([
            ("summary", summary),
            ("problems", storm.count.to_string()),
            ("reasons", message_text::reason_counts(&notification.reasons)),
        ]);
        annotations.extend(message_text::critical_namespaces(storm).map(|named| ("critical_namespaces", named)));
        annotations.extend(message_text::ended_while_held_back(storm.held_back).map(|text| ("held_back", text)));
        alerts.push(LabelledAlert {
            labels,
            annotations,
            starts: storm.since.min(notification.now),
            ends: storm.resolved_at.map(|ended| ended.max(storm.since)),
        });
    }
    // Once for the message: it is about none of its alerts.
    if let (Some(first), Some(held_back)) = (alerts.first_mut(), message_text::held_back(notification)) {
        first.annotations.insert("held_back", held_back);
    }
    (alerts, omitted)
}

fn labelled(notification: &Notification, alert: &Alert, layout: Layout) -> LabelledAlert {
    let mut labels = common_labels(notification);
    let reason = sanitize::single_line(&alert.reason, 128);
    let kind = message_text::kind(notification, alert);
    let common = alert.is_common_cause;
    let [owner_kind, owner_name] = if common { ["cause_kind", "cause_name"] } else { ["owner_kind", "owner_name"] };
    for (name, value) in [
        ("alertname", if common { "OrchestrCommonCause".to_owned() } else { kind.to_owned() }),
        ("kind", if common { String::new() } else { kind.to_owned() }),
        ("namespace", sanitize::single_line(&alert.namespace, 63)),
        (owner_kind, sanitize::single_line(&alert.owner.kind, 63)),
        (owner_name, sanitize::single_line(&alert.owner.name, 253)),
        ("container", sanitize::single_line(&alert.container, 63)),
        ("severity", alert.first_severity.as_str().to_owned()),
        ("team", sanitize::single_line(&alert.team, TEAM_LENGTH)),
    ] {
        // In Prometheus, an empty label is the same as a missing one.
        if !value.is_empty() {
            labels.insert(name, value);
        }
    }
    let (logs, log_note) = facts::logs(alert, layout.logs);
    let examples = if layout.message == 0 { 0 } else { 3 };
    let pods: Vec<String> =
        alert.texts.example_pods.iter().take(examples).map(|pod| sanitize::single_line(pod, 253)).collect();
    let number = |number: u64| if number == 0 { String::new() } else { number.to_string() };
    let summary = message_text::title(alert, layout.message);
    let mut annotations = BTreeMap::from([("summary", summary)]);
    let revision = alert.texts.revision.as_ref().filter(|_| layout.message > 0);
    let link = |url: &str| if layout.message == 0 { String::new() } else { url.to_owned() };
    let links: Vec<_> = alert.links.iter().map(|(name, url)| format!("{name}: {url}")).collect();
    let has_changed = alert.severity != alert.first_severity && layout.message > 0;
    for (name, value) in [
        ("cause", message_text::cause(alert).to_owned()),
        ("reason", reason),
        ("note", message_text::note(notification, alert)),
        ("current_severity", if has_changed { alert.severity.as_str().to_owned() } else { String::new() }),
        ("runbook_url", link(&alert.runbook)),
        ("dashboard_url", link(&alert.dashboard)),
        ("links", link(&links.join("; "))),
        ("description", sanitize::single_line(&alert.texts.message, layout.message)),
        ("pods", number(alert.pods)),
        ("of", if alert.pods == 0 { String::new() } else { number(alert.of) }),
        ("problems", number(alert.members.len() as u64)),
        ("affected", if layout.message == 0 { String::new() } else { message_text::members(alert, layout.message) }),
        ("revision", revision.map_or_else(String::new, |revision| sanitize::single_line(&revision.name, 253))),
        ("healthy_before", revision.map_or_else(String::new, |revision| revision.healthy_before.to_string())),
        (
            "changes",
            revision.map_or_else(String::new, |revision| message_text::join(&revision.changes, layout.message)),
        ),
        ("held_back", message_text::ended_while_held_back(alert.held_back).unwrap_or_default()),
        ("evidence", message_text::join(&alert.texts.evidence, layout.message)),
        ("example_pods", pods.join(", ")),
        ("logs", logs),
        ("log_note", log_note),
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

/// The labels that identify the object, across clusters.
pub(super) fn group_labels(notification: &Notification) -> BTreeMap<&'static str, String> {
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

fn common_labels(notification: &Notification) -> BTreeMap<&'static str, String> {
    let test = notification.kind == MessageKind::Test;
    let severity = if test { "info" } else { "warning" };
    let mut labels = group_labels(notification);
    labels.insert("severity", severity.to_owned());
    if test {
        labels.insert("test", "true".to_owned());
    }
    labels
}

/// The fingerprint of labels in Alertmanager (`LabelSet.Fingerprint` of prometheus/common): FNV-1a of the sorted names
/// and values, with a byte 255 after each.
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

/// Connects the end of an alert with its start, for receivers that have one event for each. 64 characters; PagerDuty accepts
/// 255, and Opsgenie 512.
pub(super) fn dedup_key(notification: &Notification, parts: &[&str]) -> String {
    let source = &notification.source;
    let object = [source.uid.as_str(), &source.object.namespace, &source.object.name];
    let mut hash = Context::new(&SHA256);
    for part in object.iter().chain(parts) {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    hex(hash.finish().as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_equals_alertmanagers() {
        // The fingerprint of no labels is the offset of FNV-1a.
        assert_eq!(fingerprint(&BTreeMap::new()), "cbf29ce484222325");
        let labels =
            BTreeMap::from([("name", "garland, briggs".to_owned()), ("fear", "love is not enough".to_owned())]);
        assert_eq!(fingerprint(&labels), format!("{:016x}", 5_799_056_148_416_392_346_u64));
    }
}
