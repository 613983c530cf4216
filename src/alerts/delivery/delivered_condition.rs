//! The condition AlertsDelivered. It also reports webhooks that cannot be used, before they have anything to send. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::{
    alerts::{refusal, sanitize, summarize_delivery, summarize_mutes},
    api::{DeliveryError, WebhookStatus, condition, reason},
};

/// In UTF-16 code units.
const MESSAGE_LIMIT: usize = 1_000;

pub(super) struct WebhookSummary<'a> {
    pub state: &'a WebhookStatus,
    /// Why the webhook cannot be used at present.
    pub unusable: Option<&'a str>,
    /// Why its Secrets cannot be read at present.
    pub unreadable: Option<String>,
}

/// The condition for all webhooks of an object; absent without webhooks. `expired` are the silences that have ended.
pub(super) fn delivered_condition(
    webhooks: &[WebhookSummary<'_>],
    expired: &[&str],
    generation: i64,
    previous: Option<&Condition>,
    now: Timestamp,
) -> Option<Condition> {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let states: Vec<WebhookStatus> = webhooks
        .iter()
        .map(|webhook| WebhookStatus {
            name: webhook.state.name.clone(),
            stopped: webhook.state.stopped,
            dropped: webhook.state.dropped,
            muted: webhook.state.muted.clone(),
            last_refusal: webhook.state.last_refusal.clone(),
            alerts: refusal::refused(webhook.state).0.cloned().collect(),
            storm: webhook.state.storm.clone(),
            last_error: match webhook.unusable.or(webhook.unreadable.as_deref()) {
                Some(reason) => Some(DeliveryError { time: Time(now), message: reason.to_owned() }),
                None => webhook.state.last_error.clone(),
            },
            ..WebhookStatus::default()
        })
        .collect();
    let summary = summarize_delivery(&states)?;
    let nothing_sent = webhooks.iter().all(|webhook| webhook.state.last_success.is_none());
    let (status, reason, message) = if !summary.delivered {
        let reason = if webhooks.iter().any(|webhook| webhook.unusable.is_some()) {
            reason::WEBHOOK_UNUSABLE
        } else if webhooks.iter().any(|webhook| webhook.unreadable.is_some()) {
            reason::SECRETS_UNREADABLE
        } else {
            summary.reason
        };
        ("False", reason, summary.message)
    } else if nothing_sent {
        ("Unknown", reason::NOTHING_SENT, "nothing was due yet".to_owned())
    } else {
        ("True", summary.reason, summary.message)
    };
    let message = [vec![message], summarize_mutes(&states, expired)].concat().join("; ");
    let unchanged = previous.filter(|old| old.status == status);
    Some(Condition {
        type_: condition::ALERTS_DELIVERED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: sanitize::single_line(&message, MESSAGE_LIMIT),
        observed_generation: Some(generation),
        last_transition_time: unchanged.map_or(Time(now), |old| old.last_transition_time.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::DeliveryError;

    fn state(name: &str, success: bool, error: Option<&str>) -> WebhookStatus {
        let time = Time(Timestamp::UNIX_EPOCH);
        WebhookStatus {
            name: name.to_owned(),
            last_success: success.then(|| time.clone()),
            last_error: error.map(|message| DeliveryError { time, message: message.to_owned() }),
            ..WebhookStatus::default()
        }
    }

    fn condition(webhooks: &[(&WebhookStatus, Option<&str>)]) -> (String, String, String) {
        let webhooks: Vec<_> = webhooks
            .iter()
            .map(|(state, unusable)| WebhookSummary { state, unusable: *unusable, unreadable: None })
            .collect();
        let condition = delivered_condition(&webhooks, &[], 3, None, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(condition.observed_generation, Some(3));
        (condition.status, condition.reason, condition.message)
    }

    #[test]
    fn names_each_failing_webhook_and_the_reason() {
        let (good, new) = (state("good", true, None), state("new", false, None));
        let bad = state("bad", true, Some("the receiver answered 500"));
        let texts = |(a, b, c): (&str, &str, &str)| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(condition(&[(&new, None)]), texts(("Unknown", "NothingSent", "nothing was due yet")));
        assert_eq!(
            condition(&[(&good, None), (&new, None)]),
            texts(("True", "Delivered", "2 webhooks accepted every message"))
        );
        assert_eq!(
            condition(&[(&good, None), (&bad, None)]),
            texts(("False", "DeliveryFailing", "1 of 2 webhooks: bad: the receiver answered 500"))
        );
        assert_eq!(
            condition(&[(&new, Some("Secret a/b does not exist")), (&bad, None)]),
            texts((
                "False",
                "WebhookUnusable",
                "2 of 2 webhooks: new: Secret a/b does not exist; bad: the receiver answered 500"
            ))
        );
    }

    #[test]
    fn keeps_the_transition_time_until_the_status_changes_and_is_absent_without_webhooks() {
        let good = state("good", true, None);
        let webhooks = || [WebhookSummary { state: &good, unusable: None, unreadable: None }];
        let first = delivered_condition(&webhooks(), &[], 1, None, Timestamp::UNIX_EPOCH).unwrap();
        let later = Timestamp::from_second(90).unwrap();
        let second = delivered_condition(&webhooks(), &[], 2, Some(&first), later).unwrap();
        assert_eq!(second.last_transition_time, first.last_transition_time);
        let broken = [WebhookSummary { state: &good, unusable: Some("no"), unreadable: None }];
        assert_eq!(delivered_condition(&broken, &[], 2, Some(&first), later).unwrap().last_transition_time.0, later);
        assert_eq!(delivered_condition(&[], &[], 2, Some(&first), later), None);
    }

    #[test]
    fn names_expired_silences() {
        let good = state("good", true, None);
        let webhooks = [WebhookSummary { state: &good, unusable: None, unreadable: None }];
        let condition = delivered_condition(&webhooks, &["migration"], 1, None, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(condition.message, "webhook good accepted every message; silence migration has expired");
        assert_eq!(condition.status, "True");
    }
}
