//! PagerDuty's Events API, version 2: one event for each incident.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use url::Url;

use super::{
    facts::{self, Layout, shrink_to_fit},
    labels::dedup_key,
    markup::{Markup, Segment},
    message_text,
    receiver::{Pacing, Receiver, RenderError, Request, take_parameter},
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
    let key = take_parameter(url, ROUTING_KEY)?;
    let plain = key.len() <= 64 && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (plain && !key.is_empty()).then_some(key)
}

/// The event for the single incident of the notification, or for the storm.
fn event_of(notification: &Notification, routing_key: &str) -> Value {
    let alert = notification.started.first().or(notification.ongoing.first()).or(notification.resolved.first());
    let mut event = match (alert, &notification.storm) {
        (Some(alert), _) => alert_event(notification, alert),
        (None, Some(storm)) => storm_event(notification, storm),
        (None, None) => json!({}),
    };
    event["routing_key"] = json!(routing_key);
    event["client"] = json!("Orchestr");
    event
}

fn alert_event(notification: &Notification, alert: &Alert) -> Value {
    // Without the webhook's name: two webhooks with the same receiver open one PagerDuty incident.
    let mut event = event(&dedup_key(notification, &[&alert.key]), alert.resolved_at.is_some());
    // A resolve event needs the key only. After a deletion, or if a cause is no longer common, the payload says so.
    if alert.resolved_at.is_some() && notification.farewell.is_none() && alert.remaining == 0 {
        return event;
    }
    let details = |layout| details(notification, alert, layout);
    let details = shrink_to_fit(notification, FULL, LIMIT, details, |details| details.to_string().len());
    // A common cause may have no namespace.
    let group: &str = if alert.namespace.is_empty() { &alert.owner.kind } else { &alert.namespace };
    event["payload"] = json!({
        "summary": message_text::headline(notification, SUMMARY),
        "source": event_source(notification, group, &alert.owner.name),
        "severity": alert.severity.as_str(),
        "timestamp": alert.since.min(notification.now),
        "component": sanitize::single_line(&alert.owner.name, 253),
        "group": sanitize::single_line(group, 63),
        "class": sanitize::single_line(&alert.reason, 128),
        "custom_details": details,
    });
    let links = facts::links(alert).into_iter().map(|(name, url)| json!({ "href": url, "text": name }));
    let links: Vec<Value> = links.collect();
    if !links.is_empty() {
        event["links"] = json!(links);
    }
    event
}

fn storm_event(notification: &Notification, storm: &Storm) -> Value {
    let mut event = event(&dedup_key(notification, &["storm", &notification.webhook]), storm.resolved_at.is_some());
    if storm.resolved_at.is_some() && notification.farewell.is_none() {
        return event;
    }
    let object = &notification.source.object;
    let reasons = message_text::reason_counts(&notification.reasons);
    let mut summary = format!("{}: {} more problems", message_text::status_prefix(notification), storm.count);
    if !reasons.is_empty() {
        summary += &format!(": {reasons}");
    }
    let mut details = common_details(notification);
    details.extend([("problems".to_owned(), json!(storm.count)), ("reasons".to_owned(), json!(reasons))]);
    if let Some(named) = message_text::critical_namespaces(storm) {
        details.insert("New critical problems in".to_owned(), json!(named));
    }
    event["payload"] = json!({
        "summary": sanitize::truncate(&summary, SUMMARY),
        "source": event_source(notification, &object.namespace, &object.name),
        "severity": storm.severity.as_str(),
        "timestamp": storm.since.min(notification.now),
        "class": "Storm",
        "custom_details": details,
    });
    event
}

fn event(key: &str, is_resolved: bool) -> Value {
    json!({ "event_action": if is_resolved { "resolve" } else { "trigger" }, "dedup_key": key })
}

fn event_source(notification: &Notification, namespace: &str, name: &str) -> String {
    let cluster = message_text::cluster(notification);
    let cluster = if cluster.is_empty() { cluster } else { format!("{cluster}/") };
    sanitize::single_line(&format!("{cluster}{namespace}/{name}"), 384)
}

fn common_details(notification: &Notification) -> Map<String, Value> {
    let cluster = Some(message_text::cluster(notification)).filter(|cluster| !cluster.is_empty());
    let details = [("Cluster", cluster), ("Held back", message_text::held_back(notification))];
    details.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))).collect()
}

fn details(notification: &Notification, alert: &Alert, layout: Layout) -> Value {
    let mut details = common_details(notification);
    if layout == Layout::NAMES_ONLY {
        details.insert("Pods".to_owned(), json!(alert.pods.to_string()));
        return Value::Object(details);
    }
    for fact in facts::facts(alert, notification.now, layout.message) {
        // Links have a field of their own.
        if let [Segment::Link(_)] = fact.value.as_slice() {
            continue;
        }
        details.insert(fact.name.to_owned(), json!(Markup::PLAIN.join(&fact.value)));
    }
    let (logs, note) = facts::logs(alert, layout.logs);
    for (name, value) in [("Logs", logs), ("Log note", note)] {
        if !value.is_empty() {
            details.insert(name.to_owned(), json!(value));
        }
    }
    Value::Object(details)
}
