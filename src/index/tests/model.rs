//! An index behaves like a simple model of it, whatever happens.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A change of an index. Pods and views are few, so that steps affect each other.
#[derive(Clone, Debug)]
enum Step {
    Apply { pod: u64, namespace: usize, app: usize, ready: bool },
    InsertUndecodable { pod: u64, namespace: usize },
    Remove(u64),
    StartList(usize),
    EndList(usize),
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
        1 => (pod.clone(), 0..3_usize).prop_map(|(pod, namespace)| Step::InsertUndecodable { pod, namespace }),
        2 => pod.prop_map(Step::Remove),
        2 => (0..4_usize).prop_map(Step::StartList),
        2 => (0..4_usize).prop_map(Step::EndList),
        1 => (0..5_usize).prop_map(Step::AddView),
        1 => (0..6_usize).prop_map(Step::RemoveView),
        1 => Just(Step::Compact),
    ];
    proptest::collection::vec(step, 0..60)
}

/// A simple model of the index.
#[derive(Default)]
struct Model {
    pods: BTreeMap<u64, (Box<Pod>, u32)>,
    undecodable: BTreeMap<u64, (usize, u32)>,
    views: BTreeMap<ViewId, PodSelection>,
    list: u32,
    open_lists: BTreeMap<usize, u32>,
}

/// The namespace of a list; the fourth is of all namespaces.
fn namespace_of(list: usize) -> Option<&'static str> {
    NAMESPACES.get(list).copied()
}

impl Model {
    /// Returns the views that the step affects, as the index says.
    fn step(&mut self, step: &Step, index: &mut Index) -> Vec<ViewId> {
        match *step {
            Step::Apply { pod: number, namespace, app, ready } => {
                let pod = pod(number, NAMESPACES[namespace], APPS[app], ready);
                self.undecodable.remove(&number);
                self.pods.insert(number, (pod.clone(), self.list));
                index.apply(pod, now())
            }
            Step::InsertUndecodable { pod, namespace } => {
                self.pods.remove(&pod);
                self.undecodable.insert(pod, (namespace, self.list));
                index.insert_undecodable(undecodable(pod, NAMESPACES[namespace]))
            }
            Step::Remove(pod) => {
                self.pods.remove(&pod);
                self.undecodable.remove(&pod);
                index.remove(uid(pod))
            }
            Step::StartList(list) => {
                self.list += 1;
                self.open_lists.insert(list, self.list);
                index.begin_list(namespace_of(list));
                Vec::new()
            }
            Step::EndList(list) => {
                if let Some(started) = self.open_lists.remove(&list) {
                    let within = |namespace: &str| namespace_of(list).is_none_or(|own| own == namespace);
                    self.pods.retain(|_, (pod, seen)| *seen >= started || !within(&pod.namespace));
                    self.undecodable.retain(|_, (namespace, seen)| *seen >= started || !within(NAMESPACES[*namespace]));
                }
                index.end_list(namespace_of(list))
            }
            Step::AddView(selection) => {
                let scope = scope(selections()[selection].clone());
                self.views.insert(index.add_view(scope.clone()), scope);
                Vec::new()
            }
            Step::RemoveView(number) => {
                if let Some((&view, _)) = self.views.iter().nth(number) {
                    self.views.remove(&view);
                    index.remove_view(view);
                }
                Vec::new()
            }
            Step::Compact => {
                index.compact(now());
                Vec::new()
            }
        }
    }

    /// The pods that could not be decoded, each with its namespace.
    fn undecodable_pods(&self) -> Vec<(u64, usize)> {
        self.undecodable.iter().map(|(pod, (namespace, _))| (*pod, *namespace)).collect()
    }

    fn selected(&self, scope: &PodSelection) -> impl Iterator<Item = &Pod> {
        self.pods.values().map(|(pod, _)| &**pod).filter(|pod| scope.selects(&pod.namespace, &pod.labels))
    }
}

proptest! {
    #[test]
    fn an_index_equals_its_model(steps in steps()) {
        let (mut model, mut index) = (Model::default(), Index::new(LOOKBACK));
        for step in &steps {
            let (undecodable, changes) = (model.undecodable_pods(), index.undecodable_changes());
            model.step(step, &mut index);
            prop_assert_eq!(index.undecodable_changes() > changes, model.undecodable_pods() != undecodable, "{:?}", step);
            prop_assert!(index.undecodable_changes() >= changes);
            prop_assert_eq!(index.len(), model.pods.len());
            let count = |is_counted: &dyn Fn(&Pod) -> bool| {
                let counted = || model.pods.values().map(|(pod, _)| &**pod).filter(|pod| is_counted(pod));
                let suspects = counted().filter(|pod| !pod.is_true("Ready")).count() as u32;
                PodCount { pods: counted().count() as u32, suspects }
            };
            for namespace in NAMESPACES {
                prop_assert_eq!(index.pods_of(namespace, "", ""), count(&|pod| pod.namespace == namespace));
            }
            for app in APPS {
                prop_assert_eq!(index.pods_on_node(app), count(&|pod| pod.node == app && !app.is_empty()));
            }
            for (&view, scope) in &model.views {
                prop_assert_eq!(index.watched(view), model.selected(scope).count() as u64);
                let broken = model.selected(scope).filter(|pod| !pod.is_true("Ready")).map(|pod| pod.name.as_str());
                prop_assert_eq!(names(&index, view), broken.collect::<BTreeSet<_>>());
                let undecodable =
                    model.undecodable.values().filter(|(namespace, _)| scope.selects_namespace(NAMESPACES[*namespace]));
                let count = undecodable.count() as u64;
                prop_assert_eq!(index.undecodable(view).map_or(0, |(count, _)| count), count);
            }
        }
    }

    #[test]
    fn returns_every_view_that_a_step_changes(steps in steps()) {
        let (mut model, mut index) = (Model::default(), Index::new(LOOKBACK));
        let views: Vec<_> = selections().into_iter().map(|selection| index.add_view(scope(selection))).collect();
        let is_of_pods = |step: &&Step| !matches!(step, Step::AddView(_) | Step::RemoveView(_) | Step::Compact);
        for step in steps.iter().filter(is_of_pods) {
            let suspects = |index: &Index| {
                let shown = |&view: &ViewId| {
                    let mut suspects: Vec<Pod> = index.suspects(view).cloned().collect();
                    suspects.sort_by_key(|pod| pod.uid);
                    (suspects, index.undecodable(view).map(|(count, first)| (count, first.clone())))
                };
                views.iter().map(shown).collect::<Vec<_>>()
            };
            let before = suspects(&index);
            let affected = model.step(step, &mut index);
            let after = suspects(&index);
            let differs = views.iter().zip(before.iter().zip(&after)).filter(|(_, (before, after))| before != after);
            for (view, _) in differs {
                prop_assert!(affected.contains(view), "{step:?}: {view:?} is not among {affected:?}");
            }
        }
    }
}
