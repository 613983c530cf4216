//! The texts of the incidents that alerts are made from.

use std::{collections::BTreeSet, sync::Arc};

use super::*;
use crate::{
    api::ALERT_BYTES,
    report::{
        self,
        alert_incidents::{LOG_BYTES, TEXT_BYTES},
    },
};

/// 1,500 incidents of one namespace, the last of which began first, and one of another namespace. Each has a message of 1 KiB,
/// and a log of 5 KiB if `logs`.
fn many(logs: bool) -> Scenario {
    let pods = (0..1_500).map(|number| crashing("evil", &format!("owner-{number}"), "Error", 5_000 - number));
    let mut scenario =
        Scenario { webhooks: true, ..Scenario::of(pods.chain([crashing("shop", "cart", "Error", 6_000)])) };
    for (_, finding) in &mut scenario.pods {
        finding.message = "no ".repeat(500).into();
    }
    if logs {
        let tails = (0..1_501).map(|uid| ((Uid::from(uid), "app".to_owned()), tail(&"a line\n".repeat(700))));
        scenario.tails.extend(tails);
    }
    scenario
}

fn owners(incidents: &[report::Incident], condition: impl Fn(&report::Incident) -> bool) -> BTreeSet<String> {
    incidents.iter().filter(|incident| condition(incident)).map(|incident| incident.owner.name.clone()).collect()
}

#[test]
fn texts_of_many_incidents_take_a_bounded_amount_of_memory() {
    for logs in [false, true] {
        let incidents = many(logs).alert_incidents();
        assert_eq!(incidents.len(), 1_501, "each is counted");
        let texts: usize = incidents.iter().map(|incident| incident.texts.message.len()).sum();
        assert!((TEXT_BYTES / 2..TEXT_BYTES + 4096).contains(&texts), "{texts}");
        let tails: usize = incidents.iter().map(|incident| incident.texts.logs.len()).sum();
        assert!(tails <= LOG_BYTES + 4096 && (tails > LOG_BYTES / 2) == logs, "{tails}");
        // As many as the status has room for, about 330 bytes each.
        let with_text = owners(&incidents, |incident| !incident.texts.message.is_empty());
        assert!(with_text.len() > ALERT_BYTES / 330, "{}", with_text.len());
        for incident in &incidents {
            let is_cut = incident.texts.log_note.contains("too many incidents");
            assert_eq!(
                is_cut,
                incident.texts.message.is_empty() || logs && incident.texts.logs.is_empty(),
                "{incident:?}"
            );
            if incident.texts.message.is_empty() {
                assert!(
                    incident.texts.example_pods.is_empty()
                        && incident.texts.evidence.is_empty()
                        && incident.texts.logs.is_empty()
                );
            }
        }
    }
}

#[test]
fn tracked_and_early_incidents_have_texts_by_turns() {
    let scenario = many(false);
    let has_text = |incident: &report::Incident| !incident.texts.message.is_empty();
    let incidents = scenario.alert_incidents();
    let first = owners(&incidents, has_text);
    assert!(first.contains("owner-1499") && !first.contains("owner-0"), "the oldest come first");
    assert!(first.contains("cart"), "the youngest is the first of its namespace");

    let tracked = incidents.iter().find(|incident| incident.owner.name == "owner-0").unwrap();
    let mut status = scenario.status(None);
    let alert = |phase: &str| {
        json!({
            "name": "ops",
            "alerts": [{
                "key": tracked.key.as_str(), "namespace": "evil", "owner": {"kind": "Deployment", "name": "owner-0"},
                "container": "app", "kind": "Crash", "reason": "Error", "since": "2026-07-01T10:00:00Z", "phase": phase,
            }],
        })
    };
    for (phase, expected) in [("Firing", true), ("Resolved", false)] {
        status.webhooks = vec![Arc::new(serde_json::from_value(alert(phase)).unwrap())];
        let incidents = scenario.with_input(Some(&status), |input| {
            watching(input, &|pod, container| scenario.tail(pod, container)).incidents
        });
        assert_eq!(owners(&incidents, has_text).contains("owner-0"), expected, "{phase}");
    }
}
