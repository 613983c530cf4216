use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{pods::DecodeError, settings::Settings};

const HORIZON: Duration = Duration::from_secs(600);

fn now() -> Timestamp {
    "2025-11-03T12:00:00Z".parse().unwrap()
}

fn scope(pods: serde_json::Value) -> PodSelection {
    let spec = json!({"alerts": {"checkRunningPods": true}, "pods": pods});
    Settings::new(&serde_json::from_value(spec).unwrap()).unwrap().scope
}

/// A pod that is ready, or isn't.
fn pod(uid: u64, namespace: &str, app: &str, ready: bool) -> Box<Pod> {
    let json = json!({
        "metadata": {"uid": uid.to_string(), "namespace": namespace, "name": format!("pod-{uid}"), "labels": {"app": app}},
        "status": {"phase": "Running", "conditions": [{
            "type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2025-11-03T11:00:00Z",
        }]},
    });
    Box::new(serde_json::from_value(json).unwrap())
}

fn uid(number: u64) -> Uid {
    Uid::from_text(&number.to_string())
}

fn undecodable(number: u64, namespace: &str) -> UndecodablePod {
    let error: DecodeError = serde_json::from_str::<u8>("").unwrap_err().into();
    UndecodablePod { uid: uid(number), namespace: namespace.to_owned(), name: format!("pod-{number}"), error }
}

fn names(index: &Index, view: ViewId) -> BTreeSet<&str> {
    index.suspects(view).map(|pod| pod.name.as_str()).collect()
}

#[test]
fn a_healthy_pod_takes_24_bytes() {
    assert_eq!(size_of::<(Uid, Entry)>(), 24);
}

#[test]
fn each_viewer_sees_its_own() {
    let mut index = Index::new(HORIZON);
    let all = index.add_view(scope(json!({})));
    assert_eq!(index.apply(pod(1, "shop", "web", true), now()), [], "a healthy pod is nobody's business");
    assert_eq!(index.apply(pod(2, "shop", "web", false), now()), [all]);
    let shop = index.add_view(scope(json!({"namespaces": ["shop"]})));
    let cart = index.add_view(scope(json!({"selector": {"matchLabels": {"app": "cart"}}})));
    assert_eq!(index.apply(pod(3, "bank", "web", false), now()), [all]);
    assert_eq!([all, shop, cart].map(|view| index.watched(view)), [3, 2, 0]);
    assert_eq!(names(&index, all), BTreeSet::from(["pod-2", "pod-3"]));
    assert_eq!(names(&index, shop), BTreeSet::from(["pod-2"]));

    assert_eq!(index.apply(pod(2, "shop", "web", false), now()), [], "the same again is no news");
    assert_eq!(index.apply(pod(2, "shop", "cart", false), now()), [all, shop, cart], "it is relabelled");
    assert_eq!([all, shop, cart].map(|view| index.watched(view)), [3, 2, 1]);
    assert_eq!(index.apply(pod(2, "shop", "cart", true), now()), [all, shop, cart], "it recovers");
    assert_eq!(index.remove(uid(1)), [], "a healthy pod goes");
    assert_eq!(index.remove(uid(3)), [all]);
    assert_eq!([all, shop, cart].map(|view| index.watched(view)), [1, 1, 1]);

    index.remove_view(shop);
    assert_eq!(index.add_view(scope(json!({"excludeNamespaces": ["shop"]}))), shop, "its place is used again");
    assert_eq!(index.watched(shop), 0);
}

#[test]
fn what_a_list_leaves_out_is_gone_where_it_was_listed() {
    let mut index = Index::new(HORIZON);
    let all = index.add_view(scope(json!({})));
    for (number, namespace) in [(1, "a"), (2, "a"), (3, "b")] {
        index.apply(pod(number, namespace, "web", false), now());
    }
    index.begin_list(Some("a"));
    index.begin_list(Some("b"));
    assert_eq!(index.apply(pod(1, "a", "web", false), now()), []);
    assert_eq!(index.end_list(Some("a")), [all]);
    assert_eq!(names(&index, all), BTreeSet::from(["pod-1", "pod-3"]));
    assert_eq!(index.end_list(Some("b")), [all]);
    assert_eq!(names(&index, all), BTreeSet::from(["pod-1"]));
    assert_eq!(index.end_list(Some("b")), [], "an end without a beginning means nothing");

    // A list that breaks off is begun anew.
    index.apply(pod(4, "a", "web", true), now());
    index.begin_list(Some("a"));
    index.apply(pod(4, "a", "web", true), now());
    index.begin_list(Some("a"));
    index.apply(pod(1, "a", "web", false), now());
    assert_eq!((index.end_list(Some("a")), index.watched(all)), (vec![], 1));
}

#[test]
fn failures_are_kept_until_nobody_remembers_them() {
    let restarted = |finished: &str| {
        let mut pod = pod(1, "shop", "web", true);
        pod.statuses = serde_json::from_value::<Pod>(json!({"status": {"containerStatuses": [{
            "name": "app", "ready": true, "restartCount": 1, "state": {"running": {"startedAt": finished}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": finished}},
        }]}}))
        .unwrap()
        .statuses;
        pod
    };
    let mut index = Index::new(HORIZON);
    let all = index.add_view(scope(json!({})));
    assert_eq!(index.apply(restarted("2025-11-03T11:49:00Z"), now()), []);
    assert_eq!(index.apply(restarted("2025-11-03T11:51:00Z"), now()), [all]);
    index.compact(now());
    assert_eq!(index.suspects(all).count(), 1);
    index.compact(now() + Duration::from_secs(60));
    assert_eq!((index.suspects(all).count(), index.watched(all)), (0, 1));
    index.widen(Duration::from_secs(3600));
    assert_eq!(index.apply(restarted("2025-11-03T11:49:00Z"), now()), [all], "once it is listed again");
}

#[test]
fn what_cannot_be_read_is_told_to_those_who_would_look_at_it() {
    let mut index = Index::new(HORIZON);
    let all = index.add_view(scope(json!({})));
    let shop = index.add_view(scope(json!({"namespaces": ["shop"]})));
    index.apply(pod(1, "shop", "web", false), now());
    assert_eq!(index.insert_undecodable(undecodable(1, "shop")), [all, shop], "what was known of it holds no longer");
    assert_eq!((index.watched(all), index.suspects(all).count()), (0, 0));
    index.insert_undecodable(undecodable(2, "bank"));
    let told = |index: &Index, view| index.undecodable(view).map(|(count, first)| (count, first.to_string()));
    assert_eq!(told(&index, all), Some((2, "bank/pod-2".to_owned())));
    assert_eq!(told(&index, shop), Some((1, "shop/pod-1".to_owned())));

    let changes = index.undecodable_changes();
    index.insert_undecodable(undecodable(2, "bank"));
    index.apply(pod(3, "bank", "web", true), now());
    assert_eq!(index.undecodable_changes(), changes, "nothing new");
    index.apply(pod(1, "shop", "web", true), now());
    assert!(index.undecodable_changes() > changes);
    assert_eq!(told(&index, shop), None);

    index.begin_list(Some("shop"));
    index.end_list(Some("shop"));
    assert_eq!(told(&index, all), Some((1, "bank/pod-2".to_owned())));
    index.begin_list(None);
    index.end_list(None);
    assert_eq!(told(&index, all), None);
}

/// What may happen to an index; pods and views are few, so that they meet.
#[derive(Clone, Debug)]
enum Step {
    Apply { pod: u64, namespace: usize, app: usize, ready: bool },
    PassOver { pod: u64, namespace: usize },
    Remove(u64),
    Begin(usize),
    End(usize),
    AddView(usize),
    RemoveView(usize),
    Compact,
}

const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const APPS: [&str; 3] = ["web", "cart", ""];

fn selections() -> [serde_json::Value; 5] {
    [
        json!({}),
        json!({"namespaces": ["a", "b"]}),
        json!({"excludeNamespaces": ["b"]}),
        json!({"selector": {"matchLabels": {"app": "web"}}}),
        json!({"namespaces": ["?"], "selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["cart"]}]}}),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pod = 0..8_u64;
    let step = prop_oneof![
        8 => (pod.clone(), 0..3_usize, 0..3_usize, any::<bool>())
            .prop_map(|(pod, namespace, app, ready)| Step::Apply { pod, namespace, app, ready }),
        1 => (pod.clone(), 0..3_usize).prop_map(|(pod, namespace)| Step::PassOver { pod, namespace }),
        2 => pod.prop_map(Step::Remove),
        2 => (0..4_usize).prop_map(Step::Begin),
        2 => (0..4_usize).prop_map(Step::End),
        1 => (0..5_usize).prop_map(Step::AddView),
        1 => (0..6_usize).prop_map(Step::RemoveView),
        1 => Just(Step::Compact),
    ];
    proptest::collection::vec(step, 0..60)
}

/// What an index is to say, found without any cleverness.
#[derive(Default)]
struct Naive {
    pods: BTreeMap<u64, (Box<Pod>, u32)>,
    undecodable: BTreeMap<u64, (usize, u32)>,
    views: BTreeMap<ViewId, PodSelection>,
    clock: u32,
    begun: BTreeMap<usize, u32>,
}

/// The fourth is all of them.
fn listed(list: usize) -> Option<&'static str> {
    NAMESPACES.get(list).copied()
}

impl Naive {
    fn step(&mut self, step: &Step, index: &mut Index) {
        match *step {
            Step::Apply { pod: number, namespace, app, ready } => {
                let pod = pod(number, NAMESPACES[namespace], APPS[app], ready);
                self.undecodable.remove(&number);
                self.pods.insert(number, (pod.clone(), self.clock));
                index.apply(pod, now());
            }
            Step::PassOver { pod, namespace } => {
                self.pods.remove(&pod);
                self.undecodable.insert(pod, (namespace, self.clock));
                index.insert_undecodable(undecodable(pod, NAMESPACES[namespace]));
            }
            Step::Remove(pod) => {
                self.pods.remove(&pod);
                self.undecodable.remove(&pod);
                index.remove(uid(pod));
            }
            Step::Begin(list) => {
                self.clock += 1;
                self.begun.insert(list, self.clock);
                index.begin_list(listed(list));
            }
            Step::End(list) => {
                if let Some(begun) = self.begun.remove(&list) {
                    let within = |namespace: &str| listed(list).is_none_or(|own| own == namespace);
                    self.pods.retain(|_, (pod, seen)| *seen >= begun || !within(&pod.namespace));
                    self.undecodable.retain(|_, (namespace, seen)| *seen >= begun || !within(NAMESPACES[*namespace]));
                }
                index.end_list(listed(list));
            }
            Step::AddView(selection) => {
                let scope = scope(selections()[selection].clone());
                self.views.insert(index.add_view(scope.clone()), scope);
            }
            Step::RemoveView(number) => {
                if let Some((&view, _)) = self.views.iter().nth(number) {
                    self.views.remove(&view);
                    index.remove_view(view);
                }
            }
            Step::Compact => index.compact(now()),
        }
    }

    fn seen(&self, scope: &PodSelection) -> impl Iterator<Item = &Pod> {
        self.pods.values().map(|(pod, _)| &**pod).filter(|pod| scope.selects(&pod.namespace, &pod.labels))
    }
}

proptest! {
    #[test]
    fn an_index_says_what_a_naive_model_says(steps in steps()) {
        let (mut naive, mut index) = (Naive::default(), Index::new(HORIZON));
        for step in &steps {
            naive.step(step, &mut index);
            prop_assert_eq!(index.len(), naive.pods.len());
            for (&view, scope) in &naive.views {
                prop_assert_eq!(index.watched(view), naive.seen(scope).count() as u64);
                let broken = naive.seen(scope).filter(|pod| !pod.is_true("Ready")).map(|pod| pod.name.as_str());
                prop_assert_eq!(names(&index, view), broken.collect::<BTreeSet<_>>());
                let undecodable =
                    naive.undecodable.values().filter(|(namespace, _)| scope.selects_namespace(NAMESPACES[*namespace]));
                let count = undecodable.count() as u64;
                prop_assert_eq!(index.undecodable(view).map_or(0, |(count, _)| count), count);
            }
        }
    }

    #[test]
    fn whoever_sees_a_difference_is_told(steps in steps()) {
        let mut index = Index::new(HORIZON);
        let views: Vec<_> = selections().into_iter().map(|selection| index.add_view(scope(selection))).collect();
        for step in &steps {
            let suspects = |index: &Index| -> Vec<Vec<Pod>> {
                let mut suspects: Vec<Vec<Pod>> = views.iter().map(|&view| index.suspects(view).cloned().collect()).collect();
                suspects.iter_mut().for_each(|pods| pods.sort_by_key(|pod| pod.uid));
                suspects
            };
            let before = suspects(&index);
            let told = match *step {
                Step::Apply { pod: number, namespace, app, ready } => {
                    index.apply(pod(number, NAMESPACES[namespace], APPS[app], ready), now())
                }
                Step::PassOver { pod, namespace } => index.insert_undecodable(undecodable(pod, NAMESPACES[namespace])),
                Step::Remove(pod) => index.remove(uid(pod)),
                Step::Begin(list) => {
                    index.begin_list(listed(list));
                    Vec::new()
                }
                Step::End(list) => index.end_list(listed(list)),
                Step::AddView(_) | Step::RemoveView(_) | Step::Compact => continue,
            };
            let after = suspects(&index);
            let differs = views.iter().zip(before.iter().zip(&after)).filter(|(_, (before, after))| before != after);
            for (view, _) in differs {
                prop_assert!(told.contains(view), "{step:?}: {view:?} is not among {told:?}");
            }
        }
    }
}
