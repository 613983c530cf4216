//! Tests of what a change of the webhooks does to the states of their alerts.

use serde_json::json;

use super::{
    super::*,
    fairness::{context, largest, worker},
};
use crate::api::OrchestrStatus;

/// An input with the stored state of a webhook that was sent an alert.
fn stored() -> Input {
    let alert = json!({
        "key": "k", "namespace": "evil", "owner": {"kind": "Pod", "name": "a"}, "reason": "Error",
        "since": "2026-07-01T10:00:00Z", "sentAt": "2026-07-01T10:00:00Z", "phase": "Firing",
    });
    let state: WebhookStatus =
        serde_json::from_value(json!({"name": "0", "receiver": "r", "alerts": [alert]})).unwrap();
    let status = OrchestrStatus { webhooks: vec![Arc::new(state)], ..OrchestrStatus::default() };
    Input { observed: Arc::new(StoredStatus::new("1", Some(&status))), ..largest() }
}

#[tokio::test]
async fn a_webhook_that_is_added_again_is_a_new_one() {
    let (context, input) = (context(), stored());
    let (mut worker, inputs) = worker(&context, input.clone());
    assert_eq!(worker.queues[0].state().alerts.len(), 1);
    inputs.send_replace(Input { webhooks: Vec::new().into(), ..input.clone() });
    worker.apply_input(Instant::now());
    assert_eq!(worker.leaving.len(), 10);
    inputs.send_replace(input);
    worker.apply_input(Instant::now());
    assert!(worker.queues[0].state().alerts.is_empty(), "its alerts were ended");
}

#[tokio::test]
async fn a_webhook_was_removed_when_its_spec_was_last_known() {
    let (context, input) = (context(), stored());
    let (mut worker, inputs) = worker(&context, input.clone());
    let now = Instant::now();
    let changed_after = now.checked_sub(Duration::from_secs(20 * 60)).unwrap();
    inputs.send_replace(Input { webhooks: Vec::new().into(), changed_after: Some(changed_after), ..input });
    worker.apply_input(now);
    let left = worker.leaving[0].take_left(true, now).unwrap();
    assert_eq!(left.left_after, changed_after, "nothing is sent there any more");
}
