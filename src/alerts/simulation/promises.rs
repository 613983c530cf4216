//! What users are promised of beginnings and ends, of receivers that change, and of times when nobody knows what goes on.

use std::time::Duration;

use super::{Happening, Receiver, World, key, stories::taken, webhook};
use crate::{
    alerts::{Incident, IncidentMemory, NotificationPolicy},
    api::{Match, MessageKind, WebhookFormat},
};

#[test]
fn a_deleted_incident_is_over_within_seconds_however_often_it_flapped() {
    for format in [WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
        let mut world = World::new(format);
        for _ in 0..8 {
            world.begins(1);
            world.pass(40);
            world.ends(1);
            world.pass(20);
        }
        world.begins(1);
        world.pass(40);
        let before = world.now;
        world.happens(&Happening::Deleted(1));
        world.pass(10);
        let end = world.attempts.iter().rev().find(|attempt| !attempt.ended.is_empty()).unwrap();
        assert!(end.at.duration_since(before).as_secs() <= 7, "{format:?}: {:?}", end.at.duration_since(before));
    }
}

#[test]
fn an_end_is_held_for_half_a_minute_and_for_five_minutes_at_most() {
    let mut world = World::new(WebhookFormat::PagerDuty);
    world.policy.after = Duration::from_secs(600);
    world.begins(1);
    world.pass(700);
    assert_eq!(taken(&world).len(), 1);
    let held = |world: &mut World| {
        let before = (world.now, taken(world).len());
        world.ends(1);
        while taken(world).len() == before.1 {
            world.pass(1);
        }
        world.now.duration_since(before.0).as_secs()
    };
    assert_eq!(held(&mut world), 30, "what delays the beginning does not delay the end");

    let mut world = World::new(WebhookFormat::PagerDuty);
    for _ in 0..30 {
        world.begins(1);
        world.pass(40);
        world.ends(1);
        world.pass(20);
    }
    world.begins(1);
    world.pass(40);
    assert_eq!(held(&mut world), 300, "what flaps is held longer, up to five minutes");
}

#[test]
fn alertmanager_is_reminded_while_nobody_knows_what_goes_on() {
    for usable in [true, false] {
        let mut world = World::new(WebhookFormat::Alertmanager);
        world.begins(1);
        world.pass(100);
        let before = world.sent.len();
        world.happens(&Happening::Known(false));
        world.usable = usable;
        world.pass(20 * 60);
        let reminders: Vec<_> = world.sent[before..].iter().collect();
        assert!(reminders.len() >= 19, "{} reminders in 20 minutes", reminders.len());
        assert!(reminders.iter().all(|sent| sent.ongoing.len() == 1 && sent.resolved.is_empty()), "{reminders:?}");
        // A restarted operator goes on from the status before it knows anything.
        world.last_sent = None;
        let before = world.sent.len();
        world.pass(1);
        assert_eq!(world.sent.len(), before + 1);
    }
}

#[test]
fn a_webhook_that_cannot_be_used_is_not_tried_and_what_ends_meanwhile_is_counted() {
    let mut world = World::new(WebhookFormat::Slack);
    world.usable = false;
    world.begins(1);
    world.pass(60);
    assert!(world.stored.next_attempt.is_none() && world.stored.failures == 0, "nothing was tried");
    world.ends(1);
    world.pass(600);
    world.begins(2);
    world.pass(60);
    assert_eq!((world.attempts.len(), world.stored.dropped), (0, 1));
    world.usable = true;
    world.config += 1;
    world.pass(1);
    assert_eq!(taken(&world).into_iter().map(|(_, _, began, _)| began).collect::<Vec<_>>(), [[key(2)]]);
}

#[test]
fn a_new_receiver_is_sent_what_goes_on() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Generic] {
        let mut world = World::new(format);
        world.begins(1);
        world.begins(2);
        world.pass(300);
        let before = world.sent.len();
        world.ends(2);
        world.pass(10);
        // Another version of the Secret alone makes no new receiver.
        world.happens(&Happening::SecretChanges);
        world.pass(10);
        assert_eq!(world.sent.len(), before, "{format:?}");
        world.address += 1;
        world.happens(&Happening::SecretChanges);
        world.pass(60);
        let began: Vec<_> =
            world.sent[before..].iter().flat_map(|sent| &sent.started).map(|alert| &alert.key).collect();
        assert_eq!(began, [&key(1)], "{format:?}");
        let ended: Vec<_> =
            world.sent[before..].iter().flat_map(|sent| &sent.resolved).map(|alert| &alert.key).collect();
        assert_eq!(ended, [&key(2)], "{format:?}");
    }
}

#[test]
fn a_404_during_a_rollout_of_the_receiver_costs_seconds_and_a_lasting_one_is_left_alone() {
    let mut world = World::new(WebhookFormat::Slack);
    world.receiver = Receiver::LosesItAndFails;
    world.begins(1);
    world.pass(100);
    world.receiver = Receiver::Refuses;
    let failures = world.attempts.len();
    while world.attempts.len() == failures {
        world.pass(1);
    }
    world.receiver = Receiver::Takes;
    world.pass(30);
    assert_eq!(taken(&world).len(), 1, "one 404 after other failures");
    assert_eq!((world.stored.failures, world.stored.refusals), (0, 0));

    let mut world = World::new(WebhookFormat::Slack);
    world.receiver = Receiver::Refuses;
    world.begins(1);
    world.pass(30 + 60);
    assert_eq!(world.attempts.len(), 3, "three tries within a minute");
    world.pass(25 * 60);
    assert_eq!(world.attempts.len(), 3, "then every half an hour");
    world.pass(10 * 60);
    assert_eq!(world.attempts.len(), 4);
}

#[test]
fn an_incident_that_matched_goes_on_to_match_while_its_reason_becomes_another() {
    for after in [0, 60] {
        let mut wanted = webhook(WebhookFormat::Slack);
        let texts = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
        wanted.match_ = Some(Match { namespaces: None, reasons: texts(&["Error"]) });
        let mut world = World::new(WebhookFormat::Slack);
        world.policy = NotificationPolicy::new(0, &wanted).unwrap();
        world.policy.after = Duration::from_secs(after);
        world.begins(1);
        world.happens(&Happening::Reason(1, "Error"));
        world.pass(10);
        world.happens(&Happening::Reason(1, "OOMKilled"));
        world.pass(600);
        // Also a restarted operator, which knows nothing but the status.
        world.memory = IncidentMemory::default();
        world.pass(600);
        let kinds: Vec<_> = taken(&world).into_iter().map(|(_, kind, ..)| kind).collect();
        assert_eq!(kinds, [MessageKind::Firing], "after {after} s");
        world.ends(1);
        world.pass(60);
        assert_eq!(taken(&world).len(), 2);
    }
}

#[test]
fn a_failed_pull_is_matched_by_either_of_its_names() {
    let mut wanted = webhook(WebhookFormat::Slack);
    let (names, mut incident) = (["ErrImagePull", "ImagePullBackOff"], World::new(WebhookFormat::Slack));
    incident.begins(1);
    let incident = incident.incidents().remove(0);
    for name in names {
        wanted.match_ = Some(Match { namespaces: None, reasons: Some(vec![name.to_owned()]) });
        let policy = NotificationPolicy::new(0, &wanted).unwrap();
        for reason in names {
            assert!(policy.matches(&Incident { reason: reason.to_owned(), ..incident.clone() }, &[]));
        }
        assert!(!policy.matches(&incident, &[]), "{name}");
    }
}

#[test]
fn what_ends_while_it_waits_for_room_in_a_message_is_sent() {
    let mut world = World::new(WebhookFormat::Slack);
    // Names so long that they take several messages.
    world.policy.pace.interval = Duration::from_secs(60);
    world.present = (0..80).map(|number| (format!("{}{number:03}", "x".repeat(240)), world.now)).collect();
    world.pass(31);
    world.present.clear();
    world.pass(3_600);
    let began: usize = taken(&world).iter().map(|(_, _, began, _)| began.len()).sum();
    assert_eq!((began, world.stored.dropped), (80, 0));
}

#[test]
fn a_webhook_that_somebody_stopped_by_hand_goes_on() {
    let mut world = World::new(WebhookFormat::Slack);
    world.stored.stopped = true;
    world.begins(1);
    world.pass(60);
    assert_eq!(world.sent.len(), 1);
}

#[test]
fn webhooks_share_the_room_for_alerts() {
    use crate::alerts::{ALERT_BYTES, alert_bytes};
    for webhooks in [1, 2, 10] {
        assert_eq!(alert_bytes(webhooks), ALERT_BYTES / webhooks);
    }
    assert_eq!(alert_bytes(0), ALERT_BYTES);
}
