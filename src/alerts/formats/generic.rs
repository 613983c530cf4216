//! The format of Alertmanager's webhook receiver, version 4.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    facts::Layout,
    labels::{self, LabelledAlert},
    receiver::{Receiver, RenderError, Request},
};
use crate::alerts::{Alert, Notification, sanitize};

/// `endsAt` of a firing alert: Go's zero time.
const NO_END: &str = "0001-01-01T00:00:00Z";

/// Alertmanager sets no limit, but proxies and receivers often do.
const LIMIT: usize = 20_000;

pub(super) struct Generic;

impl Receiver for Generic {
    fn names_budget(&self) -> usize {
        labels::NAMES_BUDGET
    }

    fn min_size(&self, alert: &Alert, _now: Timestamp) -> usize {
        labels::min_size(alert)
    }

    fn request(&self, notification: &Notification, _key: &str) -> Result<Request, RenderError> {
        Ok(Request::json(&payload(notification)))
    }
}

pub(super) fn payload(notification: &Notification) -> Value {
    labels::fit(notification, LIMIT, |layout| body(notification, layout))
}

fn body(notification: &Notification, layout: Layout) -> Value {
    let (alerts, truncated) = labels::alerts(notification, layout);
    let group = labels::group_labels(notification);
    let key: Vec<String> = group.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    json!({
        "version": "4",
        "groupKey": format!("{{}}:{{{}}}", key.join(", ")),
        "truncatedAlerts": truncated,
        "status": status(notification.firing() == 0),
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

/// The pairs that all sets contain.
fn common<'a>(mut sets: impl Iterator<Item = &'a BTreeMap<&'static str, String>>) -> BTreeMap<&'static str, &'a str> {
    let Some(first) = sets.next() else { return BTreeMap::new() };
    let mut common: BTreeMap<_, _> = first.iter().map(|(name, value)| (*name, value.as_str())).collect();
    for set in sets {
        common.retain(|name, value| set.get(name).is_some_and(|other| other == value));
    }
    common
}
