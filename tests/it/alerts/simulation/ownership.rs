//! Severities and teams: routing by them, and the labels that they become.

use proptest::prelude::*;

use super::{KEYS, Simulation, key, properties, webhook};
use orchestr::{
    alerts::{Incident, IncidentMemory, NotificationPolicy},
    api::{AlertPhase, Match, Severity, WebhookFormat},
};

use Severity::{Critical, Info, Warning};

fn simulation(format: WebhookFormat, matches: Match) -> Simulation {
    let mut sim = Simulation::new(format);
    let spec = orchestr::api::Webhook { match_: Some(matches), ..webhook(format) };
    sim.policy = NotificationPolicy::new(0, &spec).unwrap();
    sim
}

fn severities(severities: &[Severity]) -> Match {
    Match { severities: Some(severities.to_vec()), ..Match::default() }
}

fn teams(teams: &[&str]) -> Match {
    Match { teams: Some(teams.iter().map(|team| (*team).to_owned()).collect()), ..Match::default() }
}

impl Simulation {
    /// The incident has this severity and team from now on.
    pub(super) fn set_ownership(&mut self, number: u8, severity: Severity, team: &str) {
        self.change(&key(number), |incident| Incident { severity, team: team.into(), ..incident });
        self.run();
    }
}

#[test]
fn matches_by_severity_and_team_together() {
    let both = |severity, team: &str| {
        let matches = Match { teams: teams(&["checkout"]).teams, ..severities(&[Critical, Info]) };
        let mut sim = simulation(WebhookFormat::Slack, matches);
        sim.start(1);
        sim.set_ownership(1, severity, team);
        // The memory has only what it was before.
        sim.memory = IncidentMemory::default();
        sim.advance(60);
        sim.book.len()
    };
    let found = [(Critical, "checkout"), (Info, "checkout"), (Warning, "checkout"), (Critical, ""), (Info, "web")];
    assert_eq!(found.map(|(severity, team)| both(severity, team)), [1, 1, 0, 0, 0]);
}

#[test]
fn labels_stay_as_they_were_when_an_alert_was_first_sent() {
    for format in [WebhookFormat::Alertmanager, WebhookFormat::Generic] {
        let mut sim = simulation(format, Match::default());
        sim.start(1);
        sim.set_ownership(1, Warning, "");
        sim.advance(10);
        sim.set_ownership(1, Info, "web");
        sim.advance(30);
        sim.set_ownership(1, Critical, "bank");
        sim.advance(3_700);
        sim.play("-1 60s");
        for message in &sim.sent {
            for alert in message.started.iter().chain(&message.ongoing).chain(&message.resolved) {
                assert_eq!((alert.first_severity, alert.team.as_str()), (Info, "web"), "{format:?} {:?}", message.kind);
            }
        }
        assert!(sim.sent.iter().any(|message| message.ongoing.iter().any(|alert| alert.severity == Critical)));
        // A new alert has new labels.
        sim.play("1h +1 60s");
        let last = sim.sent.last().unwrap();
        assert_eq!((last.started[0].first_severity, last.started[0].team.as_str()), (Critical, "bank"));
    }
}

#[test]
fn an_alert_that_an_older_version_stored_keeps_its_labels() {
    let mut sim = simulation(WebhookFormat::Alertmanager, Match::default());
    sim.start(1);
    sim.set_ownership(1, Critical, "web");
    sim.advance(60);
    for alert in &mut sim.stored.alerts {
        assert_eq!(alert.phase, AlertPhase::Firing);
        (alert.severity, alert.team) = (None, String::new());
    }
    sim.advance(120);
    let alert = &sim.sent.last().unwrap().ongoing[0];
    assert_eq!((alert.first_severity, alert.severity, alert.team.as_str()), (Warning, Critical, ""));
}

#[test]
fn a_common_cause_has_the_highest_severity_of_its_members() {
    for (second, expected) in [("web", "web"), ("bank", "")] {
        let mut sim = Simulation::new(WebhookFormat::Slack);
        sim.play("+0..2 *=7");
        sim.set_ownership(0, Info, "web");
        sim.set_ownership(1, Critical, second);
        sim.advance(60);
        let alert = &sim.sent[0].started[0];
        assert!(alert.is_common_cause);
        assert_eq!((alert.first_severity, alert.severity, alert.team.as_str()), (Critical, Critical, expected));
    }
}

#[test]
fn a_common_cause_lasts_if_only_the_memory_matched() {
    // Its members were critical before it was sent, or have the teams of different people, or were OOMKilled.
    let reasons = Match { reasons: Some(vec!["OOMKilled".to_owned()]), ..Match::default() };
    for matches in [severities(&[Critical]), teams(&["checkout", "web"]), reasons] {
        for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
            let mut sim = simulation(format, matches.clone());
            sim.play("+0..2 *=7");
            sim.set_ownership(0, Critical, "checkout");
            sim.set_ownership(1, Critical, "web");
            sim.advance(20);
            for number in 0..2 {
                sim.set_ownership(number, Warning, "");
                sim.play(&format!("{number}:CrashLoopBackOff ."));
            }
            sim.advance(100);
            assert_eq!(sim.stored.alerts.len(), 1, "{format:?}");
            sim.play("restart 10m");
            assert!(sim.sent.iter().all(|message| message.resolved.is_empty()), "{format:?} {matches:?}");
            sim.play("-0..2 60s");
            assert!(sim.sent.iter().any(|message| !message.resolved.is_empty()), "{format:?} {matches:?}");
        }
    }
}

/// Events, and changes of severities among them.
fn events() -> impl Strategy<Value = Vec<String>> {
    let severity = prop_oneof![Just(Critical), Just(Warning)];
    let event = prop_oneof![
        6 => properties::event(),
        3 => (0..KEYS, severity).prop_map(|(number, severity)| format!("{number}!{severity:?} .")),
        1 => Just("restart .".to_owned()),
    ];
    prop::collection::vec(event, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// The simulation itself checks that no message resolves an incident that continues.
    #[test]
    fn routing_by_severity_neither_loses_nor_falsely_resolves(format in properties::format(), events in events()) {
        let mut sim = simulation(format, severities(&[Critical]));
        sim.live(&events);
        let current = sim.incidents();
        for key in (0..KEYS).map(key) {
            let is_firing = sim.check_history(&key);
            let incident = current.iter().find(|incident| incident.key == key);
            prop_assert!(!is_firing || incident.is_some(), "{}: not resolved", key);
            let is_critical = incident.is_some_and(|incident| incident.severity == Critical);
            prop_assert!(!is_critical || is_firing, "{}: not sent", key);
        }
    }
}
