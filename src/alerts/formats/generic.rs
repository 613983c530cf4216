//! The body that Alertmanager posts to webhooks, version 4: what reads the one reads the other.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    budget::{Shape, fit},
    labels::{self, LabelledAlert},
};
use crate::alerts::{Notification, sanitize};

/// What an alert that isn't over has as its end: Go's zero time.
const NO_END: &str = "0001-01-01T00:00:00Z";

const FULL: Shape = Shape { detailed: 1, logs: 4_000, message: 1_000 };
/// Alertmanager's body has no limit, but what carries it often does: beyond this, logs and messages are cut.
const WANTED: usize = 20_000;

pub(super) fn render(notification: &Notification) -> Value {
    fit(notification, FULL, WANTED, |shape| body(notification, shape), |body| body.to_string().len())
}

fn body(notification: &Notification, shape: Shape) -> Value {
    let (alerts, truncated) = labels::alerts(notification, shape);
    let group = labels::group(notification);
    let key: Vec<String> = group.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    json!({
        "version": "4",
        "groupKey": format!("{{}}:{{{}}}", key.join(", ")),
        "truncatedAlerts": truncated,
        "status": status(notification.is_resolved()),
        "receiver": sanitize::single_line(&notification.webhook, 63),
        "groupLabels": group,
        "commonLabels": common(alerts.iter().map(|alert| &alert.labels)),
        "commonAnnotations": common(alerts.iter().map(|alert| &alert.annotations)),
        "externalURL": "",
        "alerts": alerts.iter().map(alert).collect::<Vec<_>>(),
    })
}

fn alert(alert: &LabelledAlert) -> Value {
    json!({
        "status": status(alert.ends.is_some()),
        "labels": alert.labels,
        "annotations": alert.annotations,
        "startsAt": alert.starts,
        "endsAt": alert.ends.as_ref().map_or_else(|| NO_END.to_owned(), Timestamp::to_string),
        "generatorURL": "",
        "fingerprint": labels::fingerprint(&alert.labels),
    })
}

fn status(resolved: bool) -> &'static str {
    if resolved { "resolved" } else { "firing" }
}

/// The pairs that all of them have.
fn common<'a>(mut sets: impl Iterator<Item = &'a BTreeMap<&'static str, String>>) -> BTreeMap<&'static str, &'a str> {
    let Some(first) = sets.next() else { return BTreeMap::new() };
    let mut common: BTreeMap<_, _> = first.iter().map(|(name, value)| (*name, value.as_str())).collect();
    for set in sets {
        common.retain(|name, value| set.get(name).is_some_and(|other| other == value));
    }
    common
}
