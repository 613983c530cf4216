//! The pods that the watches have shown. Pure.

use jiff::Timestamp;

use crate::{
    cli::live::{ClusterView, Listing},
    diagnosis::{Finding, Health, Thresholds, assess},
    pods::{Pod, Uid, WatchedPod},
    watch::WatchUpdate,
};

use super::super::{collector::Filter, namespaces::Namespaces};

/// How many pods that may have a problem are kept. Those beyond are counted.
const SUSPECTS: usize = 20_000;

pub(super) struct Pods {
    thresholds: Thresholds,
    filter: Filter,
    /// One for each namespace, or one for all.
    lists: Vec<Listing<Uid, State>>,
    /// How many of the pods are suspects.
    suspects: usize,
    /// What verdicts depend on besides the pods.
    pub(super) view: ClusterView,
}

/// What is kept of a pod that is counted.
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
    pub(super) fn new(thresholds: Thresholds, filter: Filter, lists: usize, view: ClusterView) -> Self {
        let lists = (0..lists).map(|_| Listing::default()).collect();
        Self { thresholds, filter, lists, suspects: 0, view }
    }

    pub(super) fn namespaces(&self) -> &Namespaces {
        &self.filter.namespaces
    }

    /// Whether all pods have been listed once.
    pub(super) fn is_synced(&self) -> bool {
        self.lists.iter().all(Listing::is_synced)
    }

    /// Why the API server cannot be asked.
    pub(super) fn failure(&self) -> Option<&str> {
        self.lists.iter().find_map(Listing::failure)
    }

    /// The first list that has always been forbidden, and the message of the API server.
    pub(super) fn denial(&self) -> Option<(usize, &str)> {
        self.lists.iter().enumerate().find_map(|(index, list)| Some((index, list.denial()?)))
    }

    pub(super) fn apply(&mut self, index: usize, update: WatchUpdate<WatchedPod>, now: Timestamp) {
        let Self { thresholds, filter, lists, suspects, view } = self;
        let Some(list) = lists.get_mut(index) else { return };
        let may_remove = matches!(update, WatchUpdate::Deleted(_) | WatchUpdate::Synced);
        list.apply(update, WatchedPod::uid, |before, watched| {
            let before = match before {
                Some(State::Suspect(pod)) => {
                    *suspects -= 1;
                    Some(pod)
                }
                _ => None,
            };
            let Filter { namespaces, selector } = filter;
            let mut pod = match watched.pod {
                Ok(pod) => pod,
                Err(pod) => return namespaces.selects(&pod.namespace).then_some(State::Undecodable),
            };
            let labels = pod.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            if !(namespaces.selects(&pod.namespace) && selector.matches(labels)) {
                return None;
            }
            pod.update_history(before.as_deref(), now);
            Some(if view.see_pod(&pod, thresholds.restarted, now) || pod.ignored {
                State::Healthy
            } else if *suspects >= SUSPECTS {
                State::WithoutRoom
            } else {
                *suspects += 1;
                State::Suspect(pod)
            })
        });
        if may_remove {
            self.count_suspects();
        }
    }

    fn count_suspects(&mut self) {
        let states = self.lists.iter().flat_map(Listing::objects);
        self.suspects = states.filter(|state| matches!(state, State::Suspect(_))).count();
    }

    /// Forgets the details of pods that became healthy with the passing of time.
    pub(super) fn compact(&mut self, now: Timestamp) {
        for state in self.lists.iter_mut().flat_map(Listing::objects_mut) {
            if let State::Suspect(pod) = state
                && self.view.see_pod(pod, self.thresholds.restarted, now)
            {
                *state = State::Healthy;
            }
        }
        self.count_suspects();
    }

    /// Assesses all suspects.
    pub(super) fn judge(&self, now: Timestamp) -> Judged {
        let mut judged = Judged::default();
        for state in self.lists.iter().flat_map(Listing::objects) {
            judged.pods += 1;
            match state {
                State::Healthy => {}
                State::Undecodable => judged.undecodable += 1,
                State::WithoutRoom => judged.without_room += 1,
                State::Suspect(pod) => {
                    let verdict = assess(pod, &self.view.awaiting_jobs(), &self.thresholds, now);
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
        // Pods that cannot be decoded were not checked.
        judged.pods -= judged.undecodable;
        judged.problems.sort_by(|(a, _), (b, _)| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        judged
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        super::super::{namespaces::Namespaces, selector::LabelSelector},
        *,
    };
    use crate::{
        diagnosis::JobFacts,
        jobs::JobKey,
        pods::{DecodeError, UndecodablePod},
    };

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn pods(selector: &str) -> Pods {
        let namespaces = Namespaces::new(&["shop".to_owned()]).unwrap();
        let filter = Filter { namespaces, selector: LabelSelector::new(selector).unwrap() };
        Pods::new(Thresholds::default(), filter, 1, ClusterView::default())
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
        let judged = pods.judge(now());
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
        let judged = pods.judge(now());
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
        let mut problems = |known: Option<JobFacts>| {
            let key = JobKey { namespace: "shop".to_owned(), name: "sums".to_owned(), uid: "j".to_owned() };
            known.into_iter().for_each(|facts| pods.view.show_job(key.clone(), facts));
            let judged = pods.judge(now());
            (judged.problems.len(), judged.is_complete())
        };
        assert_eq!(problems(None), (0, false), "it is not read yet");
        assert_eq!(problems(Some(JobFacts::default())), (1, true));
        assert_eq!(problems(Some(JobFacts { complete: true, ..JobFacts::default() })), (0, true));
    }
}
