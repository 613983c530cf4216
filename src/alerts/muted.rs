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
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

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
    let previous = previous.unwrap_or_default();
    let held: HashSet<&str> = webhook.muted.iter().flat_map(|incident| keys(incident)).collect();
    let current: HashMap<&str, &Incident> =
        webhook.input.incidents.iter().map(|incident| (incident.key.as_str(), incident)).collect();
    let (input, now) = (webhook.input, webhook.input.now);
    let keep_for = input.policy.keep_firing_for(0);

    let mut unlisted = Unlisted::of(&previous);
    let mut ended = previous.ended.max(0);
    let reason = |key: &str| current.get(key).map(|incident| stored_reason(&incident.reason)).unwrap_or_default();
    let mut incidents: Vec<MutedIncident> = Vec::new();
    for mut incident in previous.incidents.into_iter().take(MAX_INCIDENTS) {
        if held.contains(incident.key.as_str()) {
            incident.gone_since = None;
            if incident.reason.is_empty() {
                incident.reason = reason(&incident.key);
            }
        } else if let Some(current) = current.get(incident.key.as_str()) {
            // It is sent now. But if it has just returned, it may still end unsent.
            if input.is_due(current) {
                continue;
            }
            incident.gone_since = None;
        } else {
            let now = whole_seconds(now);
            // The stored time may come from a clock that was ahead.
            incident.gone_since = Some(incident.gone_since.filter(|gone| gone.0 <= now.0).unwrap_or(now));
            if has_elapsed(incident.gone_since.as_ref(), keep_for, input.now) {
                ended = ended.saturating_add(1);
                continue;
            }
        }
        incidents.push(incident);
    }

    let listed: HashSet<String> = incidents.iter().map(|incident| incident.key.clone()).collect();
    let mut others: Vec<&str> = held.iter().copied().filter(|key| !listed.contains(*key)).collect();
    if unlisted.held > 0 || unlisted.ended > 0 {
        let sent = sent_keys(webhook);
        let is_left = |incident: &&Incident| {
            let key = incident.key.as_str();
            !held.contains(key)
                && !listed.contains(key)
                && !sent.contains(key)
                && input.policy.matches(incident, input.memory.earlier(key))
        };
        let (released, young): (Vec<&Incident>, Vec<&Incident>) =
            input.incidents.iter().filter(is_left).partition(|incident| input.is_due(incident));
        unlisted.update(others.len(), released.len(), input.now);
        ended = ended.saturating_add(unlisted.take_ended(young.len(), keep_for, input.now));
    }
    others.sort_unstable();
    let free = MAX_INCIDENTS.saturating_sub(incidents.len());
    let all = others.len();
    incidents.extend(others.into_iter().take(free).map(|key| MutedIncident {
        key: key.to_owned(),
        reason: reason(key),
        gone_since: None,
    }));

    let first = webhook.muted.iter().filter_map(|incident| webhook.mutes.get(incident.key.as_str())).min();
    let status = MutedStatus {
        count: i64::try_from(held.len()).unwrap_or(i64::MAX),
        by: first.map(|mute| mute.by.to_string()).unwrap_or_default(),
        until: first.map(|mute| whole_seconds(mute.until)),
        ended,
        incidents,
        unlisted: i64::try_from(all.saturating_sub(free)).unwrap_or(i64::MAX),
        unlisted_ended: i64::try_from(unlisted.ended).unwrap_or(i64::MAX),
        unlisted_ended_at: unlisted.ended_at,
    };
    webhook.status.muted = Some(status).filter(|status| !status.is_empty());
}

/// The incidents that are held back and that the status does not list: only their number is known. One that returns soon
/// after its end must not be counted twice, so as many as return are taken back.
struct Unlisted {
    held: usize,
    /// How many have ended, and may return.
    ended: usize,
    ended_at: Option<Time>,
}

impl Unlisted {
    fn of(status: &MutedStatus) -> Self {
        let number = |number: i64| usize::try_from(number).unwrap_or_default();
        Self {
            held: number(status.unlisted),
            ended: number(status.unlisted_ended),
            ended_at: status.unlisted_ended_at.clone(),
        }
    }

    /// `held` of them are held back now, and `released` will be sent.
    fn update(&mut self, held: usize, released: usize, now: Timestamp) {
        let returned = held.saturating_sub(self.held);
        let ended = self.held.saturating_sub(held.saturating_add(released));
        self.ended = self.ended.saturating_sub(returned).saturating_add(ended);
        // The stored time may come from a clock that was ahead.
        self.ended_at.take_if(|at| self.ended == 0 || at.0 > now);
        if ended > 0 || self.ended > 0 && self.ended_at.is_none() {
            self.ended_at = Some(whole_seconds(now));
        }
    }

    /// Returns how many have ended finally: those that have not returned for a while. `young` incidents are not due, and may
    /// be some that have returned.
    fn take_ended(&mut self, young: usize, keep_for: Duration, now: Timestamp) -> i64 {
        if !has_elapsed(self.ended_at.as_ref(), keep_for, now) {
            return 0;
        }
        let ended = self.ended.saturating_sub(young);
        self.ended -= ended;
        // Those that may have returned may end once more.
        self.ended_at = (self.ended > 0).then(|| whole_seconds(now));
        i64::try_from(ended).unwrap_or(i64::MAX)
    }
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
    let ended = webhook.status.muted.iter().flat_map(|muted| &muted.incidents);
    let ended = ended.map(|incident| elapses_at(incident.gone_since.as_ref(), webhook.input.policy.keep_firing_for(0)));
    let unlisted = webhook
        .status
        .muted
        .iter()
        .map(|muted| elapses_at(muted.unlisted_ended_at.as_ref(), webhook.input.policy.keep_firing_for(0)));
    webhook.mutes.values().map(|mute| Some(mute.until)).chain(ended).chain(unlisted)
}
