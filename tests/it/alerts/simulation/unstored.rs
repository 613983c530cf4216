//! Messages whose state cannot be stored: after a restart, the same message has the same ID.

use std::collections::BTreeSet;

use super::{Behaviour, CrashPoint, Event, Simulation};
use orchestr::api::WebhookFormat;

fn unstored(format: WebhookFormat) -> Simulation {
    let mut sim = Simulation::new(format);
    sim.is_unstored = true;
    sim
}

fn ids(sim: &Simulation) -> Vec<String> {
    sim.attempts.iter().map(|attempt| attempt.id.clone()).collect()
}

#[test]
fn an_id_follows_from_the_incidents_and_their_beginnings() {
    let mut sim = unstored(WebhookFormat::Slack);
    sim.start(1);
    sim.start(2);
    sim.advance(31);
    // Nothing was stored, so the new process sends what lasts again.
    sim.advance(600);
    sim.apply(&Event::StatusWiped);
    assert_eq!((ids(&sim).len(), BTreeSet::from_iter(ids(&sim)).len()), (2, 1));
    // Others, or the same ones with other beginnings, or their ends, are another message.
    sim.apply(&Event::Ends(2));
    sim.apply(&Event::StatusWiped);
    sim.apply(&Event::Ends(1));
    sim.advance(60);
    sim.start(1);
    sim.start(2);
    sim.advance(60);
    assert_eq!((ids(&sim).len(), BTreeSet::from_iter(ids(&sim)).len()), (5, 4));
}

#[test]
fn an_incident_that_begins_again_has_another_id() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut sim = unstored(format);
        sim.start(1);
        sim.advance(60);
        let begun = sim.active.clone();
        sim.end(1);
        sim.advance(60);
        // It came back with the same beginning, as one whose pod could not be seen for a while.
        sim.active = begun;
        sim.advance(60);
        assert_eq!(BTreeSet::from_iter(ids(&sim)).len(), 3, "{format:?}");
    }
}

#[test]
fn each_repetition_has_an_id_of_its_own() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut sim = unstored(format);
        sim.start(1);
        sim.advance(2 * 3_600 + 60);
        assert_eq!(BTreeSet::from_iter(ids(&sim)).len(), 3, "{format:?}");
    }
}

#[test]
fn a_retry_keeps_its_id() {
    for crash in [None, Some(CrashPoint::Sending)] {
        let mut sim = unstored(WebhookFormat::Slack);
        sim.receiver = Behaviour::Fails;
        sim.crash = crash;
        sim.start(1);
        sim.advance(60);
        // What began since is not part of the message.
        sim.start(2);
        sim.advance(60);
        assert_eq!(BTreeSet::from_iter(ids(&sim)).len(), 1, "{crash:?}");
    }
}
