//! The state of one webhook, updated from the current incidents. It decides which alerts need a message, but sends
//! nothing.
//!
//! An alert goes through these phases. The arrows out of *Announcing* and *Resolving* are taken when the receiver
//! accepts the message, the others as soon as their condition holds.
//!
//! ```text
//!           older than `after`         in a message             gone long enough
//! (none) ───────────────────▶ Queued ─────────▶ Announcing ─▶ Firing ─────▶ Resolving ─▶ Resolved
//!     ▲                                                                                     │
//!     └──────────── `resolved_retention` is over, or the incident returned ─────────────────┘
//! ```

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use ring::digest::{Context, SHA256};

use super::{
    common_cause::Grouped,
    incident::{Earlier, GoneAlerts, Incident, IncidentMemory},
    mute::{Mute, MuteRules},
    muted,
    plan_input::PlanInput,
    policy::NotificationPolicy,
    retry, sanitize,
    slots::{Slots, Space},
    storm,
    times::{has_elapsed, later, whole_seconds},
};
use crate::{
    api::{AlertPhase, AlertStatus, MessageKind, Owner, Severity, TEAM_LENGTH, WebhookStatus},
    hex::hex,
};

/// The limit for the alerts of all webhooks in the status of one object, in bytes of JSON.
pub(crate) const ALERT_BYTES: usize = 64 * 1024;

/// The share of [`ALERT_BYTES`] of each webhook, in bytes of JSON.
#[must_use]
pub(crate) fn alert_bytes(webhooks: usize) -> usize {
    ALERT_BYTES / webhooks.max(1)
}

/// The most members of a common cause that are stored.
pub(super) const MAX_MEMBERS: usize = 32;

/// A webhook's status while it is being updated, with what the update depends on.
pub(super) struct WebhookState<'a> {
    pub status: WebhookStatus,
    pub policy: &'a NotificationPolicy,
    /// `--cluster-name`; may be empty.
    pub cluster: &'a str,
    pub now: Timestamp,
    /// Whether messages can be sent.
    usable: bool,
    memory: &'a IncidentMemory,
    gone: &'a GoneAlerts,
    /// The current incidents that match the webhook, by key, with common causes in place of their members.
    pub incidents: HashMap<&'a str, &'a Incident>,
    /// How many current incidents stay silent until the alert about their common cause is resolved.
    pub held: usize,
    grouped: &'a Grouped<'a>,
    /// All current incidents, also those that do not match the webhook.
    pub current: &'a [Incident],
    pub mute_rules: &'a MuteRules,
    /// Why incidents are neither announced nor repeated now, by key.
    pub mutes: HashMap<&'a str, Mute>,
    /// The incidents that would be announced if they were not muted.
    pub muted: Vec<&'a Incident>,
    /// Due incidents beyond those that are tracked one by one: the storm.
    pub overflow: Vec<&'a Incident>,
    /// A hash of the keys of `overflow`.
    pub overflow_hash: String,
    /// How many incidents this update started to track, one by one or as members of a common cause.
    pub newly_tracked: usize,
    /// By how many more incidents are held back than before this update.
    pub newly_held_back: usize,
    bytes: usize,
}

impl<'a> WebhookState<'a> {
    pub fn new(previous: &WebhookStatus, input: &PlanInput<'a>, grouped: &'a Grouped<'a>) -> Self {
        let PlanInput { policy, memory, gone, mute_rules, bytes, now, incidents: current, .. } = *input;
        // An alert about another incident with the same key must end first: it is not about this one.
        let active = previous.alerts.iter().filter(|alert| alert.phase != AlertPhase::Resolved);
        // Of several alerts with the same key, the first counts.
        let active: HashMap<&str, &AlertStatus> = active.rev().map(|alert| (alert.key.as_str(), alert)).collect();
        let is_of_other =
            |incident: &Incident| active.get(incident.key.as_str()).is_some_and(|alert| !is_about(alert, incident));
        let mut incidents = HashMap::new();
        for incident in grouped.iter().filter(|incident| !is_of_other(incident)) {
            incidents.entry(incident.key.as_str()).or_insert(incident);
        }
        Self {
            status: previous.clone(),
            policy,
            cluster: &input.source.cluster,
            now,
            usable: input.receiver.is_some(),
            memory,
            gone,
            incidents,
            held: grouped.held,
            grouped,
            current,
            mute_rules,
            mutes: muted::find_all(grouped, input),
            muted: Vec::new(),
            overflow: Vec::new(),
            overflow_hash: String::new(),
            newly_tracked: 0,
            newly_held_back: 0,
            bytes,
        }
    }

    /// Sets the receiver. A new receiver is sent the firing alerts again, those that are muted later. It is also sent the
    /// end of alerts that began at the old one, because people may have seen them begin.
    pub fn set_receiver(&mut self, receiver: &str) {
        if self.status.receiver == receiver {
            return;
        }
        let was_known = !self.status.receiver.is_empty();
        receiver.clone_into(&mut self.status.receiver);
        if !was_known {
            return;
        }
        match &mut self.status.pending {
            Some(pending) if pending.kind == MessageKind::Repeat => {
                self.revert_pending();
                self.status.pending = None;
            }
            Some(pending) => (pending.in_flight, pending.maybe_delivered) = (false, false),
            None => {}
        }
        // They keep their phase: a queued alert is withdrawn when it is muted, but the end of these must be sent.
        let mark_unsent = |phase: AlertPhase, sent_at: &mut Option<Time>| {
            sent_at.take_if(|_| matches!(phase, AlertPhase::Firing | AlertPhase::Resolving));
        };
        for alert in &mut self.status.alerts {
            mark_unsent(alert.phase, &mut alert.sent_at);
        }
        if let Some(storm) = &mut self.status.storm {
            mark_unsent(storm.phase, &mut storm.sent_at);
        }
    }

    /// Whether the alert or the storm began at another receiver, and must be sent to this one.
    pub fn began_elsewhere(phase: AlertPhase, sent_at: Option<&Time>, gone_since: Option<&Time>) -> bool {
        phase == AlertPhase::Firing && sent_at.is_none() && gone_since.is_none()
    }

    /// Whether the next message says that the alert's incident began.
    pub fn begins(&self, alert: &AlertStatus) -> bool {
        alert.phase == AlertPhase::Queued
            || Self::began_elsewhere(alert.phase, alert.sent_at.as_ref(), alert.gone_since.as_ref())
                && !muted::is_muted(self, alert)
    }

    /// Updates the alerts from the current incidents, and sets `overflow` to the incidents that belong to the storm.
    pub fn update_alerts(&mut self) {
        self.repair();
        self.update_presence();
        self.update_reasons();
        self.update_labels();
        self.update_members();
        self.advance_phases();
        muted::withdraw(self);
        self.enqueue_due();
        muted::withdraw_repetition(self);
        muted::update(self);
        self.overflow_hash = overflow_hash(&self.overflow);
    }

    /// Drops what is no longer needed, after alerts and storm are updated.
    pub fn clean_up(&mut self) {
        self.evict_resolved();
        self.drop_empty_pending();
        if !self.may_be_delivered() && !self.announces() {
            // The alerts that it announced were withdrawn or dropped, and the ends of others are left.
            let announcement = self.status.pending.as_mut().filter(|pending| pending.kind == MessageKind::Firing);
            announcement.into_iter().for_each(|pending| pending.kind = MessageKind::Resolved);
        }
    }

    /// Whether the pending message says that an incident or the storm began.
    pub fn announces(&self) -> bool {
        let alerts = self.status.alerts.iter().any(|alert| alert.phase == AlertPhase::Announcing);
        alerts || self.status.storm.as_ref().is_some_and(|storm| storm.phase == AlertPhase::Announcing)
    }

    /// Whether incidents of this namespace that are at least this severe must not cause another mention yet.
    pub fn was_mentioned(&self, namespace: &str, severity: Severity) -> bool {
        let interval = self.policy.pacing.mention_interval;
        let mut mentioned = self.status.mentioned.iter();
        mentioned.any(|mention| {
            mention.namespace == namespace
                && mention.severity >= severity
                && !has_elapsed(Some(&mention.at), interval, self.now)
        })
    }

    /// How many problems of a common cause continue although its alert is resolved.
    pub fn remaining(&self, alert: &AlertStatus) -> u64 {
        match alert.phase {
            AlertPhase::Resolving | AlertPhase::Resolved => self.grouped.remaining(&alert.key),
            AlertPhase::Queued | AlertPhase::Announcing | AlertPhase::Firing => 0,
        }
    }

    /// Whether the receiver may already have received the pending message.
    pub fn may_be_delivered(&self) -> bool {
        self.status.pending.as_ref().is_some_and(|pending| pending.in_flight || pending.maybe_delivered)
    }

    /// Whether an alert's incident has been gone long enough to count as resolved.
    pub fn is_resolved(&self, alert: &AlertStatus) -> bool {
        has_elapsed(alert.gone_since.as_ref(), self.keep_firing_for(alert), self.now)
    }

    /// How long an alert keeps firing after its incident is gone.
    pub fn keep_firing_for(&self, alert: &AlertStatus) -> Duration {
        if self.gone.ended.contains(&alert.key) {
            self.policy.pacing.keep_deleted_firing_for
        } else {
            self.policy.keep_firing_for(alert.returns)
        }
    }

    /// Repairs a status that was edited, or written with a clock ahead of ours. Without this, messages would wait until
    /// that clock's time.
    fn repair(&mut self) {
        // A webhook is only ever stopped together with an error.
        self.status.stopped &= self.status.last_error.is_some();
        if self.status.pending.is_none() {
            self.revert_pending();
        }
        let limit = |at: &mut Option<Time>, latest: Timestamp| {
            if let Some(at) = at {
                at.0 = at.0.min(whole_seconds(latest).0);
            }
        };
        let now = self.now;
        limit(&mut self.status.next_attempt, later(now, retry::MAX_WAIT).unwrap_or(Timestamp::MAX));
        limit(&mut self.status.last_success, now);
        let mention_interval = self.policy.pacing.mention_interval;
        for mention in &mut self.status.mentioned {
            mention.at.0 = mention.at.0.min(now);
        }
        self.status.mentioned.retain(|mention| !has_elapsed(Some(&mention.at), mention_interval, now));
        for alert in &mut self.status.alerts {
            limit(&mut alert.sent_at, now);
            limit(&mut alert.gone_since, now);
        }
        if let Some(storm) = &mut self.status.storm {
            limit(&mut storm.sent_at, now);
            limit(&mut storm.gone_since, now);
        }
    }

    /// Reverts the alerts of the pending message to the phase they had before it.
    pub fn revert_pending(&mut self) {
        for alert in &mut self.status.alerts {
            alert.phase = reverted(alert.phase, alert.sent_at.is_some());
        }
        if let Some(storm) = &mut self.status.storm {
            storm.phase = reverted(storm.phase, storm.sent_at.is_some());
        }
    }

    /// Records since when each alert's incident is gone, and counts the incidents that returned.
    fn update_presence(&mut self) {
        let maybe_delivered = self.may_be_delivered();
        for alert in &mut self.status.alerts {
            let present = self.incidents.contains_key(alert.key.as_str());
            match alert.phase {
                // A returning incident becomes a new alert. This one keeps the end that Alertmanager is sent repeatedly.
                AlertPhase::Resolved => {}
                // The receiver may have received the end: it must be delivered before the alert can fire again.
                AlertPhase::Resolving if maybe_delivered => {}
                AlertPhase::Resolving if present => {
                    alert.phase = AlertPhase::Firing;
                    alert.gone_since = None;
                    alert.returns = alert.returns.saturating_add(1);
                }
                _ if present => {
                    if alert.gone_since.take().is_some() {
                        alert.returns = alert.returns.saturating_add(1);
                    }
                }
                _ if self.gone.unclear.contains(&alert.key) => {}
                _ => {
                    alert.gone_since.get_or_insert_with(|| whole_seconds(self.now));
                }
            }
        }
    }

    /// Stores the latest reason that matches the webhook, for the resolved message: by then the incident is gone.
    fn update_reasons(&mut self) {
        for alert in &mut self.status.alerts {
            let Some(incident) = self.incidents.get(alert.key.as_str()) else { continue };
            let matches = !incident.members.is_empty() || self.policy.matching_reason(incident, &[]).is_some();
            if alert.phase != AlertPhase::Resolved && matches {
                alert.reason = sanitize::single_line(&incident.reason, 128);
            }
        }
    }

    /// Stores the severity and the team of alerts that were not sent yet. Later they stay: they are labels, and Alertmanager
    /// considers an alert with other labels another alert.
    fn update_labels(&mut self) {
        for alert in &mut self.status.alerts {
            let Some(incident) = self.incidents.get(alert.key.as_str()) else { continue };
            if alert.phase == AlertPhase::Queued && alert.sent_at.is_none() {
                let (severity, team) = labels(self.policy, self.memory, incident, Some(alert));
                (alert.severity, alert.team) = (Some(severity), team);
            }
        }
    }

    /// Stores the members that joined a common cause. They keep silent when it is over, also after a restart.
    fn update_members(&mut self) {
        let mut slots = self.slots(|_| true);
        for alert in self.status.alerts.iter_mut().filter(|alert| alert.phase != AlertPhase::Resolved) {
            let Some(incident) = self.incidents.get(alert.key.as_str()) else { continue };
            if incident.members.iter().take(MAX_MEMBERS).all(|member| alert.members.contains(&member.key)) {
                continue;
            }
            let mut freed = 0;
            if alert.members.len() >= MAX_MEMBERS {
                alert.members.retain(|key| {
                    let is_present = incident.members.iter().any(|member| member.key == *key);
                    freed += if is_present { 0 } else { member_json_len(key) };
                    is_present
                });
            }
            let free = freed + slots.free_bytes(counted_in(incident));
            let mut used = 0;
            for member in &incident.members {
                let size = member_json_len(&member.key);
                if alert.members.len() < MAX_MEMBERS && used + size <= free && !alert.members.contains(&member.key) {
                    alert.members.push(member.key.clone());
                    used += size;
                }
            }
            slots.add(counted_in(incident), Space { alerts: 0, bytes: used.saturating_sub(freed) });
        }
    }

    /// Drops queued alerts whose incidents are gone, and resolves firing ones silently without `sendResolved`.
    fn advance_phases(&mut self) {
        let maybe_delivered = self.may_be_delivered();
        let mut alerts = std::mem::take(&mut self.status.alerts);
        alerts.retain_mut(|alert| match alert.phase {
            // It may have been delivered: send it again with the same ID until that is certain, and then its end.
            AlertPhase::Announcing if maybe_delivered => true,
            AlertPhase::Announcing if alert.sent_at.is_some() => {
                if self.is_resolved(alert) {
                    alert.phase = AlertPhase::Firing;
                }
                true
            }
            AlertPhase::Queued | AlertPhase::Announcing => {
                // A working receiver is sent every queued alert, even if its incident ended before its turn.
                let failing = self.status.failures > 0 || !self.usable;
                let drop =
                    failing && has_elapsed(alert.gone_since.as_ref(), self.policy.drop_after(alert.returns), self.now);
                let incidents = i64::try_from(alert.members.len().max(1)).unwrap_or(i64::MAX);
                self.status.dropped = self.status.dropped.saturating_add(if drop { incidents } else { 0 });
                !drop
            }
            AlertPhase::Firing => {
                if !self.policy.send_resolved && self.is_resolved(alert) {
                    alert.phase = AlertPhase::Resolved;
                    alert.sent_at = Some(whole_seconds(self.now));
                }
                true
            }
            AlertPhase::Resolving | AlertPhase::Resolved => true,
        });
        self.status.alerts = alerts;
    }

    /// Queues alerts for incidents that are due, as far as count and bytes allow. The others overflow into the storm. Muted
    /// incidents are held back, but they are part of a storm that was sent: they may be why it is not over.
    fn enqueue_due(&mut self) {
        let active = |alert: &&AlertStatus| alert.phase != AlertPhase::Resolved;
        let tracked: HashSet<&str> = self.status.alerts.iter().filter(active).map(|alert| alert.key.as_str()).collect();
        let mut due: Vec<&Incident> = self
            .incidents
            .values()
            .copied()
            .filter(|incident| !tracked.contains(incident.key.as_str()))
            .filter(|incident| self.policy.due_at(incident, self.now).is_some_and(|due| due <= self.now))
            .collect();
        due.sort_by(|a, b| order(a).cmp(&order(b)));
        let muted: Vec<&Incident> =
            due.extract_if(.., |incident| self.mutes.contains_key(incident.key.as_str())).collect();
        let held_back_before = self.status.muted.as_ref().map_or(0, |muted| muted.count);
        let (muted, mut overflow) = if storm::was_sent(self) { (Vec::new(), muted) } else { (muted, Vec::new()) };
        let held_back = muted.iter().map(|incident| incident.members.len().max(1)).sum::<usize>();
        self.newly_held_back = held_back.saturating_sub(usize::try_from(held_back_before).unwrap_or_default());
        self.muted = muted;

        let mut slots = self.slots(active);
        let mut queues: BTreeMap<&str, VecDeque<&Incident>> = BTreeMap::new();
        for incident in due {
            queues.entry(counted_in(incident)).or_default().push_back(incident);
        }
        if self.status.storm.is_some() {
            queues.retain(|namespace, queue| {
                let is_calm = slots.is_calm(namespace, self.space_of(queue));
                if !is_calm {
                    overflow.extend(queue.drain(..));
                }
                is_calm
            });
        }
        // The namespace with the fewest alerts is next.
        let turn = |slots: &Slots, namespace, first: &Incident| {
            (slots.used_by(namespace).alerts, order(first).0, order(first).1, first.since, namespace)
        };
        let mut turns: BTreeSet<_> =
            queues.iter().filter_map(|(namespace, queue)| Some(turn(&slots, *namespace, queue.front()?))).collect();
        while let Some((.., namespace)) = turns.pop_first() {
            let Some(queue) = queues.get_mut(namespace) else { continue };
            let Some(incident) = queue.pop_front() else { continue };
            let alert = self.queued_alert(incident);
            let space = Space::of_alert(max_json_len(&alert));
            if !slots.has_space(namespace, space) {
                overflow.push(incident);
                overflow.extend(queue.drain(..));
                continue;
            }
            slots.add(namespace, space);
            self.newly_tracked += incident.members.len().max(1);
            self.status.alerts.retain(|known| known.key != alert.key);
            self.status.alerts.push(alert);
            turns.extend(queue.front().map(|next| turn(&slots, namespace, next)));
        }
        self.overflow = overflow;
    }

    /// The space for alerts, and what some of the alerts use of it.
    fn slots(&self, is_counted: impl Fn(&&AlertStatus) -> bool) -> Slots {
        let limit = Space { alerts: self.policy.pacing.max_incidents, bytes: self.bytes };
        let mut slots = Slots::new(limit, !self.policy.is_of_one_namespace);
        for alert in self.status.alerts.iter().filter(is_counted) {
            slots.add(self.namespace_of(alert), Space::of_alert(max_json_len(alert)));
        }
        slots
    }

    fn namespace_of<'b>(&'b self, alert: &'b AlertStatus) -> &'b str {
        self.incidents.get(alert.key.as_str()).map_or(&alert.namespace, |incident| counted_in(incident))
    }

    /// The space that alerts about these incidents need. Their bytes are counted only if the number may be tracked.
    fn space_of(&self, due: &VecDeque<&Incident>) -> Space {
        let is_possible = due.len() <= self.policy.pacing.max_incidents;
        let counted = due.iter().filter(|_| is_possible).map(|incident| max_json_len(&self.queued_alert(incident)));
        Space { alerts: due.len(), bytes: counted.sum() }
    }

    fn queued_alert(&self, incident: &Incident) -> AlertStatus {
        let previous = self.status.alerts.iter().find(|alert| alert.key == *incident.key);
        let earlier = self.memory.earlier(&incident.key, None);
        let reason = self.policy.matching_reason(incident, &earlier.reasons);
        let (severity, team) = labels(self.policy, self.memory, incident, None);
        AlertStatus {
            key: incident.key.to_string(),
            namespace: namespace(incident),
            owner: owner(incident),
            container: container(incident),
            kind: incident.kind,
            reason: sanitize::single_line(reason.unwrap_or(&incident.reason), 128),
            severity: Some(severity),
            team,
            since: whole_seconds(incident.since),
            phase: AlertPhase::Queued,
            sent_at: None,
            gone_since: None,
            returns: previous.map_or(0, |alert| alert.returns.saturating_add(1)),
            members: incident.members.iter().take(MAX_MEMBERS).map(|member| member.key.clone()).collect(),
        }
    }

    /// Removes resolved alerts after their retention, or earlier, the oldest first, if they exceed the limits.
    fn evict_resolved(&mut self) {
        let (now, retention) = (self.now, self.policy.pacing.resolved_retention);
        let is_resolved = |alert: &AlertStatus| alert.phase == AlertPhase::Resolved;
        self.status.alerts.retain(|alert| !(is_resolved(alert) && has_elapsed(alert.sent_at.as_ref(), retention, now)));
        let mut bytes: usize = self.status.alerts.iter().map(max_json_len).sum();
        let mut count = self.status.alerts.len();
        while bytes > self.bytes || count > self.policy.pacing.max_incidents {
            let oldest = self
                .status
                .alerts
                .iter()
                .enumerate()
                .filter(|(_, alert)| is_resolved(alert))
                .min_by_key(|(_, alert)| alert.sent_at.as_ref().map(|at| at.0));
            let Some((index, alert)) = oldest else { break };
            bytes -= max_json_len(alert);
            count -= 1;
            self.status.alerts.remove(index);
        }
    }

    /// Drops a pending message that no alert and no storm needs any more.
    fn drop_empty_pending(&mut self) {
        let Some(pending) = &self.status.pending else { return };
        let repeats = pending.kind == MessageKind::Repeat;
        let needed = |phase: AlertPhase, gone_since: &Option<Time>| match phase {
            AlertPhase::Announcing | AlertPhase::Resolving => true,
            AlertPhase::Firing => repeats && gone_since.is_none(),
            AlertPhase::Queued | AlertPhase::Resolved => false,
        };
        let alerts = self.status.alerts.iter().any(|alert| needed(alert.phase, &alert.gone_since));
        let storm = self.status.storm.as_ref().is_some_and(|storm| needed(storm.phase, &storm.gone_since));
        if !alerts && !storm {
            self.status.pending = None;
        }
    }
}

/// Whether an alert is about this incident. The key alone is a hash that is short enough to be forged.
fn is_about(alert: &AlertStatus, incident: &Incident) -> bool {
    alert.key == *incident.key
        && alert.kind == incident.kind
        && alert.namespace == namespace(incident)
        && alert.owner == owner(incident)
        && alert.container == container(incident)
}

/// The severity and the team by which the webhook matches an incident.
fn labels(
    policy: &NotificationPolicy,
    memory: &IncidentMemory,
    incident: &Incident,
    alert: Option<&AlertStatus>,
) -> (Severity, String) {
    let earlier = if incident.members.is_empty() {
        memory.earlier(&incident.key, alert)
    } else {
        // The webhook matches the members, not their common cause.
        Earlier::default()
    };
    let severity = policy.matching_severity(incident, &earlier.severities).unwrap_or(incident.severity);
    let team = policy.matching_team(incident, &earlier.teams).unwrap_or(&incident.team);
    (severity, sanitize::single_line(team, TEAM_LENGTH))
}

/// The namespace that an alert about an incident takes space from; empty if it is about a common cause in several.
pub(super) fn counted_in(incident: &Incident) -> &str {
    let mut members = incident.members.iter().map(|member| member.namespace.as_str());
    match members.next() {
        Some(first) if incident.namespace.is_empty() && members.all(|other| other == first) => first,
        _ => &incident.namespace,
    }
}

/// The order in which incidents of a namespace are tracked. A common cause explains several, so it comes first.
fn order(incident: &Incident) -> (bool, Reverse<Severity>, Timestamp, &str) {
    (incident.members.is_empty(), Reverse(incident.severity), incident.since, &incident.key)
}

fn namespace(incident: &Incident) -> String {
    sanitize::single_line(&incident.namespace, 63)
}

fn owner(incident: &Incident) -> Owner {
    Owner {
        kind: sanitize::single_line(&incident.owner.kind, 63),
        name: sanitize::single_line(&incident.owner.name, 253),
    }
}

fn container(incident: &Incident) -> String {
    sanitize::single_line(&incident.container, 63)
}

fn overflow_hash(overflow: &[&Incident]) -> String {
    let mut keys: Vec<&str> = overflow.iter().map(|incident| incident.key.as_str()).collect();
    keys.sort_unstable();
    let mut hash = Context::new(&SHA256);
    for key in keys {
        hash.update(key.as_bytes());
        hash.update(&[0]);
    }
    hex(&hash.finish().as_ref()[..8])
}

/// The phase before the pending message.
pub(super) fn reverted(phase: AlertPhase, was_sent: bool) -> AlertPhase {
    match phase {
        AlertPhase::Announcing if was_sent => AlertPhase::Firing,
        AlertPhase::Announcing => AlertPhase::Queued,
        AlertPhase::Resolving => AlertPhase::Firing,
        phase => phase,
    }
}

/// An upper bound of an alert's length as JSON, in bytes.
fn max_json_len(alert: &AlertStatus) -> usize {
    /// Field names, times, numbers and the severity.
    const FIXED: usize = 300;
    /// The name of the field, which is left out without a team.
    const TEAM: usize = r#""team":"","#.len();
    let texts = [&alert.key, &alert.namespace, &alert.owner.kind, &alert.owner.name, &alert.container, &alert.reason];
    let escaped = |byte: u8| if matches!(byte, b'"' | b'\\') { 2 } else { 1 };
    let members: usize = alert.members.iter().map(|key| member_json_len(key)).sum();
    let team = if alert.team.is_empty() { 0 } else { TEAM + alert.team.len() };
    FIXED + team + texts.iter().flat_map(|text| text.bytes()).map(escaped).sum::<usize>() + members
}

/// The length of a member's key in a list. Keys are hexadecimal digits.
fn member_json_len(key: &str) -> usize {
    key.len() + r#""","#.len()
}
