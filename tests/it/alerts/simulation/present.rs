//! A message says what is so at the moment it is sent.

use std::time::Duration;

use super::{Simulation, key, played, rendered_text};
use orchestr::{
    alerts::{Incident, Notification},
    api::{Cause, MessageKind, WebhookFormat},
};

fn text(sim: &Simulation, message: &Notification) -> String {
    rendered_text(message, sim.policy.format)
}

#[test]
fn names_no_incident_as_firing_that_has_ended() {
    for format in WebhookFormat::ALL.into_iter().filter(|format| *format != WebhookFormat::PagerDuty) {
        let mut sim = Simulation::new(format);
        sim.policy.after = Duration::from_secs(5);
        sim.play("+1 +2 70s");
        let before = sim.sent.len();
        sim.play("-1 +3 20s");
        let sent: Vec<String> = sim.sent[before..].iter().map(|message| text(&sim, message)).collect();
        assert!(sent.iter().any(|text| text.contains(&key(2)) && text.contains(&key(3))), "{format:?}: {sent:?}");
        assert!(sent.iter().all(|text| !text.contains(&key(1))), "{format:?}: {sent:?}");
        let clear = sent.iter().any(|text| text.contains("Nothing is broken now"));
        sim.play("60s");
        assert!(!clear && sim.book(0).ends_with(" -1"), "{format:?}: its end is sent when it does not return");
    }
}

#[test]
fn never_fires_an_incident_that_ended_before_its_turn() {
    for format in WebhookFormat::ALL {
        for end in ["-2", "x2"] {
            let mut sim = Simulation::new(format);
            sim.policy.after = Duration::ZERO;
            sim.play(&format!("+1 1s +2 0s {end} 0s 200s"));
            assert_eq!((sim.said(0).as_str(), sim.stored.dropped), ("+1", 1), "{format:?} {end}");
            // If it begins again, it is sent.
            sim.play("+2 60s");
            assert_eq!(sim.said(0), "+1 | +2", "{format:?} {end}");
        }
    }
}

#[test]
fn never_fires_what_ended_while_the_receiver_failed() {
    for format in WebhookFormat::ALL {
        for (receiver, expected) in [
            ("Unreachable", ""),
            ("AnswersNotFound", ""),
            // The receiver may have accepted the start, so the end is sent, but not the start.
            ("Fails", "-1"),
            ("AcceptsWithoutAnswering", "-1"),
        ] {
            let mut sim = played(format, &format!("{receiver} +1 31s"));
            let (attempts, before) = (sim.attempts.len(), sim.book.len());
            assert!(attempts > 0, "{format:?} {receiver}");
            sim.play("x1 0s Accepts 15m");
            let later = sim.attempts[attempts..].iter().filter(|attempt| attempt.kind != MessageKind::Resend);
            assert!(later.clone().all(|attempt| attempt.started.is_empty()), "{format:?} {receiver}");
            assert_eq!(sim.said(before), expected, "{format:?} {receiver}");
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
                sim.play("restart .");
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
        // The second one may still return, so its end is not sent yet.
        let sim = played(format, "+1 +2 2m -1 20s -2 15s");
        let last = sim.sent.last().unwrap();
        assert_eq!((last.resolved.len(), last.ongoing.len(), last.ending), (1, 0, 1), "{format:?}");
        let body: serde_json::Value = serde_json::from_str(&text(&sim, last)).unwrap();
        assert_eq!(body[field], expected);
    }
}
