//! Tests that what is large in a webhook's spec and state is in memory once.

use jiff::Timestamp;

use super::{
    super::*,
    fairness::{context, context_with, largest, worker},
};
use crate::api::{OrchestrStatus, WebhookStatus};

#[tokio::test]
async fn queues_and_reads_of_secrets_share_the_specs_of_the_webhooks() {
    let context = context_with(DeliveryTimings { pacing_divisor: 2, ..DeliveryTimings::default() });
    let input = largest();
    let (mut worker, _inputs) = worker(&context, input.clone());
    (0..worker.queues.len()).for_each(|index| worker.read_secrets(index));
    for (queue, webhook) in worker.queues.iter().zip(input.webhooks.iter()) {
        assert!(queue.webhook.policy.shares_patterns_with(&webhook.policy));
        assert!(Arc::ptr_eq(&queue.webhook.endpoint, &webhook.endpoint));
        assert_eq!(Arc::strong_count(&webhook.endpoint), 3, "the input, the queue and the read");
    }
}

/// The status as it is decoded from a version of the object.
fn decoded(status: &DeliveryStatus) -> OrchestrStatus {
    let webhooks = status.webhooks.iter().map(|state| Arc::new(WebhookStatus::clone(state))).collect();
    let conditions = status.condition.iter().cloned().collect();
    OrchestrStatus { webhooks, conditions, ..OrchestrStatus::default() }
}

#[tokio::test]
async fn queues_share_their_states_with_the_status_in_the_api() {
    let unwritten = Arc::new(StoredStatus::new("1", None));
    let (context, input) = (context(), Input { observed: unwritten, ..largest() });
    let (mut worker, inputs) = worker(&context, input.clone());
    worker.plan().await;
    let written = worker.delivery_status(Timestamp::now());
    assert!(written.webhooks.iter().all(|state| state.storm.is_some()), "each webhook was planned");
    let answer = StoredStatus::new("2", Some(&decoded(&written)));
    let in_api = decoded(&written);
    let before: Vec<_> =
        [&written, &answer.status].into_iter().flat_map(|status| &status.webhooks).map(Arc::downgrade).collect();

    worker.writer.on_start(written.clone(), Instant::now());
    worker.queues.iter_mut().for_each(WebhookQueue::on_storing);
    worker.on_written(written, Ok(answer), Instant::now());
    assert!(
        before.iter().skip(10).all(|state| state.strong_count() == 0),
        "the answer is not kept beside what was written"
    );

    inputs.send_replace(Input { observed: Arc::new(StoredStatus::new("2", Some(&in_api))), ..input });
    worker.apply_input(Instant::now());
    assert!(before.iter().all(|state| state.strong_count() == 0), "only the observed states are kept");
    worker.plan().await;
    for (queue, in_api) in worker.queues.iter().zip(&in_api.webhooks) {
        assert!(Arc::ptr_eq(queue.state(), in_api), "{}", queue.name());
    }
}
