//! Summarizes the states of an object's webhooks, for the condition `AlertsDelivered`.

use super::refusal;
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
    let is_failing = |webhook: &&WebhookStatus| webhook.last_error.is_some() || webhook.last_refusal.is_some();
    let failing: Vec<&WebhookStatus> = webhooks.iter().filter(is_failing).collect();
    if failing.is_empty() {
        let message = match webhooks.len() {
            1 => format!("webhook {} accepted every message", first.name),
            count => format!("{count} webhooks accepted every message"),
        };
        return Some(DeliverySummary { delivered: true, reason: reason::DELIVERED, message });
    }
    let only_refused = failing.iter().all(|webhook| webhook.last_error.is_none());
    let all_stopped = failing.iter().all(|webhook| webhook.stopped);
    let errors: Vec<String> = failing
        .iter()
        .map(|webhook| {
            let error = match &webhook.last_error {
                Some(error) => error.message.clone(),
                None => summarize_refused(webhook),
            };
            let dropped = match webhook.dropped {
                0 => String::new(),
                dropped => format!(" ({dropped} problems ended before they could be sent)"),
            };
            format!("{}: {error}{dropped}", webhook.name)
        })
        .collect();
    Some(DeliverySummary {
        delivered: false,
        reason: match (all_stopped, only_refused) {
            (true, _) => reason::RECEIVER_GONE,
            (_, true) => reason::INCIDENTS_REFUSED,
            _ => reason::DELIVERY_FAILING,
        },
        message: format!("{} of {} webhooks: {}", failing.len(), webhooks.len(), errors.join("; ")),
    })
}

/// What a receiver refuses although it accepts other messages.
fn summarize_refused(webhook: &WebhookStatus) -> String {
    /// How many incidents are named.
    const NAMED: usize = 3;
    let (alerts, storm) = refusal::refused(webhook);
    let names: Vec<String> = alerts
        .map(|alert| [alert.namespace.as_str(), "/", &alert.owner.kind, " ", &alert.owner.name].concat())
        .map(|name| name.trim_start_matches('/').to_owned())
        .chain(storm.then(|| "the problems that are too many to list".to_owned()))
        .collect();
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let named = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let error = webhook.last_refusal.as_ref().map_or("", |error| error.message.as_str());
    format!("refuses messages about {named}{more}: {error}")
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
    fn names_the_incidents_that_a_receiver_refuses_and_its_words() {
        let alert = |name: &str, phase: &str, refused: bool| {
            let mut alert = serde_json::json!({
                "key": name, "namespace": "shop", "owner": {"kind": "Job", "name": name}, "reason": "Error",
                "since": "2026-07-01T10:00:00Z", "phase": phase,
            });
            if refused {
                alert["refusedAt"] = "2026-07-01T10:00:00Z".into();
            }
            serde_json::from_value(alert).unwrap()
        };
        let mut refusing = webhook("ops", None);
        refusing.last_refusal = webhook("", Some("the receiver answered 400: “invalid_blocks”")).last_error;
        refusing.alerts = vec![alert("a", "Queued", true), alert("b", "Firing", false), alert("c", "Resolved", true)];
        let (delivered, reason, message) = summary(&[refusing.clone(), webhook("chat", None)]);
        assert_eq!((delivered, reason), (false, "IncidentsRefused"));
        let expected = "ops: refuses messages about shop/Job a: the receiver answered 400: “invalid_blocks”";
        assert_eq!(message, format!("1 of 2 webhooks: {expected}"));
        refusing.alerts = ["a", "b", "c", "d", "e"].map(|name| alert(name, "Firing", true)).to_vec();
        let message = summary(&[refusing.clone()]).2;
        assert!(message.contains("about shop/Job a, shop/Job b, shop/Job c, and 2 more: the"), "{message}");
        let failing = webhook("chat", Some("the receiver answered 500"));
        assert_eq!(summary(&[refusing, failing]).1, "DeliveryFailing");
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
