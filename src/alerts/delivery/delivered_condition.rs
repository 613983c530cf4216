//! The condition AlertsDelivered. It also reports webhooks that cannot be used, before they have anything to send. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::{
    alerts::{refusal, sanitize},
    api::{AlertStatus, MutedStatus, WebhookStatus, condition, reason},
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

impl WebhookSummary<'_> {
    /// Why messages are not delivered at present, apart from those that the receiver refuses.
    fn error(&self) -> Option<&str> {
        let last_error = self.state.last_error.as_ref().map(|error| error.message.as_str());
        self.unusable.or(self.unreadable.as_deref()).or(last_error)
    }

    /// Whether the last message could not be delivered, none can be, none could be after a restart, or the receiver refuses some
    /// incidents.
    pub fn has_problem(&self) -> bool {
        self.error().is_some() || self.state.last_refusal.is_some()
    }

    /// Whether all that is wrong is that the receiver refuses incidents for their content: some, or all that it was sent.
    pub fn only_refuses(&self) -> bool {
        let WebhookStatus { last_error, last_refusal, .. } = self.state;
        let is_refusal = last_error.is_none() || last_error == last_refusal;
        last_refusal.is_some() && is_refusal && self.unusable.is_none() && self.unreadable.is_none()
    }
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
    let (status, reason, message) = summarize_delivery(webhooks)?;
    let message = [vec![message], summarize_mutes(webhooks, expired)].concat().join("; ");
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

/// The condition's status, reason and message, without what is held back; `None` without webhooks.
fn summarize_delivery(webhooks: &[WebhookSummary<'_>]) -> Option<(&'static str, &'static str, String)> {
    let first = webhooks.first()?;
    let failing: Vec<&WebhookSummary<'_>> = webhooks.iter().filter(|own| own.has_problem()).collect();
    if failing.is_empty() {
        if webhooks.iter().all(|own| own.state.last_success.is_none()) {
            return Some(("Unknown", reason::NOTHING_SENT, "nothing was sent yet".to_owned()));
        }
        let message = match webhooks.len() {
            1 => format!("webhook {} accepted every message", first.state.name),
            count => format!("{count} webhooks accepted every message"),
        };
        return Some(("True", reason::DELIVERED, message));
    }
    let reason = if webhooks.iter().any(|own| own.unusable.is_some()) {
        reason::WEBHOOK_UNUSABLE
    } else if webhooks.iter().any(|own| own.unreadable.is_some()) {
        reason::SECRETS_UNREADABLE
    } else if failing.iter().all(|own| own.state.stopped) {
        reason::RECEIVER_GONE
    } else if failing.iter().all(|own| own.error().is_none()) {
        reason::INCIDENTS_REFUSED
    } else {
        reason::DELIVERY_FAILING
    };
    let errors: Vec<String> = failing
        .iter()
        .map(|own| {
            let error = own.error().map_or_else(|| summarize_refused(own.state), str::to_owned);
            let dropped = match own.state.dropped {
                0 => String::new(),
                dropped => format!(" ({dropped} problems ended before they could be sent)"),
            };
            format!("{}: {error}{dropped}", own.state.name)
        })
        .collect();
    let message = format!("{} of {} webhooks: {}", failing.len(), webhooks.len(), errors.join("; "));
    Some(("False", reason, message))
}

/// What a receiver refuses although it accepts other messages.
fn summarize_refused(webhook: &WebhookStatus) -> String {
    /// How many incidents are named.
    const NAMED: usize = 3;
    let name = |alert: &AlertStatus| match &alert.overflow {
        Some(_) => "the problems that are too many to list".to_owned(),
        None => {
            let name = [alert.namespace.as_str(), "/", &alert.owner.kind, " ", &alert.owner.name].concat();
            name.trim_start_matches('/').to_owned()
        }
    };
    let names: Vec<String> = refusal::refused(webhook).map(name).collect();
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let named = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let error = webhook.last_refusal.as_ref().map_or("", |error| error.message.as_str());
    format!("refuses messages about {named}{more}: {error}")
}

/// What silences and quiet hours hold back, and which silences have expired; empty if there is nothing to report.
fn summarize_mutes(webhooks: &[WebhookSummary<'_>], expired: &[&str]) -> Vec<String> {
    let muted =
        webhooks.iter().filter_map(|webhook| Some((webhook.state.name.as_str(), webhook.state.muted.as_ref()?)));
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
    use super::*;
    use crate::api::DeliveryError;

    fn webhook(name: &str, error: Option<&str>) -> WebhookStatus {
        let time = Time("2026-07-01T10:00:00Z".parse().unwrap());
        let last_error = error.map(|message| DeliveryError { time: time.clone(), message: message.to_owned() });
        WebhookStatus {
            name: name.to_owned(),
            last_success: Some(time.clone()),
            last_error,
            ..WebhookStatus::default()
        }
    }

    fn summaries(webhooks: &[WebhookStatus]) -> Vec<WebhookSummary<'_>> {
        webhooks.iter().map(|state| WebhookSummary { state, unusable: None, unreadable: None }).collect()
    }

    fn summary(webhooks: &[WebhookStatus]) -> (&'static str, &'static str, String) {
        summarize_delivery(&summaries(webhooks)).unwrap()
    }

    #[test]
    fn names_each_failing_webhook_and_the_reason() {
        let (good, new) = (webhook("good", None), WebhookStatus { last_success: None, ..webhook("new", None) });
        let bad = webhook("bad", Some("the receiver answered 500"));
        let gone = WebhookStatus { stopped: true, ..webhook("old", Some("the receiver answered 410")) };
        let slow = WebhookStatus { dropped: 3, ..webhook("ops", Some("the receiver did not answer in time")) };
        for (webhooks, status, reason, message) in [
            (vec![new.clone()], "Unknown", "NothingSent", "nothing was sent yet"),
            (vec![good.clone()], "True", "Delivered", "webhook good accepted every message"),
            (vec![good.clone(), new.clone()], "True", "Delivered", "2 webhooks accepted every message"),
            (
                vec![good.clone(), bad.clone()],
                "False",
                "DeliveryFailing",
                "1 of 2 webhooks: bad: the receiver answered 500",
            ),
            (vec![good, gone.clone()], "False", "ReceiverGone", "1 of 2 webhooks: old: the receiver answered 410"),
            (
                vec![slow, gone],
                "False",
                "DeliveryFailing",
                "2 of 2 webhooks: ops: the receiver did not answer in time (3 problems ended before they could be sent); \
                 old: the receiver answered 410",
            ),
        ] {
            assert_eq!(summary(&webhooks), (status, reason, message.to_owned()));
        }
        let unusable = WebhookSummary { state: &new, unusable: Some("Secret a/b does not exist"), unreadable: None };
        let failing = WebhookSummary { state: &bad, unusable: None, unreadable: None };
        let condition = delivered_condition(&[unusable, failing], &[], 3, None, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((condition.reason.as_str(), condition.observed_generation), ("WebhookUnusable", Some(3)));
        assert_eq!(
            condition.message,
            "2 of 2 webhooks: new: Secret a/b does not exist; bad: the receiver answered 500"
        );
    }

    #[test]
    fn keeps_the_transition_time_until_the_status_changes() {
        let good = webhook("good", None);
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
        let good = webhook("good", None);
        let webhooks = [WebhookSummary { state: &good, unusable: None, unreadable: None }];
        let condition = delivered_condition(&webhooks, &["migration"], 1, None, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(condition.message, "webhook good accepted every message; silence migration has expired");
        assert_eq!(condition.status, "True");
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
            assert_eq!(summarize_mutes(&summaries(&webhooks), expired), texts);
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
        let (status, reason, message) = summary(&[refusing.clone(), webhook("chat", None)]);
        assert_eq!((status, reason), ("False", "IncidentsRefused"));
        let expected = "ops: refuses messages about shop/Job a: the receiver answered 400: “invalid_blocks”";
        assert_eq!(message, format!("1 of 2 webhooks: {expected}"));
        refusing.alerts = ["a", "b", "c", "d", "e"].map(|name| alert(name, "Firing", true)).to_vec();
        let message = summary(&[refusing.clone()]).2;
        assert!(message.contains("about shop/Job a, shop/Job b, shop/Job c, and 2 more: the"), "{message}");
        let failing = webhook("chat", Some("the receiver answered 500"));
        assert_eq!(summary(&[refusing, failing]).1, "DeliveryFailing");
    }
}
