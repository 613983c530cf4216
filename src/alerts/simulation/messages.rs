//! What receivers can read: each format's messages, read back.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;

use super::{World, destination};
use crate::{
    alerts::{Incident, Notification, Plan, formats::render},
    api::{AlertPhase, Detail, MessageKind, Owner, ProblemKind, WebhookFormat},
};

pub(super) const FORMATS: [WebhookFormat; 7] = [
    WebhookFormat::Generic,
    WebhookFormat::Alertmanager,
    WebhookFormat::Slack,
    WebhookFormat::Discord,
    WebhookFormat::Teams,
    WebhookFormat::PagerDuty,
    WebhookFormat::CloudEvents,
];

/// The incidents that a message names, by what it says of them.
#[derive(Debug, Default)]
struct Read {
    began: BTreeSet<String>,
    over: BTreeSet<String>,
}

fn body(world: &World, message: &Notification) -> Value {
    serde_json::from_slice(&render(message, &destination(world.policy.format)).body).unwrap()
}

/// The owners' names in a text: all are "work" and four digits.
fn names(text: &str) -> impl Iterator<Item = String> {
    text.match_indices("work").map(|(at, _)| text[at..at + 8].to_owned())
}

fn read(world: &World, message: &Notification, keys: &mut BTreeMap<String, String>) -> Read {
    let body = body(world, message);
    let mut read = Read::default();
    let all = |field: &Value| field.as_array().unwrap().clone();
    let of_alerts = |read: &mut Read, alerts: &Value, is_over: &dyn Fn(&Value) -> bool| {
        for alert in all(alerts) {
            let name = alert["labels"]["owner_name"].as_str().unwrap_or_default();
            let into = if is_over(&alert) { &mut read.over } else { &mut read.began };
            into.extend(names(name));
        }
    };
    // Text with titles above its parts.
    let mut title = "What".to_owned();
    let mut of_text = |text: &str| {
        for line in text.lines() {
            let words = line.trim_start_matches('*');
            let known = ["What", "Firing", "Over", "Still firing"].into_iter().find(|title| words.starts_with(title));
            title = known.map_or(title.clone(), str::to_owned);
            let into = if title == "Over" { &mut read.over } else { &mut read.began };
            into.extend(names(line));
        }
    };
    match world.policy.format {
        WebhookFormat::Generic => of_alerts(&mut read, &body["alerts"], &|alert| alert["status"] == "resolved"),
        WebhookFormat::CloudEvents => {
            of_alerts(&mut read, &body["data"]["alerts"], &|alert| alert["status"] == "resolved");
        }
        WebhookFormat::Alertmanager => {
            let now = world.now.to_string();
            of_alerts(&mut read, &body, &|alert| alert["endsAt"].as_str().unwrap() <= now.as_str());
        }
        WebhookFormat::Slack => {
            for block in all(&body["blocks"]).iter().skip(1) {
                of_text(block["text"]["text"].as_str().unwrap_or_default());
            }
        }
        WebhookFormat::Discord => {
            for embed in all(&body["embeds"]) {
                of_text(embed["description"].as_str().unwrap());
            }
        }
        WebhookFormat::Teams => {
            for block in all(&body["attachments"][0]["content"]["body"]).iter().skip(1) {
                let runs = all(&block["inlines"]);
                of_text(&runs.iter().map(|run| run["text"].as_str().unwrap()).collect::<String>());
            }
        }
        WebhookFormat::PagerDuty => {
            let key = body["dedup_key"].as_str().unwrap().to_owned();
            if body["event_action"] == "resolve" {
                read.over.extend(keys.get(&key).cloned());
            } else {
                let source = body["payload"]["source"].as_str().unwrap().to_owned();
                read.began.extend(names(&source));
                names(&source).for_each(|name| drop(keys.insert(key.clone(), name)));
            }
        }
    }
    read
}

#[test]
fn every_incident_that_is_marked_as_sent_is_named_and_so_is_its_end() {
    for format in FORMATS {
        for count in [60, 100, 250] {
            let mut world = World::new(format);
            world.present = (0..count).map(|number| (format!("work{number:04}"), world.now)).collect();
            world.pass(20 * 60);
            let firing: BTreeSet<String> = world
                .stored
                .alerts
                .iter()
                .filter(|alert| alert.phase == AlertPhase::Firing)
                .map(|alert| alert.key.clone())
                .collect();
            let tracked = count.min(world.policy.pace.tracked);
            assert!((tracked * 3 / 4..=tracked).contains(&firing.len()), "{format:?} {count}: {}", firing.len());
            assert_eq!(world.storm, (count - firing.len()) as u64, "{format:?} {count}: the rest is counted");
            world.present.clear();
            world.pass(20 * 60);
            assert!(world.stored.alerts.is_empty() && world.stored.storm.is_none(), "{format:?}: {:?}", world.stored);

            let (mut began, mut over, mut keys) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
            for message in world.sent.iter().filter(|message| message.kind != MessageKind::Resend) {
                world.now = message.now;
                let read = read(&world, message, &mut keys);
                began.extend(read.began);
                read.over.into_iter().for_each(|name| *over.entry(name).or_insert(0) += 1);
            }
            assert_eq!(began, firing, "{format:?} {count}");
            assert_eq!(over.keys().cloned().collect::<BTreeSet<_>>(), firing, "{format:?} {count}");
            let once = over.values().all(|times| *times == 1);
            assert!(once || format == WebhookFormat::Alertmanager, "{format:?} {count}: {over:?}");
        }
    }
}

#[test]
fn a_message_that_was_too_large_still_names_all_that_it_marks() {
    for format in FORMATS {
        let mut world = World::new(format);
        world.receiver = super::Receiver::WantsLess;
        world.present = (0..60).map(|number| (format!("work{number:04}"), world.now)).collect();
        world.pass(20 * 60);
        // That each is named is checked with every message.
        assert!(world.sent.iter().all(|message| message.detail == Detail::Names), "{format:?}");
        let tracked = world.policy.pace.tracked.min(60);
        let firing = world.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count();
        // Alertmanager's reminders can't be shorter, and are refused for good.
        assert!(firing == tracked || format == WebhookFormat::Alertmanager, "{format:?}: {firing} of {tracked}");
    }
}

fn cart(reason: &str) -> Incident {
    Incident {
        key: "cart".to_owned(),
        namespace: "shop".to_owned(),
        owner: Owner { kind: "Deployment".to_owned(), name: "cart".to_owned() },
        container: "app".to_owned(),
        kind: ProblemKind::Crash,
        reason: reason.to_owned(),
        since: "2026-07-01T10:00:00Z".parse().unwrap(),
        tolerated: std::time::Duration::ZERO,
        pods: 3,
        example_pods: vec!["cart-5d9f7c-a1b2c".to_owned()],
        message: "out of memory".to_owned(),
        logs: "the end".into(),
        log_note: String::new(),
    }
}

fn texts(world: &World) -> Vec<String> {
    world.sent.iter().map(|message| body(world, message).to_string()).collect()
}

#[test]
fn a_repetition_says_what_still_fires() {
    for format in FORMATS.into_iter().filter(|format| *format != WebhookFormat::Alertmanager) {
        let mut world = World::new(format);
        world.is(cart("OOMKilled"));
        world.pass(3_700);
        assert_eq!(world.sent.last().unwrap().kind, MessageKind::Repeat);
        let text = texts(&world).pop().unwrap();
        assert!(text.contains("OOMKilled in shop/Deployment cart, container app"), "{format:?}: {text}");
        assert!(!text.contains("0 problems"), "{format:?}: {text}");
        if format == WebhookFormat::PagerDuty {
            let summary = body(&world, world.sent.last().unwrap())["payload"]["summary"].clone();
            assert_eq!(summary, "STILL FIRING: OOMKilled in shop/Deployment cart, container app");
        }
    }
}

#[test]
fn a_beginning_whose_pods_are_gone_already_says_nothing_of_its_pods() {
    for format in [WebhookFormat::Slack, WebhookFormat::Discord, WebhookFormat::Teams, WebhookFormat::PagerDuty] {
        let mut world = World::new(format);
        world.receiver = super::Receiver::Unreachable;
        world.is(cart("OOMKilled"));
        world.pass(31);
        world.present.clear();
        world.receiver = super::Receiver::Takes;
        world.pass(5);
        let text = texts(&world).first().unwrap().clone();
        assert!(text.contains("FIRING"), "{text}");
        assert!(!text.contains("none left") && !text.contains("Pods"), "{format:?}: {text}");
    }
}

#[test]
fn nothing_is_broken_only_if_nothing_is_that_matches() {
    const CALM: &str = "Nothing is broken now.";
    for format in [WebhookFormat::Slack, WebhookFormat::Discord, WebhookFormat::Teams] {
        let mut world = World::new(format);
        world.begins(1);
        world.pass(60);
        world.ends(1);
        // Another is too young to be sent when the end of the first one is told.
        world.pass(25);
        world.begins(2);
        world.pass(10);
        let end = texts(&world).pop().unwrap();
        assert!(end.contains("RESOLVED") && !end.contains(CALM), "{format:?}: {end}");
        assert!(end.contains("1 other problem, too young to be sent or in the next message."), "{format:?}: {end}");
        world.pass(60);
        world.ends(2);
        world.pass(120);
        let end = texts(&world).pop().unwrap();
        assert!(end.contains("RESOLVED") && end.contains(CALM), "{format:?}: {end}");
    }
}

#[test]
fn every_alert_names_the_cluster_and_its_identity_is_the_objects() {
    for format in FORMATS {
        let of = |cluster: &str, uid: &str| {
            let mut world = World::new(format);
            world.source.cluster = cluster.to_owned();
            world.source.uid = uid.to_owned();
            world.is(cart("OOMKilled"));
            world.pass(31);
            (texts(&world).remove(0), body(&world, &world.sent[0]), world.sent[0].id.clone())
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
fn a_reason_that_becomes_more_telling_makes_no_new_alert() {
    for format in FORMATS {
        let mut world = World::new(format);
        world.is(cart("Error"));
        world.pass(100);
        world.is(cart("OOMKilled"));
        world.pass(300);
        world.present.clear();
        world.pass(120);
        let kinds: Vec<_> =
            world.sent.iter().map(|sent| sent.kind).filter(|kind| *kind != MessageKind::Resend).collect();
        assert_eq!(kinds, [MessageKind::Firing, MessageKind::Resolved], "{format:?}");
        if format == WebhookFormat::Alertmanager {
            let labels: BTreeSet<String> =
                world.sent.iter().map(|message| body(&world, message)[0]["labels"].to_string()).collect();
            assert_eq!(labels.len(), 1, "one alert: {labels:?}");
            let reason = |message| body(&world, message)[0]["annotations"]["reason"].clone();
            assert_eq!(reason(&world.sent[0]), "Error");
            assert_eq!(reason(world.sent.last().unwrap()), "OOMKilled");
        }
    }
}

#[test]
fn a_deleted_object_tells_each_receiver_that_nobody_watches_any_more() {
    for format in FORMATS {
        let mut world = World::new(format);
        world.is(cart("OOMKilled"));
        world.begins(1);
        world.pass(60);
        world.begins(2);
        let last = world.deletion_notices();
        let single = world.policy.pace.single;
        assert_eq!(last.len(), if single { 2 } else { 1 }, "{format:?}: only what the receiver was sent");
        for message in &last {
            let text = body(&world, message).to_string();
            let lower = text.to_lowercase();
            assert!(lower.contains("no longer watched"), "{format:?}: {text}");
            assert!(!text.contains("Nothing is broken") && !text.contains("RESOLVED"), "{format:?}: {text}");
            assert!(message.is_resolved() && !message.is_all_clear(), "{format:?}");
            if single {
                assert_eq!(body(&world, message)["event_action"], "resolve");
            }
        }
        let named: usize = last.iter().map(|message| message.resolved.len()).sum();
        assert_eq!(named, 2, "{format:?}");
        let ids: BTreeSet<_> = last.iter().map(|message| &message.id).collect();
        assert_eq!(ids.len(), last.len());
    }
}

#[test]
fn a_deleted_object_of_many_incidents_names_all_of_them() {
    for format in FORMATS {
        let mut world = World::new(format);
        world.present = (0..150).map(|number| (format!("work{number:04}"), world.now)).collect();
        world.pass(20 * 60);
        let known = world.stored.alerts.len();
        let mut named = BTreeSet::new();
        let last = world.deletion_notices();
        for message in &last {
            let text = body(&world, message).to_string();
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
fn nothing_is_sent_last_that_the_receiver_never_knew() {
    let mut world = World::new(WebhookFormat::PagerDuty);
    assert!(world.deletion_notices().is_empty());
    world.begins(1);
    world.pass(10);
    assert!(world.deletion_notices().is_empty(), "too young to have been sent");
    world.receiver = super::Receiver::LosesItAndFails;
    world.pass(30);
    assert_eq!(world.deletion_notices().len(), 1, "it may have been taken");
    world.policy.send_resolved = false;
    assert!(world.deletion_notices().is_empty(), "ends are not wanted");
}

#[test]
fn a_plan_is_a_function_of_its_input() {
    let mut world = World::new(WebhookFormat::Slack);
    world.begins(1);
    world.now += Duration::from_secs(31);
    let plans: Vec<Plan> = (0..2).map(|_| world.plan()).collect();
    assert_eq!(plans[0], plans[1]);
}
