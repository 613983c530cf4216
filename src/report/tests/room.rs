//! The room in a status that is left for its other parts: what another writer adds, the history, and lists that are kept.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::*;
use crate::{
    api::{AlertStatus, DeliveryError, EndedIncident, Incident, MutedIncident, MutedStatus, WebhookStatus},
    report::{
        fit::{MAX_INCIDENTS, budget},
        history, json_size, keep_lists,
    },
};

#[test]
fn limits_the_lists_of_another_writer() {
    let mut before = Scenario::of((0..200).map(|n| crashing("shop", &format!("d{n}"), "Error", n))).status(None);
    before.omitted_pods = i64::MAX;
    for pod in &mut before.problematic_pods {
        pod.message = "<".repeat(4096);
    }
    before.incidents = vec![before.incidents.clone(); 9].concat();
    let kept = not_watching(&NotWatching::Syncing, 3, Some(&before), at(900));
    assert!(json_size::size(&kept) <= budget(false));
    assert_eq!(kept.incidents.len(), MAX_INCIDENTS);
    assert_eq!(kept.omitted_incidents, 900);
    assert_eq!(kept.omitted_pods, i64::MAX);
    assert!(kept.problematic_pods.len() < before.problematic_pods.len());
}

#[test]
fn keeps_as_many_pods_as_fit_beside_the_state_of_webhooks() {
    let mut before = Scenario::of((0..50).map(|n| crashing("shop", &format!("d{n}"), "Error", n))).status(None);
    for pod in &mut before.problematic_pods {
        pod.message = "x".repeat(8_192);
    }
    for webhooks in [Vec::new(), largest_webhooks().0] {
        before.webhooks = webhooks.into_iter().map(Arc::new).collect();
        let kept = not_watching(&NotWatching::Syncing, 3, Some(&before), at(900));
        let listed = kept.problematic_pods.len();
        assert_eq!(i64::try_from(listed).unwrap() + kept.omitted_pods, 50);
        let limit = budget(!before.webhooks.is_empty());
        let size = json_size::size(&kept);
        assert!(
            size <= limit && size + json_size::size(&before.problematic_pods[listed]) + 32 > limit,
            "{listed} pods"
        );
    }
}

#[test]
fn the_history_takes_no_room_from_the_pods_that_are_kept() {
    let mut before = Scenario::of((0..50).map(|n| crashing("shop", &format!("d{n}"), "Error", n))).status(None);
    for pod in &mut before.problematic_pods {
        pod.message = "x".repeat(8_192);
    }
    let mut full = not_watching(&NotWatching::Syncing, 3, Some(&before), at(900));
    full.incidents.iter_mut().for_each(|own| own.most_pods = i64::MAX);
    let ended = |own: &Incident| EndedIncident { message: "x".repeat(160), ..history::ended(own, None, at(900)) };
    let mut status = not_watching(&NotWatching::Syncing, 3, None, at(950));
    status.history = full.incidents.iter().map(ended).collect::<Vec<_>>().into();
    let history = status.history.clone();
    keep_lists(&mut status, &full);
    assert_eq!((status.omitted_pods, &status.problematic_pods), (full.omitted_pods, &full.problematic_pods));
    assert_eq!((history.len(), &status.history, &status.incidents), (50, &history, &full.incidents));
}

/// The largest state that the alerts' writer may add: ten webhooks, every field as long as possible.
fn largest_webhooks() -> (Vec<WebhookStatus>, Condition) {
    let time = Time(Timestamp::MAX);
    let error = "\u{fffd}".repeat(256);
    let owner = Owner { kind: "k".repeat(63), name: "n".repeat(253) };
    let alert = AlertStatus {
        key: "f".repeat(16),
        namespace: "n".repeat(63),
        owner,
        container: "c".repeat(63),
        reason: "r".repeat(128),
        severity: Some(crate::api::Severity::Critical),
        team: "t".repeat(63),
        since: time.clone(),
        gone_since: Some(time.clone()),
        sent_at: Some(time.clone()),
        ..serde_json::from_value(json!({
            "key": "", "namespace": "", "owner": {"kind": "", "name": ""}, "reason": "", "since": time, "phase": "Announcing",
        }))
        .unwrap()
    };
    let room = crate::alerts::alert_bytes(10) / json_size::size(&alert);
    let webhook = WebhookStatus {
        name: "w".repeat(63),
        last_success: Some(time.clone()),
        last_error: Some(DeliveryError { time: time.clone(), message: error.clone() }),
        failures: i64::MAX,
        next_attempt: Some(time.clone()),
        stopped: true,
        config: "c".repeat(64),
        dropped: i64::MAX,
        alerts: vec![alert; room],
        muted: Some(MutedStatus {
            count: i64::MAX,
            by: "b".repeat(80),
            until: Some(time.clone()),
            ended: i64::MAX,
            incidents: vec![
                MutedIncident {
                    key: "f".repeat(16),
                    reason: "r".repeat(40),
                    gone_since: Some(time.clone())
                };
                16
            ],
            unlisted: i64::MAX,
            unlisted_ended: i64::MAX,
            unlisted_ended_at: Some(time.clone()),
        }),
        ..WebhookStatus::default()
    };
    let condition = Condition {
        type_: "AlertsDelivered".to_owned(),
        status: "Unknown".to_owned(),
        reason: "DeliveryFailing".to_owned(),
        message: "\u{fffd}".repeat(1000),
        observed_generation: Some(i64::MAX),
        last_transition_time: time,
    };
    (vec![webhook; 10], condition)
}

#[test]
fn a_full_status_has_room_for_the_largest_state_of_webhooks() {
    let pods = (0..600).map(|n| {
        let (pod, mut finding) = crashing("shop", &format!("d{n:03}"), "Error", n);
        finding.containers[0].message = "x".repeat(4096).into();
        // No room is reserved for a line of the log.
        finding.explanation.cause = crate::api::Cause::OutOfMemory;
        (pod, finding)
    });
    let scenario = Scenario { webhooks: true, max_pods: 500, ..Scenario::of(pods) };
    let mut status = scenario.status(None);
    assert!(json_size::size(&status) > budget(true) - 8 * 1024, "as large as it may be: {}", json_size::size(&status));
    let (webhooks, condition) = largest_webhooks();
    assert!(json_size::size(&webhooks) > 60 * 1024, "{}", json_size::size(&webhooks));
    status.webhooks = webhooks.into_iter().map(Arc::new).collect();
    status.conditions.push(condition);
    assert!(json_size::size(&status) <= 256 * 1024, "{} bytes", json_size::size(&status));
}
