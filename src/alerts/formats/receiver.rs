//! What a message format is, and the request that it makes of a notification.

use std::{fmt, time::Duration};

use http::{HeaderMap, HeaderValue, Method};
use jiff::Timestamp;
use serde_json::Value;
use url::Url;

use crate::alerts::{Alert, Notification};

/// The status of an answer that says in other words that the message was refused for its content.
pub(super) const REFUSED: u16 = 400;

/// The markup of a mention, or what is wrong with it.
pub(in crate::alerts) type MentionMarkup = fn(&str) -> Result<String, &'static str>;

/// A message format, and the receivers that read it: everything in which they differ from others. A format is a file with this
/// trait, a line of [`WebhookFormat`](crate::api::WebhookFormat) and of [`receiver`](super::receiver), a snapshot of its
/// messages, and a page in `docs/receivers`.
///
/// What a method returns by default is right for most receivers.
pub(in crate::alerts) trait Receiver: Sync {
    /// How often the receiver is sent messages, and how many alerts are tracked for it.
    fn pacing(&self) -> Pacing {
        Pacing::GROUPED
    }

    /// Completes the URL that a Secret contains. Returns the key that the URL has for the message itself, which is empty for
    /// most, or what the URL lacks.
    fn complete_url(&self, _url: &mut Url) -> Result<String, &'static str> {
        Ok(String::new())
    }

    /// Makes markup of an entry of `spec.webhooks[].mentions`, or says what is wrong with it. Absent if the format has no
    /// mentions.
    fn mention_markup(&self) -> Option<MentionMarkup> {
        None
    }

    /// The part of the receiver's size limit for the names of incidents, in the unit of [`Self::min_size`].
    fn names_budget(&self) -> usize;

    /// An upper bound of an incident's size in a message that shows as little of it as possible.
    fn min_size(&self, alert: &Alert, now: Timestamp) -> usize;

    /// Renders a message within the receiver's size limit, in which nothing untrusted becomes markup. `key` is that of
    /// [`Self::complete_url`].
    ///
    /// # Errors
    /// If a template of a spec fails. The formats of this program do not.
    fn request(&self, notification: &Notification, key: &str) -> Result<Request, RenderError>;

    /// The status that an answer reports in its body, although its own status is that of a success, and the code of the error if
    /// it is one of a closed set, otherwise nothing.
    fn reported_status(&self, _body: &[u8]) -> Option<(u16, &'static str)> {
        None
    }

    /// The thread that an accepted message has begun, of which this is the beginning of the answer.
    fn thread(&self, _body: &[u8]) -> Option<String> {
        None
    }

    /// What usually fixes a failure with this status, if that depends on the format.
    fn hint(&self, _status: u16) -> Option<&'static str> {
        None
    }
}

/// Removes a parameter from the query of a URL.
pub(super) fn take_parameter(url: &mut Url, name: &str) -> Option<String> {
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let (_, value) = pairs.iter().find(|(own, _)| own == name).cloned()?;
    let rest: Vec<_> = pairs.into_iter().filter(|(own, _)| own != name).collect();
    url.set_query(None);
    if !rest.is_empty() {
        url.query_pairs_mut().extend_pairs(rest);
    }
    Some(value)
}

/// An HTTP request to the URL of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: Method,
    /// Appended to the path of the URL; percent-encoded, without segments such as `..`.
    pub path: String,
    /// Appended to its query; percent-encoded.
    pub query: String,
    pub headers: HeaderMap,
    pub content_type: HeaderValue,
    pub body: Vec<u8>,
}

impl Request {
    /// JSON that is posted to the URL itself.
    pub(super) fn json(body: &Value) -> Self {
        Self {
            method: Method::POST,
            path: String::new(),
            query: String::new(),
            headers: HeaderMap::new(),
            content_type: HeaderValue::from_static("application/json"),
            body: body.to_string().into_bytes(),
        }
    }

    /// The URL of the request, on the same host as `base`.
    #[must_use]
    pub fn url(&self, base: &Url) -> Url {
        let mut url = base.clone();
        if !self.path.is_empty() {
            let (before, after) = (base.path().trim_end_matches('/'), self.path.trim_start_matches('/'));
            url.set_path(&format!("{before}/{after}"));
        }
        if !self.query.is_empty() {
            let query: Vec<&str> = base.query().into_iter().chain([self.query.as_str()]).collect();
            url.set_query(Some(&query.join("&")));
        }
        url
    }
}

/// Why a template of a custom request cannot be used, or could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderError {
    /// Such as `body` or `resolved.path`.
    pub field: String,
    /// Line and column in the template, from 1.
    pub at: Option<(usize, usize)>,
    /// Contains no values of an alert, so that it can be logged.
    pub problem: String,
    /// What more there is to say about it; may contain values.
    pub detail: String,
    /// Whether a message with less in it may be rendered.
    pub is_too_much: bool,
}

impl RenderError {
    pub(in crate::alerts) fn new(field: &str, at: Option<(usize, usize)>, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), at, problem: problem.into(), detail: String::new(), is_too_much: false }
    }

    pub(super) fn too_much(field: &str, problem: impl Into<String>) -> Self {
        Self { is_too_much: true, ..Self::new(field, None, problem) }
    }

    /// The problem and where it is, without the field.
    #[must_use]
    pub fn place_and_problem(&self) -> String {
        let detail = if self.detail.is_empty() { String::new() } else { format!(": {}", self.detail) };
        match self.at {
            Some((line, column)) => format!("line {line}, column {column}: {}{detail}", self.problem),
            None => format!("{}{detail}", self.problem),
        }
    }
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without_detail = Self { detail: String::new(), ..self.clone() };
        write!(f, "custom.{}: {}", self.field, without_detail.place_and_problem())
    }
}

/// The space for the names of incidents in one message. How many fit is decided before the message is rendered, because an
/// incident is marked as sent only if the message names it.
pub(in crate::alerts) struct MessageBudget<'a> {
    receiver: &'a dyn Receiver,
    left: usize,
    is_empty: bool,
}

impl<'a> MessageBudget<'a> {
    /// The budget of an empty message, in the unit in which the receiver measures messages.
    pub fn of(receiver: &'a dyn Receiver) -> Self {
        Self { receiver, left: receiver.names_budget(), is_empty: true }
    }

    /// Adds an incident if it fits. The first one always fits. After one that does not fit, no other does.
    pub fn try_add(&mut self, alert: &Alert, now: Timestamp) -> bool {
        let size = self.receiver.min_size(alert, now);
        let fits = std::mem::take(&mut self.is_empty) || size <= self.left;
        self.left = if fits { self.left.saturating_sub(size) } else { 0 };
        fits
    }
}

/// How often a receiver is sent messages, and how many alerts are tracked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// The minimum time from a delivered message to the next. The first message is sent without waiting.
    pub group_interval: Duration,
    /// Whether each message is about one incident only.
    pub single_incident: bool,
    /// How many incidents are tracked one by one. Those beyond them are the storm.
    pub max_incidents: usize,
    /// How often everything is sent again to a receiver that expires alerts.
    pub resend_interval: Option<Duration>,
    /// How long an alert keeps firing after its incident is gone, if its owner still has pods. Doubles each time that
    /// the incident returns.
    pub keep_firing_for: Duration,
    pub max_keep_firing_for: Duration,
    /// The same if the owner has no pods left. Not zero, because a StatefulSet has none between the deletion of its only
    /// pod and the creation of the next.
    pub keep_deleted_firing_for: Duration,
    /// How long a resolved alert stays in the status, to recognize that its incident returns.
    pub resolved_retention: Duration,
    /// The minimum time between two messages about a storm whose incidents change but do not double.
    pub storm_interval: Duration,
    /// The same if a critical incident joined it.
    pub critical_storm_interval: Duration,
    /// The minimum time between two mentions because of incidents of one namespace.
    pub mention_interval: Duration,
}

impl Pacing {
    /// For messages to people: changes within 30 s after a message are grouped into the next. Most receivers accept about one
    /// message a second, which is more than people can read.
    pub const GROUPED: Self = Self {
        group_interval: Duration::from_secs(30),
        single_incident: false,
        max_incidents: 100,
        resend_interval: None,
        keep_firing_for: Duration::from_secs(30),
        max_keep_firing_for: Duration::from_secs(5 * 60),
        keep_deleted_firing_for: Duration::from_secs(2),
        resolved_retention: Duration::from_secs(15 * 60),
        storm_interval: Duration::from_secs(5 * 60),
        critical_storm_interval: Duration::from_secs(60),
        mention_interval: Duration::from_secs(5 * 60),
    };

    /// For pagers, which have one event for each incident, and call people for it.
    pub const SINGLE: Self =
        Self { group_interval: Duration::from_secs(2), single_incident: true, max_incidents: 20, ..Self::GROUPED };

    /// Divides all times, for tests.
    #[must_use]
    pub fn divided_by(self, divisor: u32) -> Self {
        Self {
            group_interval: self.group_interval / divisor,
            resend_interval: self.resend_interval.map(|interval| interval / divisor),
            keep_firing_for: self.keep_firing_for / divisor,
            max_keep_firing_for: self.max_keep_firing_for / divisor,
            keep_deleted_firing_for: self.keep_deleted_firing_for / divisor,
            resolved_retention: self.resolved_retention / divisor,
            storm_interval: self.storm_interval / divisor,
            critical_storm_interval: self.critical_storm_interval / divisor,
            mention_interval: self.mention_interval / divisor,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divides_all_times_and_no_limits() {
        let pacing = Pacing {
            group_interval: Duration::from_secs(5),
            max_incidents: 250,
            resend_interval: Some(Duration::from_secs(60)),
            ..Pacing::GROUPED
        };
        assert_eq!(pacing.divided_by(1), pacing);
        let expected = Pacing {
            group_interval: Duration::from_millis(500),
            single_incident: false,
            max_incidents: 250,
            resend_interval: Some(Duration::from_secs(6)),
            keep_firing_for: Duration::from_secs(3),
            max_keep_firing_for: Duration::from_secs(30),
            keep_deleted_firing_for: Duration::from_millis(200),
            resolved_retention: Duration::from_secs(90),
            storm_interval: Duration::from_secs(30),
            critical_storm_interval: Duration::from_secs(6),
            mention_interval: Duration::from_secs(30),
        };
        assert_eq!(pacing.divided_by(10), expected);
    }

    #[test]
    fn joins_path_and_query_to_those_of_the_url() {
        for (base, path, query, expected) in [
            ("https://h.example", "", "", "https://h.example/"),
            ("https://h.example/a?k=1", "", "", "https://h.example/a?k=1"),
            ("https://h.example/a/?k=1", "/b/c", "x=y", "https://h.example/a/b/c?k=1&x=y"),
            ("https://h.example", "b", "x=y", "https://h.example/b?x=y"),
            ("https://h.example", "//evil.example/x", "", "https://h.example/evil.example/x"),
            ("https://h.example", "@evil.example/", "", "https://h.example/@evil.example/"),
            ("https://h.example/v1", "alerts/a%2Fb", "", "https://h.example/v1/alerts/a%2Fb"),
        ] {
            let request = Request { path: path.to_owned(), query: query.to_owned(), ..Request::json(&Value::Null) };
            assert_eq!(request.url(&Url::parse(base).unwrap()).as_str(), expected);
        }
    }
}
