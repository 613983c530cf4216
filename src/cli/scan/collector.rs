//! The pods that lists, watches and files have shown, and what is wrong with them. Pure, apart from the reads of the view.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::Ownership,
    cli::live::{ClusterView, WatchState},
    diagnosis::{Finding, Health, Thresholds, assess, needs_job},
    facts::JobKey,
    pods::{DecodeError, Pod, Uid, WatchedPod},
    watch::WatchUpdate,
};

use super::{filter::Filter, objects::FileObjects};

/// How many pods that cannot be decoded are named.
const NAMED: usize = 3;

/// The pods that `--since` leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Older {
    pub(super) pods: usize,
    pub(super) since: Duration,
}

#[derive(Default)]
pub(super) struct Collector {
    /// The cluster or file that the objects come from, for a page that others read.
    pub(super) source: String,
    thresholds: Thresholds,
    /// The time as of which pods are checked.
    pub(super) now: Timestamp,
    pub(super) filter: Filter,
    /// The pods, and what verdicts about them depend on.
    pub(super) view: ClusterView,
    /// The namespace of each watch, or none for a watch of all, and its state.
    watches: Vec<(Option<String>, WatchState)>,
    /// What a file has besides pods.
    pub(super) file: Option<FileObjects>,

    /// How many objects of a list or file were read.
    pub(super) objects: u64,
    /// Of these, the pods that could not be decoded, and `namespace/name` of the first [`NAMED`].
    unreadable: u64,
    pub(super) undecodable_names: Vec<String>,
    /// Objects of other kinds.
    pub(super) other_objects: u64,
    /// The kind of the first of them.
    pub(super) other_kind: Option<String>,
    /// How many of them say nothing about pods, and the kind of the first.
    pub(super) skipped: Option<(u64, String)>,
    /// The annotations of namespaces that say how severe their problems are and who is responsible.
    pub(super) ownership: HashMap<String, Ownership>,

    // The result of the last judgement.
    /// Pods that were checked.
    pub(super) pods: u64,
    pub(super) problems: Vec<(Pod, Finding)>,
    /// Pods that could not be decoded, or for which there is no room.
    pub(super) undecodable: u64,
    /// How many of these are left out because the pods that may have a problem take too much memory.
    pub(super) without_room: u64,
    /// Failed pods that are not judged before their Jobs are read.
    pub(super) unjudged: u64,
    /// When the result may change without a change of a pod.
    pub(super) recheck: Option<Timestamp>,
    /// Pods that were left out of the problems because these began before `--since`, and how long ago that is.
    pub(super) older: Option<Older>,
}

impl Collector {
    /// A collector of what a list shows.
    pub(super) fn new(view: ClusterView, thresholds: Thresholds, now: Timestamp, filter: Filter) -> Self {
        Self { view, thresholds, now, filter, ..Self::default() }
    }

    /// A collector of what a file shows.
    pub(super) fn of_file(thresholds: Thresholds, now: Timestamp, filter: Filter) -> Self {
        let view = ClusterView::new(thresholds.restarted);
        Self { file: Some(FileObjects::default()), ..Self::new(view, thresholds, now, filter) }
    }

    /// A collector of what the watches of these namespaces show, or that of all.
    pub(super) fn of_watches(
        scopes: &[Option<String>],
        view: ClusterView,
        thresholds: Thresholds,
        filter: Filter,
    ) -> Self {
        let watches = scopes.iter().map(|scope| (scope.clone(), WatchState::default())).collect();
        Self { watches, ..Self::new(view, thresholds, Timestamp::UNIX_EPOCH, filter) }
    }

    /// Adds a pod of a list or file.
    pub(super) fn add_pod(&mut self, mut pod: Pod) {
        self.objects += 1;
        // In a file, several pods may have the same UID, or none.
        if self.file.is_some() && (pod.uid == Uid::default() || self.view.index.contains(pod.uid)) {
            pod.uid = Uid::from((u128::MAX << u64::BITS) + u128::from(self.objects));
        }
        self.see_pod(pod);
    }

    fn see_pod(&mut self, pod: Pod) {
        if self.filter.selects(&pod) {
            self.view.see_pod(pod, self.now);
        } else {
            self.view.forget_pod(pod.uid);
            // It may use a port that a pod requires.
            self.view.index.see_outside(&pod);
        }
    }

    /// Counts a pod that cannot be decoded, unless the filter excludes its namespace or labels. An absent namespace or
    /// absent labels could not be decoded either, and are not excluded.
    pub(super) fn add_undecodable(
        &mut self,
        namespace: Option<&str>,
        name: &str,
        labels: Option<BTreeMap<String, String>>,
    ) {
        self.objects += 1;
        let labels: Option<Vec<_>> = labels.map(|labels| labels.into_iter().collect());
        if !namespace.is_none_or(|namespace| self.filter.namespaces.selects(namespace))
            || !labels.is_none_or(|labels| self.filter.selector.matches(&labels))
        {
            return;
        }
        self.unreadable += 1;
        if self.undecodable_names.len() < NAMED {
            self.undecodable_names.push(format!("{}/{name}", namespace.unwrap_or_default()));
        }
    }

    /// Counts an object that is not a pod, and that may say something about pods, as a Job does.
    pub(super) fn add_other_object(&mut self, kind: &str, is_used: bool) {
        self.objects += 1;
        self.other_objects += 1;
        self.other_kind.get_or_insert_with(|| kind.to_owned());
        if !is_used {
            self.skipped.get_or_insert_with(|| (0, kind.to_owned())).0 += 1;
        }
    }

    /// Whether all pods have been listed once.
    pub(super) fn is_synced(&self) -> bool {
        self.watches.iter().all(|(_, state)| state.is_synced())
    }

    /// Why what is known may be outdated.
    pub(super) fn failure(&self) -> Option<&str> {
        self.error().or_else(|| self.watches.iter().find_map(|(_, state)| state.failure()))
    }

    /// Why the API server cannot be asked.
    pub(super) fn error(&self) -> Option<&str> {
        self.watches.iter().find_map(|(_, state)| state.error())
    }

    /// The namespace of the first watch that has always been forbidden, and the message of the API server.
    pub(super) fn denial(&self) -> Option<(Option<&str>, &str)> {
        self.watches.iter().find_map(|(scope, state)| Some((scope.as_deref(), state.denial()?)))
    }

    /// Applies an update of a watch.
    pub(super) fn apply(&mut self, index: usize, update: WatchUpdate<WatchedPod>) {
        let Some((scope, state)) = self.watches.get_mut(index) else { return };
        state.apply(&update);
        match update {
            WatchUpdate::Relisting => self.view.index.begin_list(scope.as_deref()),
            WatchUpdate::Synced => _ = self.view.index.end_list(scope.as_deref()),
            WatchUpdate::WentBack => self.view.index.went_back(),
            WatchUpdate::Deleted(pod) => self.view.forget_pod(pod.uid()),
            WatchUpdate::Listed(watched) | WatchUpdate::Applied(watched) => match watched.pod {
                Ok(pod) => self.see_pod(*pod),
                Err(pod) if self.filter.namespaces.selects(&pod.namespace) => {
                    _ = self.view.index.insert_undecodable(pod);
                }
                Err(_) => {}
            },
            WatchUpdate::Behind | WatchUpdate::CaughtUp | WatchUpdate::Denied(_) | WatchUpdate::Failed(_) => {}
        }
    }

    /// Judges all pods by what is known now.
    pub(super) fn judge(&mut self) {
        self.judge_suspects();
        // What verdicts depend on may itself depend on what the file says.
        while let Some(file) = &self.file
            && self.view.answer(|question| file.answer(question))
        {
            self.judge_suspects();
        }
    }

    fn judge_suspects(&mut self) {
        let Self { view, thresholds, now, watches, .. } = self;
        let unjudged = view.index.undecodable(view.all);
        self.pods = view.index.watched(view.all);
        self.undecodable = self.unreadable + unjudged.map_or(0, |(count, _)| count);
        let without_room = unjudged.filter(|(_, first)| first.error == DecodeError::NoRoom);
        self.without_room = without_room.map_or(0, |(count, _)| count);
        (self.unjudged, self.recheck) = (0, None);
        self.problems.clear();
        let world = view.awaiting_jobs();
        for pod in view.index.suspects(view.all).filter(|pod| !pod.ignored) {
            let verdict = assess(pod, &world, thresholds, *now);
            self.recheck = self.recheck.into_iter().chain(verdict.recheck).min();
            match verdict.health {
                // Only its Job shows whether it is a problem. For a single scan, it is one until the Job was read.
                Health::Problem(_) if verdict.lacks_job && !watches.is_empty() => self.unjudged += 1,
                Health::Problem(finding) => self.problems.push((pod.clone(), *finding)),
                Health::Healthy | Health::Settling => {}
            }
        }
        self.problems.sort_by(|(a, _), (b, _)| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    }

    /// Whether all pods were judged.
    pub(super) fn is_complete(&self) -> bool {
        self.undecodable == 0 && self.unjudged == 0
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::{
        super::{
            filter::{LabelSelector, Namespaces},
            logs::Logs,
            scanned::{Hints, Scanned},
        },
        *,
    };
    use crate::{
        diagnosis::{JobFacts, World},
        facts::{Answer, Fact},
        pods::UndecodablePod,
    };

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn pods(selector: &str) -> Collector {
        let namespaces = Namespaces::new(&["shop".to_owned()]).unwrap();
        let filter = Filter { namespaces, selector: LabelSelector::new(selector).unwrap() };
        let mut pods = Collector::of_watches(&[None], ClusterView::default(), Thresholds::default(), filter);
        pods.now = now();
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
        assert_eq!(pods.view.index.suspects(pods.view.all).count(), 0);
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
        let undecodable = |namespace: &str| UndecodablePod {
            uid: Uid::from_text(namespace),
            namespace: namespace.to_owned(),
            name: "x".to_owned(),
            error: DecodeError::TooLarge,
        };
        for namespace in ["shop", "bank"] {
            pods.apply(0, WatchUpdate::Applied(WatchedPod { pod: Err(undecodable(namespace)) }));
        }
        pods.apply(0, WatchUpdate::Applied(watched("a", failed())));
        pods.judge();
        assert_eq!((pods.pods, pods.undecodable, pods.problems.len(), pods.is_complete()), (1, 1, 1, false));
    }

    #[test]
    fn pods_without_room_are_not_called_undecodable() {
        let mut pods = pods("");
        let uid = Uid::from_text("x");
        let (namespace, name) = ("shop".to_owned(), "x".to_owned());
        let pod = Err(UndecodablePod { uid, namespace, name, error: DecodeError::NoRoom });
        pods.apply(0, WatchUpdate::Applied(WatchedPod { pod }));
        pods.add_undecodable(Some("shop"), "bad", None);
        pods.judge();
        let (logs, hints) = (Logs::default(), Hints::new());
        let scanned = Scanned { context: None, collector: pods, logs, hints, notes: Vec::new() };
        assert_eq!(scanned.unseen(), ["left out 1 pod that may have problems", "cannot decode 1 pod: shop/bad"]);
    }

    #[test]
    fn what_a_file_lacks_causes_no_further_judgement() {
        let nodes = || Answer::Read(Fact::Nodes(Arc::default()));
        for (answer, is_news) in [(nodes(), true), (Answer::Unavailable, false)] {
            let mut view = ClusterView::default();
            assert_eq!(view.as_known().nodes(&Pod::default()), None);
            assert_eq!(view.answer(|_| answer.clone()), is_news);
            assert_eq!(view.as_known().nodes(&Pod::default()).is_some(), is_news);
        }
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
            known.into_iter().for_each(|facts| pods.view.show_job(key.clone(), facts.into()));
            pods.judge();
            (pods.problems.len(), pods.is_complete())
        };
        assert_eq!(problems(None), (0, false), "it is not read yet");
        assert_eq!(problems(Some(JobFacts::default())), (1, true));
        assert_eq!(problems(Some(JobFacts { complete: true, ..JobFacts::default() })), (0, true));
    }
}
