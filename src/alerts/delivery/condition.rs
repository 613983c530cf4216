//! The condition AlertsDelivered as the status has it: also a webhook that can't be used is told of, before
//! anything is due. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::{
    alerts::{sanitize, summarize_delivery},
    api::{DeliveryError, WebhookStatus, condition, reason},
};

/// The longest message, in UTF-16 code units.
const MESSAGE_LIMIT: usize = 1_000;

/// One webhook, as the condition sees it.
pub(super) struct Seen<'a> {
    pub state: &'a WebhookStatus,
    /// Why it can't be used at present.
    pub unusable: Option<&'a str>,
}

/// The condition for all of an object's webhooks; absent without any.
pub(super) fn delivered(
    webhooks: &[Seen<'_>],
    generation: i64,
    previous: Option<&Condition>,
    now: Timestamp,
) -> Option<Condition> {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let states: Vec<WebhookStatus> = webhooks
        .iter()
        .map(|seen| WebhookStatus {
            name: seen.state.name.clone(),
            stopped: seen.state.stopped,
            dropped: seen.state.dropped,
            last_error: match seen.unusable {
                Some(why) => Some(DeliveryError { time: Time(now), message: why.to_owned() }),
                None => seen.state.last_error.clone(),
            },
            ..WebhookStatus::default()
        })
        .collect();
    let sum = summarize_delivery(&states)?;
    let nothing_sent = webhooks.iter().all(|seen| seen.state.last_success.is_none());
    let (status, reason, message) = if !sum.delivered {
        let unusable = webhooks.iter().any(|seen| seen.unusable.is_some());
        ("False", if unusable { reason::WEBHOOK_UNUSABLE } else { sum.reason }, sum.message)
    } else if nothing_sent {
        ("Unknown", reason::NOTHING_SENT, "nothing was due yet".to_owned())
    } else {
        ("True", sum.reason, sum.message)
    };
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

    fn told(webhooks: &[(&WebhookStatus, Option<&str>)]) -> (String, String, String) {
        let seen: Vec<_> = webhooks.iter().map(|(state, unusable)| Seen { state, unusable: *unusable }).collect();
        let condition = delivered(&seen, 3, None, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(condition.observed_generation, Some(3));
        (condition.status, condition.reason, condition.message)
    }

    #[test]
    fn it_names_each_webhook_that_fails_and_why() {
        let (good, new) = (state("good", true, None), state("new", false, None));
        let bad = state("bad", true, Some("the receiver answered 500"));
        let texts = |(a, b, c): (&str, &str, &str)| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(told(&[(&new, None)]), texts(("Unknown", "NothingSent", "nothing was due yet")));
        assert_eq!(
            told(&[(&good, None), (&new, None)]),
            texts(("True", "Delivered", "2 webhooks have taken what they were due"))
        );
        assert_eq!(
            told(&[(&good, None), (&bad, None)]),
            texts(("False", "DeliveryFailing", "1 of 2 webhooks: bad: the receiver answered 500"))
        );
        assert_eq!(
            told(&[(&new, Some("Secret a/b does not exist")), (&bad, None)]),
            texts((
                "False",
                "WebhookUnusable",
                "2 of 2 webhooks: new: Secret a/b does not exist; bad: the receiver answered 500"
            ))
        );
    }

    #[test]
    fn it_keeps_its_transition_time_and_goes_with_the_webhooks() {
        let good = state("good", true, None);
        let seen = || [Seen { state: &good, unusable: None }];
        let first = delivered(&seen(), 1, None, Timestamp::UNIX_EPOCH).unwrap();
        let later = Timestamp::from_second(90).unwrap();
        let second = delivered(&seen(), 2, Some(&first), later).unwrap();
        assert_eq!(second.last_transition_time, first.last_transition_time);
        let broken = [Seen { state: &good, unusable: Some("no") }];
        assert_eq!(delivered(&broken, 2, Some(&first), later).unwrap().last_transition_time.0, later);
        assert_eq!(delivered(&[], 2, Some(&first), later), None);
    }
}
