//! Alertmanager's API, version 2: a list of alerts, which it groups and routes by itself.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    budget::{Shape, fit},
    labels,
};
use crate::alerts::{Notification, incident::later};

/// Without news of it, an alert is over after this time. Alertmanager's own default
/// (`resolve_timeout`); several reminders fit into it.
const VALID_FOR: Duration = Duration::from_secs(5 * 60);

const FULL: Shape = Shape { detailed: 1, logs: 4_000, message: 1_000 };
/// Alertmanager sets no limit, and every alert is always in the message: beyond this, logs and messages are cut.
const WANTED: usize = 256 * 1024;

pub(super) fn render(notification: &Notification) -> Value {
    fit(notification, FULL, WANTED, |shape| body(notification, shape), |body| body.to_string().len())
}

fn body(notification: &Notification, shape: Shape) -> Value {
    let (alerts, _) = labels::alerts(notification, shape);
    let alert = |alert: &labels::LabelledAlert| {
        let ends = alert.ends.or_else(|| later(notification.now, VALID_FOR));
        json!({
            "labels": alert.labels,
            "annotations": alert.annotations,
            "startsAt": alert.starts,
            "endsAt": ends,
            "generatorURL": "",
        })
    };
    alerts.iter().map(alert).collect()
}
