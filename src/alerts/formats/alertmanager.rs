//! Alertmanager's API, version 2: a list of alerts, which it groups and routes by itself.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    budget::{Limits, Shape, fit},
    labels,
};
use crate::alerts::{Notification, incident::later};

/// Without news of it, an alert is over after this time. Alertmanager's own default
/// (`resolve_timeout`); several reminders fit into it.
const VALID_FOR: Duration = Duration::from_secs(5 * 60);

const FULL: Shape = Shape { alerts: usize::MAX, logs: 4_000, message: 1_000 };
/// Alertmanager sets no limit. An alert that is left out would be taken for over: none is, as there
/// are no more of them than a webhook keeps track of.
const LIMITS: Limits = Limits { wanted: 256 * 1024, most: usize::MAX };

pub(super) fn render(notification: &Notification) -> Value {
    // Counts alone are no alerts: where logs and messages are too much, the labels remain.
    let make = |shape: Shape| body(notification, Shape { alerts: usize::MAX, ..shape });
    fit(notification, FULL, &LIMITS, make, |body| body.to_string().len())
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
