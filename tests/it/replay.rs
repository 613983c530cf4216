//! Pods replayed in virtual time through the operator's own path: index, verdict, tracker, report. No clock is read and
//! nothing is awaited.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use orchestr::{
    alerts,
    api::{OrchestrStatus, ProblemKind},
    diagnosis::{Facts, Finding, Health, assess},
    events::Event,
    index::{Index, ViewId},
    pods::{Pod, from_json},
    report::{self, Input, PodFinding, SharedProblems, Tracker, UpdateContext, Workload},
    settings::Settings,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cases::Case;

/// One version of a pod, as a kubelet wrote it.
#[derive(Clone, Debug, Deserialize)]
pub struct Step {
    /// Seconds since the first version.
    pub t: f64,
    pub pod: Value,
}

/// The recorded sequences of a real kubelet, by the name of the pod.
pub fn recorded() -> BTreeMap<String, Vec<Step>> {
    let mut sequences: BTreeMap<String, Vec<Step>> = BTreeMap::new();
    for line in include_str!("../fixtures/sequences.jsonl").lines() {
        let step: Step = serde_json::from_str(line).unwrap();
        sequences.entry(step.pod["metadata"]["name"].as_str().unwrap().to_owned()).or_default().push(step);
    }
    sequences
}

/// The first incident of the status at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Seconds since the beginning.
    pub t: i64,
    pub key: String,
    pub kind: ProblemKind,
    pub reason: String,
    pub container: String,
    /// Seconds since the beginning.
    pub since: i64,
}

/// One object that watches all pods.
pub struct Replay {
    pub start: Timestamp,
    pub now: Timestamp,
    index: Index,
    view: ViewId,
    settings: Settings,
    tracker: Tracker,
    pub status: Option<OrchestrStatus>,
    /// The events about each pod.
    pub events: Arc<[Event]>,
    /// Every change of the first incident.
    pub shown: Vec<Option<Shown>>,
    /// The incidents that began and ended, as in events.
    pub transitions: Vec<String>,
    pub incidents: Vec<alerts::Incident>,
    /// When to reconcile again.
    pub wake: Option<Timestamp>,
}

impl Replay {
    pub fn new(start: Timestamp, spec: Value) -> Self {
        let settings = Settings::new(&serde_json::from_value(spec).unwrap()).unwrap();
        let (index, view) = fresh(&settings);
        Self {
            start,
            now: start,
            index,
            view,
            settings,
            tracker: Tracker::default(),
            status: None,
            events: Arc::default(),
            shown: Vec::new(),
            transitions: Vec::new(),
            incidents: Vec::new(),
            wake: None,
        }
    }

    /// Restarts the operator: it starts with the status and these pods.
    pub fn restart(&mut self, pods: impl IntoIterator<Item = Pod>) {
        (self.index, self.view) = fresh(&self.settings);
        self.tracker = Tracker::default();
        for pod in pods {
            self.index.apply(Box::new(pod), self.now);
        }
        let status = self.status.take().map(|status| serde_json::to_string(&status).unwrap());
        self.status = status.map(|status| serde_json::from_str(&status).unwrap());
    }

    /// The keys of incidents that ended with the deletion of their pods.
    pub fn deleted(&self) -> Vec<String> {
        self.tracker.deleted().collect()
    }

    pub fn apply(&mut self, pod: Pod) {
        self.index.apply(Box::new(pod), self.now);
    }

    /// Brings the status up to date, and returns when time alone may change it.
    pub fn reconcile(&mut self) -> Option<Timestamp> {
        let mut recheck: Option<Timestamp> = None;
        let mut found: Vec<(&Pod, Box<Finding>)> = Vec::new();
        for pod in self.index.suspects(self.view) {
            let (replaced, events) = (self.index.is_replaced(pod), Arc::clone(&self.events));
            let facts = Facts { replaced, events, ..Facts::default() };
            let verdict = assess(pod, &facts, &self.settings.thresholds, self.now);
            recheck = recheck.into_iter().chain(verdict.recheck).min();
            if let Health::Problem(finding) = verdict.health {
                found.push((pod, finding));
            }
        }
        let context = UpdateContext {
            previous: self.status.as_ref(),
            generation: 1,
            ignores: &|kind, reason| self.settings.ignores(kind, reason),
            remains: &|uid| self.index.remains(uid),
            ..UpdateContext::default()
        };
        self.tracker.update(&mut found, &context, &mut SharedProblems::default());
        let input = Input {
            generation: 1,
            max_pods: self.settings.max_pods,
            watched_pods: self.index.watched(self.view),
            missing: &[],
            findings: found.iter().map(|(pod, finding)| PodFinding { pod, finding }).collect(),
            find_workload: &|_, _| Workload::default(),
            find_ownership: &|_| None,
            unread_jobs: 0,
            unreadable: None,
            logs: false,
            masking: None,
            pods_on_node: &|_| 0,
            tracker: &self.tracker,
            ignored_pods: 0,
            wrong: None,
            warnings: Vec::new(),
            outside: None,
            denied: None,
            has_webhooks: true,
            previous: self.status.as_ref(),
            now: self.now,
        };
        let report = report::watching(&input, &|_, _| None);
        let (status, omitted, incidents) = (report.status, report.omitted, report.incidents);
        self.incidents = incidents;
        let t = |time: Timestamp| time.duration_since(self.start).as_secs();
        if self.status.is_some() {
            let changes = report::transitions(self.status.as_ref(), &status, &omitted);
            let began = changes.began.iter().map(|incident| format!("{} {} began", t(self.now), incident.kind));
            let ended = changes.ended.iter().map(|incident| format!("{} {} ended", t(self.now), incident.kind));
            self.transitions.extend(began.chain(ended));
        }
        let shown = status.incidents.first().map(|incident| Shown {
            t: t(self.now),
            key: incident.key.clone(),
            kind: incident.kind,
            reason: incident.reason.clone(),
            container: incident.container.clone(),
            since: t(incident.since.0),
        });
        let same = self.shown.last().is_some_and(|last| match (last, &shown) {
            (Some(last), Some(shown)) => Shown { t: last.t, ..shown.clone() } == *last,
            (None, None) => true,
            _ => false,
        });
        if !same {
            self.shown.push(shown);
        }
        self.status = Some(status);
        recheck
    }
}

fn fresh(settings: &Settings) -> (Index, ViewId) {
    let mut index = Index::new(settings.thresholds.restarted);
    let view = index.add_view(settings.scope.clone());
    (index, view)
}

impl Step {
    /// A version of a pod `t` seconds after `START`.
    pub fn new(t: f64, case: Case) -> Self {
        Self { t, pod: case.0 }
    }
}

pub fn decode(step: &Step) -> Pod {
    from_json(&step.pod.to_string()).unwrap()
}

pub fn start_of(steps: &[Step]) -> Timestamp {
    steps[0].pod["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap()
}

/// Replays a sequence until `end`, in seconds; `at_each` is called after every reconcile.
pub fn replay(steps: &[Step], spec: Value, end: i64, mut at_each: impl FnMut(&mut Replay, &Pod)) -> Replay {
    let start = start_of(steps);
    let mut run = Replay::new(start, spec);
    let at = |t: f64| start + SignedDuration::from_secs_f64(t);
    let end = at(end as f64);
    let mut pod = decode(&steps[0]);
    run.reconcile();
    for (index, step) in steps.iter().enumerate() {
        run.now = at(step.t).max(run.now);
        pod = decode(step);
        run.apply(pod.clone());
        let next = steps.get(index + 1).map_or(end, |next| at(next.t));
        run_until(&mut run, next, &pod, &mut at_each);
    }
    run_until(&mut run, end, &pod, &mut at_each);
    run
}

fn run_until(run: &mut Replay, until: Timestamp, pod: &Pod, at_each: &mut impl FnMut(&mut Replay, &Pod)) {
    loop {
        let recheck = run.reconcile();
        at_each(run, pod);
        // The operator also reconciles every object once a minute.
        let next = recheck.into_iter().chain(run.wake).chain([run.now + Duration::from_secs(60)]).min();
        match next.filter(|next| *next < until) {
            Some(next) => run.now = next,
            None => return,
        }
    }
}

/// The minimal spec with `changes` merged into it.
pub fn spec(changes: Value) -> Value {
    let mut spec = json!({"alerts": {"checkRunningPods": true}});
    for (key, value) in changes.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}
