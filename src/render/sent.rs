//! What the receivers of an object's webhooks were sent, as its status stores it.

use std::cmp::Reverse;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{AlertPhase, AlertStatus, NamespacedName, WebhookStatus};

use super::{
    document::cause,
    grid::{self, Narrow},
    numbers::counted,
    safe::printable,
    timeline::minute,
};

/// A line for each webhook, and a table of the incidents that the receivers know or are to be sent. No line of the table is wider
/// than `width`.
pub(crate) fn sent<'a>(
    object: &NamespacedName,
    webhooks: impl Iterator<Item = &'a WebhookStatus> + Clone,
    width: Option<usize>,
) -> String {
    let mut text = format!("{}: {}\n", object, counted(webhooks.clone().count(), "webhook"));
    webhooks.clone().for_each(|webhook| text += &format!("{}\n", printable(&summary(webhook))));
    let mut alerts: Vec<_> =
        webhooks.flat_map(|webhook| webhook.alerts_and_storm().map(move |alert| (webhook, alert))).collect();
    if alerts.is_empty() {
        return text;
    }
    // What was not sent yet comes first, then what was sent last.
    alerts.sort_by_key(|(_, alert)| Reverse(alert.sent_at.as_ref().map_or(jiff::Timestamp::MAX, |at| at.0)));
    let rows = alerts.into_iter().map(|(webhook, alert)| {
        let sent = alert.sent_at.as_ref().map_or_else(|| "not yet".to_owned(), time);
        let cause = cause(alert.cause).to_owned();
        let (incident, reason) = (incident(alert), alert.reason.clone());
        vec![sent, webhook.name.clone(), state(alert).to_owned(), incident, reason, cause, alert.key.clone()]
    });
    let columns = vec![
        grid::Column::new("SENT (UTC)"),
        grid::Column::new("WEBHOOK").narrow(Narrow::Shorten),
        grid::Column::new("STATUS"),
        grid::Column::new("INCIDENT").narrow(Narrow::Shorten),
        grid::Column::new("REASON").narrow(Narrow::Shorten),
        grid::Column::new("CAUSE").narrow(Narrow::LeaveOut(1)),
        grid::Column::new("KEY").narrow(Narrow::LeaveOut(0)),
    ];
    text + "\n" + &grid::table(columns, rows.collect(), width)
}

/// How the delivery to a webhook goes.
fn summary(webhook: &WebhookStatus) -> String {
    let mut facts = vec![match &webhook.last_success {
        Some(at) => format!("last message accepted {}", time(at)),
        None => "no message accepted yet".to_owned(),
    }];
    if let Some(error) = &webhook.last_error {
        let failed = match webhook.failures {
            ..=1 => "an attempt failed".to_owned(),
            failures => format!("{failures} attempts failed, the last"),
        };
        facts.push(format!("{failed} {}: {}", time(&error.time), error.message));
    }
    match (&webhook.next_attempt, webhook.stopped) {
        (_, true) => facts.push("nothing is sent until the webhook or its Secret changes".to_owned()),
        (Some(at), _) => facts.push(format!("next attempt {}", time(at))),
        _ => {}
    }
    if let Some(pending) = &webhook.pending {
        let kind = pending.kind.as_str();
        facts.push(format!("message {} ({kind}) is being sent, attempt {}", pending.id, pending.attempts));
    }
    if webhook.dropped > 0 {
        facts.push(format!("{} ended unsent", counted(webhook.dropped, "incident")));
    }
    if let Some(muted) = webhook.muted.as_ref().filter(|muted| muted.count > 0) {
        facts.push(format!("{} held back by {}", counted(muted.count, "incident"), muted.by));
    }
    format!("{}: {}", webhook.name, facts.join("; "))
}

fn incident(alert: &AlertStatus) -> String {
    match &alert.overflow {
        Some(overflow) => format!("{}, too many to list", counted(overflow.count, "incident")),
        None if alert.namespace.is_empty() => format!("{} {}", alert.owner.kind, alert.owner.name),
        None => format!("{}/{}", alert.namespace, alert.owner.name),
    }
}

/// What the receiver knows about an incident.
fn state(alert: &AlertStatus) -> &'static str {
    match alert.phase {
        _ if alert.refused_at.is_some() => "refused",
        AlertPhase::Queued => "waiting",
        AlertPhase::Announcing => "being sent",
        AlertPhase::Firing if alert.gone_since.is_some() => "ending",
        AlertPhase::Firing => "firing",
        AlertPhase::Resolving => "end being sent",
        AlertPhase::Resolved => "resolved",
    }
}

fn time(at: &Time) -> String {
    minute(at.0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::text::plain, *};

    fn webhook(name: &str, changes: Value) -> WebhookStatus {
        let mut webhook = json!({"name": name, "lastSuccess": "2026-03-01T11:58:00Z"});
        webhook.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        serde_json::from_value(webhook).unwrap()
    }

    fn alert(key: &str, phase: &str, changes: Value) -> Value {
        let mut alert = json!({
            "key": key, "namespace": "shop", "owner": {"kind": "Deployment", "name": "cart"}, "kind": "Crash",
            "reason": "OOMKilled", "cause": "OutOfMemory", "since": "2026-03-01T11:00:00Z", "phase": phase,
        });
        alert.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        alert
    }

    fn text(webhooks: &[WebhookStatus]) -> String {
        let text = plain(&sent(&NamespacedName::new("ops", "cluster"), webhooks.iter(), None));
        text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn lists_incidents_by_when_their_receivers_were_sent_them() {
        let at = |minute: u32| json!({"sentAt": format!("2026-03-01T11:{minute}:07Z")});
        let ops = webhook(
            "ops",
            json!({
                "alerts": [
                    alert("a", "Firing", at(30)),
                    alert("b", "Resolved", at(58)),
                    alert("c", "Queued", json!({"owner": {"kind": "Job", "name": "load\u{1b}[31m"}, "cause": "Unknown"})),
                ],
                "storm": {"since": "2026-03-01T11:00:00Z", "count": 17, "members": "x", "phase": "Firing",
                          "sentAt": "2026-03-01T11:40:00Z"},
            }),
        );
        assert_eq!(
            text(&[ops, webhook("pager", json!({}))]),
            "ops/cluster: 2 webhooks\n\
             ops: last message accepted 2026-03-01 11:58\n\
             pager: last message accepted 2026-03-01 11:58\n\
             \n\
             SENT (UTC)         WEBHOOK   STATUS     INCIDENT                         REASON      CAUSE         KEY\n\
             not yet            ops       waiting    shop/load\u{fffd}[31m                   OOMKilled                 c\n\
             2026-03-01 11:58   ops       resolved   shop/cart                        OOMKilled   OutOfMemory   b\n\
             2026-03-01 11:40   ops       firing     17 incidents, too many to list                             storm\n\
             2026-03-01 11:30   ops       firing     shop/cart                        OOMKilled   OutOfMemory   a\n"
        );
    }

    #[test]
    fn says_how_the_delivery_fails() {
        let error = json!({"time": "2026-03-01T11:59:00Z", "message": "the receiver answered 503"});
        let pending = json!({
            "id": "0a1b", "kind": "Firing", "created": "2026-03-01T11:57:00Z", "attempts": 3, "inFlight": true,
        });
        let failing = json!({
            "lastError": error, "failures": 3, "nextAttempt": "2026-03-01T12:01:00Z", "pending": pending, "dropped": 1,
            "muted": {"count": 2, "by": "quiet hours nights"},
        });
        let gone = json!({"lastSuccess": null, "lastError": error, "failures": 1, "stopped": true});
        assert_eq!(
            text(&[webhook("a", failing), webhook("b", gone)]),
            "ops/cluster: 2 webhooks\n\
             a: last message accepted 2026-03-01 11:58; 3 attempts failed, the last 2026-03-01 11:59: the receiver answered 503; \
             next attempt 2026-03-01 12:01; message 0a1b (Firing) is being sent, attempt 3; 1 incident ended unsent; 2 \
             incidents held back by quiet hours nights\n\
             b: no message accepted yet; an attempt failed 2026-03-01 11:59: the receiver answered 503; nothing is sent until the \
             webhook or its Secret changes\n"
        );
        assert_eq!(text(&[]), "ops/cluster: 0 webhooks\n");
    }
}
