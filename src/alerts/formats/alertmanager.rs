//! Alertmanager's API, version 2: a list of alerts, which Alertmanager groups and routes.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use url::Url;

use super::{
    facts::Layout,
    labels,
    receiver::{Pacing, Receiver, RenderError, Request},
};
use crate::alerts::{Alert, Notification, times::later};

const PATH: &str = "/api/v2/alerts";

/// An alert that is not sent again resolves after this time. It is longer than most outages of an API server, during which
/// no replica leads, so that none sends.
const VALID_FOR: Duration = Duration::from_secs(60 * 60);

/// Alertmanager sets no limit. Only logs and messages are cut, as every message contains every alert.
const LIMIT: usize = 256 * 1024;

pub(super) struct Alertmanager;

impl Receiver for Alertmanager {
    /// Alertmanager groups alerts itself. It expires a firing alert after 5 minutes (`resolve_timeout`), so it is sent all of
    /// them every minute, as Prometheus does.
    fn pacing(&self) -> Pacing {
        Pacing {
            group_interval: Duration::from_secs(5),
            max_incidents: 250,
            resend_interval: Some(Duration::from_secs(60)),
            ..Pacing::GROUPED
        }
    }

    /// Appends the path of the API if it is missing.
    fn complete_url(&self, url: &mut Url) -> Result<String, &'static str> {
        let path = url.path().trim_end_matches('/').to_owned();
        if !path.ends_with(PATH) {
            url.set_path(&format!("{path}{PATH}"));
        }
        Ok(String::new())
    }

    /// Alertmanager resolves alerts that it is not sent, so none may be left out.
    fn names_budget(&self) -> usize {
        usize::MAX
    }

    fn min_size(&self, _alert: &Alert, _now: Timestamp) -> usize {
        0
    }

    fn request(&self, notification: &Notification, _key: &str) -> Result<Request, RenderError> {
        let body = labels::fit(notification, LIMIT, |layout| body(notification, layout));
        Ok(Request::json(&body))
    }

    fn hint(&self, status: u16) -> Option<&'static str> {
        (status == 404).then_some("the URL must be Alertmanager's own, with its --web.route-prefix")
    }
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
