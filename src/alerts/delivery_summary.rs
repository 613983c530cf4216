//! Summarizes the states of an object's webhooks, for the condition `AlertsDelivered`.

use crate::api::{MutedStatus, WebhookStatus, reason};

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

/// What silences and quiet hours hold back, and which silences have expired; empty if there is nothing to report.
#[must_use]
pub(super) fn summarize_mutes(webhooks: &[WebhookStatus], expired: &[&str]) -> Vec<String> {
    let muted = webhooks.iter().filter_map(|webhook| Some((webhook.name.as_str(), webhook.muted.as_ref()?)));
    // The number differs from webhook to webhook. The largest is closest to what people miss.
    let most = muted.max_by_key(|(_, muted)| (muted.count, muted.ended));
    let of_several = |name: &str| if webhooks.len() > 1 { format!("webhook {name}: ") } else { String::new() };
    let held_back = most.map(|(name, muted)| format!("{}{}", of_several(name), summarize_muted(muted)));
    let expired = match expired {
        [] => None,
        [name] => Some(format!("silence {name} has expired")),
        names => Some(format!("silences {} have expired", names.join(", "))),
    };
    held_back.into_iter().chain(expired).collect()
}

fn summarize_muted(muted: &MutedStatus) -> String {
    let MutedStatus { count, by, until, ended, .. } = muted;
    let until = until.as_ref().map(|until| format!(" until {} by {by}", until.0)).unwrap_or_default();
    let held_back = match count {
        0 => None,
        1 => Some(format!("1 incident is held back{until}")),
        _ => Some(format!("{count} incidents are held back, the first{until}")),
    };
    let ended = match ended {
        0 => None,
        1 => Some("1 incident began and ended while it was held back".to_owned()),
        _ => Some(format!("{ended} incidents began and ended while they were held back")),
    };
    held_back.into_iter().chain(ended).collect::<Vec<_>>().join("; ")
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
    fn counts_what_is_held_back_for_the_webhook_that_misses_most() {
        let muted = |name: &str, count, ended| {
            let until = Some(Time("2026-12-01T06:00:00Z".parse().unwrap())).filter(|_| count > 0);
            let by = if count > 0 { "quiet hours nights".to_owned() } else { String::new() };
            let muted = MutedStatus { count, by, until, ended, ..MutedStatus::default() };
            WebhookStatus { muted: Some(muted), ..webhook(name, None) }
        };
        let until = "until 2026-12-01T06:00:00Z by quiet hours nights";
        for (webhooks, expired, texts) in [
            (vec![webhook("ops", None)], &[][..], vec![]),
            (vec![muted("ops", 1, 0)], &[], vec![format!("1 incident is held back {until}")]),
            (
                vec![muted("ops", 2, 3)],
                &["migration"],
                vec![
                    format!(
                        "2 incidents are held back, the first {until}; 3 incidents began and ended while they were held back"
                    ),
                    "silence migration has expired".to_owned(),
                ],
            ),
            (
                vec![muted("ops", 0, 1), muted("dev", 1, 0), webhook("old", None)],
                &["a", "b"],
                vec![format!("webhook dev: 1 incident is held back {until}"), "silences a, b have expired".to_owned()],
            ),
            (vec![muted("ops", 0, 1)], &[], vec!["1 incident began and ended while it was held back".to_owned()]),
        ] {
            assert_eq!(summarize_mutes(&webhooks, expired), texts);
        }
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
