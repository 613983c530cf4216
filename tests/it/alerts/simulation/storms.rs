//! Storms: more incidents than are tracked one by one.

use super::{Simulation, kibibyte_key, played, rendered, webhook};
use orchestr::{
    alerts::{Incident, Notification, NotificationPolicy},
    api::{AlertPhase, Match, MessageKind, Severity, WebhookFormat},
};

impl Simulation {
    /// The size of the storm in each accepted message that contains one, without the first `skip` messages and those that
    /// are sent again.
    pub(super) fn storms(&self, skip: usize) -> Vec<u64> {
        let sent = self.sent[skip..].iter().filter(|message| message.kind != MessageKind::Resend);
        sent.filter_map(|message| Some(message.storm.as_ref()?.count)).collect()
    }
}

/// A storm of eight incidents beside two tracked ones, which the receiver was sent.
pub(super) fn storm_of_eight(format: WebhookFormat) -> Simulation {
    let mut sim = Simulation::new(format);
    sim.policy.pacing.max_incidents = 2;
    sim.play("+s0..10 60s");
    assert_eq!(sim.storm, 8);
    sim
}

#[test]
fn sends_a_storm_as_a_few_messages_with_exact_counts() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    for second in 0..50 {
        sim.play(&format!("+s{}..{} 1s", second * 20, second * 20 + 20));
    }
    sim.play("40m");
    assert!(sim.book.len() <= 4, "{}", sim.book(0));
    assert_eq!((sim.firing(), sim.storm), (100, 900));
    let before = sim.book.len();
    sim.play("-* 40m");
    assert_eq!((sim.book.len() - before, sim.storm), (2, 0), "a hundred resolved alerts need two messages");
}

#[test]
fn sends_a_storm_to_pagerduty_as_an_event_of_its_own() {
    let mut sim = played(WebhookFormat::PagerDuty, "+s0..60 10m");
    assert_eq!(sim.storm, 40);
    sim.play("-s3 10m -* 10m");
    assert_eq!(sim.storm, 0);
    let subjects = |message: &Notification| {
        message.started.len() + message.ongoing.len() + message.resolved.len() + usize::from(message.storm.is_some())
    };
    let wrong: Vec<_> = sim.sent.iter().filter(|message| subjects(message) != 1).collect();
    assert!(wrong.is_empty(), "each event is about one incident or the storm: {wrong:?}");
    assert!(sim.sent.iter().filter(|message| message.storm.is_some()).count() >= 2, "the storm begins and ends");
}

#[test]
fn resends_a_storm_to_alertmanager_only_while_it_fires() {
    let mut sim = played(WebhookFormat::Alertmanager, "+s0..300 60s");
    assert!(sim.storm >= 50, "{}", sim.storm);
    sim.stored.alerts.clear();
    let resent = sim.resend();
    assert!(resent.message.is_some_and(|message| message.storm.is_some()) || resent.wake.is_some());
    for phase in [AlertPhase::Announcing, AlertPhase::Resolving] {
        sim.stored.storm.as_mut().unwrap().phase = phase;
        let resent = sim.resend();
        assert_eq!((resent.message, resent.wake), (None, None), "{phase:?}");
    }
}

#[test]
fn sends_a_doubled_storm_before_a_slowly_growing_one() {
    let mut sim = played(WebhookFormat::Slack, "+s0..110 60s");
    assert_eq!((sim.book.len(), sim.storm), (2, 10), "a hundred names need two messages");
    sim.play("+s110..1000 60s");
    assert_eq!((sim.book.len(), sim.storm), (3, 900));
    // Also if the stored time of the last message comes from a clock that was ahead.
    sim.corrupt(false);
    for number in 1_000..1_060 {
        sim.play(&format!("+s{number} 60s"));
    }
    let more = sim.book.len() - 3;
    assert!((10..=12).contains(&more), "{more} messages in an hour");
    assert!(sim.storm > 950);
}

#[test]
fn sends_no_further_incident_when_one_ends_during_a_storm() {
    let sim = played(WebhookFormat::Slack, "+s0..150 60s -s7 10m");
    let started: Vec<_> = sim.book.iter().map(|message| message.matches('+').count()).collect();
    assert_eq!((started, sim.said(2).as_str()), (vec![65, 35, 0], "-s7"));
}

#[test]
fn sends_a_changed_storm_exactly_after_the_storm_interval() {
    let mut sim = played(WebhookFormat::Slack, "+s0..110 60s");
    let sent = sim.sent.last().unwrap().now;
    sim.play("+s110 40m");
    let last = sim.sent.last().unwrap();
    assert_eq!((last.now.duration_since(sent).as_secs(), last.storm.as_ref().unwrap().count), (5 * 60, 11));
    let end = sim.now;
    sim.play("-* 10m");
    let resolved =
        sim.sent.iter().find(|message| message.storm.as_ref().is_some_and(|storm| storm.count == 0)).unwrap();
    assert_eq!(resolved.now.duration_since(end).as_secs(), 30);
}

#[test]
fn tracks_a_storm_when_a_quarter_of_the_space_is_free() {
    // A hundred alerts, or 64 KiB.
    for (format, name, tracked) in [
        (WebhookFormat::Slack, str::to_owned as fn(&str) -> String, 100),
        (WebhookFormat::Alertmanager, kibibyte_key, 64),
    ] {
        let mut sim = Simulation::new(format);
        let calm = tracked * 3 / 4;
        sim.active = (0..tracked + 20).map(|number| (name(&format!("{number:04}")), sim.now)).collect();
        sim.advance(200);
        assert_eq!(sim.storm, 20, "{format:?}");
        sim.active = sim.active.split_off(&format!("{:04}", tracked + 20 - calm - 1));
        sim.advance(400);
        assert_eq!((sim.active.len(), sim.storm), (calm + 1, 20), "{format:?}");
        sim.active.pop_first();
        sim.advance(400);
        assert_eq!((sim.active.len(), sim.storm, sim.stored.storm.is_some()), (calm, 0, false), "{format:?}");
        assert_eq!((sim.firing(), sim.stored.dropped), (calm as u64, 0), "{format:?}");
    }
}

#[test]
fn counts_the_incidents_of_a_storm_as_sent() {
    for (format, unsent) in [(WebhookFormat::Slack, &[0][..]), (WebhookFormat::PagerDuty, &[1, 0, 0])] {
        let mut sim = storm_of_eight(format);
        let last = sim.sent.last().unwrap().now;
        assert_eq!(sim.sent.iter().map(|sent| sent.unsent).collect::<Vec<_>>(), unsent, "{format:?}");
        let wake = sim.run().unwrap();
        assert!(wake.duration_since(last).as_secs() > 3_500, "{format:?}: an unchanged storm wakes at {wake}");
    }
}

#[test]
fn includes_a_changed_storm_in_a_message_that_is_sent_anyway() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.policy.pacing.max_incidents = 4;
    sim.play("+s0..14 60s +s14..16 -s0 50m");
    assert_eq!(sim.said(1), "-s0 storm=12");
    // A message that is sent while the storm is gone, but not over.
    sim.play("-s1 20s");
    let end = sim.now;
    sim.play("-s4..16 10m");
    assert_eq!((sim.said(2).as_str(), sim.storms(2)), ("-s1 | storm=0", vec![0, 0]));
    let ends: Vec<_> = sim.sent[2..].iter().map(|sent| sent.storm.as_ref().unwrap().resolved_at).collect();
    assert_eq!(ends, [None, Some(end)]);
}

#[test]
fn keeps_the_end_of_a_storm_until_it_can_be_sent() {
    let mut sim = storm_of_eight(WebhookFormat::Slack);
    let end = sim.now;
    sim.play("Unreachable -s2..10 10m Accepts 10m");
    assert_eq!(sim.said(1), "storm=0");
    assert_eq!(sim.sent[1].storm.as_ref().unwrap().resolved_at, Some(end));
}

/// The severity of the storm, in each message that contains it.
fn storm_severities(sim: &Simulation) -> Vec<String> {
    let severity = |message: &Notification| {
        let body = rendered(message, sim.policy.format);
        let alerts = if sim.policy.format == WebhookFormat::Alertmanager { &body } else { &body["alerts"] };
        let labels = |alert: &serde_json::Value| alert["labels"].clone();
        let storm = alerts.as_array().into_iter().flatten().map(labels).find(|own| own["alertname"] == "OrchestrStorm");
        let severity = storm.map_or_else(|| body["payload"]["severity"].clone(), |labels| labels["severity"].clone());
        severity.as_str().unwrap_or_default().to_owned()
    };
    sim.sent
        .iter()
        .filter(|message| message.storm.as_ref().is_some_and(|storm| storm.count > 0))
        .map(severity)
        .collect()
}

#[test]
fn a_storm_has_the_highest_severity_of_its_incidents() {
    for (format, keeps) in
        [(WebhookFormat::Generic, true), (WebhookFormat::Alertmanager, true), (WebhookFormat::PagerDuty, false)]
    {
        for (first, then) in [(Severity::Critical, Severity::Info), (Severity::Info, Severity::Critical)] {
            let mut sim = Simulation::new(format);
            sim.policy.pacing.max_incidents = 0;
            sim.play("+s0..8");
            let set = |sim: &mut Simulation, severity| {
                for (number, incident) in sim.incidents().into_iter().enumerate() {
                    // The severities of the others stay lower.
                    let severity = if number == 5 { severity } else { Severity::Info };
                    sim.set_incident(Incident { severity, ..incident });
                }
            };
            set(&mut sim, first);
            sim.advance(60);
            assert_eq!(storm_severities(&sim).last().map(String::as_str), Some(first.as_str()), "{format:?}");
            set(&mut sim, then);
            sim.advance(60 * 60);
            // Labels identify an alert, so they stay.
            let expected = if keeps { first } else { then };
            assert_eq!(storm_severities(&sim).last().map(String::as_str), Some(expected.as_str()), "{format:?}");
        }
    }
}

#[test]
fn a_storm_has_a_severity_by_which_the_webhook_matches_it() {
    let spec = orchestr::api::Webhook {
        match_: Some(Match { severities: Some(vec![Severity::Warning]), ..Match::default() }),
        ..webhook(WebhookFormat::Generic)
    };
    let mut sim = Simulation::new(WebhookFormat::Generic);
    sim.policy = NotificationPolicy::new(0, &spec).unwrap();
    sim.policy.pacing.max_incidents = 0;
    sim.play("+s0..8 10s");
    for incident in sim.incidents() {
        sim.set_incident(Incident { severity: Severity::Critical, ..incident });
    }
    sim.advance(60);
    assert_eq!(storm_severities(&sim), ["warning"]);
}
