//! Tests that what is large in a webhook's spec and state is in memory once.

use super::{
    super::*,
    fairness::{context_with, largest, worker},
};

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
