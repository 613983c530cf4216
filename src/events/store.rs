//! A bounded memory of the events about pods, and about their claims. Pure.
//!
//! Events of healthy pods are kept as well: a probe fails before its pod has a problem.

use std::{
    hash::{DefaultHasher, Hasher},
    sync::Arc,
    time::Duration,
};

use arcstr::ArcStr;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    bounded::WeightedCache,
    pods::{Pod, Uid},
};

use super::{Event, InvolvedObject, event::known_reason};

/// How much all events may take, in bytes. 20,000 events an hour must not cost more than 4 MiB.
const MAX_BYTES: usize = 3 << 19;
/// How many different events are kept for one pod.
const MAX_PER_POD: usize = 8;
/// How many events with the same text are counted apart. Their names differ.
const MAX_SOURCES: usize = 4;
/// How long an event is kept after it last occurred: as long as an API server does by default.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// How long to wait for the pod of an event: the watches of pods and events are independent.
const PATIENCE: Duration = Duration::from_secs(60);
/// What an entry and a pod take beside their texts, in bytes.
const ENTRY_BYTES: usize = 208;
const POD_BYTES: usize = 512;

/// Shorter numbers, such as exit codes and HTTP status codes, make a difference.
const LONG_NUMBER: usize = 4;
/// Shorter words of hexadecimal digits may be words.
const LONG_ID: usize = 8;

/// The kind of the claims, and the reason of the only events about them that are kept.
pub(crate) const CLAIM: &str = "PersistentVolumeClaim";
const PROVISIONING_FAILED: &str = "ProvisioningFailed";

/// The events by pod. If there are too many, the namespace with the most bytes loses those of the pod whose last event is the
/// oldest.
#[derive(Debug)]
pub(crate) struct EventStore {
    /// An event may contain any UID, but is about pods in its own namespace only.
    pods: WeightedCache<(ArcStr, Uid), PodEvents>,
    dropped: u64,
}

#[derive(Debug)]
struct PodEvents {
    /// Whether they are about a PersistentVolumeClaim.
    is_of_claim: bool,
    received: Instant,
    entries: Vec<Entry>,
}

/// Events with the same reason, container and text.
#[derive(Debug)]
struct Entry {
    reason: &'static str,
    container: Box<str>,
    message: Box<str>,
    template: u64,
    /// The events and their counts, the latest last.
    sources: Vec<(u64, u32)>,
    /// How often earlier events occurred.
    earlier: u32,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    received: Instant,
}

/// Stands for the UID of a claim, which pods do not name.
fn claim_id(name: &str) -> Uid {
    Uid::from_text(&format!("{CLAIM}/{name}"))
}

/// The result of [`EventStore::record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// The event is new, or occurred twice as often as when it was last `New`.
    New,
    /// The event occurred again.
    Repeated,
    /// The event explains nothing, or is known already.
    Ignored,
}

impl Default for EventStore {
    fn default() -> Self {
        Self::with_limit(MAX_BYTES)
    }
}

impl EventStore {
    pub(crate) fn with_limit(max_bytes: usize) -> Self {
        Self { pods: WeightedCache::new(max_bytes, 0), dropped: 0 }
    }

    /// Keeps an event about a pod, or about a claim that a pod may have. `id` identifies the event, whose count grows when it
    /// occurs again.
    pub(crate) fn record(&mut self, id: u64, event: Event, now: Instant) -> Recorded {
        let Some(reason) = known_reason(&event.reason) else { return Recorded::Ignored };
        let is_of_claim = event.involved.kind == CLAIM && reason == PROVISIONING_FAILED;
        let uid = match &*event.involved.kind {
            "Pod" => Uid::from_text(&event.involved.uid),
            _ if is_of_claim => claim_id(&event.involved.name),
            _ => return Recorded::Ignored,
        };
        let namespace = ArcStr::from(&*event.involved.namespace);
        let key = (namespace.clone(), uid);
        match self.pods.get(&key) {
            Some(_) => self.pods.touch(&key, &namespace),
            None => {
                let events = PodEvents { is_of_claim, received: now, entries: Vec::new() };
                self.pods.insert(key.clone(), events, 0, &namespace);
            }
        }
        let Some(pod) = self.pods.get_mut(&key) else { return Recorded::Ignored };
        pod.received = now;
        let (recorded, has_dropped) = pod.record(id, reason, event, now);
        let bytes = pod.bytes();
        self.pods.resize(&key, bytes);
        self.dropped += u64::from(has_dropped);
        while let Some(key) = self.pods.excess() {
            self.dropped += self.pods.remove(&key).map_or(0, |pod| pod.entries.len() as u64);
        }
        recorded
    }

    fn pod(&self, pod: &Pod) -> Option<&PodEvents> {
        self.pods.get(&(pod.namespace.clone(), pod.uid))
    }

    /// The events about a pod, and about its claims while it is not scheduled, the most recent last. They do not contain the
    /// UID.
    pub(crate) fn about(&self, pod: &Pod) -> Arc<[Event]> {
        let own = self.pod(pod).into_iter().flat_map(|own| &own.entries);
        let own = own.map(|entry| entry.event("Pod", &pod.namespace, &pod.name));
        let claims = pod.requirements.as_deref().map_or(&[] as &[_], |requirements| requirements.claims.first());
        let of_claim = |claim: &'_ ArcStr| {
            let events = self.pods.get(&(pod.namespace.clone(), claim_id(claim)));
            let events = events.filter(|events| events.is_of_claim).map_or(&[] as &[_], |events| &events.entries);
            events.iter().map(|entry| entry.event(CLAIM, &pod.namespace, claim)).collect::<Vec<_>>()
        };
        let mut events: Vec<Event> = own.chain(claims.iter().flat_map(of_claim)).collect();
        events.sort_by_key(|event| event.last);
        events.into()
    }

    pub(crate) fn has_events_about(&self, pod: &Pod) -> bool {
        self.pod(pod).is_some()
    }

    /// Drops events that are old, or whose pod no longer exists.
    pub(crate) fn sweep(&mut self, now: Instant, exists: impl Fn(Uid) -> bool) {
        let age = |received: Instant| now.saturating_duration_since(received);
        self.pods.retain(|(_, uid), pod, bytes| {
            pod.entries.retain(|entry| age(entry.received) < MAX_AGE);
            *bytes = pod.bytes();
            !pod.entries.is_empty() && (pod.is_of_claim || age(pod.received) < PATIENCE || exists(*uid))
        });
    }

    /// How many events were dropped because of a limit.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl PodEvents {
    fn bytes(&self) -> usize {
        POD_BYTES + self.entries.iter().map(Entry::bytes).sum::<usize>()
    }

    /// Returns whether an older event was dropped.
    fn record(&mut self, id: u64, reason: &'static str, event: Event, now: Instant) -> (Recorded, bool) {
        let template = template(event.text());
        let container = &*event.involved.container;
        let place = self.entries.iter().position(|entry| entry.has_source(id)).or_else(|| {
            let is_same =
                |own: &Entry| own.reason == reason && *own.container == *container && own.template == template;
            self.entries.iter().position(is_same)
        });
        if let Some(entry) = place.and_then(|place| self.entries.get_mut(place)) {
            return (entry.repeat(id, event, template, now), false);
        }
        let is_full = self.entries.len() >= MAX_PER_POD;
        if is_full && let Some(oldest) = (0..self.entries.len()).min_by_key(|index| self.entries[*index].received) {
            self.entries.swap_remove(oldest);
        }
        self.entries.reserve_exact(1);
        self.entries.push(Entry {
            reason,
            container: container.into(),
            message: event.message.into(),
            template,
            sources: vec![(id, event.count)],
            earlier: 0,
            first: event.first,
            last: event.last,
            received: now,
        });
        (Recorded::New, is_full)
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.container.len() + self.message.len()
    }

    fn has_source(&self, id: u64) -> bool {
        self.sources.iter().any(|(source, _)| *source == id)
    }

    fn count(&self) -> u32 {
        self.sources.iter().fold(self.earlier, |count, (_, of_source)| count.saturating_add(*of_source))
    }

    fn repeat(&mut self, id: u64, event: Event, template: u64, now: Instant) -> Recorded {
        let before = (self.count(), self.last);
        match self.sources.iter_mut().find(|(source, _)| *source == id) {
            Some((_, count)) => *count = event.count.max(*count),
            None => {
                if self.sources.len() >= MAX_SOURCES {
                    let (_, count) = self.sources.remove(0);
                    self.earlier = self.earlier.saturating_add(count);
                }
                self.sources.push((id, event.count));
            }
        }
        self.first = self.first.into_iter().chain(event.first).min();
        // An event that a list returns may be older than the one that is known.
        if event.last >= self.last {
            self.last = event.last;
            self.message = event.message.into();
            self.template = template;
        }
        self.received = now;
        let count = self.count();
        if count.leading_zeros() < before.0.leading_zeros() {
            Recorded::New
        } else if (count, self.last) == before {
            Recorded::Ignored
        } else {
            Recorded::Repeated
        }
    }

    fn event(&self, kind: &str, namespace: &str, name: &str) -> Event {
        Event {
            involved: InvolvedObject {
                kind: kind.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                uid: String::new(),
                container: self.container.as_ref().to_owned(),
            },
            related: None,
            reason: self.reason.to_owned(),
            message: self.message.as_ref().to_owned(),
            count: self.count(),
            first: self.first,
            last: self.last,
        }
    }
}

/// A hash of the message without long numbers and ids: messages that differ only in these, such as the port of a connection or
/// the id of a sandbox, have the same.
fn template(message: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for word in message.as_bytes().split(|byte| !byte.is_ascii_alphanumeric()) {
        if !is_variable(word) {
            hasher.write(word);
        }
        // Separates words, so that their parts cannot be exchanged.
        hasher.write_u8(b' ');
    }
    hasher.finish()
}

fn is_variable(word: &[u8]) -> bool {
    let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
    digits == word.len() && digits >= LONG_NUMBER
        || digits > 0 && word.len() >= LONG_ID && word.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests;
