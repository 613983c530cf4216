//! Storms: more incidents than are tracked one by one.

use super::{Behaviour, Simulation, accepted, kibibyte_key, rendered, webhook};
use orchestr::{
    alerts::{Incident, Notification, NotificationPolicy},
    api::{AlertPhase, Match, MessageKind, Severity, WebhookFormat},
};

impl Simulation {
    pub(super) fn add_storm(&mut self, numbers: std::ops::Range<u32>) {
        self.active.extend(numbers.map(|number| (format!("storm{number:04}"), self.now)));
    }
}

#[test]
fn sends_a_storm_as_a_few_messages_with_exact_counts() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    for second in 0..50_u64 {
        for number in 0..20_u64 {
            sim.active.insert(format!("storm{:04}", second * 20 + number), sim.now);
        }
        sim.advance(1);
    }
    sim.advance(40 * 60);
    let firing_messages = accepted(&sim).into_iter().filter(|(_, kind, ..)| *kind == MessageKind::Firing).count();
    assert!(firing_messages <= 4, "{firing_messages} messages");
    let firing = sim.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count() as u64;
    assert_eq!((firing, sim.storm), (100, 900));
    sim.active.clear();
    sim.advance(40 * 60);
    let resolved = accepted(&sim).into_iter().filter(|(_, kind, ..)| *kind == MessageKind::Resolved).count();
    assert_eq!((resolved, sim.storm), (2, 0), "a hundred resolved alerts need two messages");
}

#[test]
fn sends_a_storm_to_pagerduty_as_an_event_of_its_own() {
    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    sim.add_storm(0..60);
    sim.advance(10 * 60);
    assert_eq!(sim.storm, 40);
    sim.active.remove("storm0003");
    sim.advance(10 * 60);
    sim.active.clear();
    sim.advance(10 * 60);
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
    let mut sim = Simulation::new(WebhookFormat::Alertmanager);
    sim.add_storm(0..300);
    sim.advance(60);
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
fn sends_the_incidents_of_a_shrinking_storm_one_by_one() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    for number in 0..150 {
        sim.active.insert(format!("storm{number:03}"), sim.now);
    }
    sim.advance(60);
    assert_eq!(sim.storm, 50);
    sim.active.retain(|key, _| key.as_str() >= "storm080");
    sim.advance(600);
    assert_eq!((sim.storm, sim.stored.storm.is_some()), (0, false));
    let firing = sim.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count();
    assert_eq!(firing, 70);
    assert_eq!(sim.stored.dropped, 0);
}

#[test]
fn sends_a_doubled_storm_before_a_slowly_growing_one() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.add_storm(0..110);
    sim.advance(60);
    assert_eq!((accepted(&sim).len(), sim.storm), (2, 10), "a hundred names need two messages");
    sim.add_storm(110..1_000);
    sim.advance(60);
    assert_eq!((accepted(&sim).len(), sim.storm), (3, 900));
    // Also if the stored time of the last message comes from a clock that was ahead.
    sim.corrupt(false);
    for number in 1_000..1_060 {
        sim.add_storm(number..number + 1);
        sim.advance(60);
    }
    let more = accepted(&sim).len() - 3;
    assert!((10..=12).contains(&more), "{more} messages in an hour");
    assert!(sim.storm > 950);
}

#[test]
fn sends_no_further_incident_when_one_ends_during_a_storm() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.add_storm(0..150);
    sim.advance(60);
    sim.active.remove("storm0007");
    sim.advance(600);
    let messages: Vec<_> = accepted(&sim).into_iter().map(|(_, kind, started, _)| (kind, started.len())).collect();
    assert_eq!(messages, [(MessageKind::Firing, 65), (MessageKind::Firing, 35), (MessageKind::Resolved, 0)]);
}

#[test]
fn counts_the_incidents_of_an_unsent_storm_that_ended() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.receiver = Behaviour::Unreachable;
    sim.add_storm(0..150);
    sim.advance(60);
    assert_eq!(sim.stored.storm.as_ref().and_then(|storm| storm.overflow.as_ref()).map(|own| own.count), Some(50));
    sim.active.retain(|key, _| key.as_str() >= "storm0080");
    sim.advance(600);
    assert_eq!((sim.stored.dropped, sim.stored.storm.is_none()), (80, true));
}

#[test]
fn sends_a_changed_storm_exactly_after_the_storm_interval() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.add_storm(0..110);
    sim.advance(60);
    let sent = sim.sent.last().unwrap().now;
    sim.add_storm(110..111);
    sim.advance(40 * 60);
    let last = sim.sent.last().unwrap();
    assert_eq!((last.now.duration_since(sent).as_secs(), last.storm.as_ref().unwrap().count), (5 * 60, 11));
    let end = sim.now;
    sim.active.clear();
    sim.advance(600);
    let resolved =
        sim.sent.iter().find(|message| message.storm.as_ref().is_some_and(|storm| storm.count == 0)).unwrap();
    assert_eq!(resolved.now.duration_since(end).as_secs(), 30);
}

/// A storm of eight incidents beside two tracked ones, which the receiver was sent.
fn storm_of_eight(format: WebhookFormat) -> Simulation {
    let mut sim = Simulation::new(format);
    sim.policy.pacing.max_incidents = 2;
    sim.add_storm(0..10);
    sim.advance(60);
    assert_eq!(sim.storm, 8);
    sim
}

/// Of each accepted message after the first `skip` ones, the kind and the size of the storm.
fn storms(sim: &Simulation, skip: usize) -> Vec<(MessageKind, Option<u64>)> {
    sim.sent[skip..].iter().map(|sent| (sent.kind, sent.storm.as_ref().map(|storm| storm.count))).collect()
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
        let firing = sim.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count();
        assert_eq!((firing, sim.stored.dropped), (calm, 0), "{format:?}");
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
    sim.add_storm(0..14);
    sim.advance(60);
    sim.add_storm(14..16);
    sim.active.remove("storm0000");
    sim.advance(3_000);
    assert_eq!(storms(&sim, 1), [(MessageKind::Firing, Some(12))]);
    assert_eq!(sim.sent[1].resolved.len(), 1);
    // A message that is sent while the storm is gone, but not over.
    sim.active.remove("storm0001");
    sim.advance(20);
    let end = sim.now;
    sim.active.retain(|key, _| key.as_str() < "storm0004");
    sim.advance(600);
    assert_eq!(storms(&sim, 2), [(MessageKind::Resolved, Some(0)), (MessageKind::Resolved, Some(0))]);
    let ends: Vec<_> = sim.sent[2..].iter().map(|sent| sent.storm.as_ref().unwrap().resolved_at).collect();
    assert_eq!(ends, [None, Some(end)]);
}

#[test]
fn sends_the_end_of_a_storm_whose_growth_could_not_be_sent() {
    // Also if the growth may have been delivered: nothing that has ended is called firing.
    for receiver in [Behaviour::Unreachable, Behaviour::Fails] {
        let mut sim = storm_of_eight(WebhookFormat::Slack);
        sim.receiver = receiver;
        sim.add_storm(10..30);
        sim.advance(60);
        sim.active.clear();
        sim.advance(120);
        sim.receiver = Behaviour::Accepts;
        sim.advance(900);
        assert_eq!(storms(&sim, 1), [(MessageKind::Resolved, Some(0))], "{receiver:?}");
        assert_eq!((sim.storm, sim.stored.dropped), (0, 0));
    }
}

#[test]
fn sends_the_end_of_a_storm_that_may_have_been_delivered() {
    use MessageKind::{Firing, Resolved};
    for (receiver, expected) in
        [(Behaviour::Unreachable, &[][..]), (Behaviour::Fails, &[(Resolved, Some(0)), (Firing, Some(8))])]
    {
        let mut sim = storm_of_eight(WebhookFormat::Slack);
        sim.receiver = receiver;
        sim.active.retain(|key, _| key.as_str() < "storm0002");
        sim.advance(60);
        assert_eq!(sim.stored.storm.as_ref().unwrap().phase, AlertPhase::Resolving);
        sim.add_storm(2..10);
        sim.advance(60);
        sim.receiver = Behaviour::Accepts;
        sim.advance(900);
        assert_eq!(storms(&sim, 1), expected, "{receiver:?}");
        assert!(sim.stored.storm.is_some());
    }
}

#[test]
fn keeps_the_end_of_a_storm_until_it_can_be_sent() {
    let mut sim = storm_of_eight(WebhookFormat::Slack);
    sim.receiver = Behaviour::Unreachable;
    let end = sim.now;
    sim.active.retain(|key, _| key.as_str() < "storm0002");
    sim.advance(600);
    sim.receiver = Behaviour::Accepts;
    sim.advance(600);
    assert_eq!(storms(&sim, 1), [(MessageKind::Resolved, Some(0))]);
    assert_eq!(sim.sent[1].storm.as_ref().unwrap().resolved_at, Some(end));
}

#[test]
fn drops_an_unsent_storm_that_ends_beside_an_uncertain_message() {
    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    sim.policy.pacing.max_incidents = 2;
    sim.receiver = Behaviour::Fails;
    sim.add_storm(0..6);
    sim.advance(60);
    assert_eq!(sim.stored.storm.as_ref().map(|storm| storm.phase), Some(AlertPhase::Queued));
    sim.active.retain(|key, _| key.as_str() < "storm0002");
    sim.advance(60);
    assert_eq!((sim.stored.storm.as_ref(), sim.stored.dropped), (None, 4));
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
            sim.add_storm(0..8);
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
    sim.add_storm(0..8);
    sim.advance(10);
    for incident in sim.incidents() {
        sim.set_incident(Incident { severity: Severity::Critical, ..incident });
    }
    sim.advance(60);
    assert_eq!(storm_severities(&sim), ["warning"]);
}
