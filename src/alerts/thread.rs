//! Threads: the end of incidents is an answer to the message that said that they began, if the receiver has threads.
//!
//! The receiver's answer to the first message names it. This is stored with each alert that it announced, and an end is sent to
//! that thread. A message is an answer only if it is about ends of one thread: those of other threads follow a second later, because
//! answers interrupt nobody. If a thread does not exist any more, the receiver refuses the answer, and the end is sent outside of it.

use super::notification::{Alert, Notification};
use crate::api::{AlertPhase, AlertStatus, MessageKind, WebhookStatus};

/// The thread of the alerts that a message ends, if it is the same for all.
pub(super) fn thread_of(state: &WebhookStatus, ended: &[Alert]) -> Option<String> {
    let stored = |alert: &Alert| active(state, alert).and_then(thread);
    let first = stored(ended.first()?)?;
    ended.iter().all(|alert| stored(alert) == Some(first)).then(|| first.to_owned())
}

/// The thread of an alert, unless somebody has edited it to something else.
pub(super) fn thread(alert: &AlertStatus) -> Option<&str> {
    Some(alert.thread.as_str()).filter(|thread| is_timestamp(thread))
}

/// Stores the thread that a message has begun with the alerts that it announced.
pub(super) fn note(state: &mut WebhookStatus, sent: &Notification, thread: &str) {
    if sent.kind == MessageKind::Firing {
        for_each(state, &sent.started, |alert| thread.clone_into(&mut alert.thread));
    }
}

/// Lets the ends in a message that was refused be sent outside of their thread. Returns whether it was sent to a thread.
pub(super) fn leave(state: &mut WebhookStatus, sent: &Notification) -> bool {
    if sent.thread.is_some() {
        for_each(state, &sent.resolved, |alert| alert.thread.clear());
    }
    sent.thread.is_some()
}

fn for_each(state: &mut WebhookStatus, named: &[Alert], change: impl Fn(&mut AlertStatus)) {
    let is_named = |alert: &&mut AlertStatus| {
        alert.phase != AlertPhase::Resolved && named.iter().any(|named| named.key == alert.key)
    };
    state.alerts.iter_mut().filter(is_named).for_each(change);
}

fn active<'a>(state: &'a WebhookStatus, named: &Alert) -> Option<&'a AlertStatus> {
    state.alerts.iter().find(|alert| alert.phase != AlertPhase::Resolved && alert.key == *named.key)
}

/// Whether a text is Slack's name of a message, such as `1503435956.000247`.
pub(super) fn is_timestamp(text: &str) -> bool {
    let is_number = |part: &str, digits: usize| {
        (1..=digits).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.split_once('.').is_some_and(|(seconds, rest)| is_number(seconds, 12) && is_number(rest, 6))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::alerts::Incident;

    fn state(threads: &[(&str, &str)]) -> WebhookStatus {
        let alert = |(key, thread): &(&str, &str)| -> Value {
            json!({
                "key": key, "namespace": "shop", "owner": {"kind": "Deployment", "name": "cart"}, "kind": "Crash",
                "reason": "Error", "since": "2026-07-01T10:00:00Z", "phase": "Firing", "thread": thread,
            })
        };
        let alerts: Vec<_> = threads.iter().map(alert).collect();
        serde_json::from_value(json!({"name": "ops", "alerts": alerts})).unwrap()
    }

    fn named(keys: &[&str]) -> Vec<Alert> {
        let incident = |key: &&str| Incident { key: (*key).into(), ..Incident::default() };
        keys.iter().map(|key| Alert { incident: incident(key), ..Alert::default() }).collect()
    }

    #[test]
    fn an_end_is_an_answer_only_if_it_has_one_valid_thread() {
        let known =
            state(&[("a", "1503435956.000247"), ("b", "1503435956.000247"), ("c", "1.2"), ("d", ""), ("e", "x\"y")]);
        for (ended, expected) in [
            (&["a"][..], Some("1503435956.000247")),
            (&["a", "b"], Some("1503435956.000247")),
            (&["a", "c"], None),
            (&["a", "d"], None),
            (&["d"], None),
            (&["e"], None),
            (&["gone"], None),
            (&[], None),
        ] {
            assert_eq!(thread_of(&known, &named(ended)).as_deref(), expected, "{ended:?}");
        }
    }

    #[test]
    fn accepts_only_timestamps_of_messages() {
        assert!(is_timestamp("1503435956.000247") && is_timestamp("1.0"));
        for text in ["", ".", "1503435956", "1.", ".1", "1.0000000", "1234567890123.0", "-1.0", "1.0 ", "1.0.0", "a.b"]
        {
            assert!(!is_timestamp(text), "{text:?}");
        }
    }

    #[test]
    fn only_what_a_message_announces_or_ends_changes_its_thread() {
        let mut known = state(&[("a", ""), ("b", "")]);
        let mut sent = Notification { started: named(&["a"]), ..Notification::default() };
        note(&mut known, &sent, "1.2");
        assert_eq!(known, state(&[("a", "1.2"), ("b", "")]));
        sent.kind = MessageKind::Resolved;
        note(&mut known, &sent, "3.4");
        assert_eq!(known, state(&[("a", "1.2"), ("b", "")]));
        let mut end = Notification { resolved: named(&["a"]), ..Notification::default() };
        assert!(!leave(&mut known, &end) && known == state(&[("a", "1.2"), ("b", "")]), "it was sent to the channel");
        end.thread = Some("1.2".to_owned());
        assert!(leave(&mut known, &end) && known == state(&[("a", ""), ("b", "")]));
    }
}
