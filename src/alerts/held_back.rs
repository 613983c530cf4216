//! What silences and quiet hours do to the alerts of one webhook.
//!
//! They hold back announcements and repetitions, and nothing else: the end of an alert that was sent is sent immediately, and
//! Alertmanager is still sent the alerts that it was sent before, so that it does not resolve them.
//!
//! An incident that is held back has no alert. If it lasts until the rule ends, it gets one then. If it ends earlier, it is
//! counted, and the next message says how many did.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use jiff::Timestamp;

use super::{
    Incident,
    mute::{find_mute, mutes_everywhere},
    refusal, sanitize,
    state::{WebhookState, is_ongoing},
    times::{elapses_at, has_elapsed, whole_seconds},
};
use crate::api::{AlertStatus, MutedIncident, MutedStatus};

/// The most incidents that the status lists, so that it stays small. The end of each of them is noticed.
const MAX_INCIDENTS: usize = 16;
/// The longest reason that the status stores, so that it stays small. Those of the kubelet are shorter.
const REASON: usize = 40;

/// Whether the incident of an alert is held back now, or would be if it had not ended.
pub(super) fn holds_back(webhook: &WebhookState<'_>, alert: &AlertStatus) -> bool {
    if webhook.is_muted(alert) {
        return true;
    }
    if alert.gone_since.is_none() || webhook.lasts(alert) || alert.overflow.is_some() {
        return false;
    }
    let incident = Incident::from(alert);
    let rules = webhook.input.mute_rules.active(webhook.input.now);
    // The status has only the keys of a common cause's incidents.
    if alert.members.is_empty() {
        find_mute(&rules, &incident, &[]).is_some()
    } else {
        mutes_everywhere(&rules, &incident)
    }
}

/// The incidents of an alert that is taken back because they are held back.
pub(super) fn incidents(alert: &AlertStatus) -> Vec<MutedIncident> {
    let gone_since = &alert.gone_since;
    let muted = |key: &String, reason| MutedIncident { key: key.clone(), reason, gone_since: gone_since.clone() };
    if alert.members.is_empty() {
        return vec![muted(&alert.key, stored_reason(&alert.reason))];
    }
    alert.members.iter().map(|key| muted(key, String::new())).collect()
}

/// Lists incidents whose alerts were taken back. They were due, even if they have returned just now: their end is to be
/// counted.
pub(super) fn list(webhook: &mut WebhookState<'_>, withdrawn: Vec<MutedIncident>) {
    for incident in withdrawn {
        let muted = webhook.status.muted.get_or_insert_default();
        if muted.incidents.iter().any(|listed| listed.key == incident.key) {
            continue;
        }
        if muted.incidents.len() < MAX_INCIDENTS {
            muted.incidents.push(incident);
        } else if incident.gone_since.is_some() {
            muted.unlisted_ended = muted.unlisted_ended.saturating_add(1);
            muted.unlisted_ended_at = Some(whole_seconds(webhook.input.now));
        } else {
            muted.unlisted = muted.unlisted.saturating_add(1);
        }
    }
}

/// Whether an alert is to be repeated.
pub(super) fn is_repeated(webhook: &WebhookState<'_>, alert: &AlertStatus) -> bool {
    is_ongoing(alert) && !webhook.is_muted(alert) && !refusal::waits(webhook, alert)
}

/// Updates the status from the incidents that are held back now, and counts those that have ended.
pub(super) fn update(webhook: &mut WebhookState<'_>) {
    let previous = webhook.status.muted.take();
    if previous.is_none() && webhook.muted.is_empty() {
        return;
    }
    let mut status = previous.unwrap_or_default();
    let (input, now) = (webhook.input, whole_seconds(webhook.input.now));
    let held: HashSet<&str> = webhook.muted.iter().flat_map(|incident| keys(incident)).collect();
    let current: HashMap<&str, &Incident> =
        input.incidents.iter().map(|incident| (incident.key.as_str(), incident)).collect();
    let keep_for = input.policy.keep_firing_for(0);
    let reason = |key: &str| current.get(key).map(|incident| stored_reason(&incident.reason)).unwrap_or_default();

    status.ended = status.ended.max(0);
    status.incidents.truncate(MAX_INCIDENTS);
    status.incidents.retain_mut(|incident| {
        match current.get(incident.key.as_str()) {
            _ if held.contains(incident.key.as_str()) => {
                incident.gone_since = None;
                if incident.reason.is_empty() {
                    incident.reason = reason(&incident.key);
                }
            }
            // It is sent now.
            Some(current) if input.is_due(current) => return false,
            // It has just returned, and may still end unsent.
            Some(_) => incident.gone_since = None,
            None => {
                // The stored time may come from a clock that was ahead.
                let gone = incident.gone_since.take().filter(|gone| gone.0 <= now.0);
                incident.gone_since = Some(gone.unwrap_or_else(|| now.clone()));
                if has_elapsed(incident.gone_since.as_ref(), keep_for, input.now) {
                    status.ended = status.ended.saturating_add(1);
                    return false;
                }
            }
        }
        true
    });

    let listed: HashSet<&str> = status.incidents.iter().map(|incident| incident.key.as_str()).collect();
    let mut others: Vec<&str> = held.iter().copied().filter(|key| !listed.contains(*key)).collect();
    if status.unlisted > 0 || status.unlisted_ended > 0 {
        let sent = sent_keys(webhook);
        let is_left = |incident: &&Incident| {
            let key = incident.key.as_str();
            let is_other = !held.contains(key) && !listed.contains(key) && !sent.contains(key);
            is_other && input.policy.matches(incident, input.memory.earlier(key))
        };
        let (released, young): (Vec<&Incident>, Vec<&Incident>) =
            input.incidents.iter().filter(is_left).partition(|incident| input.is_due(incident));
        count_unlisted(&mut status, [others.len(), released.len(), young.len()].map(number), keep_for, input.now);
    }
    others.sort_unstable();
    let free = others.len().min(MAX_INCIDENTS.saturating_sub(status.incidents.len()));
    status.unlisted = number(others.len() - free);
    let list = |key: &&str| MutedIncident { key: (*key).to_owned(), reason: reason(key), gone_since: None };
    status.incidents.extend(others.iter().take(free).map(list));
    let first = webhook.muted.iter().filter_map(|incident| webhook.mutes.get(incident.key.as_str())).min();
    status.count = number(held.len());
    status.by = first.map(|mute| mute.by.to_string()).unwrap_or_default();
    status.until = first.map(|mute| whole_seconds(mute.until));
    webhook.status.muted = Some(status).filter(|status| !status.is_empty());
}

fn number(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Counts the incidents that are held back and that the status does not list: only their number is known. One that returns
/// soon after its end must not be counted twice, so as many as return are taken back. `held` are held back now, `released`
/// will be sent, and `young` are not due: they may be some that have returned.
fn count_unlisted(status: &mut MutedStatus, [held, released, young]: [i64; 3], keep_for: Duration, now: Timestamp) {
    let (unlisted, ended) = (status.unlisted.max(0), status.unlisted_ended.max(0));
    let returned = held.saturating_sub(unlisted).max(0);
    let gone = unlisted.saturating_sub(held.saturating_add(released)).max(0);
    let ended = ended.saturating_sub(returned).max(0).saturating_add(gone);
    // The stored time may come from a clock that was ahead.
    status.unlisted_ended_at.take_if(|at| ended == 0 || at.0 > now);
    if gone > 0 || ended > 0 && status.unlisted_ended_at.is_none() {
        status.unlisted_ended_at = Some(whole_seconds(now));
    }
    // Those that have not returned for a while have ended finally. Those that may have returned may end once more.
    let is_final = has_elapsed(status.unlisted_ended_at.as_ref(), keep_for, now);
    let left = if is_final { ended.min(young) } else { ended };
    if is_final {
        status.unlisted_ended_at = (left > 0).then(|| whole_seconds(now));
    }
    status.ended = status.ended.saturating_add(ended - left);
    status.unlisted_ended = left;
}

/// A reason as the status stores it; empty if it is too long. A part of it would match nothing.
fn stored_reason(reason: &str) -> String {
    if reason.len() <= REASON { sanitize::single_line(reason, REASON) } else { String::new() }
}

/// The incidents that an incident stands for: itself, or those with its common cause.
fn keys(incident: &Incident) -> impl Iterator<Item = &str> {
    let own = incident.members.is_empty().then_some(incident.key.as_str());
    own.into_iter().chain(incident.members.iter().map(|member| member.key.as_str()))
}

/// The incidents that the receiver was sent, one by one or with their common cause.
fn sent_keys<'a>(webhook: &'a WebhookState<'_>) -> HashSet<&'a str> {
    let alerts = webhook.status.alerts.iter().filter(|alert| alert.has_begun());
    alerts.flat_map(|alert| [&alert.key].into_iter().chain(&alert.members)).map(String::as_str).collect()
}

/// When the update may have another result although the incidents do not change.
pub(super) fn wakes_at<'a>(webhook: &'a WebhookState<'_>) -> impl Iterator<Item = Option<Timestamp>> + 'a {
    let muted = webhook.status.muted.iter();
    let gone = muted.clone().flat_map(|muted| &muted.incidents).map(|incident| incident.gone_since.as_ref());
    let gone = gone.chain(muted.map(|muted| muted.unlisted_ended_at.as_ref()));
    let ends = gone.map(|gone| elapses_at(gone, webhook.input.policy.keep_firing_for(0)));
    webhook.mutes.values().map(|mute| Some(mute.until)).chain(ends)
}
