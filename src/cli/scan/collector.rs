//! The pods that lists, watches and files have shown, and what is wrong with them. Pure, apart from the reads of the view.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, Job};

use crate::{
    api::Ownership,
    cli::live::{ClusterView, Listing},
    diagnosis::{Finding, Health, JobFacts, Thresholds, assess, needs_job},
    jobs::JobKey,
    pods::{Pod, Uid, WatchedPod},
    watch::WatchUpdate,
};

use super::{namespaces::Namespaces, selector::LabelSelector};

/// How many pods that cannot be decoded are named.
const NAMED: usize = 3;
/// How many pods that may have a problem `--watch` keeps. Those beyond are counted.
const SUSPECTS: usize = 20_000;

/// Which pods to check.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) namespaces: Namespaces,
    pub(super) selector: LabelSelector,
}

/// The pods that `--since` leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Older {
    pub(super) pods: usize,
    pub(super) since: Duration,
}

/// What is kept of a pod that is checked.
enum State {
    /// Healthy until its next change.
    Healthy,
    Suspect(Box<Pod>),
    Undecodable,
    WithoutRoom,
}

#[derive(Default)]
pub(super) struct Collector {
    /// The cluster or file that the objects come from, for a page that others read.
    pub(super) source: String,
    thresholds: Thresholds,
    now: Timestamp,
    filter: Filter,
    /// What verdicts depend on besides the pods.
    pub(super) view: ClusterView,
    /// One for each namespace that is watched, or one for all. A single scan keeps only its suspects, in the first.
    lists: Vec<Listing<Uid, State>>,
    /// Whether a failed pod is judged only when its Job was read. For a single scan it is a problem until then.
    awaits_jobs: bool,
    /// How many of the pods in the lists are suspects.
    suspects: usize,

    /// Of a single scan: the healthy pods, those that the filter excludes, and how many are on each node.
    healthy: u64,
    excluded: u64,
    nodes: HashMap<Box<str>, u64>,
    unreadable: u64,
    /// `namespace/name` of the first [`NAMED`] that could not be decoded.
    pub(super) undecodable_names: Vec<String>,
    /// Objects of other kinds.
    pub(super) other_objects: u64,
    /// The kind of the first of them.
    pub(super) other_kind: Option<String>,
    /// How many of them say nothing about pods, and the kind of the first.
    pub(super) skipped: Option<(u64, String)>,
    /// Of a file: the Jobs that have failed, and the CronJobs by UID.
    failed_runs: Vec<Job>,
    cron_jobs: HashMap<String, CronJob>,
    /// The annotations of namespaces that say how severe their problems are and who is responsible.
    pub(super) ownership: HashMap<String, Ownership>,

    // The result of the last judgement.
    /// Pods that were checked.
    pub(super) pods: u64,
    pub(super) problems: Vec<(Pod, Finding)>,
    /// Pods that could not be decoded.
    pub(super) undecodable: u64,
    /// Pods that could not be judged because too many may have a problem.
    pub(super) without_room: u64,
    /// Failed pods that are not judged before their Jobs are read.
    pub(super) unjudged: u64,
    /// When the result may change without a change of a pod.
    pub(super) recheck: Option<Timestamp>,
    /// Pods that were left out of the problems because these began before `--since`, and how long ago that is.
    pub(super) older: Option<Older>,
}

impl Collector {
    /// A collector of what a list or a file shows.
    pub(super) fn new(view: ClusterView, thresholds: Thresholds, now: Timestamp, filter: Filter) -> Self {
        Self { view, thresholds, now, filter, lists: vec![Listing::default()], ..Self::default() }
    }

    /// A collector of what so many watches show.
    pub(super) fn of_watches(watches: usize, view: ClusterView, thresholds: Thresholds, filter: Filter) -> Self {
        let lists = (0..watches).map(|_| Listing::default()).collect();
        Self { view, thresholds, filter, lists, awaits_jobs: true, ..Self::default() }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Sets the time as of which pods are checked.
    pub(super) fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    pub(super) fn namespaces(&self) -> &Namespaces {
        &self.filter.namespaces
    }

    /// How many of the pods that were checked are on a node.
    pub(super) fn pods_on_node(&self, node: &str) -> u64 {
        self.nodes.get(node).copied().unwrap_or_default()
    }

    /// How many objects of any kind were read.
    pub(super) fn objects(&self) -> u64 {
        self.healthy + self.suspects as u64 + self.excluded + self.unreadable + self.other_objects
    }

    /// Adds a pod of a list or file.
    pub(super) fn add_pod(&mut self, mut pod: Pod) {
        pod.update_history(None, self.now);
        let is_healthy = self.view.see_pod(&pod, self.thresholds.restarted, self.now);
        if !self.filter.selects(&pod) {
            self.excluded += 1;
            return;
        }
        if !pod.node.is_empty() {
            *self.nodes.entry(Box::from(&*pod.node)).or_default() += 1;
        }
        if is_healthy || pod.ignored {
            self.healthy += 1;
        } else if let Some(list) = self.lists.first_mut() {
            // In a file, several pods may have the same UID, or none.
            list.insert(Uid::from(self.suspects as u128), pod, |_, pod| Some(State::Suspect(Box::new(pod))));
            self.suspects += 1;
        }
    }

    /// Counts a pod that cannot be decoded, unless the filter excludes its namespace or labels. An absent namespace or
    /// absent labels could not be decoded either, and are not excluded.
    pub(super) fn add_undecodable(
        &mut self,
        namespace: Option<&str>,
        name: &str,
        labels: Option<&BTreeMap<String, String>>,
    ) {
        if !namespace.is_none_or(|namespace| self.filter.namespaces.selects(namespace))
            || !labels
                .is_none_or(|labels| self.filter.selector.matches(labels.iter().map(|(key, value)| (&**key, &**value))))
        {
            self.excluded += 1;
            return;
        }
        self.unreadable += 1;
        if self.undecodable_names.len() < NAMED {
            self.undecodable_names.push(format!("{}/{name}", namespace.unwrap_or_default()));
        }
    }

    /// Counts an object that is not a pod, and that may say something about pods, as a Job does.
    pub(super) fn add_other_object(&mut self, kind: &str, is_used: bool) {
        self.other_objects += 1;
        self.other_kind.get_or_insert_with(|| kind.to_owned());
        if !is_used {
            self.skipped.get_or_insert_with(|| (0, kind.to_owned())).0 += 1;
        }
    }

    /// Keeps the Job of a file.
    pub(super) fn add_job(&mut self, job: Job) {
        let facts = JobFacts::of(&job);
        let is_failed_run = facts.failed.is_some() && facts.cron_job.is_some();
        self.view.show_job(JobKey::of(&job), facts);
        if is_failed_run {
            self.failed_runs.push(Job { spec: None, ..job });
        }
    }

    /// Keeps the CronJob of a file.
    pub(super) fn add_cron_job(&mut self, cron_job: CronJob) {
        self.cron_jobs.insert(cron_job.metadata.uid.clone().unwrap_or_default(), cron_job);
    }

    /// All objects of a file were read: its CronJobs decide about their failed Jobs.
    pub(super) fn apply_cron_jobs(&mut self) {
        for job in mem::take(&mut self.failed_runs) {
            let owners = job.metadata.owner_references.iter().flatten();
            if let Some(cron_job) = owners.filter_map(|owner| self.cron_jobs.get(&owner.uid)).next() {
                let mut facts = JobFacts::of(&job);
                facts.add_cron_job(&job, cron_job);
                self.view.show_job(JobKey::of(&job), facts);
            }
        }
    }

    /// Whether all pods have been listed once.
    pub(super) fn is_synced(&self) -> bool {
        self.lists.iter().all(Listing::is_synced)
    }

    /// Why what is known may be outdated.
    pub(super) fn failure(&self) -> Option<&str> {
        self.error().or_else(|| self.lists.iter().find_map(Listing::failure))
    }

    /// Why the API server cannot be asked.
    pub(super) fn error(&self) -> Option<&str> {
        self.lists.iter().find_map(Listing::error)
    }

    /// The first list that has always been forbidden, and the message of the API server.
    pub(super) fn denial(&self) -> Option<(usize, &str)> {
        self.lists.iter().enumerate().find_map(|(index, list)| Some((index, list.denial()?)))
    }

    /// Applies an update of a watch.
    pub(super) fn apply(&mut self, index: usize, update: WatchUpdate<WatchedPod>) {
        let Self { thresholds, filter, lists, suspects, view, now, .. } = self;
        let Some(list) = lists.get_mut(index) else { return };
        let is_synced = matches!(update, WatchUpdate::Synced);
        if let WatchUpdate::Deleted(pod) = &update {
            view.forget_pod(pod.uid());
        }
        let deleted = list.apply(update, WatchedPod::uid, |before, watched| {
            let before = match before {
                Some(State::Suspect(pod)) => {
                    *suspects -= 1;
                    Some(pod)
                }
                _ => None,
            };
            let mut pod = match watched.pod {
                Ok(pod) => pod,
                Err(pod) => return filter.namespaces.selects(&pod.namespace).then_some(State::Undecodable),
            };
            if !filter.selects(&pod) {
                return None;
            }
            pod.update_history(before.as_deref(), *now);
            Some(if view.see_pod(&pod, thresholds.restarted, *now) || pod.ignored {
                State::Healthy
            } else if *suspects >= SUSPECTS {
                State::WithoutRoom
            } else {
                *suspects += 1;
                State::Suspect(pod)
            })
        });
        if matches!(deleted, Some(State::Suspect(_))) {
            self.suspects -= 1;
        }
        if is_synced {
            self.count_suspects();
        }
    }

    fn count_suspects(&mut self) {
        let states = self.lists.iter().flat_map(Listing::objects);
        self.suspects = states.filter(|state| matches!(state, State::Suspect(_))).count();
    }

    /// Forgets the details of pods that became healthy with the passing of time.
    pub(super) fn compact(&mut self) {
        for state in self.lists.iter_mut().flat_map(Listing::objects_mut) {
            if let State::Suspect(pod) = state
                && self.view.see_pod(pod, self.thresholds.restarted, self.now)
            {
                *state = State::Healthy;
            }
        }
        self.count_suspects();
    }

    /// Judges all suspects by what is known now.
    pub(super) fn judge(&mut self) {
        (self.pods, self.undecodable) = (self.healthy, self.unreadable);
        (self.without_room, self.unjudged, self.recheck) = (0, 0, None);
        self.problems.clear();
        for state in self.lists.iter().flat_map(Listing::objects) {
            self.pods += u64::from(!matches!(state, State::Undecodable));
            match state {
                State::Healthy => {}
                State::Undecodable => self.undecodable += 1,
                State::WithoutRoom => self.without_room += 1,
                State::Suspect(pod) => {
                    let verdict = assess(pod, &self.view.awaiting_jobs(), &self.thresholds, self.now);
                    self.recheck = self.recheck.into_iter().chain(verdict.recheck).min();
                    match verdict.health {
                        // Only its Job shows whether it is a problem.
                        Health::Problem(_) if verdict.lacks_job && self.awaits_jobs => self.unjudged += 1,
                        Health::Problem(finding) => self.problems.push(((**pod).clone(), *finding)),
                        Health::Healthy | Health::Settling => {}
                    }
                }
            }
        }
        self.problems.sort_by(|(a, _), (b, _)| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    }

    /// Whether all pods were judged.
    pub(super) fn is_complete(&self) -> bool {
        self.undecodable == 0 && self.without_room == 0 && self.unjudged == 0
    }

    /// The health of a pod, whether or not it was added, by what has been read so far.
    pub(super) fn assess(&self, pod: &Pod) -> Health {
        assess(pod, &self.view.as_known(), &self.thresholds, self.now).health
    }

    /// The Jobs that decide whether a failed pod is a problem.
    pub(super) fn needed_jobs(&self) -> HashSet<JobKey> {
        self.problems.iter().filter_map(|(pod, _)| Some(JobKey::new(pod, needs_job(pod)?))).collect()
    }

    /// The namespaces with problems, and how many pods with a problem each has.
    pub(super) fn troubled_namespaces(&self) -> BTreeMap<String, usize> {
        let mut namespaces = BTreeMap::new();
        for (pod, _) in &self.problems {
            *namespaces.entry(pod.namespace.to_string()).or_default() += 1;
        }
        namespaces
    }

    /// Leaves out the pods whose problems have lasted for longer than this, and counts them.
    pub(super) fn leave_out_older(&mut self, since: Duration) {
        let limit = SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX);
        let (all, now) = (self.problems.len(), self.now);
        self.problems.retain(|(_, finding)| now.duration_since(finding.since) <= limit);
        self.older = Some(Older { pods: all - self.problems.len(), since });
    }

    /// How many pods have problems that began before `--since`.
    pub(super) fn older_pods(&self) -> usize {
        self.older.map_or(0, |older| older.pods)
    }
}

impl Filter {
    /// Whether to check a pod. Marks the names and patterns of namespaces that match it.
    fn selects(&mut self, pod: &Pod) -> bool {
        let labels = pod.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        self.namespaces.selects(&pod.namespace) && self.selector.matches(labels)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        diagnosis::JobFacts,
        jobs::JobKey,
        pods::{DecodeError, UndecodablePod},
    };

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn pods(selector: &str) -> Collector {
        let namespaces = Namespaces::new(&["shop".to_owned()]).unwrap();
        let filter = Filter { namespaces, selector: LabelSelector::new(selector).unwrap() };
        let mut pods = Collector::of_watches(1, ClusterView::default(), Thresholds::default(), filter);
        pods.set_now(now());
        pods
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
        WatchedPod { pod: Ok(Box::new(pod)) }
    }

    fn failed() -> Value {
        json!({"/status": {"phase": "Failed", "reason": "Evicted"}})
    }

    /// The number of pods, and the names of those with a problem.
    fn seen(pods: &mut Collector) -> (u64, String) {
        pods.judge();
        let names: Vec<_> = pods.problems.iter().map(|(pod, _)| pod.name.to_string()).collect();
        (pods.pods, names.join(" "))
    }

    #[test]
    fn follows_lists_and_changes() {
        let mut pods = pods("app=cart");
        let mut apply = |update, expected: (u64, &str), is_synced: bool| {
            pods.apply(0, update);
            assert_eq!((seen(&mut pods), pods.is_synced()), ((expected.0, expected.1.to_owned()), is_synced));
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
            pods.apply(0, update);
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
        let watched_one = WatchedPod { pod: Err(undecodable) };
        pods.apply(0, WatchUpdate::Applied(watched_one));
        pods.suspects = SUSPECTS;
        pods.apply(0, WatchUpdate::Applied(watched("a", failed())));
        pods.judge();
        assert_eq!((pods.pods, pods.undecodable, pods.without_room, pods.problems.len()), (1, 1, 1, 0));
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
        pods.apply(0, WatchUpdate::Applied(owned));
        let mut problems = |known: Option<JobFacts>| {
            let key = JobKey { namespace: "shop".to_owned(), name: "sums".to_owned(), uid: "j".to_owned() };
            known.into_iter().for_each(|facts| pods.view.show_job(key.clone(), facts));
            pods.judge();
            (pods.problems.len(), pods.is_complete())
        };
        assert_eq!(problems(None), (0, false), "it is not read yet");
        assert_eq!(problems(Some(JobFacts::default())), (1, true));
        assert_eq!(problems(Some(JobFacts { complete: true, ..JobFacts::default() })), (0, true));
    }
}
