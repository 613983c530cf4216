//! Renders hostile texts in every format: messages stay within the receivers' limits, and contain no foreign markup.

use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::Value;

use super::reader::{LINK, check};
use crate::alerts::simulation::{Behaviour, Simulation, request};
use orchestr::{
    alerts::{Incident, Notification, Texts},
    api::{Cause, MutedStatus, Owner, ProblemKind, Revision, WebhookFormat},
};

/// Fragments that attackers might write into logs and messages.
fn hostile() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        Just("<!channel> <@U012AB3CD> <https://evil.example|click>".to_owned()),
        Just("@everyone @here <@123456789012345678> <@&1> <#2>".to_owned()),
        Just("``` ` **bold** _it_ ~~s~~ ||spoiler|| > quote # head [x](https://evil.example)".to_owned()),
        Just("{{DATE(2026-01-01T00:00:00Z)}} {{{{ <at>boss@example.com</at> <<at>".to_owned()),
        Just("&lt;!channel&gt; &amp; <script>alert(1)</script> ]]>".to_owned()),
        Just("\u{202e}desrever\u{2066}\u{200b}\u{feff} \u{0}\u{1}\u{7f}\u{85}\u{2028}\r\n\t\u{1b}[2J".to_owned()),
        Just("\"\\\u{8}\u{c}'".to_owned()),
        Just("&".repeat(300)),
        Just("\\*x* \\_y_ \\@here \\".to_owned()),
        Just("😀é漢\u{10ffff}\u{fffd}".to_owned()),
        "[ -~\n]{0,80}",
        "\\PC{0,30}",
    ];
    let times = prop_oneof![4 => Just(1_usize), 1 => 1_usize..60];
    (prop::collection::vec(fragment, 0..4), times).prop_map(|(fragments, times)| fragments.concat().repeat(times))
}

fn hostile_incident() -> impl Strategy<Value = Incident> {
    let texts = (hostile(), hostile(), hostile(), hostile(), hostile(), hostile());
    (texts, prop::collection::vec(hostile(), 0..5), any::<u64>(), -9_000_000_000_i64..9_000_000_000).prop_map(
        |((namespace, owner, container, reason, message, logs), example_pods, pods, since)| Incident {
            key: reason.as_str().into(),
            namespace: namespace.into(),
            owner: Owner { kind: container.clone(), name: owner }.into(),
            container: container.into(),
            kind: ProblemKind::Crash,
            reason: reason.into(),
            cause: Cause::ALL.get(example_pods.len()).copied().unwrap_or_default(),
            since: Timestamp::from_second(since).unwrap(),
            pods,
            of: pods,
            texts: Arc::new(Texts {
                log_note: message.as_str().into(),
                revision: Some(Revision {
                    name: message.clone(),
                    healthy_before: since,
                    changes: example_pods.iter().rev().cloned().collect(),
                }),
                evidence: example_pods.clone(),
                example_pods,
                message,
                logs: logs.into(),
            }),
            // They are valid, because others are never kept.
            team: "Check-out_1.x".into(),
            runbook: LINK.into(),
            dashboard: LINK.into(),
            ..Incident::default()
        },
    )
}

/// All messages of a sequence of events with hostile texts: incidents start, others start later, some end, and the
/// receiver may reject large messages.
fn hostile_messages(format: WebhookFormat) -> impl Strategy<Value = Vec<Notification>> {
    // A few different incidents, each repeated up to 90 times.
    let incidents =
        || (prop::collection::vec(hostile_incident(), 1..3), prop_oneof![3 => 1_usize..4, 1 => 4_usize..90]);
    let rejects_details = prop_oneof![3 => Just(false), 1 => Just(true)];
    (hostile(), hostile(), incidents(), incidents(), rejects_details, 1_u64..200).prop_map(
        move |(name, cluster, first, second, rejects_details, seconds)| {
            let mut sim = Simulation::new(format);
            sim.source.cluster = cluster;
            sim.policy.name = name;
            let start = |sim: &mut Simulation, (incidents, times): (Vec<Incident>, usize), part: &str| {
                for (number, incident) in incidents.iter().cycle().take(incidents.len() * times).enumerate() {
                    sim.set_incident(Incident { key: format!("{part}{number}").into(), ..incident.clone() });
                }
            };
            start(&mut sim, first, "first");
            sim.advance(60);
            sim.stored.muted = Some(MutedStatus { ended: i64::MAX, ..MutedStatus::default() });
            if rejects_details {
                sim.receiver = Behaviour::RejectsDetails;
            }
            start(&mut sim, second, "second");
            sim.active.retain(|key, _| !key.ends_with('1'));
            sim.advance(seconds);
            if sim.policy.pacing.resend_interval.is_none() {
                sim.advance(3_700);
            }
            sim.active.clear();
            sim.advance(100);
            sim.sent.extend(sim.last_messages());
            sim.sent
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn renders_hostile_texts_within_limits_and_without_markup(
        messages in prop::sample::select(WebhookFormat::ALL.to_vec())
            .prop_flat_map(|format| hostile_messages(format).prop_map(move |messages| (format, messages))),
    ) {
        let (format, messages) = messages;
        for notification in messages {
            let request = request(&notification, format);
            let size = request.body.len();
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            check(format, &body, size, &notification);
        }
    }
}
