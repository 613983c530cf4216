//! The condition AlertsDelivered: what the webhooks' states amount to.

use crate::api::{WebhookStatus, reason};

/// What the condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliverySummary {
    /// The condition's status.
    pub delivered: bool,
    /// One of [`reason`]'s words.
    pub reason: &'static str,
    /// In words.
    pub message: String,
}

/// Sums up the states of an object's webhooks. Absent where it has none.
#[must_use]
pub fn summarize_delivery(webhooks: &[WebhookStatus]) -> Option<DeliverySummary> {
    let first = webhooks.first()?;
    let failing: Vec<&WebhookStatus> = webhooks.iter().filter(|webhook| webhook.last_error.is_some()).collect();
    if failing.is_empty() {
        let message = match webhooks.len() {
            1 => format!("webhook {} has taken what it was due", first.name),
            count => format!("{count} webhooks have taken what they were due"),
        };
        return Some(DeliverySummary { delivered: true, reason: reason::DELIVERED, message });
    }
    let all_stopped = failing.iter().all(|webhook| webhook.stopped);
    let told: Vec<String> = failing
        .iter()
        .map(|webhook| {
            let error = webhook.last_error.as_ref().map_or("", |error| error.message.as_str());
            let dropped = match webhook.dropped {
                0 => String::new(),
                dropped => format!(" ({dropped} problems came and went untold so far)"),
            };
            format!("{}: {error}{dropped}", webhook.name)
        })
        .collect();
    Some(DeliverySummary {
        delivered: false,
        reason: if all_stopped { reason::RECEIVER_GONE } else { reason::DELIVERY_FAILING },
        message: format!("{} of {} webhooks: {}", failing.len(), webhooks.len(), told.join("; ")),
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::api::DeliveryError;

    fn webhook(name: &str, error: Option<&str>) -> WebhookStatus {
        let time = Time("2026-07-01T10:00:00Z".parse().unwrap());
        let last_error = error.map(|message| DeliveryError { time, message: message.to_owned() });
        WebhookStatus { name: name.to_owned(), last_error, ..WebhookStatus::default() }
    }

    fn told(webhooks: &[WebhookStatus]) -> (bool, &'static str, String) {
        let delivery = summarize_delivery(webhooks).unwrap();
        (delivery.delivered, delivery.reason, delivery.message)
    }

    #[test]
    fn a_failing_webhook_is_named_with_what_is_wrong() {
        assert_eq!(summarize_delivery(&[]), None);
        assert_eq!(
            told(&[webhook("ops", None)]),
            (true, "Delivered", "webhook ops has taken what it was due".to_owned())
        );
        let mut gone = webhook("old", Some("the receiver answered 410"));
        gone.stopped = true;
        assert_eq!(
            told(&[webhook("ops", None), gone.clone()]),
            (false, "ReceiverGone", "1 of 2 webhooks: old: the receiver answered 410".to_owned())
        );
        let mut slow = webhook("ops", Some("the receiver did not answer in time"));
        slow.dropped = 3;
        let (delivered, reason, message) = told(&[slow, gone]);
        assert_eq!((delivered, reason), (false, "DeliveryFailing"));
        assert_eq!(
            message,
            "2 of 2 webhooks: ops: the receiver did not answer in time (3 problems came and went untold so far); \
             old: the receiver answered 410"
        );
    }
}
