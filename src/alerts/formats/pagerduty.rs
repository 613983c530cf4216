//! PagerDuty's Events API, version 2: one event for one incident.

use jiff::Timestamp;
use ring::digest::{Context, SHA256};
use serde_json::{Map, Value, json};

use super::{
    budget::{Shape, fit},
    message_text,
};
use crate::{
    alerts::{Alert, Notification, Storm, sanitize},
    api::MessageKind,
    hex::hex,
};

/// The longest summary.
const SUMMARY: usize = 1_024;
const FULL: Shape = Shape { detailed: 1, logs: 16_000, message: 2_000 };
/// An event may have 512 KB; nobody reads so much.
const WANTED: usize = 64 * 1024;

/// The event for the first of what began, what goes on, what ended, or else for the storm: a
/// notification for PagerDuty tells of one.
pub(super) fn render(notification: &Notification, routing_key: &str) -> Value {
    let mut event = json!({
        "routing_key": routing_key,
        "client": "Orchestr",
    });
    let alert = notification.started.first().or(notification.ongoing.first()).or(notification.resolved.first());
    let filled = match (alert, &notification.storm) {
        (Some(alert), _) => {
            let details = |shape| details(notification, alert, shape);
            let details = fit(notification, FULL, WANTED, details, |details| details.to_string().len());
            of_alert(notification, alert, details)
        }
        (None, Some(storm)) => of_storm(notification, storm),
        (None, None) => Map::new(),
    };
    if let Value::Object(event) = &mut event {
        event.extend(filled);
    }
    event
}

fn of_alert(notification: &Notification, alert: &Alert, details: Value) -> Map<String, Value> {
    // The webhook's name is no part of it: two webhooks that tell of one incident open one.
    let key = dedup_key(notification, &[&alert.key]);
    let test = notification.kind == MessageKind::Test;
    event(notification, &key, alert.resolved_at.is_some(), || {
        json!({
            "summary": sanitize::truncate(&message_text::headline(notification), SUMMARY),
            "source": place(notification, &alert.namespace, &alert.owner.name),
            "severity": if test { "info" } else { "error" },
            "timestamp": since(alert.since, notification.now),
            "component": sanitize::single_line(&alert.owner.name, 253),
            "group": sanitize::single_line(&alert.namespace, 63),
            "class": sanitize::single_line(&alert.reason, 128),
            "custom_details": details,
        })
    })
}

fn of_storm(notification: &Notification, storm: &Storm) -> Map<String, Value> {
    let object = &notification.source.object;
    let key = dedup_key(notification, &["storm", &notification.webhook]);
    event(notification, &key, storm.resolved_at.is_some(), || {
        let reasons = message_text::reasons(&notification.reasons);
        let summary = format!("{}: {} more problems: {reasons}", message_text::mark(notification), storm.count);
        json!({
            "summary": sanitize::truncate(&summary, SUMMARY),
            "source": place(notification, &object.namespace, &object.name),
            "severity": "critical",
            "timestamp": since(storm.since, notification.now),
            "class": "Storm",
            "custom_details": storm_details(notification, storm, &reasons),
        })
    })
}

fn storm_details(notification: &Notification, storm: &Storm, reasons: &str) -> Value {
    let mut details = json!({ "problems": storm.count, "reasons": reasons });
    let cluster = sanitize::single_line(&notification.source.cluster, 63);
    if !cluster.is_empty() {
        details["Cluster"] = json!(cluster);
    }
    details
}

/// Where something is, over all clusters.
fn place(notification: &Notification, namespace: &str, name: &str) -> String {
    let cluster = sanitize::single_line(&notification.source.cluster, 63);
    let cluster = if cluster.is_empty() { cluster } else { format!("{cluster}/") };
    sanitize::single_line(&format!("{cluster}{namespace}/{name}"), 384)
}

fn event(notification: &Notification, key: &str, over: bool, payload: impl Fn() -> Value) -> Map<String, Value> {
    let mut event = Map::new();
    event.insert("event_action".to_owned(), json!(if over { "resolve" } else { "trigger" }));
    event.insert("dedup_key".to_owned(), json!(key));
    // An end names what ended and nothing else: the payload is for what begins, and for an end that is no recovery.
    if !over || notification.object_deleted {
        event.insert("payload".to_owned(), payload());
    }
    event
}

fn details(notification: &Notification, alert: &Alert, shape: Shape) -> Value {
    let mut details = Map::new();
    let cluster = sanitize::single_line(&notification.source.cluster, 63);
    if !cluster.is_empty() {
        details.insert("Cluster".to_owned(), json!(cluster));
    }
    if shape == Shape::LEAST {
        details.insert("Pods".to_owned(), json!(alert.pods.to_string()));
        return Value::Object(details);
    }
    for fact in message_text::facts(alert, notification.now, shape.message) {
        let value: String = fact
            .value
            .into_iter()
            .map(|piece| match piece {
                message_text::Piece::Ours(text) | message_text::Piece::Theirs(text) => text,
            })
            .collect();
        details.insert(fact.name.to_owned(), json!(value));
    }
    let (logs, note) = message_text::logs(alert, shape.logs);
    for (name, value) in [("Logs", logs), ("Log note", note)] {
        if !value.is_empty() {
            details.insert(name.to_owned(), json!(value));
        }
    }
    Value::Object(details)
}

fn since(since: Timestamp, now: Timestamp) -> Timestamp {
    since.min(now)
}

/// What ties the end of an incident to its beginning: 64 characters of the 255 that it may have.
fn dedup_key(notification: &Notification, parts: &[&str]) -> String {
    let source = &notification.source;
    let object = [source.uid.as_str(), &source.object.namespace, &source.object.name];
    let mut hash = Context::new(&SHA256);
    for part in object.iter().chain(parts) {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    hex(hash.finish().as_ref())
}
