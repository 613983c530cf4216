//! Which incidents a webhook tracks one by one: as many as the limits of number and bytes allow. The others are the storm.
//!
//! The space is divided between namespaces, so that the incidents of one cannot use all of it. An incident that is tracked
//! keeps its place until it ends. A namespace that fails later therefore finds a place only if others were not given all of
//! them: of the space that other namespaces leave, one namespace is given at most three quarters. Its first alert may use
//! the rest as well.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
};

use jiff::Timestamp;
use ring::digest::{Context, SHA256};

use super::{
    Incident, Member,
    common_cause::MAX_MEMBERS,
    state::{WebhookState, controllers},
    times::has_elapsed,
};
use crate::{
    api::{ALERT_BYTES, AlertPhase, AlertStatus, Severity},
    hex::hex,
    report::json_size,
};

/// The share of [`ALERT_BYTES`] of each webhook, in bytes of JSON.
#[must_use]
pub(crate) fn alert_bytes(webhooks: usize) -> usize {
    ALERT_BYTES / webhooks.max(1)
}

/// A number of alerts, and their bytes in the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Space {
    pub alerts: usize,
    pub bytes: usize,
}

impl Space {
    pub fn of_alert(bytes: usize) -> Self {
        Self { alerts: 1, bytes }
    }

    pub fn add(&mut self, other: Self) {
        self.alerts = self.alerts.saturating_add(other.alerts);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    fn plus(mut self, other: Self) -> Self {
        self.add(other);
        self
    }

    fn minus(self, other: Self) -> Self {
        Self { alerts: self.alerts.saturating_sub(other.alerts), bytes: self.bytes.saturating_sub(other.bytes) }
    }

    fn three_quarters(self) -> Self {
        Self { alerts: self.alerts / 4 * 3 + self.alerts % 4 * 3 / 4, bytes: self.bytes / 4 * 3 }
    }

    fn fits(self, limit: Self) -> bool {
        self.alerts <= limit.alerts && self.bytes <= limit.bytes
    }
}

/// The space for alerts, and how much of it each namespace uses.
#[derive(Debug)]
pub(super) struct Slots {
    limit: Space,
    /// Whether alerts of several namespaces may need the space.
    is_shared: bool,
    used: Space,
    by_namespace: HashMap<String, Space>,
}

impl Slots {
    pub fn new(limit: Space, is_shared: bool) -> Self {
        Self { limit, is_shared, used: Space::default(), by_namespace: HashMap::new() }
    }

    pub fn add(&mut self, namespace: &str, space: Space) {
        self.used.add(space);
        match self.by_namespace.get_mut(namespace) {
            Some(used) => used.add(space),
            None => _ = self.by_namespace.insert(namespace.to_owned(), space),
        }
    }

    /// What the alerts of a namespace use.
    pub fn used_by(&self, namespace: &str) -> Space {
        self.by_namespace.get(namespace).copied().unwrap_or_default()
    }

    /// What the alerts of a namespace may use, while those of others use what they do now.
    fn share(&self, namespace: &str) -> Space {
        let left = self.limit.minus(self.used.minus(self.used_by(namespace)));
        if self.is_shared { left.three_quarters() } else { left }
    }

    /// Whether there is space for another alert of a namespace.
    pub fn has_space(&self, namespace: &str, alert: Space) -> bool {
        let used = self.used_by(namespace);
        self.used.plus(alert).fits(self.limit) && (used.alerts == 0 || used.plus(alert).fits(self.share(namespace)))
    }

    /// How many bytes the alerts of a namespace may grow by.
    pub fn free_bytes(&self, namespace: &str) -> usize {
        self.share(namespace).minus(self.used_by(namespace)).bytes
    }

    /// Whether a namespace is given space during a storm: all of its incidents need at most three quarters of its share, or
    /// it uses little of it. Otherwise each incident that ends would make room for a message about another.
    pub fn is_calm(&self, namespace: &str, due: Space) -> bool {
        let (used, share) = (self.used_by(namespace), self.share(namespace));
        used.plus(due).fits(share.three_quarters())
            || used.alerts == 0
            || self.is_shared && used.alerts <= share.alerts / 4 && used.bytes <= share.bytes / 4
    }
}

impl WebhookState<'_> {
    /// Stores the controllers that cannot create pods now, and the members that joined a common cause, as far as the bytes
    /// allow. The members keep silent when it is over, also after a restart.
    pub(super) fn update_lists(&mut self) {
        let incidents = &self.incidents;
        let joined = |alert: &AlertStatus| {
            let incident = incidents.get(alert.key.as_str()).copied().filter(|_| is_active(alert))?;
            let is_known = |member: &Member| alert.members.contains(&member.key);
            let is_stored =
                alert.controllers == controllers(incident) && incident.members.iter().take(MAX_MEMBERS).all(is_known);
            (!is_stored).then_some(incident)
        };
        if self.status.alerts.iter().all(|alert| joined(alert).is_none()) {
            return;
        }
        let mut slots = self.slots();
        for alert in &mut self.status.alerts {
            let Some(incident) = joined(alert) else { continue };
            let before = max_json_len(alert);
            let limit = before + slots.free_bytes(incident.counted_in());
            let earlier = std::mem::replace(&mut alert.controllers, controllers(incident));
            if max_json_len(alert) > limit {
                alert.controllers = earlier;
            }
            if alert.members.len() >= MAX_MEMBERS {
                alert.members.retain(|key| incident.members.iter().any(|member| member.key == *key));
            }
            let mut size = max_json_len(alert);
            for member in &incident.members {
                // Keys are hexadecimal digits.
                let added = member.key.len() + r#""","#.len();
                if alert.members.len() < MAX_MEMBERS && size + added <= limit && !alert.members.contains(&member.key) {
                    alert.members.push(member.key.clone());
                    size += added;
                }
            }
            slots.add(incident.counted_in(), Space { alerts: 0, bytes: size.saturating_sub(before) });
        }
    }

    /// Queues alerts for incidents that are due, as far as count and bytes allow. The others overflow into the storm. Muted
    /// incidents are held back, but they are part of a storm that was sent: they may be why it is not over. Returns how many
    /// incidents are tracked or held back from now on.
    pub(super) fn enqueue_due(&mut self) -> usize {
        let is_active = |alert: &&AlertStatus| is_active(alert);
        let tracked: HashSet<&str> =
            self.status.alerts.iter().filter(is_active).map(|alert| alert.key.as_str()).collect();
        let mut due: Vec<&Incident> = self
            .incidents
            .values()
            .copied()
            .filter(|incident| !tracked.contains(incident.key.as_str()))
            .filter(|incident| self.input.is_due(incident))
            .collect();
        due.sort_by(|a, b| order(a).cmp(&order(b)));
        let muted: Vec<&Incident> =
            due.extract_if(.., |incident| self.mutes.contains_key(incident.key.as_str())).collect();
        let held_back_before = self.status.muted.as_ref().map_or(0, |muted| muted.count);
        let is_storm_sent = self.status.storm.as_ref().is_some_and(|storm| self.status.may_be_open(storm));
        let (muted, mut overflow) = if is_storm_sent { (Vec::new(), muted) } else { (muted, Vec::new()) };
        let held_back: usize = muted.iter().map(|incident| count(incident)).sum();
        let mut left = held_back.saturating_sub(usize::try_from(held_back_before).unwrap_or_default());
        self.muted = muted;

        let mut slots = self.slots();
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
            left += count(incident);
            self.status.alerts.retain(|known| known.key != alert.key);
            self.status.alerts.push(alert);
            turns.extend(queue.front().map(|next| turn(&slots, namespace, next)));
        }
        self.overflow_hash = hash(&overflow);
        self.overflow = overflow;
        left
    }

    /// The space for alerts, and what they use of it.
    fn slots(&self) -> Slots {
        let policy = self.input.policy;
        let limit = Space { alerts: policy.pacing.max_incidents, bytes: self.input.bytes };
        let mut slots = Slots::new(limit, !policy.is_of_one_namespace);
        for alert in self.status.alerts.iter().filter(|alert| is_active(alert)) {
            let namespace = self.incident(alert).map_or(alert.namespace.as_str(), Incident::counted_in);
            slots.add(namespace, Space::of_alert(max_json_len(alert)));
        }
        slots
    }

    /// The space that alerts about these incidents need. Their bytes are counted only if the number may be tracked.
    fn space_of(&self, due: &VecDeque<&Incident>) -> Space {
        let is_possible = due.len() <= self.input.policy.pacing.max_incidents;
        let counted = due.iter().filter(|_| is_possible).map(|incident| max_json_len(&self.queued_alert(incident)));
        Space { alerts: due.len(), bytes: counted.sum() }
    }

    /// Removes resolved alerts after their retention, or earlier, the oldest first, if they exceed the limits.
    pub(super) fn evict_resolved(&mut self) {
        let (now, pacing) = (self.input.now, &self.input.policy.pacing);
        let alerts = &mut self.status.alerts;
        alerts.retain(|alert| is_active(alert) || !has_elapsed(alert.sent_at.as_ref(), pacing.resolved_retention, now));
        let mut bytes: usize = alerts.iter().map(max_json_len).sum();
        while bytes > self.input.bytes || alerts.len() > pacing.max_incidents {
            let resolved = alerts.iter().enumerate().filter(|(_, alert)| !is_active(alert));
            let oldest = resolved.min_by_key(|(_, alert)| alert.sent_at.as_ref().map(|at| at.0));
            let Some((index, _)) = oldest else { break };
            bytes -= max_json_len(&alerts.remove(index));
        }
    }
}

fn is_active(alert: &AlertStatus) -> bool {
    alert.phase != AlertPhase::Resolved
}

/// The order in which incidents of a namespace are tracked. A common cause explains several, so it comes first.
fn order(incident: &Incident) -> (bool, Reverse<Severity>, Timestamp, &str) {
    (incident.members.is_empty(), Reverse(incident.severity), incident.since, &incident.key)
}

/// How many incidents an incident stands for.
fn count(incident: &Incident) -> usize {
    incident.members.len().max(1)
}

/// Identifies the incidents of a storm.
fn hash(overflow: &[&Incident]) -> String {
    let mut keys: Vec<&str> = overflow.iter().map(|incident| incident.key.as_str()).collect();
    keys.sort_unstable();
    let mut hash = Context::new(&SHA256);
    for key in keys {
        hash.update(key.as_bytes());
        hash.update(&[0]);
    }
    hex(&hash.finish().as_ref()[..8])
}

/// An upper bound of an alert's length as JSON, in bytes, whatever happens to it. 9,999 returns take a month at least.
fn max_json_len(alert: &AlertStatus) -> usize {
    let since = Some(&alert.since).cloned();
    json_size(&AlertStatus {
        severity: Some(Severity::Critical),
        phase: AlertPhase::Announcing,
        sent_at: since.clone(),
        gone_since: since,
        began_elsewhere: true,
        returns: 9_999,
        held_back: 999_999,
        ..alert.clone()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn webhooks_share_the_space_for_alerts() {
        assert_eq!([0, 1, 2, 10].map(alert_bytes), [65_536, 65_536, 32_768, 6_553]);
    }

    /// How many alerts each of these namespaces is given, one namespace after the other.
    fn given(max: usize, is_shared: bool, namespaces: &[&str]) -> Vec<usize> {
        let mut slots = Slots::new(Space { alerts: max, bytes: usize::MAX }, is_shared);
        let mut fill = |namespace: &&str| {
            while slots.has_space(namespace, Space::of_alert(1)) {
                slots.add(namespace, Space::of_alert(1));
            }
            slots.used_by(namespace).alerts
        };
        namespaces.iter().map(&mut fill).collect()
    }

    #[test]
    fn leaves_a_quarter_to_namespaces_that_fail_later() {
        let names = ["a", "b", "c", "d", "e"];
        assert_eq!(given(20, true, &names), [15, 3, 1, 1, 0]);
        assert_eq!(given(100, true, &names), [75, 18, 5, 1, 1]);
        assert_eq!(given(250, true, &names), [187, 47, 12, 3, 1]);
        assert_eq!(given(1, true, &names[..2]), [1, 0]);
    }

    #[test]
    fn a_single_namespace_uses_all_of_it() {
        assert_eq!(given(20, false, &["a"]), [20]);
        assert_eq!(given(250, false, &["a"]), [250]);
    }

    #[test]
    fn divides_bytes_like_alerts() {
        let mut slots = Slots::new(Space { alerts: 100, bytes: 6_400 }, true);
        while slots.has_space("a", Space::of_alert(1_000)) {
            slots.add("a", Space::of_alert(1_000));
        }
        assert_eq!((slots.used_by("a").alerts, slots.free_bytes("a")), (4, 800));
        assert!(slots.has_space("b", Space::of_alert(1_000)) && !slots.has_space("b", Space::of_alert(2_401)));
    }

    proptest! {
        #[test]
        fn whoever_came_first_leaves_space_for_another_namespace(
            max in 2_usize..300,
            alerts in prop::collection::vec((0_usize..3, 1_usize..1_000), 0..400),
        ) {
            let limit = Space { alerts: max, bytes: 64 * 1024 };
            let mut slots = Slots::new(limit, true);
            // All alerts of one namespace: it may be the first one.
            for (_, bytes) in &alerts {
                if slots.has_space("a", Space::of_alert(*bytes)) {
                    slots.add("a", Space::of_alert(*bytes));
                }
            }
            prop_assert!(slots.has_space("b", Space::of_alert(1_000)), "{slots:?}");
            for (namespace, bytes) in &alerts {
                let namespace = namespace.to_string();
                if slots.has_space(&namespace, Space::of_alert(*bytes)) {
                    slots.add(&namespace, Space::of_alert(*bytes));
                }
            }
            prop_assert!(slots.used.fits(limit), "{slots:?}");
        }
    }
}
