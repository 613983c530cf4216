//! A message to a receiver, independent of its format.

use std::{cmp::Reverse, collections::HashMap, ops::Deref};

use jiff::Timestamp;

use super::{Incident, Texts, link_template::LinkTemplate};
use crate::api::{AlertStatus, Detail, MessageKind, NamespacedName, Owner, Severity};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notification {
    /// Unique for each message, and the same for all attempts.
    pub id: String,
    pub kind: MessageKind,
    pub source: Source,
    pub webhook: String,
    /// When the message was planned; the same for all attempts.
    pub created: Timestamp,
    /// The time of this attempt.
    pub now: Timestamp,
    pub detail: Detail,
    /// Newly firing alerts, the earliest first.
    pub started: Vec<Alert>,
    /// Alerts that the receiver was sent before and whose incidents last, as far as they fit into the message.
    pub ongoing: Vec<Alert>,
    /// How many such alerts do not fit.
    pub omitted: u64,
    /// How many current incidents the receiver was sent neither before nor in this message: they are too young, or will
    /// be in the next message.
    pub unsent: u64,
    /// How many alerts that the receiver was sent have an incident that has just ended. They are reported as over unless it
    /// returns soon.
    pub ending: u64,
    /// How many other current incidents the receiver has refused for what a message says about them.
    pub refused: u64,
    /// How many other incidents silences or quiet hours hold back now.
    pub muted: u64,
    /// How many incidents began and ended while they were held back, since the last message that reported this number.
    pub ended_while_muted: u64,
    pub resolved: Vec<Alert>,
    /// The incidents beyond those that are sent one by one.
    pub storm: Option<Storm>,
    /// The reasons of all firing incidents with their counts, the most frequent first.
    pub reasons: Vec<(String, u64)>,
    /// Slack's markup of those whom the message mentions, because of the alerts that it announces.
    pub mentions: Vec<String>,
    /// The message that this one answers, if the receiver has threads: see [`AlertStatus::thread`].
    pub thread: Option<String>,
    /// Why this is the last message to its receiver: the `resolved` incidents may continue.
    pub farewell: Option<Farewell>,
}

/// The object that alerts come from. Its UID separates objects of the same name in two clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    pub object: NamespacedName,
    /// Empty if unknown, as in a test message.
    pub uid: String,
    /// `--cluster-name`; may be empty.
    pub cluster: String,
}

impl From<NamespacedName> for Source {
    fn from(object: NamespacedName) -> Self {
        Self { object, uid: String::new(), cluster: String::new() }
    }
}

/// An incident in a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alert {
    /// The incident, under the names and with the team that the receiver was first sent. If it is gone, what the status
    /// stores of it, without pods. If it is about a common cause, `owner` is its kind and name, and `namespace` is empty if it
    /// has none.
    pub incident: Incident,
    /// The severity when the receiver was first sent the alert.
    pub first_severity: Severity,
    /// The links of the spec, with their names; empty if the incident is gone.
    pub links: Vec<(String, String)>,
    /// How many links are too long.
    pub omitted_links: usize,
    /// `None` while firing.
    pub resolved_at: Option<Timestamp>,
    /// Whether the alert is about a common cause of incidents.
    pub is_common_cause: bool,
    /// How many incidents continue although the alert about their common cause is resolved.
    pub remaining: u64,
    /// How many incidents began and ended while they were held back, as the first message with this alert said; zero unless
    /// the receiver is sent alerts again and again.
    pub held_back: u64,
}

impl Deref for Alert {
    type Target = Incident;

    fn deref(&self) -> &Incident {
        &self.incident
    }
}

/// Why a receiver is sent the end of incidents that may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// The object was deleted.
    ObjectDeleted,
    /// The webhook was removed, or sends to another receiver now.
    ReceiverLeft,
}

/// Incidents beyond those that are sent one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storm {
    /// The current number; exact.
    pub count: u64,
    pub since: Timestamp,
    /// `None` while the storm lasts.
    pub resolved_at: Option<Timestamp>,
    /// The highest severity of its incidents.
    pub severity: Severity,
    /// The same when the receiver was first sent the storm.
    pub first_severity: Severity,
    /// The namespaces of critical incidents that joined since the last message about the storm, without those that such a
    /// message named less than `mention_interval` ago. At most [`Storm::NAMESPACES`].
    pub critical: Vec<String>,
    /// As of an alert.
    pub held_back: u64,
}

impl Storm {
    /// How many namespaces a message about a storm names.
    pub(super) const NAMESPACES: usize = 8;
}

impl Notification {
    /// A test message, sent by `orchestr webhook test`.
    #[must_use]
    pub fn test(id: String, source: impl Into<Source>, webhook: String, now: Timestamp) -> Self {
        let source = source.into();
        let object = &source.object;
        let incident = Incident {
            key: "test".into(),
            namespace: object.namespace.as_str().into(),
            owner: Owner { kind: "Orchestr".to_owned(), name: object.name.clone() }.into(),
            reason: "Test".into(),
            severity: Severity::Info,
            since: now,
            pods: 1,
            texts: Texts {
                example_pods: vec!["example-pod".to_owned()],
                message: "nothing is wrong: this alert was sent by orchestr webhook test".to_owned(),
                logs: "the last lines of a container's log appear here".into(),
                ..Texts::default()
            }
            .into(),
            ..Incident::default()
        };
        let alert = Alert { incident, first_severity: Severity::Info, ..Alert::default() };
        Self {
            id,
            kind: MessageKind::Test,
            source,
            webhook,
            created: now,
            now,
            reasons: vec![(alert.reason.to_string(), 1)],
            started: vec![alert],
            ..Self::default()
        }
    }

    /// The message that resolves everything in this one. A test ends with it, because some receivers keep incidents
    /// open until then.
    #[must_use]
    pub fn resolved(mut self, id: String, now: Timestamp) -> Self {
        self.resolved.append(&mut self.started);
        self.resolved.append(&mut self.ongoing);
        for alert in &mut self.resolved {
            alert.resolved_at.get_or_insert(now);
            alert.incident.pods = 0;
        }
        if let Some(storm) = &mut self.storm {
            storm.count = 0;
            storm.resolved_at.get_or_insert(now);
        }
        self.reasons.clear();
        self.mentions.clear();
        Self { id, created: now, now, ..self }
    }

    /// How many of the incidents that the receiver was sent are firing, including this message; exact.
    #[must_use]
    pub fn firing(&self) -> u64 {
        let storm = self.storm.as_ref().map_or(0, |storm| storm.count);
        ((self.started.len() + self.ongoing.len()) as u64).saturating_add(self.omitted).saturating_add(storm)
    }

    /// Whether everything that the receiver was sent is resolved.
    #[must_use]
    pub fn is_resolved(&self) -> bool {
        self.firing() == 0 && self.ending == 0
    }

    /// Whether the webhook matches no current incident at all.
    #[must_use]
    pub fn is_all_clear(&self) -> bool {
        self.is_resolved() && self.unsent == 0 && self.refused == 0 && self.muted == 0 && self.farewell.is_none()
    }
}

impl Alert {
    pub(super) fn new(
        status: &AlertStatus,
        incident: Option<&Incident>,
        links: &[LinkTemplate],
        cluster: &str,
    ) -> Self {
        let is_common_cause = !status.members.is_empty();
        let stored = Incident::from(status);
        // A common cause has no owner that runs pods.
        let links = if is_common_cause || incident.is_none() { &[] } else { links };
        let incident = match incident.cloned() {
            // The receiver considers an alert with other names or another team another alert.
            Some(current) => Incident {
                key: stored.key,
                namespace: stored.namespace,
                owner: stored.owner,
                container: stored.container,
                kind: stored.kind,
                team: stored.team,
                since: stored.since,
                ..current
            },
            None => stored,
        };
        let expanded = links.iter().filter_map(|link| Some((link.name.clone(), link.expand(&incident, cluster)?)));
        let expanded: Vec<_> = expanded.collect();
        Self {
            incident,
            // Absent if an older version stored it, whose label was always `warning`.
            first_severity: status.severity.unwrap_or_default(),
            omitted_links: links.len() - expanded.len(),
            links: expanded,
            is_common_cause,
            held_back: u64::try_from(status.held_back).unwrap_or_default(),
            ..Self::default()
        }
    }
}

/// Counts reasons, sorted by frequency, then by name.
pub(super) fn count_reasons<'a>(reasons: impl Iterator<Item = &'a str>) -> Vec<(String, u64)> {
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect();
    counts.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Notification {
        let object = NamespacedName { namespace: "shop".to_owned(), name: "cluster".to_owned() };
        Notification::test("first".to_owned(), object, "ops".to_owned(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn counts_everything_that_fires() {
        let storm = |count| Some(Storm { count, ..Storm::default() });
        let alert = message().started;
        let (none, two) = (Vec::new(), [alert.clone(), alert.clone()].concat());
        for (started, ongoing, omitted, storm, firing) in [
            (&none, &none, 0, None, 0),
            (&none, &none, 0, storm(0), 0),
            (&alert, &none, 0, None, 1),
            (&two, &alert, 0, None, 3),
            (&none, &two, 5, None, 7),
            (&two, &two, 5, storm(100), 109),
        ] {
            let (started, ongoing) = (started.clone(), ongoing.clone());
            let message = Notification { started, ongoing, omitted, storm, ..message() };
            assert_eq!((message.firing(), message.is_resolved()), (firing, firing == 0));
            let deleted = Some(Farewell::ObjectDeleted);
            for (unsent, farewell) in [(0, None), (3, None), (0, deleted), (3, deleted)] {
                let message = Notification { unsent, farewell, ..message.clone() };
                let is_all_clear = firing == 0 && unsent == 0 && farewell.is_none();
                assert_eq!(message.is_all_clear(), is_all_clear, "{firing} {unsent} {farewell:?}");
            }
        }
    }

    #[test]
    fn a_test_ends_with_a_message_that_resolves_it() {
        let later = Timestamp::from_second(90).unwrap();
        let firing = message();
        let resolved = firing.clone().resolved("second".to_owned(), later);
        let mut alert = firing.started[0].clone();
        (alert.resolved_at, alert.incident.pods) = (Some(later), 0);
        let expected = Notification {
            id: "second".to_owned(),
            created: later,
            now: later,
            started: Vec::new(),
            resolved: vec![alert],
            reasons: Vec::new(),
            ..firing
        };
        assert_eq!(resolved, expected);
    }

    #[test]
    fn counts_reasons_by_frequency_and_then_by_name() {
        let reasons = ["Error", "OOMKilled", "Evicted", "OOMKilled", "OOMKilled", "Error", "BackOff", "Evicted"];
        let counts: Vec<_> = count_reasons(reasons.into_iter());
        let counts: Vec<_> = counts.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        assert_eq!(counts, [("OOMKilled", 3), ("Error", 2), ("Evicted", 2), ("BackOff", 1)]);
    }
}
