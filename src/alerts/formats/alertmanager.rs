//! Alertmanager's API, version 2: a list of alerts, which Alertmanager groups and routes.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    labels,
    layout::{Layout, shrink_to_fit},
};
use crate::alerts::{Notification, times::later};

/// An alert that is not sent again resolves after this time. It is longer than most outages of an API server, during which
/// no replica leads, so that none sends.
const VALID_FOR: Duration = Duration::from_secs(60 * 60);

const FULL: Layout = Layout { detailed: 1, logs: 4_000, message: 1_000, facts: 0 };
/// Alertmanager sets no limit. Only logs and messages are cut, as every message contains every alert.
const LIMIT: usize = 256 * 1024;

pub(super) fn render(notification: &Notification) -> Value {
    shrink_to_fit(notification, FULL, LIMIT, |layout| body(notification, layout), |body| body.to_string().len())
}

fn body(notification: &Notification, layout: Layout) -> Value {
    let (alerts, _) = labels::alerts(notification, layout);
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
