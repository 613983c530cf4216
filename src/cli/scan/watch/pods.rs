//! The pods that the watches have shown. Pure.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    cli::event_lists::event_store,
    diagnosis::{Finding, Health, JobFacts, Replacements, Thresholds, World, assess, is_healthy_under_any_thresholds},
    events::{Event, EventStore, WatchedEvent},
    jobs::JobKey,
    pods::{Controller, Pod, Uid, WatchedPod},
    watch::{WENT_BACK, WatchUpdate},
};

use super::super::{collector::Filter, namespaces::Namespaces};

/// How many pods that may have a problem are kept. Those beyond are counted.
const SUSPECTS: usize = 20_000;

pub(super) struct Pods {
    thresholds: Thresholds,
    filter: Filter,
    /// One for each namespace, or one for all.
    lists: Vec<List>,
    known: HashMap<Uid, Known>,
    /// How many of these are suspects.
    suspects: usize,
    replacements: Replacements,
    events: EventStore,
}

/// The state of a list and watch.
#[derive(Debug, Default)]
struct List {
    /// The pods in the list that is under way.
    listed: Option<HashSet<Uid>>,
    is_synced: bool,
    is_behind: bool,
    failure: Option<String>,
    denial: Option<String>,
}

/// A pod that is counted.
struct Known {
    list: usize,
    state: State,
}

enum State {
    /// Healthy until its next change.
    Healthy,
    Suspect(Box<Pod>),
    Undecodable,
    WithoutRoom,
}

/// The pods at a certain time.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) pods: u64,
    pub(super) problems: Vec<(Pod, Finding)>,
    pub(super) undecodable: u64,
    /// Pods that could not be judged because too many may have a problem.
    pub(super) without_room: u64,
    /// Failed pods that are not judged before their Jobs are read.
    pub(super) unjudged: u64,
    pub(super) needed_jobs: HashSet<JobKey>,
    /// When the result may change without a change of a pod.
    pub(super) recheck: Option<Timestamp>,
}

impl Judged {
    /// Whether all pods were judged.
    pub(super) fn is_complete(&self) -> bool {
        self.undecodable == 0 && self.without_room == 0 && self.unjudged == 0
    }
}

impl Pods {
    pub(super) fn new(thresholds: Thresholds, filter: Filter, lists: usize) -> Self {
        let lists = (0..lists).map(|_| List::default()).collect();
        Self {
            thresholds,
            filter,
            lists,
            known: HashMap::new(),
            suspects: 0,
            replacements: Replacements::default(),
            events: event_store(),
        }
    }

    pub(super) fn namespaces(&self) -> &Namespaces {
        &self.filter.namespaces
    }

    /// Whether all pods have been listed once.
    pub(super) fn is_synced(&self) -> bool {
        self.lists.iter().all(|list| list.is_synced)
    }

    /// Why the API server cannot be asked.
    pub(super) fn failure(&self) -> Option<&str> {
        self.lists.iter().find_map(|list| {
            let own = list.failure.as_deref().or(list.denial.as_deref());
            let is_outdated = list.is_synced && (list.is_behind || list.listed.is_some());
            own.or(is_outdated.then_some("missed changes are still being read"))
        })
    }

    /// The first list that has always been forbidden, and the message of the API server.
    pub(super) fn denial(&self) -> Option<(usize, String)> {
        let mut denied = self.lists.iter().enumerate().filter(|(_, list)| !list.is_synced);
        denied.find_map(|(index, list)| Some((index, list.denial.clone()?)))
    }

    pub(super) fn add_event(&mut self, watched: WatchedEvent) {
        if let WatchedEvent { id, event: Some(event), .. } = watched {
            self.events.record(id, *event, Instant::now());
        }
    }

    pub(super) fn apply(&mut self, index: usize, update: WatchUpdate<WatchedPod>, now: Timestamp) {
        let Some(list) = self.lists.get_mut(index) else { return };
        if !matches!(update, WatchUpdate::Failed(_) | WatchUpdate::Denied(_) | WatchUpdate::WentBack) {
            (list.failure, list.denial) = (None, None);
        }
        match update {
            WatchUpdate::Relisting => list.listed = Some(HashSet::new()),
            WatchUpdate::Synced => {
                (list.is_synced, list.is_behind) = (true, false);
                if let Some(listed) = list.listed.take() {
                    self.known.retain(|uid, known| known.list != index || listed.contains(uid));
                    self.suspects =
                        self.known.values().filter(|known| matches!(known.state, State::Suspect(_))).count();
                }
            }
            WatchUpdate::Listed(pod) | WatchUpdate::Applied(pod) => self.insert(index, pod, now),
            WatchUpdate::Deleted(pod) => {
                let uid = uid(&pod);
                if let Some(listed) = &mut list.listed {
                    listed.remove(&uid);
                }
                self.remove(uid);
            }
            WatchUpdate::Behind => list.is_behind = true,
            WatchUpdate::CaughtUp => list.is_behind = false,
            WatchUpdate::Denied(message) => list.denial = Some(message),
            WatchUpdate::Failed(message) => list.failure = Some(message),
            WatchUpdate::WentBack => list.failure = Some(WENT_BACK.to_owned()),
        }
    }

    fn remove(&mut self, uid: Uid) -> Option<Known> {
        let known = self.known.remove(&uid)?;
        self.suspects -= usize::from(matches!(known.state, State::Suspect(_)));
        Some(known)
    }

    fn insert(&mut self, index: usize, watched: WatchedPod, now: Timestamp) {
        let uid = uid(&watched);
        let before = self.remove(uid);
        let Filter { namespaces, selector } = &mut self.filter;
        let state = match watched.pod {
            Ok(mut pod) => {
                let labels = pod.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
                if !(namespaces.selects(&pod.namespace) && selector.matches(labels)) {
                    return;
                }
                let before = before.as_ref().and_then(|known| match &known.state {
                    State::Suspect(pod) => Some(&**pod),
                    _ => None,
                });
                pod.update_history(before, now);
                let is_healthy = is_healthy_under_any_thresholds(&pod, self.thresholds.restarted, now);
                if is_healthy {
                    self.replacements.add(&pod);
                }
                if pod.ignored || is_healthy {
                    State::Healthy
                } else if self.suspects >= SUSPECTS {
                    State::WithoutRoom
                } else {
                    self.suspects += 1;
                    State::Suspect(pod)
                }
            }
            Err(pod) if !namespaces.selects(&pod.namespace) => return,
            Err(_) => State::Undecodable,
        };
        self.known.insert(uid, Known { list: index, state });
        if let Some(listed) = self.lists.get_mut(index).and_then(|list| list.listed.as_mut()) {
            listed.insert(uid);
        }
    }

    /// Forgets the details of pods that became healthy with the passing of time.
    pub(super) fn compact(&mut self, now: Timestamp) {
        for known in self.known.values_mut() {
            if let State::Suspect(pod) = &known.state
                && is_healthy_under_any_thresholds(pod, self.thresholds.restarted, now)
            {
                self.replacements.add(pod);
                self.suspects -= 1;
                known.state = State::Healthy;
            }
        }
    }

    /// Assesses all suspects. `jobs` returns what a Job says, if it was read.
    pub(super) fn judge(&self, jobs: FindJob<'_>, now: Timestamp) -> Judged {
        let mut judged = Judged { pods: self.known.len() as u64, ..Judged::default() };
        let world = Watched { pods: self, jobs, needed: RefCell::default() };
        for Known { state, .. } in self.known.values() {
            match state {
                State::Healthy => {}
                State::Undecodable => judged.undecodable += 1,
                State::WithoutRoom => judged.without_room += 1,
                State::Suspect(pod) => {
                    let verdict = assess(pod, &world, &self.thresholds, now);
                    judged.recheck = judged.recheck.into_iter().chain(verdict.recheck).min();
                    match verdict.health {
                        // Only its Job shows whether it is a problem.
                        Health::Problem(_) if verdict.lacks_job => judged.unjudged += 1,
                        Health::Problem(finding) => judged.problems.push(((**pod).clone(), *finding)),
                        Health::Healthy | Health::Settling => {}
                    }
                }
            }
        }
        judged.needed_jobs = world.needed.into_inner();
        // Pods that cannot be decoded were not checked.
        judged.pods -= judged.undecodable;
        judged.problems.sort_by(|(a, _), (b, _)| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        judged
    }
}

type FindJob<'a> = &'a dyn Fn(&JobKey) -> Option<Arc<JobFacts>>;

/// What the watches have shown, and the Jobs that were read.
struct Watched<'a> {
    pods: &'a Pods,
    jobs: FindJob<'a>,
    /// The Jobs that were asked for.
    needed: RefCell<HashSet<JobKey>>,
}

impl World for Watched<'_> {
    fn is_replaced(&self, pod: &Pod) -> bool {
        self.pods.replacements.has_replaced(pod)
    }

    fn job(&self, pod: &Pod, job: &Controller) -> Option<Arc<JobFacts>> {
        let key = JobKey::new(pod, job);
        let facts = (self.jobs)(&key);
        self.needed.borrow_mut().insert(key);
        facts
    }

    fn events(&self, pod: &Pod) -> Arc<[Event]> {
        self.pods.events.about(pod)
    }
}

fn uid(watched: &WatchedPod) -> Uid {
    match &watched.pod {
        Ok(pod) => pod.uid,
        Err(pod) => pod.uid,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        super::super::{namespaces::Namespaces, selector::LabelSelector},
        *,
    };
    use crate::pods::{DecodeError, UndecodablePod};

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn pods(selector: &str) -> Pods {
        let namespaces = Namespaces::new(&["shop".to_owned()]).unwrap();
        let filter = Filter { namespaces, selector: LabelSelector::new(selector).unwrap() };
        Pods::new(Thresholds::default(), filter, 1)
    }

    fn watched(name: &str, changes: Value) -> WatchedPod {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "cart"}},
            "spec": {"containers": [{"name": "app", "image": "a"}]},
            "status": {"phase": "Succeeded"},
        });
        for (field, value) in changes.as_object().unwrap() {
            *pod.pointer_mut(field).unwrap() = value.clone();
        }
        let pod = crate::pods::from_json(&pod.to_string()).unwrap();
        WatchedPod { pod: Ok(Box::new(pod)), resource_version: "1".to_owned() }
    }

    fn failed() -> Value {
        json!({"/status": {"phase": "Failed", "reason": "Evicted"}})
    }

    /// The number of pods, and the names of those with a problem.
    fn seen(pods: &Pods) -> (u64, String) {
        let judged = pods.judge(&|_| None, now());
        let names: Vec<_> = judged.problems.iter().map(|(pod, _)| pod.name.to_string()).collect();
        (judged.pods, names.join(" "))
    }

    #[test]
    fn follows_lists_and_changes() {
        let mut pods = pods("app=cart");
        let mut apply = |update, expected: (u64, &str), is_synced: bool| {
            pods.apply(0, update, now());
            assert_eq!((seen(&pods), pods.is_synced()), ((expected.0, expected.1.to_owned()), is_synced));
        };
        apply(WatchUpdate::Relisting, (0, ""), false);
        apply(WatchUpdate::Listed(watched("b", failed())), (1, "b"), false);
        apply(WatchUpdate::Listed(watched("a", failed())), (2, "a b"), false);
        apply(WatchUpdate::Listed(watched("other", json!({"/metadata/namespace": "bank"}))), (2, "a b"), false);
        apply(WatchUpdate::Synced, (2, "a b"), true);
        apply(WatchUpdate::Applied(watched("c", json!({}))), (3, "a b"), true);
        apply(WatchUpdate::Applied(watched("a", json!({}))), (3, "b"), true);
        apply(WatchUpdate::Applied(watched("c", failed())), (3, "b c"), true);
        apply(WatchUpdate::Deleted(watched("b", failed())), (2, "c"), true);
        // Its labels have changed.
        apply(WatchUpdate::Applied(watched("c", json!({"/metadata/labels": {}}))), (1, ""), true);
        // What a later list does not contain was deleted in between.
        apply(WatchUpdate::Applied(watched("d", failed())), (2, "d"), true);
        apply(WatchUpdate::Relisting, (2, "d"), true);
        apply(WatchUpdate::Listed(watched("e", json!({}))), (3, "d"), true);
        apply(WatchUpdate::Synced, (1, ""), true);
        assert_eq!(pods.suspects, 0);
    }

    #[test]
    fn an_outage_lasts_until_the_missed_changes_are_read() {
        let mut pods = pods("");
        let mut apply = |update, expected: Option<&str>| {
            pods.apply(0, update, now());
            assert_eq!(pods.failure(), expected);
        };
        apply(WatchUpdate::Denied("no".to_owned()), Some("no"));
        apply(WatchUpdate::Relisting, None);
        apply(WatchUpdate::Synced, None);
        apply(WatchUpdate::Failed("refused".to_owned()), Some("refused"));
        apply(WatchUpdate::Behind, Some("missed changes are still being read"));
        apply(WatchUpdate::CaughtUp, None);
        // A new list replaces the known pods only when it is complete.
        apply(WatchUpdate::Failed("refused".to_owned()), Some("refused"));
        apply(WatchUpdate::Relisting, Some("missed changes are still being read"));
        apply(WatchUpdate::Listed(watched("a", failed())), Some("missed changes are still being read"));
        apply(WatchUpdate::Failed("reset".to_owned()), Some("reset"));
        apply(WatchUpdate::Relisting, Some("missed changes are still being read"));
        apply(WatchUpdate::Synced, None);
        apply(WatchUpdate::Denied("no".to_owned()), Some("no"));
        // Only what is forbidden from the beginning is an error.
        assert_eq!(pods.denial(), None);
    }

    #[test]
    fn counts_pods_that_cannot_be_judged() {
        let mut pods = pods("");
        let undecodable = UndecodablePod {
            uid: Uid::from_text("x"),
            namespace: "shop".to_owned(),
            name: "x".to_owned(),
            error: DecodeError::TooLarge,
        };
        let watched_one = WatchedPod { pod: Err(undecodable), resource_version: "1".to_owned() };
        pods.apply(0, WatchUpdate::Applied(watched_one), now());
        pods.suspects = SUSPECTS;
        pods.apply(0, WatchUpdate::Applied(watched("a", failed())), now());
        let judged = pods.judge(&|_| None, now());
        assert_eq!((judged.pods, judged.undecodable, judged.without_room, judged.problems.len()), (1, 1, 1, 0));
    }

    #[test]
    fn a_failed_pod_of_a_job_waits_for_its_job() {
        let mut pods = pods("");
        let mut owned = watched("a", failed());
        if let Ok(pod) = &mut owned.pod {
            let owner =
                json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "sums", "uid": "j", "controller": true}]);
            let metadata = json!({"metadata": {"name": "a", "namespace": "shop", "ownerReferences": owner}});
            pod.controller = crate::pods::from_json(&metadata.to_string()).unwrap().controller;
        }
        pods.apply(0, WatchUpdate::Applied(owned), now());
        let problems = |known: Option<JobFacts>| {
            let known = known.map(Arc::new);
            let judged = pods.judge(&|job| known.clone().filter(|_| job.uid == "j"), now());
            assert_eq!(judged.needed_jobs.len(), 1);
            (judged.problems.len(), judged.is_complete())
        };
        assert_eq!(problems(None), (0, false), "it is not read yet");
        assert_eq!(problems(Some(JobFacts::default())), (1, true));
        assert_eq!(problems(Some(JobFacts { complete: true, ..JobFacts::default() })), (0, true));
    }
}
