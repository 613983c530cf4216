//! A message says what is so at the moment it is sent.

use std::time::Duration;

use super::{Behaviour, CrashPoint, Event, Simulation, accepted, key, rendered_text};
use orchestr::{
    alerts::{Incident, Notification},
    api::{Cause, MessageKind, WebhookFormat},
};

fn text(sim: &Simulation, message: &Notification) -> String {
    rendered_text(message, sim.policy.format)
}

/// What the receiver was sent: whether each message announces, and the incidents that started and are resolved.
fn changes(sim: &Simulation) -> Vec<(MessageKind, Vec<String>, Vec<String>)> {
    let all = accepted(sim).into_iter().filter(|(_, kind, ..)| *kind != MessageKind::Resend);
    all.map(|(_, kind, started, resolved)| (kind, started, resolved)).collect()
}

#[test]
fn names_no_incident_as_firing_that_has_ended() {
    for format in WebhookFormat::ALL.into_iter().filter(|format| *format != WebhookFormat::PagerDuty) {
        let mut sim = Simulation::new(format);
        sim.policy.after = Duration::from_secs(5);
        sim.start(1);
        sim.start(2);
        sim.advance(70);
        let before = sim.sent.len();
        sim.end(1);
        sim.start(3);
        sim.advance(20);
        let sent: Vec<String> = sim.sent[before..].iter().map(|message| text(&sim, message)).collect();
        assert!(sent.iter().any(|text| text.contains(&key(2)) && text.contains(&key(3))), "{format:?}: {sent:?}");
        assert!(sent.iter().all(|text| !text.contains(&key(1))), "{format:?}: {sent:?}");
        let clear = sent.iter().any(|text| text.contains("Nothing is broken now"));
        sim.advance(60);
        let resolved: Vec<_> = changes(&sim).into_iter().flat_map(|(.., resolved)| resolved).collect();
        assert_eq!((clear, resolved), (false, vec![key(1)]), "{format:?}: its end is sent when it does not return");
    }
}

#[test]
fn never_fires_an_incident_that_ended_before_its_turn() {
    for format in WebhookFormat::ALL {
        for event in [Event::Ends(2), Event::Deleted(2)] {
            let mut sim = Simulation::new(format);
            sim.policy.after = Duration::ZERO;
            sim.start(1);
            sim.advance(1);
            sim.start(2);
            sim.run();
            sim.apply(&event);
            sim.advance(200);
            assert_eq!(changes(&sim), [(MessageKind::Firing, vec![key(1)], vec![])], "{format:?} {event:?}");
            assert_eq!(sim.stored.dropped, 1, "{format:?} {event:?}");
            // If it begins again, it is sent.
            sim.start(2);
            sim.advance(60);
            assert_eq!(changes(&sim).len(), 2, "{format:?} {event:?}");
        }
    }
}

#[test]
fn never_fires_what_ended_while_the_receiver_failed() {
    for format in WebhookFormat::ALL {
        for (receiver, expected) in [
            (Behaviour::Unreachable, vec![]),
            (Behaviour::AnswersNotFound, vec![]),
            // The receiver may have accepted the start, so the end is sent, but not the start.
            (Behaviour::Fails, vec![(MessageKind::Resolved, vec![], vec![key(1)])]),
            (Behaviour::AcceptsWithoutAnswering, vec![(MessageKind::Resolved, vec![], vec![key(1)])]),
        ] {
            let mut sim = Simulation::new(format);
            sim.receiver = receiver;
            sim.start(1);
            sim.advance(31);
            let (attempts, before) = (sim.attempts.len(), changes(&sim).len());
            assert!(attempts > 0, "{format:?} {receiver:?}");
            sim.apply(&Event::Deleted(1));
            sim.receiver = Behaviour::Accepts;
            sim.advance(900);
            let later = sim.attempts[attempts..].iter().filter(|attempt| attempt.kind != MessageKind::Resend);
            assert!(later.clone().all(|attempt| attempt.started.is_empty()), "{format:?} {receiver:?}");
            assert_eq!(changes(&sim)[before..], expected, "{format:?} {receiver:?}");
        }
    }
}

#[test]
fn an_incident_that_returns_before_its_turn_is_sent_once() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.policy.after = Duration::ZERO;
        sim.start(1);
        sim.advance(1);
        sim.start(2);
        sim.advance(1);
        sim.end(2);
        sim.advance(10);
        sim.start(2);
        sim.advance(60);
        let started: Vec<_> = changes(&sim).into_iter().flat_map(|(_, started, _)| started).collect();
        assert_eq!((started, sim.stored.dropped), (vec![key(1), key(2)], 0), "{format:?}");
    }
}

#[test]
fn a_withdrawn_incident_that_returns_is_sent_as_a_start() {
    for format in WebhookFormat::ALL {
        for receiver in [Behaviour::Fails, Behaviour::AcceptsWithoutAnswering, Behaviour::Gone] {
            let mut sim = Simulation::new(format);
            sim.receiver = receiver;
            if receiver == Behaviour::Gone {
                sim.apply(&Event::Crash(CrashPoint::Sending));
            }
            sim.start(1);
            sim.start(2);
            sim.advance(31);
            // The message may have been accepted. It is sent again without this incident.
            sim.apply(&Event::Ends(2));
            sim.apply(&Event::Starts(2));
            let before = changes(&sim).len();
            sim.receiver = Behaviour::Accepts;
            sim.apply(&Event::SecretChanges);
            sim.advance(900);
            let started: Vec<_> = changes(&sim)[before..].iter().flat_map(|(_, started, _)| started.clone()).collect();
            assert_eq!(started, [key(1), key(2)], "{format:?} {receiver:?}");
            assert!(sim.due_unsent.is_empty(), "{format:?} {receiver:?}");
        }
    }
}

#[test]
fn the_end_names_the_cause_that_the_start_named() {
    for format in WebhookFormat::ALL.into_iter().filter(|format| *format != WebhookFormat::PagerDuty) {
        for restarts in [false, true] {
            let mut sim = Simulation::new(format);
            sim.start(1);
            let incident = sim.incidents().remove(0);
            sim.set_incident(Incident { cause: Cause::OutOfMemory, ..incident.clone() });
            sim.advance(60);
            assert!(text(&sim, &sim.sent[0]).contains("OutOfMemory"), "{format:?}");
            if restarts {
                // The new process has not read the events that prove the cause.
                sim.set_incident(incident);
                sim.apply(&Event::Restarts);
            }
            sim.end(1);
            sim.advance(60);
            let end = sim.sent.iter().find(|message| !message.resolved.is_empty()).unwrap();
            assert!(text(&sim, end).contains("OutOfMemory"), "{format:?} {restarts}: {}", text(&sim, end));
        }
    }
}

#[test]
fn a_message_that_lists_ends_only_has_the_status_resolved() {
    for (format, field, expected) in [
        (WebhookFormat::Generic, "status", "resolved"),
        (WebhookFormat::CloudEvents, "type", "dev.kopf.orchestr.alerts.resolved"),
    ] {
        let mut sim = Simulation::new(format);
        sim.start(1);
        sim.start(2);
        sim.advance(120);
        sim.end(1);
        sim.advance(20);
        // It may still return, so its end is not sent yet.
        sim.end(2);
        sim.advance(15);
        let last = sim.sent.last().unwrap();
        assert_eq!((last.resolved.len(), last.ongoing.len(), last.ending), (1, 0, 1), "{format:?}");
        let body: serde_json::Value = serde_json::from_str(&text(&sim, last)).unwrap();
        assert_eq!(body[field], expected);
    }
}
