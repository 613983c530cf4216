//! Creates events, and counts those that repeat.
//!
//! Like the recorder of kube, but with a bounded memory: that one keeps each event for six minutes, so that who creates and
//! deletes objects all the time fills the memory with events about them.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    runtime::events::{Event, EventType},
};
use serde_json::json;
use tokio::time::Instant;

const CONTROLLER: &str = "orchestr";
/// The most events whose repetitions are counted, in all and about the objects of one namespace. Further ones replace the
/// oldest, whose next repetition is then an event of its own.
const MOST: usize = 512;
const MOST_IN_NAMESPACE: usize = 64;
/// An event that is repeated after a longer time is a new one, as in Kubernetes' own recorder.
const LIFETIME: Duration = Duration::from_secs(6 * 60);
/// How much of an object's name the name of an event begins with, in bytes. Names have at most 253.
const NAME_LIMIT: usize = 230;

pub(super) struct Recorder {
    client: Client,
    known: Mutex<KnownEvents>,
}

impl Recorder {
    pub(super) fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// Creates an event, or counts it if it is known.
    pub(super) async fn publish(&self, event: &Event, about: &ObjectReference) -> Result<(), kube::Error> {
        let (identity, now) = (Identity::new(event, about), Instant::now());
        let api = Api::namespaced(self.client.clone(), &identity.namespace);
        let known = self.known().repeated(&identity, now);
        if let Some((name, count)) = known {
            match repeat(&api, &name, count).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                result => return result,
            }
        }
        let created = new_event(event, about, Timestamp::now());
        api.create(&PostParams::default(), &created).await?;
        self.known().insert(identity, created.metadata.name.unwrap_or_default(), now);
        Ok(())
    }

    fn known(&self) -> impl std::ops::DerefMut<Target = KnownEvents> + '_ {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn repeat(api: &Api<v1::Event>, name: &str, count: i32) -> Result<(), kube::Error> {
    let series = json!({"series": {"count": count, "lastObservedTime": MicroTime(Timestamp::now())}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(series)).await.map(drop)
}

fn new_event(event: &Event, about: &ObjectReference, now: Timestamp) -> v1::Event {
    let object = about.name.as_deref().unwrap_or(CONTROLLER);
    let object = object[..object.floor_char_boundary(NAME_LIMIT)].trim_end_matches(['.', '-']);
    v1::Event {
        action: Some(event.action.clone()),
        event_time: Some(MicroTime(now)),
        metadata: ObjectMeta {
            name: Some(format!("{object}.{:x}", now.as_nanosecond())),
            namespace: about.namespace.clone(),
            ..ObjectMeta::default()
        },
        note: event.note.clone(),
        reason: Some(event.reason.clone()),
        regarding: Some(about.clone()),
        related: event.secondary.clone(),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(CONTROLLER.to_owned()),
        type_: Some(type_name(event.type_).to_owned()),
        ..v1::Event::default()
    }
}

fn type_name(type_: EventType) -> &'static str {
    match type_ {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    }
}

/// What makes two events the same: everything but the note.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    /// The namespace of the event and of its object.
    namespace: String,
    name: String,
    uid: String,
    type_: &'static str,
    reason: String,
    action: String,
    related: Option<ObjectReferenceParts>,
}

/// Kind, namespace, name and field path.
type ObjectReferenceParts = [Option<String>; 4];

impl Identity {
    fn new(event: &Event, about: &ObjectReference) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let related = event.secondary.clone();
        Self {
            namespace: text(&about.namespace),
            name: text(&about.name),
            uid: text(&about.uid),
            type_: type_name(event.type_),
            reason: event.reason.clone(),
            action: event.action.clone(),
            related: related.map(|related| [related.kind, related.namespace, related.name, related.field_path]),
        }
    }
}

/// The events that may repeat, the one that occurred last at the end.
#[derive(Debug, Default)]
struct KnownEvents {
    events: Vec<KnownEvent>,
}

#[derive(Debug)]
struct KnownEvent {
    identity: Identity,
    name: String,
    count: i32,
    last: Instant,
}

impl KnownEvents {
    /// Counts a repetition. Returns the event's name and how often it has occurred.
    fn repeated(&mut self, identity: &Identity, now: Instant) -> Option<(String, i32)> {
        self.events.retain(|event| now.saturating_duration_since(event.last) < LIFETIME);
        let index = self.events.iter().position(|event| event.identity == *identity)?;
        let mut event = self.events.remove(index);
        event.count = event.count.saturating_add(1);
        event.last = now;
        let answer = (event.name.clone(), event.count);
        self.events.push(event);
        Some(answer)
    }

    /// Adds an event that has occurred once, or replaces it.
    fn insert(&mut self, identity: Identity, name: String, now: Instant) {
        self.events.retain(|event| event.identity != identity);
        let of_namespace = |event: &KnownEvent| event.identity.namespace == identity.namespace;
        let oldest = if self.events.iter().filter(|event| of_namespace(event)).count() >= MOST_IN_NAMESPACE {
            self.events.iter().position(of_namespace)
        } else {
            (self.events.len() >= MOST).then_some(0)
        };
        if let Some(oldest) = oldest {
            self.events.remove(oldest);
        }
        self.events.push(KnownEvent { identity, name, count: 1, last: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(namespace: &str, uid: &str) -> ObjectReference {
        ObjectReference {
            namespace: Some(namespace.to_owned()),
            name: Some("cluster".to_owned()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        }
    }

    fn event(reason: &str, owner: &str) -> Event {
        Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some("3 pods".to_owned()),
            action: "Watch".to_owned(),
            secondary: Some(ObjectReference { name: Some(owner.to_owned()), ..ObjectReference::default() }),
        }
    }

    fn identity(namespace: &str, uid: &str) -> Identity {
        Identity::new(&event("Error", "cart"), &about(namespace, uid))
    }

    #[test]
    fn counts_an_event_that_repeats_within_six_minutes() {
        let (mut known, start) = (KnownEvents::default(), Instant::now());
        assert_eq!(known.repeated(&identity("shop", "1"), start), None);
        known.insert(identity("shop", "1"), "cluster.1".to_owned(), start);
        let other_note = Event { note: Some("4 pods".to_owned()), ..event("Error", "cart") };
        for (seconds, count) in [(1, 2), (2, 3), (360, 4)] {
            let identity = Identity::new(&other_note, &about("shop", "1"));
            let repeated = known.repeated(&identity, start + Duration::from_secs(seconds));
            assert_eq!(repeated, Some(("cluster.1".to_owned(), count)));
        }
        for other in [
            identity("shop", "2"),
            identity("ml", "1"),
            Identity::new(&event("OOMKilled", "cart"), &about("shop", "1")),
            Identity::new(&event("Error", "web"), &about("shop", "1")),
            Identity::new(&Event { type_: EventType::Normal, ..event("Error", "cart") }, &about("shop", "1")),
        ] {
            assert_eq!(known.repeated(&other, start), None, "{other:?}");
        }
        assert_eq!(known.repeated(&identity("shop", "1"), start + Duration::from_secs(720)), None);
    }

    #[test]
    fn who_creates_objects_all_the_time_fills_only_the_share_of_a_namespace() {
        let (mut known, now) = (KnownEvents::default(), Instant::now());
        known.insert(identity("shop", "1"), "cluster.1".to_owned(), now);
        // 38 objects a second, each with ten events, for as long as an event is kept.
        for number in 0..38 * 10 * LIFETIME.as_secs() {
            known.insert(identity("attacker", &number.to_string()), format!("cluster.{number}"), now);
        }
        assert_eq!(known.events.len(), 1 + MOST_IN_NAMESPACE);
        assert_eq!(known.repeated(&identity("shop", "1"), now), Some(("cluster.1".to_owned(), 2)));
        for number in 0..2 * MOST {
            known.insert(identity(&number.to_string(), "1"), String::new(), now);
        }
        assert_eq!(known.events.len(), MOST);
    }

    #[test]
    fn the_name_of_an_event_is_valid_for_the_longest_name_of_an_object() {
        for name in ["a".repeat(253), format!("{}.{}", "a".repeat(229), "b".repeat(20)), "cluster".to_owned()] {
            let about = ObjectReference { name: Some(name.clone()), ..about("shop", "1") };
            let event = new_event(&event("Error", "cart"), &about, Timestamp::now()).metadata.name.unwrap();
            assert!(event.len() <= 253 && !event.contains("..") && event.starts_with(&name[..7]), "{event}");
        }
    }
}
