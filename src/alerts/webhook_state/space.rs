//! Which incidents a webhook tracks one by one: as many as the limits of number and bytes allow.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
};

use jiff::Timestamp;
use ring::digest::{Context, SHA256};

use super::{WebhookState, alert_fields::controllers};
use crate::{
    alerts::{
        Incident,
        common_cause::MAX_MEMBERS,
        slots::{Slots, Space},
        storm,
        times::has_elapsed,
    },
    api::{AlertPhase, AlertStatus, Cause, Owner, Severity},
    hex::hex,
};

impl WebhookState<'_> {
    /// Stores the members that joined a common cause. They keep silent when it is over, also after a restart.
    pub(super) fn update_members(&mut self) {
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
            let free = freed + slots.free_bytes(incident.counted_in());
            let mut used = 0;
            for member in &incident.members {
                let size = member_json_len(&member.key);
                if alert.members.len() < MAX_MEMBERS && used + size <= free && !alert.members.contains(&member.key) {
                    alert.members.push(member.key.clone());
                    used += size;
                }
            }
            slots.add(incident.counted_in(), Space { alerts: 0, bytes: used.saturating_sub(freed) });
        }
    }

    /// Stores the controllers that cannot create pods now, as far as the bytes allow.
    pub(super) fn update_controllers(&mut self) {
        let mut bytes: usize = self.status.alerts.iter().map(max_json_len).sum();
        for alert in self.status.alerts.iter_mut().filter(|alert| alert.phase != AlertPhase::Resolved) {
            let Some(incident) = self.incidents.get(alert.key.as_str()) else { continue };
            let present = controllers(incident);
            if alert.controllers == present {
                continue;
            }
            let others = bytes.saturating_sub(max_json_len(alert));
            let before = std::mem::replace(&mut alert.controllers, present);
            if others + max_json_len(alert) > self.bytes {
                alert.controllers = before;
            }
            bytes = others + max_json_len(alert);
        }
    }

    /// Queues alerts for incidents that are due, as far as count and bytes allow. The others overflow into the storm. Muted
    /// incidents are held back, but they are part of a storm that was sent: they may be why it is not over.
    pub(super) fn enqueue_due(&mut self) {
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
            queues.entry(incident.counted_in()).or_default().push_back(incident);
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
        self.incidents.get(alert.key.as_str()).map_or(&alert.namespace, |incident| incident.counted_in())
    }

    /// The space that alerts about these incidents need. Their bytes are counted only if the number may be tracked.
    fn space_of(&self, due: &VecDeque<&Incident>) -> Space {
        let is_possible = due.len() <= self.policy.pacing.max_incidents;
        let counted = due.iter().filter(|_| is_possible).map(|incident| max_json_len(&self.queued_alert(incident)));
        Space { alerts: due.len(), bytes: counted.sum() }
    }

    /// Removes resolved alerts after their retention, or earlier, the oldest first, if they exceed the limits.
    pub(super) fn evict_resolved(&mut self) {
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
}

/// The order in which incidents of a namespace are tracked. A common cause explains several, so it comes first.
fn order(incident: &Incident) -> (bool, Reverse<Severity>, Timestamp, &str) {
    (incident.members.is_empty(), Reverse(incident.severity), incident.since, &incident.key)
}

/// Identifies the incidents of a storm.
pub(super) fn overflow_hash(overflow: &[&Incident]) -> String {
    let mut keys: Vec<&str> = overflow.iter().map(|incident| incident.key.as_str()).collect();
    keys.sort_unstable();
    let mut hash = Context::new(&SHA256);
    for key in keys {
        hash.update(key.as_bytes());
        hash.update(&[0]);
    }
    hex(&hash.finish().as_ref()[..8])
}

/// An upper bound of an alert's length as JSON, in bytes.
fn max_json_len(alert: &AlertStatus) -> usize {
    /// Field names, times, numbers and the severity. It suffices for 9,999 returns, which take a month at least.
    const FIXED: usize = 300;
    /// The name of the field, which is left out without a team.
    const TEAM: usize = r#""team":"","#.len();
    /// The same without a cause.
    const CAUSE: usize = r#""cause":"","#.len();
    /// Also left out if it is empty.
    const MEMBERS: usize = r#""members":[],"#.len();
    const REFUSED: usize = r#""refusedAt":"2026-11-22T17:30:00Z","#.len();
    const CONTROLLERS: usize = r#""controllers":[],"#.len();
    const CONTROLLER: usize = r#"{"kind":"","name":""},"#.len();
    let texts = [&alert.key, &alert.namespace, &alert.owner.kind, &alert.owner.name, &alert.container, &alert.reason];
    let escaped = |byte: u8| if matches!(byte, b'"' | b'\\') { 2 } else { 1 };
    let members: usize = alert.members.iter().map(|key| member_json_len(key)).sum();
    let members = if alert.members.is_empty() { 0 } else { MEMBERS + members };
    let named = |own: &Owner| CONTROLLER + own.kind.bytes().chain(own.name.bytes()).map(escaped).sum::<usize>();
    let controllers = alert.controllers.iter().map(named).sum::<usize>();
    let controllers = if alert.controllers.is_empty() { 0 } else { CONTROLLERS + controllers };
    let cause = if alert.cause == Cause::Unknown { 0 } else { CAUSE + alert.cause.as_str().len() };
    let team = if alert.team.is_empty() { 0 } else { TEAM + alert.team.len() };
    let refused = if alert.refused_at.is_some() { REFUSED } else { 0 };
    let lists = controllers + members;
    FIXED + refused + cause + team + texts.iter().flat_map(|text| text.bytes()).map(escaped).sum::<usize>() + lists
}

/// The length of a member's key in a list. Keys are hexadecimal digits.
fn member_json_len(key: &str) -> usize {
    key.len() + r#""","#.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_alert_takes_at_most_the_bytes_that_are_counted_for_it() {
        let time = "2026-11-22T17:30:00Z";
        for (team, members) in [("", 0), ("checkout", 0), ("checkout", MAX_MEMBERS)] {
            let alert = json!({
                "key": "5f0c2a915f0c2a91", "namespace": "n", "owner": {"kind": "k\\\"", "name": "o"}, "container": "c",
                "kind": "Initializing", "reason": "r", "cause": "OutOfMemory", "severity": "critical", "team": team, "since": time,
                "phase": "Announcing", "sentAt": time, "beganElsewhere": true, "goneSince": time, "returns": 9_999,
                "heldBack": 999_999, "refusedAt": time, "members": vec!["5f0c2a915f0c2a91"; members],
                "controllers": [{"kind": "ReplicaSet", "name": "a\\"}, {"kind": "Job", "name": "b"}],
            });
            let alert: AlertStatus = serde_json::from_value(alert).unwrap();
            let length = serde_json::to_string(&alert).unwrap().len();
            assert!(length <= max_json_len(&alert), "{length} > {}", max_json_len(&alert));
        }
    }
}
