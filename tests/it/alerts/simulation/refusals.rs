//! A receiver that refuses some incidents for what a message says about them, and receivers that refuse everything for a
//! while.

use std::collections::BTreeSet;

use super::{Behaviour, Simulation, accepted, key, played, rendered_text};
use orchestr::api::{WebhookFormat, WebhookStatus};

/// The incidents that the receiver accepted the start of, and those that it accepted the end of.
fn sent(sim: &Simulation) -> (BTreeSet<String>, BTreeSet<String>) {
    let all = accepted(sim);
    let started = all.iter().flat_map(|(_, _, started, _)| started.clone()).collect();
    (started, all.into_iter().flat_map(|(.., resolved)| resolved).collect())
}

/// A receiver that refuses these incidents.
fn refusing(format: WebhookFormat, numbers: &'static [u8], script: &str) -> Simulation {
    let mut sim = Simulation::new(format);
    sim.receiver = Behaviour::RefusesNaming(numbers);
    sim.play(script);
    sim
}

fn keys(numbers: impl IntoIterator<Item = u8>) -> BTreeSet<String> {
    numbers.into_iter().map(key).collect()
}

#[test]
fn sends_all_others_within_a_minute_of_refused_incidents() {
    const REFUSED: &[u8] = &[14, 15, 31];
    for format in WebhookFormat::ALL {
        // PagerDuty is sent one event every two seconds.
        let last = if format == WebhookFormat::PagerDuty { 31 } else { 50 };
        let first = if format == WebhookFormat::PagerDuty { 14 } else { 10 };
        let mut sim = Simulation::new(format);
        sim.receiver = Behaviour::RefusesNaming(REFUSED);
        (first..=last).for_each(|number| sim.start(number));
        sim.advance(30 + 60);
        let others = keys((first..=last).filter(|number| !REFUSED.contains(number)));
        assert_eq!(sent(&sim).0, others, "{format:?}");
        let refused: BTreeSet<String> = sim
            .stored
            .alerts
            .iter()
            .filter(|alert| alert.refused_at.is_some())
            .map(|alert| alert.key.clone())
            .collect();
        assert_eq!(refused, keys(REFUSED.iter().copied()), "{format:?}");
        assert_eq!(
            (sim.stored.failures, sim.stored.last_error.is_some(), sim.stored.dropped),
            (0, false, 0),
            "{format:?}"
        );
        assert_eq!(sim.stored.last_refusal.as_ref().unwrap().message, "the receiver answered 400", "{format:?}");

        // What begins and ends later is sent as if nothing had been refused.
        let before = accepted(&sim).len();
        sim.start(60);
        sim.end(16);
        sim.advance(66);
        let (started, resolved) = sent(&sim);
        assert!(started.contains(&key(60)) && resolved.contains(&key(16)), "{format:?}: {started:?} {resolved:?}");
        let tries = sim.attempts.iter().filter(|attempt| !attempt.accepted).count();
        sim.advance(20 * 60);
        let again = sim.attempts.iter().filter(|attempt| !attempt.accepted).count() - tries;
        assert_eq!((again, before < accepted(&sim).len()), (0, true), "{format:?}: they are retried slowly");
    }
}

#[test]
fn sends_a_refused_incident_once_the_receiver_takes_it() {
    for format in WebhookFormat::ALL {
        let mut sim = refusing(format, &[1], "+1..4 3000s");
        assert_eq!(sent(&sim).0, keys(2..4), "{format:?}");
        let refused = sim.attempts.iter().filter(|attempt| attempt.started == [key(1)] && !attempt.accepted);
        let times: Vec<i64> = refused.map(|attempt| attempt.at.as_second()).collect();
        assert!(times.windows(2).any(|pair| pair[1] - pair[0] >= 1_800), "{format:?}: {times:?}");
        sim.receiver = Behaviour::Accepts;
        sim.advance(1_900);
        assert_eq!(sent(&sim).0, keys(1..4), "{format:?}");
        sim.end(1);
        sim.advance(100);
        assert_eq!(sent(&sim).1, keys([1]), "{format:?}");
        assert!(sim.stored.last_refusal.is_none(), "{format:?}");
    }
}

/// The incident was accepted before, and fires or ends now.
#[test]
fn an_incident_that_is_refused_later_holds_up_no_other() {
    for format in WebhookFormat::ALL {
        let mut sim = played(format, "+1..4 2m");
        sim.receiver = Behaviour::RefusesNaming(&[1]);
        // Repetitions and, to Alertmanager, messages every minute name it.
        sim.play("3700s +4 100s");
        assert_eq!(sent(&sim).0, keys(1..5), "{format:?}");
        sim.play("-1..4 200s");
        // PagerDuty's resolve event names no owner.
        let ended = if format == WebhookFormat::PagerDuty { keys(1..4) } else { keys(2..4) };
        assert_eq!(sent(&sim).1, ended, "{format:?}");
        if format == WebhookFormat::Alertmanager {
            let before = sim.now;
            sim.advance(600);
            let kept = sim.sent.iter().filter(|message| message.now > before);
            let kept = kept.filter(|message| message.ongoing.iter().any(|alert| alert.key == key(4))).count();
            assert!(kept >= 9, "{kept} messages in ten minutes");
        }
        // An end that is refused does not stay for ever.
        sim.advance(2 * 24 * 3_600);
        assert!(sim.stored.alerts.iter().all(|alert| alert.key == key(4)), "{format:?}: {:?}", sim.stored.alerts);
    }
}

#[test]
fn a_receiver_that_refuses_everything_is_failing_and_probed() {
    for format in WebhookFormat::ALL {
        let mut sim = played(format, "RejectsAll +0..12 1h");
        let attempts = sim.attempts.len();
        assert!((40..=100).contains(&attempts), "{format:?}: {attempts} in an hour");
        assert!(sim.stored.last_error.is_some() && !sim.stored.accepts_others, "{format:?}");

        // It works again: one refused incident is accepted, and then the others, in the usual messages.
        sim.play("Accepts 105s");
        let sent = sent(&sim).0;
        assert_eq!(sent, keys(0..12), "{format:?}");
        let messages = accepted(&sim).into_iter().filter(|(.., started, _)| !started.is_empty()).count();
        let usual = if format == WebhookFormat::PagerDuty { 12 } else { 2 };
        assert_eq!(messages, usual, "{format:?}");
        assert!(sim.stored.alerts.iter().all(|alert| alert.refused_at.is_none()), "{format:?}");
        sim.advance(1);
        let WebhookStatus { last_error, last_refusal, accepts_others, .. } = &sim.stored;
        assert_eq!((last_error, last_refusal, accepts_others), (&None, &None, &false), "{format:?}");
    }
}

#[test]
fn a_new_incident_does_not_wait_for_the_probe() {
    for format in WebhookFormat::ALL {
        let mut sim = played(format, "RejectsAll +0..3 10m");
        sim.receiver = Behaviour::RefusesNaming(&[0, 1]);
        sim.play("+20 33s");
        assert!(sent(&sim).0.contains(&key(20)), "{format:?}");
        // Something was accepted, so the others are refused for what they contain. They are tried once more.
        sim.advance(10);
        assert!(sent(&sim).0.contains(&key(2)), "{format:?}");
        assert_eq!((sim.stored.last_error.is_none(), sim.stored.accepts_others), (true, true), "{format:?}");
        let tries = sim.attempts.iter().filter(|attempt| !attempt.accepted).count();
        sim.advance(20 * 60);
        let again = sim.attempts.iter().filter(|attempt| !attempt.accepted).count() - tries;
        assert_eq!(again, 0, "{format:?}: they are retried slowly");
    }
}

/// The only incident was accepted, and its repetition is refused.
#[test]
fn a_refused_repetition_is_probed_until_the_receiver_takes_it() {
    let mut sim = played(WebhookFormat::Slack, "+1 60s RejectsAll 3700s");
    assert!(sim.stored.alerts[0].refused_at.is_some() && sim.stored.last_error.is_some());
    sim.play("Accepts 92s");
    assert!(sim.stored.alerts[0].refused_at.is_none() && sim.stored.last_error.is_none(), "{:?}", sim.stored);
    let repeated = sim.sent.last().unwrap();
    let text = rendered_text(repeated, WebhookFormat::Slack);
    assert!(text.contains(&key(1)), "{text}");
}

#[test]
fn a_receiver_that_was_refusing_is_probed_every_two_minutes() {
    for behaviour in ["AnswersUnauthorized", "AnswersNotFound"] {
        let mut sim = played(WebhookFormat::Slack, &format!("{behaviour} +1 90s 1h"));
        let attempts = sim.attempts.len();
        assert!((30..=65).contains(&attempts), "{behaviour}: {attempts} in an hour");
        sim.play("Accepts +2 152s");
        assert_eq!(sim.said(0).replace(" | ", " "), "+1 +2", "{behaviour}");
    }
}
