//! How receivers are sent how many incidents began and ended while they were held back.

use proptest::prelude::*;

use super::{Simulation, key, played, rendered, rendered_text};
use orchestr::{
    alerts::Notification,
    api::{MessageKind, MutedStatus, WebhookFormat},
};

const ONE: &str = "1 problem began and ended while it was held back";
const TWO: &str = "2 problems began and ended while they were held back";

impl Simulation {
    /// Two incidents that were held back have ended.
    fn hold_back_two(&mut self) {
        self.stored.muted = Some(MutedStatus { ended: 2, ..MutedStatus::default() });
    }

    /// The messages that said so.
    fn reports(&self) -> Vec<&Notification> {
        self.sent.iter().filter(|message| message.ended_while_muted > 0).collect()
    }
}

/// The annotation `held_back` of the alerts of a message to Alertmanager, by the value of a label.
fn annotations(message: &Notification, label: &str, value: &str) -> Vec<String> {
    let body = rendered(message, WebhookFormat::Alertmanager);
    let alerts = body.as_array().unwrap().iter().filter(|alert| alert["labels"][label] == value);
    alerts.map(|alert| alert["annotations"]["held_back"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn alertmanager_is_sent_it_again_for_as_long_as_the_alert() {
    // Another alert does not take it over.
    let mut sim = played(WebhookFormat::Alertmanager, "silence:1:600 +1 60s -1 10m +4 60s +3 10m -4 4m");
    let own: Vec<String> = sim.sent.iter().flat_map(|message| annotations(message, "owner_name", "key4")).collect();
    assert!(own.len() >= 12 && own.iter().all(|text| text == ONE), "{own:?}");
    let other: Vec<String> = sim.sent.iter().flat_map(|message| annotations(message, "owner_name", "key3")).collect();
    assert!(other.len() >= 8 && other.iter().all(String::is_empty), "{other:?}");
    assert_eq!(sim.reports().len(), 1, "it is counted once");
    // It begins again as another alert.
    sim.play("+4 2m");
    assert_eq!(annotations(sim.sent.last().unwrap(), "owner_name", "key4"), [""]);
}

#[test]
fn alertmanager_is_sent_it_again_with_a_storm() {
    let mut sim = Simulation::new(WebhookFormat::Alertmanager);
    sim.policy.pacing.max_incidents = 0;
    sim.hold_back_two();
    sim.play("+s0..8 10m");
    let own: Vec<String> =
        sim.sent.iter().flat_map(|message| annotations(message, "alertname", "OrchestrStorm")).collect();
    assert!(own.len() >= 9 && own.iter().all(|text| text == TWO), "{own:?}");
    assert_eq!(sim.reports().len(), 1);
}

#[test]
fn a_message_about_a_storm_only_contains_it() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.policy.pacing.max_incidents = 0;
        sim.hold_back_two();
        sim.play("+s0..8 60s");
        let [report] = sim.reports()[..] else { panic!("{format:?}: {:?}", sim.sent) };
        assert!(report.started.is_empty() && report.storm.is_some(), "{format:?}");
        let text = rendered_text(report, format);
        assert!(text.contains(TWO), "{format:?}: {text}");
        assert_eq!(sim.stored.muted, None, "{format:?}");
    }
}

#[test]
fn a_message_about_a_common_cause_only_contains_it() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.hold_back_two();
        sim.play("+0..3 *=7 60s");
        let [report] = sim.reports()[..] else { panic!("{format:?}: {:?}", sim.sent) };
        assert_eq!(report.started.len(), 1, "{format:?}");
        let text = rendered_text(report, format);
        assert!(text.contains(TWO), "{format:?}: {text}");
        if format == WebhookFormat::Alertmanager {
            sim.advance(600);
            let own: Vec<String> =
                sim.sent.iter().flat_map(|message| annotations(message, "cause_name", "node7")).collect();
            assert!(own.len() >= 9 && own.iter().all(|text| text == TWO), "{own:?}");
        }
    }
}

#[test]
fn an_end_at_pagerduty_is_told_with_the_next_start() {
    let mut sim = played(WebhookFormat::PagerDuty, "+1 60s");
    sim.hold_back_two();
    sim.play("-1 60s");
    assert_eq!((sim.sent.last().unwrap().kind, sim.reports().len()), (MessageKind::Resolved, 0));
    sim.play("+2 60s");
    assert_eq!(sim.reports().len(), 1);
    assert_eq!(sim.sent.last().unwrap().started[0].key, key(2));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// 40 incidents, most of which are not listed, end for less than 30 s, return until they are due, and end at last.
    #[test]
    fn counts_each_incident_once(flaps in prop::collection::vec((0..40_u32, 1..25_u64, 35..90_u64), 0..30)) {
        let mut sim = played(WebhookFormat::Slack, "quiet:240 +s0..40 60s");
        for (number, gone, present) in flaps {
            sim.play(&format!("-s{number} {gone}s +s{number} {present}s"));
        }
        let ended = |sim: &Simulation| sim.stored.muted.as_ref().map_or(0, |muted| muted.ended);
        prop_assert_eq!(ended(&sim), 0, "none has ended");
        sim.play("-* 60s");
        prop_assert_eq!(ended(&sim), 40);
        sim.play("4h");
        prop_assert!(sim.sent.is_empty() && sim.stored.alerts.is_empty());
    }
}
