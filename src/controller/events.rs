//! Publishes Kubernetes events about an object when problems begin and end, for `kubectl describe orchestr`. Events are
//! limited in rate and not retried, because the status holds the same information.

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    alerts::delivery::DeliveryNotice,
    api::{Incident, NamespacedName, OrchestrStatus, ProblemKind, api_resource, reason},
    bounded::{Rates, TokenBucket},
    leader::Leadership,
    report::Transitions,
    spec_error::SpecError,
};

use super::status::WriteError;

/// The API limits a note to 1 kB.
const NOTE_LIMIT: usize = 1000;
/// The longest cause, in bytes, so that the note has room for the pods.
const CAUSE_LIMIT: usize = 400;
/// The API's limit on a reason.
const REASON_LIMIT: usize = 128;

/// An object may have ten events at once, and after that one more every half minute.
const OBJECT_INTERVAL: Duration = Duration::from_secs(30);
const OBJECT_BURST: Duration = Duration::from_secs(30 * 9);
/// The objects of a namespace, also those that are deleted, may have 50 events at once, and after that one more every 6 s.
const NAMESPACE_INTERVAL: Duration = Duration::from_secs(6);
const NAMESPACE_BURST: Duration = Duration::from_secs(6 * 49);
/// The most namespaces with dropped events that the log names at a time.
const LOGGED: usize = 8;

/// How many objects' events may wait to be published, and for how many objects they are published concurrently.
const WAITING: usize = 256;
const CONCURRENCY: usize = 4;
/// How long it may take to publish one event.
const TIMEOUT: Duration = Duration::from_secs(4);

const CONTROLLER: &str = "orchestr";
/// How many events a recorder of kube gets before another one replaces it. It keeps each event for six minutes, so that who
/// creates and deletes objects all the time would fill the memory with events about them.
const REMEMBERED: usize = 512;

/// Publishes events in tasks of their own.
pub(super) struct EventPublisher {
    recorder: Arc<BoundedRecorder>,
    leadership: Leadership,
    permits: Arc<Semaphore>,
    tasks: JoinSet<()>,
    rates: Rates,
    /// How many events were dropped since this was last logged, by namespace.
    dropped: HashMap<String, usize>,
}

/// Limits the events of one object.
#[derive(Debug, Default)]
pub(super) struct EventLimiter {
    rate: TokenBucket,
    /// How many incidents began or ended without an event since the last one.
    dropped: usize,
}

impl EventPublisher {
    pub(super) fn new(client: Client, leadership: Leadership) -> Self {
        Self {
            recorder: Arc::new(BoundedRecorder::new(client)),
            leadership,
            permits: Arc::new(Semaphore::new(CONCURRENCY)),
            tasks: JoinSet::new(),
            rates: Rates::default(),
            dropped: HashMap::new(),
        }
    }

    /// Publishes an object's events in this order. Returns how many were dropped, because its namespace has had its share or
    /// too many wait.
    #[must_use]
    pub(super) fn publish(&mut self, key: &NamespacedName, uid: &str, mut events: Vec<Event>, now: Instant) -> usize {
        while self.tasks.try_join_next().is_some() {}
        let count = events.len();
        let is_full = self.tasks.len() >= WAITING;
        let mut take = || !is_full && self.rates.take(&key.namespace, NAMESPACE_INTERVAL, NAMESPACE_BURST, now);
        events.truncate((0..count).take_while(|_| take()).count());
        let dropped = count - events.len();
        if dropped > 0 {
            *self.dropped.entry(key.namespace.clone()).or_default() += dropped;
        }
        if events.is_empty() {
            return dropped;
        }
        let (recorder, leadership) = (Arc::clone(&self.recorder), self.leadership.clone());
        let (reference, permits) = (reference(key, uid), Arc::clone(&self.permits));
        self.tasks.spawn(async move {
            let _permit = permits.acquire().await;
            // The events of a replica that leads no longer are dropped.
            for event in events.into_iter().take_while(|_| leadership.is_held()) {
                publish_one(&recorder, &reference, &event).await;
            }
        });
        dropped
    }

    /// Logs how many events were dropped since this was last called.
    pub(super) fn log_dropped(&mut self) {
        for (namespace, dropped) in most_dropped(self.dropped.drain().collect()) {
            tracing::warn!(namespace, dropped, "too many events about Orchestr objects: some were dropped");
        }
    }

    /// Waits until all events are published.
    pub(super) async fn finish(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// The namespaces with the most dropped events, and how many all others have.
fn most_dropped(mut namespaces: Vec<(String, usize)>) -> Vec<(String, usize)> {
    namespaces.sort_unstable_by_key(|(_, dropped)| Reverse(*dropped));
    let rest: usize = namespaces.iter().skip(LOGGED).map(|(_, dropped)| dropped).sum();
    namespaces.truncate(LOGGED);
    namespaces.extend((rest > 0).then(|| ("(others)".to_owned(), rest)));
    namespaces
}

async fn publish_one(recorder: &BoundedRecorder, reference: &ObjectReference, event: &Event) {
    let (namespace, name) = (&reference.namespace, &reference.name);
    match timeout(TIMEOUT, recorder.publish(event, reference)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let error = WriteError::from(error);
            tracing::warn!(namespace, name, %error, "could not record an event");
        }
        Err(_) => tracing::warn!(namespace, name, "could not record an event in time"),
    }
}

/// A recorder of kube that does not remember all events.
struct BoundedRecorder {
    client: Client,
    /// The recorder, and how many events it got.
    recorder: Mutex<(Recorder, usize)>,
}

impl BoundedRecorder {
    fn new(client: Client) -> Self {
        let recorder = Mutex::new((new_recorder(&client), 0));
        Self { client, recorder }
    }

    /// Creates an event, or counts it if it is known.
    async fn publish(&self, event: &Event, about: &ObjectReference) -> Result<(), kube::Error> {
        match self.recorder(REMEMBERED).publish(event, about).await {
            // It was known, and has been deleted since. The recorder would try to count it for six minutes.
            Err(kube::Error::Api(status)) if status.is_not_found() => self.recorder(0).publish(event, about).await,
            result => result,
        }
    }

    /// The recorder for the next event: another one if it got `most` events.
    fn recorder(&self, most: usize) -> Recorder {
        let mut current = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        if current.1 >= most {
            *current = (new_recorder(&self.client), 0);
        }
        current.1 += 1;
        current.0.clone()
    }
}

fn new_recorder(client: &Client) -> Recorder {
    Recorder::new(client.clone(), Reporter { controller: CONTROLLER.to_owned(), instance: None })
}

impl EventLimiter {
    /// Counts events that were granted but not published.
    pub(super) fn add_dropped(&mut self, events: usize) {
        self.dropped += events;
    }

    /// The events for these transitions to a status. Events beyond the limit are dropped, and the next event mentions
    /// their number.
    pub(super) fn events(
        &mut self,
        transitions: &Transitions<'_>,
        status: &OrchestrStatus,
        now: Instant,
    ) -> Vec<Event> {
        let began = transitions.began.iter().map(|incident| (EventType::Warning, *incident));
        let ended = transitions.ended.iter().map(|incident| (EventType::Normal, *incident));
        let mut events = Vec::new();
        for (type_, incident) in began.chain(ended) {
            if self.rate.take(OBJECT_INTERVAL, OBJECT_BURST, now) {
                let dropped = std::mem::take(&mut self.dropped);
                events.push(incident_event(type_, incident, cause(incident, status), dropped));
            } else {
                self.dropped += 1;
            }
        }
        events
    }
}

/// The message of one of the incident's example pods, if the status lists one. Missing pods are not listed, so their
/// incident's own message is used.
fn cause<'s>(incident: &'s Incident, status: &'s OrchestrStatus) -> Option<&'s str> {
    if incident.kind == ProblemKind::Missing {
        return Some(incident.message.as_str()).filter(|message| !message.is_empty());
    }
    let examples = status.problematic_pods.iter().filter(|pod| {
        pod.namespace == incident.namespace && pod.kind == incident.kind && incident.example_pods.contains(&pod.name)
    });
    examples.map(|pod| pod.message.as_str()).find(|message| !message.is_empty())
}

fn incident_event(type_: EventType, incident: &Incident, cause: Option<&str>, dropped: usize) -> Event {
    let Incident { namespace, owner, container, reason, .. } = incident;
    let subject = format!("{} {namespace}/{}", owner.kind, owner.name);
    let container = if container.is_empty() { String::new() } else { format!(", container {container}") };
    let mut note = match (type_, cause) {
        // The cause already names the container.
        (EventType::Warning, Some(cause)) => format!("{subject}: {}{}", clip(cause, CAUSE_LIMIT), pods_of(incident)),
        (EventType::Warning, None) => format!("{subject}{container}: {reason}{}", pods_of(incident)),
        (EventType::Normal, _) => format!("{subject}{container}: {reason} is over"),
    };
    if dropped > 0 {
        note = format!("{note} ({dropped} more changes had no event of their own)");
    }
    Event {
        type_,
        reason: match type_ {
            EventType::Warning => clip(&incident.reason, REASON_LIMIT),
            EventType::Normal => "Recovered".to_owned(),
        },
        note: Some(clip(&note, NOTE_LIMIT)),
        action: "Watch".to_owned(),
        // Repeated events are merged per owner and reason, because the recorder compares this reference.
        secondary: Some(ObjectReference {
            kind: Some(owner.kind.clone()),
            name: Some(owner.name.clone()),
            namespace: Some(namespace.clone()),
            field_path: (!incident.container.is_empty()).then(|| format!("spec.containers{{{}}}", incident.container)),
            ..ObjectReference::default()
        }),
    }
}

/// The pods in parentheses; empty for a pod without an owner, which is named already.
fn pods_of(incident: &Incident) -> String {
    let Incident { owner, pods, example_pods, .. } = incident;
    match (*pods, example_pods.as_slice()) {
        (1, [only]) if owner.kind == "Pod" && owner.name == *only => String::new(),
        (1, [only]) => format!(" (pod {only})"),
        (1, _) => String::new(),
        // The cause gives the number.
        (_, []) if incident.kind == ProblemKind::Missing => String::new(),
        (pods, []) => format!(" ({pods} pods)"),
        (pods, examples) => format!(" ({pods} pods, such as {})", examples.join(", ")),
    }
}

/// The event about a spec that cannot be used.
pub(super) fn spec_event(error: &SpecError) -> Event {
    Event {
        type_: EventType::Warning,
        reason: match error {
            SpecError::AlertsNotSet => reason::ALERTS_NOT_SET,
            SpecError::Invalid { .. } => reason::INVALID_SPEC,
        }
        .to_owned(),
        note: Some(clip(&error.to_string(), NOTE_LIMIT)),
        action: "Validate".to_owned(),
        secondary: None,
    }
}

/// The event for a notice from alert delivery.
pub(super) fn notice_event(notice: &DeliveryNotice) -> Event {
    let DeliveryNotice { object, webhook, reason, note, .. } = notice;
    Event {
        type_: EventType::Warning,
        reason: (*reason).to_owned(),
        note: Some(clip(note, NOTE_LIMIT)),
        action: "Deliver".to_owned(),
        // Events about different webhooks are not merged.
        secondary: (!webhook.is_empty()).then(|| ObjectReference {
            field_path: Some(format!("spec.webhooks{{{webhook}}}")),
            ..reference(object, &notice.uid)
        }),
    }
}

/// The reference to the object that events are about.
fn reference(NamespacedName { namespace, name }: &NamespacedName, uid: &str) -> ObjectReference {
    let resource = api_resource();
    ObjectReference {
        api_version: Some(resource.api_version),
        kind: Some(resource.kind),
        namespace: Some(namespace.clone()),
        name: Some(name.clone()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

fn clip(text: &str, limit: usize) -> String {
    text[..text.floor_char_boundary(limit)].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Owner;

    fn incident(name: &str) -> Incident {
        let incident = json!({
            "key": name, "namespace": "shop", "owner": {"kind": "Deployment", "name": name}, "container": "app",
            "kind": "Crash", "reason": "OOMKilled", "cause": "OutOfMemory", "logLine": "a line of the log", "pods": 3,
            "since": "2026-11-01T10:00:00Z", "examplePods": [format!("{name}-1")],
        });
        serde_json::from_value(incident).unwrap()
    }

    #[test]
    fn limits_a_burst_and_counts_the_dropped_events() {
        let incidents: Vec<_> = (0..50).map(|index| incident(&format!("web{index}"))).collect();
        let storm = Transitions { began: incidents.iter().collect(), ended: vec![] };
        let (start, status) = (Instant::now(), OrchestrStatus::default());
        let mut event_limiter = EventLimiter::default();
        assert_eq!(event_limiter.events(&storm, &status, start).len(), 10);
        let one = Transitions { began: vec![], ended: vec![&incidents[0]] };
        assert!(event_limiter.events(&one, &status, start + Duration::from_secs(29)).is_empty());
        let events = event_limiter.events(&one, &status, start + Duration::from_secs(30));
        assert_eq!(events.len(), 1);
        assert!(events[0].note.as_ref().unwrap().contains("41 more changes"), "{:?}", events[0].note);
        assert!(
            event_limiter.events(&one, &status, start + Duration::from_secs(59)).is_empty(),
            "one every half minute"
        );
        assert_eq!(event_limiter.events(&one, &status, start + Duration::from_secs(60)).len(), 1);
    }

    #[test]
    fn names_the_namespaces_with_the_most_dropped_events() {
        let namespaces = (0..12).map(|number| (format!("team-{number:02}"), 10 + number)).collect();
        let named = most_dropped(namespaces);
        assert_eq!((named.len(), &named[0], &named[7]), (9, &("team-11".to_owned(), 21), &("team-04".to_owned(), 14)));
        assert_eq!(named[8], ("(others)".to_owned(), 10 + 11 + 12 + 13));
        assert_eq!(most_dropped(vec![("shop".to_owned(), 1)]), [("shop".to_owned(), 1)]);
    }

    #[test]
    fn the_note_gives_the_cause_and_names_each_pod_once() {
        let message = "container app was OOM-killed (exit 137), 7 restarts";
        let own = |owner: (&str, &str), pods: i64, examples: &[&str]| Incident {
            owner: Owner { kind: owner.0.to_owned(), name: owner.1.to_owned() },
            pods,
            example_pods: examples.iter().map(|&name| name.to_owned()).collect(),
            ..incident("web")
        };
        for (incident, expected) in [
            (own(("Pod", "cart"), 1, &["cart"]), format!("Pod shop/cart: {message}")),
            (own(("Deployment", "cart"), 1, &["cart-1"]), format!("Deployment shop/cart: {message} (pod cart-1)")),
            (
                own(("Deployment", "cart"), 3, &["cart-1", "cart-2"]),
                format!("Deployment shop/cart: {message} (3 pods, such as cart-1, cart-2)"),
            ),
        ] {
            assert_eq!(incident_event(EventType::Warning, &incident, Some(message), 0).note, Some(expected));
        }
        let cut = own(("Deployment", "cart"), 3, &["cart-1"]);
        assert_eq!(
            incident_event(EventType::Warning, &cut, None, 0).note.unwrap(),
            "Deployment shop/cart, container app: OOMKilled (3 pods, such as cart-1)"
        );
        assert_eq!(
            incident_event(EventType::Normal, &cut, None, 0).note.unwrap(),
            "Deployment shop/cart, container app: OOMKilled is over"
        );
    }

    #[test]
    fn long_names_stay_within_the_limits_of_the_api() {
        let mut long = incident(&"é".repeat(2000));
        long.reason = "é".repeat(2000);
        let event = incident_event(EventType::Warning, &long, Some(&"é".repeat(2000)), 3);
        assert!(event.note.unwrap().len() <= NOTE_LIMIT && event.reason.len() <= REASON_LIMIT);
    }

    #[tokio::test]
    async fn events_that_are_dropped_take_no_place_of_others() {
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap();
        let (mut publisher, now) = (EventPublisher::new(client, Leadership::always()), Instant::now());
        let mut publish = |namespace: &str| {
            let events = vec![incident_event(EventType::Warning, &incident("web"), None, 0)];
            publisher.publish(&NamespacedName::new(namespace, "cluster"), "1", events, now)
        };
        let dropped: usize = (0..2 * WAITING).map(|_| publish("attacker")).sum();
        assert_eq!(dropped, 2 * WAITING - 50);
        assert_eq!(publish("shop"), 0);
    }

    #[tokio::test]
    async fn a_recorder_is_replaced_before_it_remembers_many_events() {
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap();
        let recorder = BoundedRecorder::new(client);
        for _ in 0..10 * REMEMBERED {
            recorder.recorder(REMEMBERED);
            assert!(recorder.recorder.lock().unwrap().1 <= REMEMBERED);
        }
    }
}
