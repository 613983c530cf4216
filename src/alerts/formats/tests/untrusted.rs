//! Renders hostile texts in every format: messages stay within the receivers' limits, and contain no foreign markup.

use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    alerts::{
        Incident, Notification, Texts,
        formats::render,
        sanitize::utf16_len,
        simulation::{Behaviour, KEY, Simulation},
    },
    api::{Cause, MutedStatus, Owner, ProblemKind, Revision, WebhookFormat},
};

/// A valid link with all characters that are markup elsewhere.
const LINK: &str = "https://r.example/a_b*c~(d)[e](f)/@here/%3C!channel%3E?x=1&lt;='#$;,!";

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
            sim.sent.extend(sim.deletion_notices());
            sim.sent
        },
    )
}

/// All texts of a value with the names of their fields.
fn texts<'a>(name: &'a str, value: &'a Value, found: &mut Vec<(&'a str, &'a str)>) {
    match value {
        Value::String(text) => found.push((name, text)),
        Value::Array(values) => values.iter().for_each(|value| texts(name, value, found)),
        Value::Object(values) => values.iter().for_each(|(name, value)| texts(name, value, found)),
        _ => {}
    }
}

/// Removes code from a Markdown text.
fn without_code(text: &str) -> String {
    let outside_blocks: String = text.split("```").step_by(2).collect();
    outside_blocks.split('`').step_by(2).collect()
}

fn check_slack(body: &Value) {
    let blocks = body["blocks"].as_array().unwrap();
    assert!((1..=50).contains(&blocks.len()));
    assert!(utf16_len(blocks[0]["text"]["text"].as_str().unwrap()) <= 150);
    let mut found = Vec::new();
    texts("", body, &mut found);
    let mut total = 0;
    for (_, text) in found.iter().filter(|(name, _)| *name == "text") {
        total += utf16_len(text);
        assert!((1..=3_000).contains(&utf16_len(text)), "{text:?}");
    }
    assert!(total <= 12_000, "{total} characters");
    let mut markup = vec![body["text"].as_str().unwrap()];
    for block in blocks.iter().skip(1) {
        markup.extend(block["text"]["text"].as_str());
        markup.extend(block["elements"][0]["text"].as_str());
    }
    for text in markup {
        let text = &text.replace(&format!("<{}>", LINK.replace('&', "&amp;")), "");
        assert!(!text.contains(['<', '>']), "{text:?}");
        for entity in text.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;"].iter().any(|known| entity.starts_with(known)), "{text:?}");
        }
    }
    for block in blocks.iter().skip(1).filter(|block| block["type"] == "section") {
        let text = block["text"]["text"].as_str().unwrap();
        assert!(matches!(text.matches("```").count(), 0 | 2), "{text:?}");
        let text = without_code(text).replace(&format!("<{}>", LINK.replace('&', "&amp;")), "");
        assert!(!text.contains(['_', '~', '{', '@']), "{text:?}");
    }
}

fn check_discord(body: &Value) {
    assert_eq!(body["allowed_mentions"], json!({ "parse": [] }));
    let content = body["content"].as_str().unwrap();
    assert!((1..=2_000).contains(&utf16_len(content)));
    let embeds = body["embeds"].as_array().unwrap();
    assert!((1..=10).contains(&embeds.len()));
    let mut total = 0;
    let mut titles = vec![content];
    for embed in embeds {
        let (title, text) = (embed["title"].as_str().unwrap_or_default(), embed["description"].as_str().unwrap());
        assert!(utf16_len(title) <= 256 && (1..=4_096).contains(&utf16_len(text)));
        total += utf16_len(title) + utf16_len(text);
        titles.push(title);
        assert!(matches!(text.matches("```").count(), 0 | 2), "{text:?}");
        let text = without_code(text).replace(&format!("<{LINK}>"), "");
        assert!(!text.contains(['_', '~', '<', '@', '[', '|', '#', '\\']), "{text:?}");
    }
    assert!(total <= 6_000, "{total} characters");
    for title in titles {
        for banned in ["@everyone", "@here", "://"] {
            assert!(!title.contains(banned), "{title:?}");
        }
        let mut escaped = false;
        for c in title.chars() {
            assert!(escaped || !matches!(c, '*' | '_' | '~' | '`' | '|' | '<' | '[' | '#'), "{title:?}");
            escaped = c == '\\' && !escaped;
        }
    }
}

fn check_teams(body: &Value, size: usize) {
    assert!(size <= 20 * 1024, "{size} bytes");
    let blocks = body["attachments"][0]["content"]["body"].as_array().unwrap();
    assert!(!blocks.is_empty());
    for block in blocks {
        assert_eq!(block["type"], "RichTextBlock");
        for run in block["inlines"].as_array().unwrap() {
            assert_eq!(run["type"], "TextRun");
            assert!(!run["text"].as_str().unwrap().is_empty());
        }
    }
    let mut found = Vec::new();
    texts("", body, &mut found);
    for (_, text) in found {
        let lower = text.to_lowercase();
        assert!(!lower.contains("{{") && !lower.contains("<at") && !lower.contains("</at"), "{text:?}");
    }
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
            let request = render(&notification, format, KEY);
            let size = request.body.len();
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let named = notification.started.len() + notification.ongoing.len() + notification.resolved.len();
            let storm = notification.storm.as_ref().map_or(0, |storm| storm.count);
            let all = named + usize::from(notification.storm.is_some());
            match format {
                WebhookFormat::Slack => check_slack(&body),
                WebhookFormat::Discord => check_discord(&body),
                WebhookFormat::Teams => check_teams(&body, size),
                WebhookFormat::Generic => {
                    prop_assert!(size <= 64 * 1024, "{} bytes", size);
                    prop_assert_eq!(body["alerts"].as_array().unwrap().len(), all);
                    prop_assert_eq!(body["truncatedAlerts"].as_u64().unwrap(), notification.omitted + storm);
                }
                WebhookFormat::CloudEvents => {
                    prop_assert!(size <= 64 * 1024, "{} bytes", size);
                    prop_assert_eq!(&body["id"], &json!(notification.id));
                }
                WebhookFormat::Alertmanager => {
                    prop_assert_eq!(body.as_array().unwrap().len(), all, "no alert may be omitted");
                    prop_assert!(size <= 1024 * 1024, "{} bytes", size);
                }
                WebhookFormat::PagerDuty => {
                    prop_assert!(size <= 512_000, "{} bytes", size);
                    prop_assert!(body["payload"]["summary"].as_str().unwrap_or_default().chars().count() <= 1_024);
                    prop_assert!(body["dedup_key"].as_str().unwrap_or_default().len() <= 255);
                }
            }
        }
    }
}
