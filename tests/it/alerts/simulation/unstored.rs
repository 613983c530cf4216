//! Messages whose state cannot be stored: after a restart, the same message has the same ID.

use super::Simulation;
use orchestr::api::WebhookFormat;

fn unstored(format: WebhookFormat, script: &str) -> Simulation {
    let mut sim = Simulation::new(format);
    sim.is_unstored = true;
    sim.play(script);
    sim
}

#[test]
fn an_id_follows_from_the_incidents_and_their_beginnings() {
    // Nothing was stored, so the new process sends what lasts again.
    let mut sim = unstored(WebhookFormat::Slack, "+1 +2 10m wiped .");
    assert_eq!((sim.attempts.len(), sim.ids().len()), (2, 1));
    // Others, or the same ones with other beginnings, or their ends, are another message.
    sim.play("-2 . wiped . -1 . 60s +1 +2 60s");
    assert_eq!((sim.attempts.len(), sim.ids().len()), (5, 4));
}

#[test]
fn an_incident_that_begins_again_has_another_id() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut sim = unstored(format, "+1 60s");
        let begun = sim.active.clone();
        sim.play("-1 60s");
        // It came back with the same beginning, as one whose pod could not be seen for a while.
        sim.active = begun;
        sim.play("60s");
        assert_eq!(sim.ids().len(), 3, "{format:?}");
    }
}

#[test]
fn each_repetition_has_an_id_of_its_own() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        assert_eq!(unstored(format, "+1 121m").ids().len(), 3, "{format:?}");
    }
}

#[test]
fn a_retry_keeps_its_id() {
    for crash in ["", "crash@sending"] {
        // What began since is not part of the message.
        let sim = unstored(WebhookFormat::Slack, &format!("Fails {crash} +1 60s +2 60s"));
        assert_eq!(sim.ids().len(), 1, "{crash}");
    }
}
