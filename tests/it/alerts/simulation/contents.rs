//! Parses the messages of each format, and checks their contents.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use super::{Behaviour, Simulation, played, rendered};
use crate::alerts::formats::reader::read;
use orchestr::{
    alerts::{Incident, Notification, Step, Texts},
    api::{AlertPhase, Detail, MessageKind, Owner, ProblemKind, WebhookFormat},
};

fn body(sim: &Simulation, message: &Notification) -> Value {
    rendered(message, sim.policy.format)
}

#[test]
fn names_the_start_and_the_end_of_every_tracked_incident() {
    for format in WebhookFormat::ALL {
        for count in [60, 100, 250] {
            let mut sim = Simulation::new(format);
            sim.active = (0..count).map(|number| (format!("work{number:04}"), sim.now)).collect();
            sim.advance(20 * 60);
            let firing: BTreeSet<String> = sim
                .stored
                .alerts
                .iter()
                .filter(|alert| alert.phase == AlertPhase::Firing)
                .map(|alert| alert.key.clone())
                .collect();
            let tracked = count.min(sim.policy.pacing.max_incidents);
            assert!((tracked * 3 / 4..=tracked).contains(&firing.len()), "{format:?} {count}: {}", firing.len());
            assert_eq!(sim.storm, (count - firing.len()) as u64, "{format:?} {count}: the others are counted");
            sim.active.clear();
            sim.advance(20 * 60);
            assert!(sim.stored.alerts.is_empty() && sim.stored.storm.is_none(), "{format:?}: {:?}", sim.stored);

            let (mut started, mut resolved, mut keys) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
            for message in sim.sent.iter().filter(|message| message.kind != MessageKind::Resend) {
                let parsed = read(format, &body(&sim, message), message.now, &mut keys);
                started.extend(parsed.firing);
                parsed.resolved.into_iter().for_each(|name| *resolved.entry(name).or_insert(0) += 1);
            }
            assert_eq!(started, firing, "{format:?} {count}");
            assert_eq!(resolved.keys().cloned().collect::<BTreeSet<_>>(), firing, "{format:?} {count}");
            let once = resolved.values().all(|times| *times == 1);
            assert!(once || format == WebhookFormat::Alertmanager, "{format:?} {count}: {resolved:?}");
        }
    }
}

#[test]
fn names_all_incidents_in_a_message_that_was_too_large() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.receiver = Behaviour::RejectsDetails;
        sim.active = (0..60).map(|number| (format!("work{number:04}"), sim.now)).collect();
        sim.advance(20 * 60);
        // Every message is checked to name its incidents.
        assert!(sim.sent.iter().all(|message| message.detail == Detail::Names), "{format:?}");
        let tracked = sim.policy.pacing.max_incidents.min(60);
        let firing = sim.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count();
        // Messages that are sent again to Alertmanager cannot be shortened, and are rejected forever.
        assert!(firing == tracked || format == WebhookFormat::Alertmanager, "{format:?}: {firing} of {tracked}");
    }
}

fn cart(reason: &str) -> Incident {
    Incident {
        key: "cart".into(),
        namespace: "shop".into(),
        owner: Owner { kind: "Deployment".to_owned(), name: "cart".to_owned() }.into(),
        container: "app".into(),
        kind: ProblemKind::Crash,
        reason: reason.into(),
        since: "2026-07-01T10:00:00Z".parse().unwrap(),
        pods: 3,
        texts: Arc::new(Texts {
            example_pods: vec!["cart-5d9f7c-a1b2c".to_owned()],
            message: "out of memory".to_owned(),
            logs: "the end".into(),
            ..Texts::default()
        }),
        ..Incident::default()
    }
}

fn texts(sim: &Simulation) -> Vec<String> {
    sim.sent.iter().map(|message| body(sim, message).to_string()).collect()
}

#[test]
fn names_the_firing_incident_in_a_repetition() {
    for format in WebhookFormat::ALL.into_iter().filter(|format| *format != WebhookFormat::Alertmanager) {
        let mut sim = Simulation::new(format);
        sim.set_incident(cart("OOMKilled"));
        sim.advance(3_700);
        assert_eq!(sim.sent.last().unwrap().kind, MessageKind::Repeat);
        let text = texts(&sim).pop().unwrap();
        assert!(text.contains("OOMKilled in shop/Deployment cart, container app"), "{format:?}: {text}");
        assert!(!text.contains("0 problems"), "{format:?}: {text}");
        if format == WebhookFormat::PagerDuty {
            let summary = body(&sim, sim.sent.last().unwrap())["payload"]["summary"].clone();
            assert_eq!(summary, "STILL FIRING: OOMKilled in shop/Deployment cart, container app");
        }
    }
}

#[test]
fn omits_pods_of_an_incident_whose_pods_cannot_be_judged() {
    for format in [WebhookFormat::Slack, WebhookFormat::Discord, WebhookFormat::Teams, WebhookFormat::PagerDuty] {
        let mut sim = Simulation::new(format);
        sim.receiver = Behaviour::Unreachable;
        sim.set_incident(cart("OOMKilled"));
        sim.advance(31);
        sim.unclear.insert("cart".to_owned());
        sim.active.clear();
        sim.receiver = Behaviour::Accepts;
        sim.advance(5);
        let text = texts(&sim).first().unwrap().clone();
        assert!(text.contains("FIRING"), "{text}");
        assert!(!text.contains("none left") && !text.contains("Pods"), "{format:?}: {text}");
    }
}

#[test]
fn sends_all_clear_only_if_no_incident_matches() {
    const ALL_CLEAR: &str = "Nothing is broken now.";
    for format in [WebhookFormat::Slack, WebhookFormat::Discord, WebhookFormat::Teams] {
        // The second incident is too young to be sent when the end of the first one is.
        let mut sim = played(format, "+1 60s -1 25s +2 10s");
        let end = texts(&sim).pop().unwrap();
        assert!(end.contains("RESOLVED") && !end.contains(ALL_CLEAR), "{format:?}: {end}");
        assert!(end.contains("1 other problem, too young to be sent or in the next message."), "{format:?}: {end}");
        sim.play("60s -2 2m");
        let end = texts(&sim).pop().unwrap();
        assert!(end.contains("RESOLVED") && end.contains(ALL_CLEAR), "{format:?}: {end}");
    }
}

#[test]
fn names_the_cluster_and_separates_objects_by_uid() {
    for format in WebhookFormat::ALL {
        let of = |cluster: &str, uid: &str| {
            let mut sim = Simulation::new(format);
            sim.source.cluster = cluster.to_owned();
            sim.source.uid = uid.to_owned();
            sim.set_incident(cart("OOMKilled"));
            sim.advance(31);
            (texts(&sim).remove(0), body(&sim, &sim.sent[0]), sim.sent[0].id.clone())
        };
        let ((text, one, id), (_, other, other_id)) = (of("prod-eu", "uid-1"), of("", "uid-2"));
        assert!(text.contains("prod-eu"), "{format:?}: {text}");
        assert_ne!(id, other_id, "{format:?}");
        let identity: &[&str] = match format {
            WebhookFormat::Generic => &["/groupKey", "/alerts/0/fingerprint"],
            WebhookFormat::Alertmanager => &["/0/labels/orchestr_uid"],
            WebhookFormat::PagerDuty => &["/dedup_key"],
            WebhookFormat::CloudEvents => &["/id", "/subject", "/source", "/data/groupKey"],
            _ => &[],
        };
        for path in identity {
            assert_ne!(one.pointer(path).unwrap(), other.pointer(path).unwrap(), "{format:?} {path}");
        }
        if format == WebhookFormat::PagerDuty {
            assert_eq!(one["payload"]["source"], "prod-eu/shop/cart");
            assert_eq!(one["payload"]["custom_details"]["Cluster"], "prod-eu");
        }
    }
}

#[test]
fn sends_no_new_alert_for_a_changed_reason() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.set_incident(cart("Error"));
        sim.advance(100);
        sim.set_incident(cart("OOMKilled"));
        sim.advance(300);
        sim.active.clear();
        sim.advance(120);
        assert_eq!(sim.said(0), "+cart | -cart", "{format:?}");
        if format == WebhookFormat::Alertmanager {
            let labels: BTreeSet<String> =
                sim.sent.iter().map(|message| body(&sim, message)[0]["labels"].to_string()).collect();
            assert_eq!(labels.len(), 1, "one alert: {labels:?}");
            let reason = |message| body(&sim, message)[0]["annotations"]["reason"].clone();
            assert_eq!(reason(&sim.sent[0]), "Error");
            assert_eq!(reason(sim.sent.last().unwrap()), "OOMKilled");
        }
    }
}

#[test]
fn notifies_receivers_of_a_deleted_object() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.set_incident(cart("OOMKilled"));
        sim.start(1);
        sim.advance(60);
        sim.start(2);
        let last = sim.last_messages();
        let single = sim.policy.pacing.single_incident;
        assert_eq!(last.len(), if single { 2 } else { 1 }, "{format:?}: only incidents that the receiver was sent");
        for message in &last {
            let text = body(&sim, message).to_string();
            let lower = text.to_lowercase();
            assert!(lower.contains("no longer watched"), "{format:?}: {text}");
            assert!(!text.contains("Nothing is broken") && !text.contains("RESOLVED"), "{format:?}: {text}");
            assert!(message.is_resolved() && !message.is_all_clear(), "{format:?}");
            if single {
                assert_eq!(body(&sim, message)["event_action"], "resolve");
            }
        }
        let named: usize = last.iter().map(|message| message.resolved.len()).sum();
        assert_eq!(named, 2, "{format:?}");
        let ids: BTreeSet<_> = last.iter().map(|message| &message.id).collect();
        assert_eq!(ids.len(), last.len());
    }
}

#[test]
fn names_all_incidents_of_a_deleted_object() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.active = (0..150).map(|number| (format!("work{number:04}"), sim.now)).collect();
        sim.advance(20 * 60);
        let known = sim.stored.alerts.len();
        let mut named = BTreeSet::new();
        let last = sim.last_messages();
        for message in &last {
            let text = body(&sim, message).to_string();
            named.extend(message.resolved.iter().map(|alert| alert.key.clone()));
            let by_key = format == WebhookFormat::PagerDuty;
            assert!(by_key || message.resolved.iter().all(|alert| text.contains(&alert.owner.name)), "{format:?}");
        }
        assert_eq!(named.len(), known, "{format:?}");
        let storm = last.iter().filter(|message| message.storm.is_some()).count();
        assert_eq!(storm, usize::from(known < 150), "{format:?}");
    }
}

#[test]
fn sends_no_deletion_notice_about_unsent_incidents() {
    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    assert!(sim.last_messages().is_empty());
    sim.start(1);
    sim.advance(10);
    assert!(sim.last_messages().is_empty(), "too young to have been sent");
    sim.receiver = Behaviour::Fails;
    sim.advance(30);
    assert_eq!(sim.last_messages().len(), 1, "it may have been accepted");
    sim.policy.send_resolved = false;
    assert!(sim.last_messages().is_empty(), "without sendResolved");
}

#[test]
fn plans_are_deterministic() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.start(1);
    sim.now += Duration::from_secs(31);
    let plans: Vec<Step> = (0..2).map(|_| sim.step()).collect();
    assert_eq!(plans[0], plans[1]);
}
