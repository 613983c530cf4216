//! The messages of a webhook with default settings about problems that were recorded with a real kubelet.

use jiff::Timestamp;
use orchestr::{
    alerts::{
        CurrentMutes, GoneAlerts, IncidentMemory, MuteRules, NotificationPolicy, ObjectInput, Source, StepInput,
        record, retry::AttemptOutcome, step,
    },
    api::{NamespacedName, Webhook, WebhookStatus},
};
use serde_json::json;

use crate::replay::{Replay, recorded, replay, spec};

/// The time and reason of each message about a recorded problem.
const MESSAGES: [(&str, &[&str]); 11] = [
    ("bad-command", &["31 firing: bad-command Start StartError"]),
    ("crash-exit1", &["30 firing: crash-exit1 Crash CrashLoopBackOff"]),
    ("crash-then-runs", &["31 firing: crash-then-runs Crash Error", "631 resolved: crash-then-runs Crash Error"]),
    ("init-fails", &["30 firing: init-fails Crash CrashLoopBackOff"]),
    ("liveness-fails", &["34 firing: liveness-fails Crash CrashLoopBackOff"]),
    ("oom", &["30 firing: oom Crash OOMKilled"]),
    ("poststart-fails", &["33 firing: poststart-fails Crash CrashLoopBackOff"]),
    ("pull-bad", &["30 firing: pull-bad Image ImagePullBackOff"]),
    ("sidecar-crash", &["32 firing: sidecar-crash Crash CrashLoopBackOff"]),
    ("silent-exit0", &["31 firing: silent-exit0 Crash CrashLoopBackOff"]),
    ("startup-fails", &["35 firing: startup-fails Crash CrashLoopBackOff"]),
];

const END: i64 = 700;

/// A receiver that accepts everything, with the messages it was sent.
struct Receiver {
    source: Source,
    policy: NotificationPolicy,
    memory: IncidentMemory,
    stored: WebhookStatus,
    last_sent: Option<Timestamp>,
    sent: Vec<String>,
}

impl Receiver {
    fn new(webhook: &serde_json::Value) -> Self {
        let mut all =
            json!({"name": "ops", "format": "Generic", "urlFrom": {"secretKeyRef": {"name": "s", "key": "url"}}});
        for (key, value) in webhook.as_object().unwrap() {
            all[key] = value.clone();
        }
        let webhook: Webhook = serde_json::from_value(all).unwrap();
        let object = NamespacedName { namespace: "orchestr-system".to_owned(), name: "cluster".to_owned() };
        Self {
            source: Source { object, uid: "u".to_owned(), cluster: String::new() },
            policy: NotificationPolicy::new(0, &webhook).unwrap(),
            memory: IncidentMemory::default(),
            stored: WebhookStatus::default(),
            last_sent: None,
            sent: Vec::new(),
        }
    }

    /// Plans, stores, sends and records until nothing more is due.
    fn act(&mut self, replayed: &mut Replay) {
        let incidents = replayed.incidents.clone();
        self.memory.update(&incidents);
        loop {
            let object = ObjectInput {
                source: &self.source,
                incidents: &incidents,
                incidents_known: true,
                memory: &self.memory,
                gone: &GoneAlerts::default(),
                mute_rules: &MuteRules::default(),
                mutes: &CurrentMutes::default(),
                bytes: 64 * 1024,
                is_unstored: false,
                now: replayed.now,
            };
            let decided = step(
                &self.stored,
                &StepInput {
                    object,
                    policy: &self.policy,
                    config: "c",
                    receiver: Some("r"),
                    can_resend: false,
                    last_sent: self.last_sent,
                },
            );
            self.stored = decided.state;
            replayed.wake = decided.wake;
            let Some(message) = decided.message else { return };
            let t = replayed.now.duration_since(replayed.start).as_secs();
            let named = |word: &str, alerts: &[orchestr::alerts::Alert]| -> Vec<String> {
                let name =
                    |alert: &orchestr::alerts::Alert| format!("{} {} {}", alert.owner.name, alert.kind, alert.reason);
                alerts.iter().map(|alert| format!("{t} {word}: {}", name(alert))).collect()
            };
            self.sent.extend(named("firing", &message.started));
            self.sent.extend(named("resolved", &message.resolved));
            let taken = AttemptOutcome::Answered { status: 200, retry_after: None };
            self.stored = record(&self.stored, &message, &taken, replayed.now, 0.5);
            self.last_sent = Some(replayed.now);
        }
    }
}

/// The messages about one sequence; the operator is restarted after every reconcile or never.
fn messages(name: &str, webhook: serde_json::Value, restarting: bool) -> Vec<String> {
    let mut receiver = Receiver::new(&webhook);
    replay(&recorded()[name], spec(json!({})), END, |replayed, pod| {
        receiver.act(replayed);
        if restarting {
            replayed.restart([pod.clone()]);
            receiver.memory = IncidentMemory::default();
            receiver.last_sent = None;
        }
    });
    receiver.sent
}

#[test]
fn each_recorded_trouble_is_one_alert() {
    for (name, expected) in MESSAGES {
        assert_eq!(messages(name, json!({}), false), expected, "{name}");
        // The kubelet writes whole seconds, so the kubelet's clock may seem to be ahead after a restart.
        let parted = |message: &str| -> (i64, String) {
            let (time, rest) = message.split_once(' ').unwrap();
            (time.parse().unwrap(), rest.to_owned())
        };
        let restarted: Vec<_> = messages(name, json!({}), true).iter().map(|message| parted(message)).collect();
        let expected: Vec<_> = expected.iter().map(|message| parted(message)).collect();
        assert_eq!(restarted.len(), expected.len(), "{name}: {restarted:?}");
        for ((time, rest), (awaited, message)) in restarted.iter().zip(&expected) {
            assert!(rest == message && (time - awaited).abs() <= 1, "{name}: {restarted:?}");
        }
    }
}

#[test]
fn a_crash_loop_fires_after_ten_minutes_if_that_is_asked_for() {
    for restarting in [false, true] {
        let sent = messages("crash-exit1", json!({"after": "10m"}), restarting);
        assert_eq!(sent, ["600 firing: crash-exit1 Crash CrashLoopBackOff"], "restarting: {restarting}");
    }
}

#[test]
fn a_match_by_reason_does_not_flip() {
    for reason in ["CrashLoopBackOff", "Crash"] {
        let sent = messages("crash-exit1", json!({"match": {"reasons": [reason]}}), false);
        assert_eq!(sent, ["30 firing: crash-exit1 Crash CrashLoopBackOff"], "{reason}");
    }
    for reason in ["ErrImagePull", "ImagePullBackOff", "Image"] {
        let sent = messages("pull-bad", json!({"match": {"reasons": [reason]}}), false);
        assert_eq!(sent, ["30 firing: pull-bad Image ImagePullBackOff"], "{reason}");
    }
}
