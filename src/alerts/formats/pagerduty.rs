//! PagerDuty's Events API, version 2: one event for each incident.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use url::Url;

use super::{
    facts,
    labels::dedup_key,
    layout::{Layout, shrink_to_fit},
    message_text::{self, Segment, plain},
    receiver::{Pacing, Receiver},
    request::{RenderError, Request},
};
use crate::alerts::{Alert, Notification, Storm, sanitize};

/// PagerDuty's limit of a summary, in characters.
const SUMMARY: usize = 1_024;
const FULL: Layout = Layout { detailed: 1, logs: 16_000, message: 2_000, facts: 0 };
/// PagerDuty accepts 512 KB, which is more than people read.
const LIMIT: usize = 64 * 1024;

/// The query parameter of the URL with the integration key. PagerDuty itself expects the key in the body.
const ROUTING_KEY: &str = "routing_key";

pub(super) struct PagerDuty;

impl Receiver for PagerDuty {
    /// PagerDuty has one event for each incident, and accepts about 120 events a minute.
    fn pacing(&self) -> Pacing {
        Pacing::SINGLE
    }

    /// Removes the integration key from the URL.
    fn complete_url(&self, url: &mut Url) -> Result<String, &'static str> {
        take_routing_key(url).ok_or(
            "lacks its routing_key: it must end with ?routing_key=<the integration key>, which is letters and digits",
        )
    }

    fn names_budget(&self) -> usize {
        0
    }

    fn min_size(&self, _alert: &Alert, _now: Timestamp) -> usize {
        1
    }

    fn request(&self, notification: &Notification, key: &str) -> Result<Request, RenderError> {
        Ok(Request::json(&event_of(notification, key)))
    }

    fn hint(&self, status: u16) -> Option<&'static str> {
        (status == 400).then_some("check the integration key, and that it is one of Events API v2")
    }
}

fn take_routing_key(url: &mut Url) -> Option<String> {
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let key = pairs.iter().find(|(name, _)| name == ROUTING_KEY).map(|(_, value)| value.clone())?;
    let rest: Vec<_> = pairs.into_iter().filter(|(name, _)| name != ROUTING_KEY).collect();
    url.set_query(None);
    if !rest.is_empty() {
        url.query_pairs_mut().extend_pairs(rest);
    }
    let plain = key.len() <= 64 && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (plain && !key.is_empty()).then_some(key)
}

/// The event for the single incident of the notification, or for the storm.
fn event_of(notification: &Notification, routing_key: &str) -> Value {
    let mut event = json!({
        "routing_key": routing_key,
        "client": "Orchestr",
    });
    let alert = notification.started.first().or(notification.ongoing.first()).or(notification.resolved.first());
    let fields = match (alert, &notification.storm) {
        (Some(alert), _) => {
            let details = |layout| details(notification, alert, layout);
            let details = shrink_to_fit(notification, FULL, LIMIT, details, |details| details.to_string().len());
            alert_event(notification, alert, details)
        }
        (None, Some(storm)) => storm_event(notification, storm),
        (None, None) => Map::new(),
    };
    if let Value::Object(event) = &mut event {
        event.extend(fields);
    }
    event
}

fn alert_event(notification: &Notification, alert: &Alert, details: Value) -> Map<String, Value> {
    // Without the webhook's name: two webhooks with the same receiver open one PagerDuty incident.
    let key = dedup_key(notification, &[&alert.key]);
    // A common cause may have no namespace.
    let group: &str = if alert.namespace.is_empty() { &alert.owner.kind } else { &alert.namespace };
    let may_continue = notification.farewell.is_some() || alert.remaining > 0;
    let mut event = event(&key, alert.resolved_at.is_some(), may_continue, || {
        json!({
            "summary": message_text::headline(notification, SUMMARY),
            "source": event_source(notification, group, &alert.owner.name),
            "severity": alert.severity.as_str(),
            "timestamp": since(alert.since, notification.now),
            "component": sanitize::single_line(&alert.owner.name, 253),
            "group": sanitize::single_line(group, 63),
            "class": sanitize::single_line(&alert.reason, 128),
            "custom_details": details,
        })
    });
    let links: Vec<Value> =
        facts::links(alert).into_iter().map(|(name, url)| json!({ "href": url, "text": name })).collect();
    if event.contains_key("payload") && !links.is_empty() {
        event.insert("links".to_owned(), json!(links));
    }
    event
}

fn storm_event(notification: &Notification, storm: &Storm) -> Map<String, Value> {
    let object = &notification.source.object;
    let key = dedup_key(notification, &["storm", &notification.webhook]);
    event(&key, storm.resolved_at.is_some(), notification.farewell.is_some(), || {
        let reasons = message_text::reason_counts(&notification.reasons);
        let mut summary = format!("{}: {} more problems", message_text::status_prefix(notification), storm.count);
        if !reasons.is_empty() {
            summary += &format!(": {reasons}");
        }
        json!({
            "summary": sanitize::truncate(&summary, SUMMARY),
            "source": event_source(notification, &object.namespace, &object.name),
            "severity": storm.severity.as_str(),
            "timestamp": since(storm.since, notification.now),
            "class": "Storm",
            "custom_details": storm_details(notification, storm, &reasons),
        })
    })
}

fn storm_details(notification: &Notification, storm: &Storm, reasons: &str) -> Value {
    let mut details = json!({ "problems": storm.count, "reasons": reasons });
    if let Some(named) = message_text::critical_namespaces(storm) {
        details["New critical problems in"] = json!(named);
    }
    let cluster = sanitize::single_line(&notification.source.cluster, 63);
    if !cluster.is_empty() {
        details["Cluster"] = json!(cluster);
    }
    if let Some(held_back) = message_text::held_back(notification) {
        details["Held back"] = json!(held_back);
    }
    details
}

fn event_source(notification: &Notification, namespace: &str, name: &str) -> String {
    let cluster = sanitize::single_line(&notification.source.cluster, 63);
    let cluster = if cluster.is_empty() { cluster } else { format!("{cluster}/") };
    sanitize::single_line(&format!("{cluster}{namespace}/{name}"), 384)
}

fn event(key: &str, resolved: bool, may_continue: bool, payload: impl Fn() -> Value) -> Map<String, Value> {
    let mut event = Map::new();
    event.insert("event_action".to_owned(), json!(if resolved { "resolve" } else { "trigger" }));
    event.insert("dedup_key".to_owned(), json!(key));
    // A resolve event needs the key only. After a deletion, or if a cause is no longer common, the payload says so.
    if !resolved || may_continue {
        event.insert("payload".to_owned(), payload());
    }
    event
}

fn details(notification: &Notification, alert: &Alert, layout: Layout) -> Value {
    let mut details = Map::new();
    let cluster = sanitize::single_line(&notification.source.cluster, 63);
    if !cluster.is_empty() {
        details.insert("Cluster".to_owned(), json!(cluster));
    }
    if let Some(held_back) = message_text::held_back(notification) {
        details.insert("Held back".to_owned(), json!(held_back));
    }
    if layout == Layout::NAMES_ONLY {
        details.insert("Pods".to_owned(), json!(alert.pods.to_string()));
        return Value::Object(details);
    }
    for fact in facts::facts(alert, notification.now, layout.message) {
        // Links have a field of their own.
        if let [Segment::Link(_)] = fact.value.as_slice() {
            continue;
        }
        details.insert(fact.name.to_owned(), json!(plain(&fact.value)));
    }
    let (logs, note) = facts::logs(alert, layout.logs);
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
