//! Which pods were preempted, and by whom. The scheduler's events about that are about pods that are gone, so a pod that was created
//! in place of one is found by its name.

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::is_object_name,
    events::Event,
    pods::{Pod, Uid},
};

/// How many are kept of a namespace: the last ones.
const PREEMPTIONS: usize = 128;
/// How much later than its pod was deleted, and its grace period was over, a pod may be created in its place.
const DELAY: SignedDuration = SignedDuration::from_mins(2);
/// By how much the clocks of the scheduler and of the API server may differ.
const SKEW: SignedDuration = SignedDuration::from_secs(10);
/// The default of `spec.terminationGracePeriodSeconds`.
const GRACE: u32 = 30;

/// The preemptions in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preemptions(Vec<Preemption>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Preemption {
    at: Timestamp,
    victim: String,
    by: Preemptor,
}

/// For what the scheduler preempted a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Preemptor {
    Pod {
        uid: Uid,
        namespace: String,
        name: String,
    },
    /// The event does not name it, or it is a group of pods.
    Other,
}

/// A pod that was preempted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preempted {
    pub victim: String,
    /// The pod that was scheduled in its place, with its namespace if that is another one. Absent if it must not be shown.
    pub by: Option<String>,
}

impl Preemptions {
    pub fn add(&mut self, event: &Event) {
        let Some(at) = event.last.filter(|_| event.reason == "Preempted" && event.involved.kind == "Pod") else {
            return;
        };
        let by = match event.related.as_deref() {
            // Whoever may create events can write anything into them.
            Some(pod) if pod.kind == "Pod" && is_object_name(&pod.name) && is_object_name(&pod.namespace) => {
                Preemptor::Pod {
                    uid: Uid::from_text(&pod.uid),
                    namespace: pod.namespace.clone(),
                    name: pod.name.clone(),
                }
            }
            _ => Preemptor::Other,
        };
        self.0.push(Preemption { at, victim: event.involved.name.clone(), by });
        if self.0.len() > PREEMPTIONS
            && let Some(oldest) = (0..self.0.len()).min_by_key(|index| self.0[*index].at)
        {
            self.0.swap_remove(oldest);
        }
    }

    /// The preempted pod in whose place this one was created. Only these pods, by namespace and UID, are named as the reason.
    pub fn before(&self, pod: &Pod, may_name: impl Fn(&str, Uid) -> bool) -> Option<Preempted> {
        let created = pod.created?;
        let grace = SignedDuration::from_secs(pod.termination_grace.unwrap_or(GRACE).into());
        let is_before = |at: Timestamp| {
            let waited = created.duration_since(at);
            waited >= -SKEW && waited <= grace.saturating_add(DELAY)
        };
        let preemptions = self.0.iter().filter(|own| is_before(own.at) && replaces(pod, &own.victim));
        let Preemption { victim, by, .. } = preemptions.max_by_key(|own| own.at)?;
        let by = match by {
            Preemptor::Pod { uid, namespace, name } if *uid != pod.uid && may_name(namespace, *uid) => {
                Some(if *namespace == pod.namespace.as_str() { name.clone() } else { format!("{namespace}/{name}") })
            }
            _ => None,
        };
        Some(Preempted { victim: victim.clone(), by })
    }
}

/// Whether the pod has the name of the other one, as a StatefulSet's has, or both have names that the same controller has generated:
/// `cart-5d9f-x7k2p` and `cart-5d9f-q4w8z`.
fn replaces(pod: &Pod, victim: &str) -> bool {
    let is_generated = |name: &str| {
        let suffix = pod.controller.as_ref().and_then(|own| name.strip_prefix(own.name.as_str())?.strip_prefix('-'));
        suffix.is_some_and(|suffix| suffix.len() == 5 && !suffix.contains('-'))
    };
    victim == pod.name.as_str() || is_generated(victim) && is_generated(&pod.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        events::InvolvedObject,
        pods::testing::{self, controller},
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn preempted(victim: &str, second: i64, by: (&str, &str, &str)) -> Event {
        let object = |kind: &str, namespace: &str, name: &str| InvolvedObject {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: "7".to_owned(),
            ..InvolvedObject::default()
        };
        Event {
            involved: object("Pod", "shop", victim),
            related: Some(Box::new(object(by.0, by.1, by.2))),
            reason: "Preempted".to_owned(),
            last: Some(at(second)),
            ..Event::default()
        }
    }

    fn of(events: &[Event]) -> Preemptions {
        let mut preemptions = Preemptions::default();
        events.iter().for_each(|event| preemptions.add(event));
        preemptions
    }

    /// A pod that was created at 100 s, with a grace period of 60 s.
    fn pod(name: &str, owner: &str) -> Pod {
        let pod = testing::pod(
            name,
            json!({"metadata": {"namespace": "shop"}, "spec": {"terminationGracePeriodSeconds": 60}}),
        );
        let controller = (!owner.is_empty()).then(|| controller("ReplicaSet", owner, "1"));
        Pod { created: Some(at(100)), controller, ..pod }
    }

    const BATCH: (&str, &str, &str) = ("Pod", "ops", "batch");

    #[test]
    fn finds_the_victim_in_whose_place_a_pod_was_created() {
        for (victim, second, (name, owner), is_found) in [
            ("kafka-0", 70, ("kafka-0", "kafka"), true),
            ("cart-5d9f-x7k2p", 99, ("cart-5d9f-q4w8z", "cart-5d9f"), true),
            ("cart-5d9f-x7k2p", 105, ("cart-5d9f-q4w8z", "cart-5d9f"), true),
            ("lone", 70, ("lone", ""), true),
            // Of others.
            ("kafka-1", 70, ("kafka-0", "kafka"), false),
            ("cart-5d9f-x7k2p", 99, ("cart-5d9f-q4w8z", "cart"), false),
            ("cart-x7k2p", 99, ("cart-5d9f-q4w8z", "cart-5d9f"), false),
            ("lone-x7k2p", 99, ("lone", ""), false),
            // Later, and so long before that it was scheduled again in the meantime.
            ("kafka-0", 111, ("kafka-0", "kafka"), false),
            ("kafka-0", -81, ("kafka-0", "kafka"), false),
        ] {
            let found = of(&[preempted(victim, second, BATCH)]).before(&pod(name, owner), |_, _| true);
            assert_eq!(found.is_some(), is_found, "{victim} at {second} before {name}");
        }
    }

    #[test]
    fn names_the_last_preemptor_if_it_may_be_shown() {
        let events = [
            preempted("kafka-0", 60, ("Pod", "shop", "first")),
            preempted("kafka-0", 70, BATCH),
            preempted("kafka-0", 65, ("Pod", "shop", "second")),
        ];
        let found = |events: &[Event], may_name| {
            let found =
                of(events).before(&pod("kafka-0", "kafka"), |_, uid| may_name && uid == Uid::from_text("7")).unwrap();
            assert_eq!(found.victim, "kafka-0");
            found.by
        };
        assert_eq!(found(&events, true).as_deref(), Some("ops/batch"));
        assert_eq!(found(&events[..1], true).as_deref(), Some("first"));
        assert_eq!(found(&events, false), None);
        assert_eq!(found(&[preempted("kafka-0", 70, ("PodGroup", "shop", "train"))], true), None);
        assert_eq!(found(&[Event { related: None, ..preempted("kafka-0", 70, BATCH) }], true), None);
    }

    #[test]
    fn a_forged_preemptor_is_not_named() {
        let found = |by: (&str, &str, &str), uid: &str| {
            let pod = Pod { uid: Uid::from_text(uid), ..pod("kafka-0", "kafka") };
            let may_name = |namespace: &str, _: Uid| namespace == "ops";
            of(&[preempted("kafka-0", 70, by)]).before(&pod, may_name).unwrap().by
        };
        assert_eq!(found(BATCH, "1").as_deref(), Some("ops/batch"));
        assert_eq!(found(BATCH, "7"), None, "the pod itself");
        assert_eq!(found(("Pod", "payments", "batch"), "1"), None, "another namespace than that of the UID");
        assert_eq!(found(("Pod", "ops", "ledger-0 (owner: bob, call 555), which is broken"), "1"), None);
    }

    #[test]
    fn keeps_a_bounded_number_of_the_last_preemptions() {
        let events: Vec<_> = (0..1000).map(|second| preempted("kafka-0", 1100 - second, BATCH)).collect();
        let preemptions = of(&events);
        assert_eq!(preemptions.0.len(), PREEMPTIONS);
        assert!(preemptions.0.iter().all(|own| own.at > at(1100 - 128)));
    }
}
