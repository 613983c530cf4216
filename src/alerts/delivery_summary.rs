//! Summarizes the states of an object's webhooks, for the condition `AlertsDelivered`.

use crate::api::{WebhookStatus, reason};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeliverySummary {
    pub delivered: bool,
    /// A constant of [`reason`].
    pub reason: &'static str,
    pub message: String,
}

/// Summarizes the states of an object's webhooks; `None` without webhooks.
#[must_use]
pub(super) fn summarize_delivery(webhooks: &[WebhookStatus]) -> Option<DeliverySummary> {
    let first = webhooks.first()?;
    let failing: Vec<&WebhookStatus> = webhooks.iter().filter(|webhook| webhook.last_error.is_some()).collect();
    if failing.is_empty() {
        let message = match webhooks.len() {
            1 => format!("webhook {} accepted every message", first.name),
            count => format!("{count} webhooks accepted every message"),
        };
        return Some(DeliverySummary { delivered: true, reason: reason::DELIVERED, message });
    }
    let all_stopped = failing.iter().all(|webhook| webhook.stopped);
    let errors: Vec<String> = failing
        .iter()
        .map(|webhook| {
            let error = webhook.last_error.as_ref().map_or("", |error| error.message.as_str());
            let dropped = match webhook.dropped {
                0 => String::new(),
                dropped => format!(" ({dropped} problems ended before they could be sent)"),
            };
            format!("{}: {error}{dropped}", webhook.name)
        })
        .collect();
    Some(DeliverySummary {
        delivered: false,
        reason: if all_stopped { reason::RECEIVER_GONE } else { reason::DELIVERY_FAILING },
        message: format!("{} of {} webhooks: {}", failing.len(), webhooks.len(), errors.join("; ")),
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

    fn summary(webhooks: &[WebhookStatus]) -> (bool, &'static str, String) {
        let summary = summarize_delivery(webhooks).unwrap();
        (summary.delivered, summary.reason, summary.message)
    }

    #[test]
    fn names_each_failing_webhook_and_its_error() {
        assert_eq!(summarize_delivery(&[]), None);
        assert_eq!(
            summary(&[webhook("ops", None)]),
            (true, "Delivered", "webhook ops accepted every message".to_owned())
        );
        let mut gone = webhook("old", Some("the receiver answered 410"));
        gone.stopped = true;
        assert_eq!(
            summary(&[webhook("ops", None), gone.clone()]),
            (false, "ReceiverGone", "1 of 2 webhooks: old: the receiver answered 410".to_owned())
        );
        let mut slow = webhook("ops", Some("the receiver did not answer in time"));
        slow.dropped = 3;
        let (delivered, reason, message) = summary(&[slow, gone]);
        assert_eq!((delivered, reason), (false, "DeliveryFailing"));
        assert_eq!(
            message,
            "2 of 2 webhooks: ops: the receiver did not answer in time (3 problems ended before they could be sent); \
             old: the receiver answered 410"
        );
    }
}
