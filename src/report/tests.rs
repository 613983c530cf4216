//! Tests of whole statuses.

mod alert_texts;
mod attribution;
mod bounds;
mod common_causes;
mod forged;
mod missing;
mod ownership;
mod quotes;
mod revisions;
mod room;

use std::{collections::HashMap, time::Duration};

use arcstr::ArcStr;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::*;
use crate::{
    api::{ContainerKind, ContainerStateName, LogSource, OrchestrStatus, Owner, Ownership, ProblemKind},
    diagnosis::{ContainerFinding, Facts, Finding, Health, LogChoice, PodOwner, Thresholds, assess},
    events::{Event, InvolvedObject},
    logs::Tail,
    pods::{Pod, Terminated, Uid},
    spec_error::SpecError,
};

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// An [`Input`] that owns its parts.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) generation: i64,
    pub(super) max_pods: usize,
    pub(super) watched: u64,
    pub(super) unreadable: Option<(u64, String)>,
    pub(super) pods: Vec<(Pod, Finding)>,
    pub(super) missing: Vec<MissingPods>,
    /// Of every owner; the revision only of incidents whose pods share one.
    pub(super) workload: Workload,
    /// The annotations of namespaces.
    pub(super) ownership: HashMap<String, Ownership>,
    /// How many pods nodes have beside those of the scenario.
    pub(super) other_pods_on_node: u64,
    pub(super) tails: HashMap<(Uid, String), Tail>,
    pub(super) logs: bool,
    pub(super) ignored: u64,
    pub(super) webhooks: bool,
    pub(super) now: Timestamp,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            generation: 3,
            max_pods: 50,
            watched: 1284,
            unreadable: None,
            pods: Vec::new(),
            missing: Vec::new(),
            workload: Workload::default(),
            ownership: HashMap::new(),
            other_pods_on_node: 1,
            tails: HashMap::new(),
            logs: true,
            ignored: 0,
            webhooks: false,
            now: at(800),
        }
    }
}

impl Scenario {
    /// With UIDs given in order.
    pub(super) fn of(pods: impl IntoIterator<Item = (Pod, Finding)>) -> Self {
        let mut pods: Vec<_> = pods.into_iter().collect();
        for (index, (pod, _)) in pods.iter_mut().enumerate() {
            pod.uid = Uid::from(index as u128);
            pod.name = format!("{}-{index}", pod.name).into();
        }
        Self { pods, ..Self::default() }
    }

    pub(super) fn status(&self, previous: Option<&OrchestrStatus>) -> OrchestrStatus {
        self.with_input(previous, |input| watching(input, &|pod, container| self.tail(pod, container)).status)
    }

    /// The status, and the incidents that it omits.
    pub(super) fn listed(&self, previous: Option<&OrchestrStatus>) -> (OrchestrStatus, OmittedIncidents) {
        self.with_input(previous, |input| {
            let report = watching(input, &|pod, container| self.tail(pod, container));
            (report.status, report.omitted)
        })
    }

    pub(super) fn alert_incidents(&self) -> Vec<crate::report::Incident> {
        self.with_input(None, |input| watching(input, &|pod, container| self.tail(pod, container)).incidents)
    }

    fn tail(&self, pod: &Pod, container: &ContainerFinding) -> Option<Tail> {
        self.tails.get(&(pod.uid, container.name.to_string())).cloned()
    }

    pub(super) fn with_input<T>(
        &self,
        previous: Option<&OrchestrStatus>,
        use_input: impl FnOnce(&Input<'_>) -> T,
    ) -> T {
        let mut found: Vec<_> = self.pods.iter().map(|(pod, finding)| (pod, Box::new(finding.clone()))).collect();
        let mut tracker = Tracker::default();
        let context = UpdateContext { previous, generation: self.generation, ..UpdateContext::default() };
        tracker.update(&mut found, &context, &mut SharedProblems::default());
        use_input(&Input {
            generation: self.generation,
            max_pods: self.max_pods,
            watched_pods: self.watched,
            missing: &self.missing,
            findings: found.iter().map(|(pod, finding)| PodFinding { pod, finding }).collect(),
            find_workload: &|_, revision| {
                let Workload { of, revision: failing } = self.workload.clone();
                Workload { of, revision: failing.filter(|failing| revision == Some(&failing.name)) }
            },
            find_ownership: &|namespace| self.ownership.get(namespace).cloned(),
            unreadable: self.unreadable.clone(),
            unread_jobs: 0,
            outside: None,
            denied: None,
            logs: self.logs,
            masking: None,
            tracker: &tracker,
            pods_on_node: &|node| {
                self.pods.iter().filter(|(pod, _)| pod.node == node).count() as u64 + self.other_pods_on_node
            },
            ignored_pods: self.ignored,
            wrong: None,
            warnings: Vec::new(),
            has_webhooks: self.webhooks,
            previous,
            now: self.now,
        })
    }
}

/// A pod of a Deployment whose one container crashes.
pub(super) fn crashing(namespace: &str, owner: &str, reason: &str, since: i64) -> (Pod, Finding) {
    let pod = Pod {
        namespace: namespace.into(),
        name: owner.into(),
        phase: "Running".into(),
        node: "node-7".into(),
        ..Pod::default()
    };
    let finding = Finding {
        status: "CrashLoopBackOff".into(),
        kind: ProblemKind::Crash,
        reason: reason.into(),
        container: "app".into(),
        message: "container app was OOM-killed (exit 137), 7 restarts, limit 512Mi".into(),
        since: at(since),
        since_at_latest: false,
        tolerated: Duration::ZERO,
        owner: Some(PodOwner { kind: "Deployment".into(), name: owner.into() }),
        containers: vec![container("app")],
        others: Vec::new(),
        explanation: crate::diagnosis::Explanation::default(),
    };
    (pod, finding)
}

pub(super) fn container(name: &str) -> ContainerFinding {
    ContainerFinding {
        name: name.into(),
        kind: ContainerKind::App,
        state: ContainerStateName::Waiting,
        reason: "CrashLoopBackOff".into(),
        message: "back-off 5m0s restarting failed container=app pod=cart-0_shop(5f0c2a91)".into(),
        ready: false,
        restarts: 7,
        last_termination: Some(Terminated {
            exit_code: 137,
            reason: "OOMKilled".into(),
            finished: Some(at(49)),
            ..Terminated::default()
        }),
        log: LogChoice::Previous,
    }
}

pub(super) fn tail(text: &str) -> Tail {
    Tail { source: LogSource::Previous, text: text.into(), telling_line: ArcStr::new(), note: String::new() }
}

#[test]
fn builds_a_complete_status() {
    let mut scenario = Scenario { ignored: 4, ..Scenario::of([crashing("shop", "cart", "OOMKilled", 50)]) };
    scenario.tails.insert((Uid::from(0), "app".to_owned()), tail("allocating\n"));
    assert_eq!(
        serde_json::to_value(scenario.status(None)).unwrap(),
        json!({
            "observedGeneration": 3,
            "lastCheckTime": "1970-01-01T00:13:20Z",
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "Watching", "message": "watching 1284 pods",
                 "lastTransitionTime": "1970-01-01T00:13:20Z", "observedGeneration": 3},
                {"type": "PodsHealthy", "status": "False", "reason": "PodsUnhealthy",
                 "message": "1 of 1284 pods: 1 OOMKilled (shop/cart)",
                 "lastTransitionTime": "1970-01-01T00:13:20Z", "observedGeneration": 3},
            ],
            "watchedPods": 1284,
            "ignoredPods": 4,
            "topReason": "OOMKilled",
            "problematicPodCount": 1,
            "omittedPods": 0,
            "omittedIncidents": 0,
            "incidents": [{
                "key": "2d18a6fd2c0d6a36", "kind": "Crash", "namespace": "shop", "owner": {"kind": "Deployment", "name": "cart"},
                "container": "app", "reason": "OOMKilled", "cause": "Unknown", "severity": "warning", "pods": 1, "since": "1970-01-01T00:00:50Z",
                "examplePods": ["cart-0"],
            }],
            "problematicPods": [{
                "name": "cart-0", "namespace": "shop", "status": "CrashLoopBackOff", "kind": "Crash", "reason": "OOMKilled",
                "cause": "Unknown",
                "message": "container app was OOM-killed (exit 137), 7 restarts, limit 512Mi",
                "phase": "Running", "node": "node-7", "owner": {"kind": "Deployment", "name": "cart"},
                "since": "1970-01-01T00:00:50Z",
                "containerIssues": [{
                    "name": "app", "type": "App", "state": "Waiting", "reason": "CrashLoopBackOff",
                    "message": "back-off 5m0s restarting failed container=app pod=cart-0_shop(5f0c2a91)",
                    "ready": false, "restarts": 7,
                    "lastTermination": {
                        "reason": "OOMKilled", "exitCode": 137, "finishedAt": "1970-01-01T00:00:49Z",
                    },
                    "logs": "allocating\n", "logSource": "Previous",
                }],
            }],
        })
    );
}

#[test]
fn most_recent_problems_come_first() {
    let status = Scenario::of([
        crashing("b", "y", "Error", 50),
        crashing("b", "x", "Error", 50),
        crashing("a", "z", "Error", 50),
        crashing("c", "old", "Error", 10),
        crashing("c", "new", "Error", 90),
    ])
    .status(None);
    let pods: Vec<_> = status.problematic_pods.iter().map(|pod| &*pod.name).collect();
    assert_eq!(pods, ["new-4", "z-2", "x-1", "y-0", "old-3"]);
    let incidents: Vec<_> = status.incidents.iter().map(|incident| &*incident.owner.name).collect();
    assert_eq!(incidents, ["new", "z", "x", "y", "old"]);
}

#[test]
fn every_incident_has_an_example_before_any_has_many() {
    let noisy = (0..300).map(|n| crashing("noisy", "web", "Error", 1000 + n));
    let others = (0..20).map(|n| crashing("shop", &format!("d{n:02}"), "Error", n));
    let twins = (0..2).map(|n| crashing("ml", "train", "OOMKilled", 500 + n));
    let status = Scenario::of(noisy.chain(others).chain(twins)).status(None);
    let shown = |namespace: &str| status.problematic_pods.iter().filter(|pod| pod.namespace == namespace).count();
    assert_eq!((shown("shop"), shown("ml"), shown("noisy")), (20, 2, 28));
    assert_eq!((status.problematic_pod_count, status.omitted_pods), (322, 272));
    assert!(status.problematic_pods.is_sorted_by_key(|pod| std::cmp::Reverse(pod.since.0)), "shown in the usual order");
    assert_eq!(status.top_reason, "Error");

    let many =
        Scenario { max_pods: 7, ..Scenario::of((0..30).map(|n| crashing("shop", &format!("d{n:02}"), "Error", n))) };
    let owners: Vec<_> = many.status(None).problematic_pods.iter().map(|pod| pod.since.0.as_second()).collect();
    assert_eq!(owners, [29, 28, 27, 26, 25, 24, 23], "the most recent incidents, if there are too many");
}

#[test]
fn a_single_check_lists_every_incident_and_pod() {
    let pods: Vec<_> = (0..600).map(|n| crashing("shop", &format!("d{:03}", n / 2), "Error", n)).collect();
    let scenario = Scenario::of(pods);
    let (incidents, rows) = scenario.with_input(None, |input| in_full(&input.findings, &|_| None, &|_, _| None));
    let owners: Vec<_> = incidents.iter().map(|incident| (&*incident.owner.name, incident.pods)).collect();
    assert_eq!((owners.len(), owners[0], owners[299]), (300, ("d299", 2), ("d000", 2)));
    let pods: Vec<_> = rows.iter().map(|row| (&*row.name, row.container_issues.len())).collect();
    assert_eq!((pods.len(), pods[0], pods[599]), (600, ("d299-599", 1), ("d000-0", 1)));
}

#[test]
fn pods_that_fail_alike_are_one_incident() {
    let with_owner = |owner: Option<PodOwner>, (pod, finding): (Pod, Finding)| (pod, Finding { owner, ..finding });
    let mut pods: Vec<_> = (0..500).map(|n| crashing("shop", "cart", "Error", 1000 - n)).collect();
    pods.push(with_owner(None, crashing("shop", "cart", "Error", 7)));
    let stateful_set = PodOwner { kind: "StatefulSet".into(), name: "cart".into() };
    pods.push(with_owner(Some(stateful_set), crashing("shop", "cart", "Error", 6)));
    pods.push(crashing("shop", "cart", "OOMKilled", 5));
    pods.push(crashing("test", "cart", "Error", 4));
    let status = Scenario::of(pods).status(None);

    let incidents: Vec<_> = status
        .incidents
        .iter()
        .map(|incident| (&*incident.owner.kind, &*incident.owner.name, incident.pods, incident.since.0.as_second()))
        .collect();
    assert_eq!(
        incidents,
        [
            ("Pod", "cart-500", 1, 7),
            ("StatefulSet", "cart", 1, 6),
            ("Deployment", "cart", 501, 5),
            ("Deployment", "cart", 1, 4),
        ]
    );
    assert_eq!(status.incidents[2].example_pods, ["cart-0", "cart-1", "cart-10"]);
    let keys: std::collections::HashSet<_> = status.incidents.iter().map(|incident| &incident.key).collect();
    assert_eq!(keys.len(), 4);
    assert_eq!((status.problematic_pod_count, status.problematic_pods.len(), status.omitted_pods), (504, 50, 454));
}

#[test]
fn keys_differ_if_the_parts_join_to_the_same_text() {
    let key = |container: &str, reason: &str| {
        let (pod, mut finding) = crashing("shop", "cart", reason, 50);
        finding.container = container.into();
        Scenario::of([(pod, finding)]).status(None).incidents[0].key.clone()
    };
    assert_ne!(key("app", "Error"), key("appE", "rror"));
    assert_ne!(key("", "Error"), key("Error", ""));
    assert_eq!(key("app", "Error"), key("app", "Error"));
    assert!(key("a", "b").len() == 16 && key("a", "b").bytes().all(|byte| byte.is_ascii_hexdigit()));
}

#[test]
fn a_continued_problem_keeps_its_start_time() {
    let first = Scenario::of([crashing("shop", "cart", "Error", 50)]).status(None);
    let again = Scenario::of([crashing("shop", "cart", "Error", 70)]).status(Some(&first));
    assert_eq!(again, first);
    let earlier = Scenario::of([crashing("shop", "cart", "Error", 30)]).status(Some(&first));
    assert_eq!(earlier.problematic_pods[0].since.0, at(30), "what is found may reach further back");
    assert_eq!(earlier.incidents[0].since.0, at(30));
    let reason = Scenario::of([crashing("shop", "cart", "OOMKilled", 70)]).status(Some(&first));
    assert_eq!(reason.problematic_pods[0].since.0, at(50), "another reason is the same problem");
    assert_eq!((&*reason.incidents[0].reason, &reason.incidents[0].key), ("OOMKilled", &first.incidents[0].key));
    let mut other = Scenario::of([crashing("shop", "cart", "Error", 70)]);
    other.pods[0].1.kind = ProblemKind::Image;
    let image = other.status(Some(&first));
    assert_eq!(
        (&image.incidents[0].key, image.incidents[0].since.0),
        (&first.incidents[0].key, at(50)),
        "still the same problem"
    );
    other.pods[0].1.kind = ProblemKind::NotReady;
    assert_eq!(other.status(Some(&first)).problematic_pods[0].since.0, at(70), "another kind is another problem");

    let mut replaced = Scenario::of([crashing("shop", "cart", "Error", 70)]);
    replaced.pods[0].0.name = "cart-9".into();
    let replaced = replaced.status(Some(&first));
    assert_eq!(replaced.problematic_pods[0].since.0, at(70), "another pod's problem");
    assert_eq!(replaced.incidents[0].since.0, at(50), "the same incident");
}

#[test]
fn a_condition_keeps_its_time_while_its_status_stays() {
    let times = |status: &OrchestrStatus| -> Vec<_> {
        status.conditions.iter().map(|condition| condition.last_transition_time.0.as_second()).collect()
    };
    let failing = Scenario::of([crashing("shop", "cart", "Error", 50)]).status(None);
    let worse = Scenario { now: at(900), ..Scenario::of([crashing("shop", "cart", "OOMKilled", 50)]) };
    let worse = worse.status(Some(&failing));
    assert_eq!(times(&worse), [800, 800]);
    let healthy = Scenario { now: at(950), generation: 4, ..Scenario::default() }.status(Some(&worse));
    assert_eq!(times(&healthy), [800, 950]);
    assert!(healthy.conditions.iter().all(|condition| condition.observed_generation == Some(4)));
    assert_eq!(healthy.observed_generation, Some(4));
    assert_eq!((&*healthy.conditions[1].status, &*healthy.conditions[1].reason), ("True", "PodsHealthy"));
}

#[test]
fn each_state_without_a_watch_has_its_conditions() {
    let denied = "pods is forbidden: cannot list resource \"pods\"".to_owned();
    let invalid = "spec.thresholds.pending: \"x\" is no duration".to_owned();
    for (state, status, message, stalled) in [
        (NotWatching::Paused, "False", "spec.alerts.checkRunningPods is false", false),
        (SpecError::AlertsNotSet.into(), "False", "spec.alerts.checkRunningPods must be set", true),
        (NotWatching::InvalidSpec { message: invalid.clone() }, "False", &*invalid, true),
        (NotWatching::Syncing, "Unknown", "the list of pods is not complete yet", false),
        (
            NotWatching::Interrupted { message: "HTTP 500".to_owned() },
            "Unknown",
            "pods can't be read at present: HTTP 500",
            false,
        ),
        (NotWatching::PodAccessDenied { message: denied.clone() }, "False", &*denied, false),
    ] {
        let found = not_watching(&state, 3, None, at(800));
        let conditions: Vec<_> = found
            .conditions
            .iter()
            .map(|c| (&*c.type_, &*c.status, &*c.reason, c.observed_generation, c.last_transition_time.0))
            .collect();
        let mut expected = vec![
            ("Ready", status, state.reason(), Some(3), at(800)),
            ("PodsHealthy", "Unknown", state.reason(), Some(3), at(800)),
        ];
        expected.extend(stalled.then_some(("Stalled", "True", state.reason(), Some(3), at(800))));
        assert_eq!(conditions, expected);
        assert_eq!(found.conditions[0].message, message);
        assert_eq!((found.observed_generation, found.problematic_pod_count), (Some(3), 0));
        assert_eq!(found.last_check_time, Some(Time(at(800))));

        let is_prevented = !matches!(&*found.conditions[0].reason, "Paused" | "AlertsNotSet" | "InvalidSpec");
        let healthy = Scenario::default().status(None);
        let unhealthy = Scenario::of([crashing("shop", "cart", "Error", 50)]).status(None);
        for (previous, expected) in [
            (None, "not known yet"),
            (Some(&healthy), "not known yet"),
            (Some(&unhealthy), "not known at present; the lists show what was found before"),
        ] {
            let expected = if is_prevented { expected } else { "pods are not checked" };
            assert_eq!(not_watching(&state, 3, previous, at(800)).conditions[1].message, expected, "{state:?}");
        }
    }
}

#[test]
fn keeps_the_lists_while_pods_cannot_be_read() {
    let mut scenario = Scenario::of((0..60).map(|n| crashing("shop", &format!("d{n}"), "Error", n)));
    scenario.max_pods = 20;
    let before = scenario.status(None);
    let lists = |status: &OrchestrStatus| {
        let OrchestrStatus { watched_pods, problematic_pod_count, omitted_pods, .. } = *status;
        (watched_pods, problematic_pod_count, omitted_pods, status.incidents.clone(), status.problematic_pods.clone())
    };
    for state in [NotWatching::Syncing, NotWatching::PodAccessDenied { message: String::new() }] {
        let kept = not_watching(&state, 4, Some(&before), at(900));
        assert_eq!(lists(&kept), lists(&before));
        assert_eq!(kept.conditions[1].message, "not known at present; the lists show what was found before");
        assert_eq!(lists(&not_watching(&state, 4, Some(&kept), at(950))), lists(&before));
    }
    for state in [NotWatching::Paused, NotWatching::AlertsNotSet, NotWatching::InvalidSpec { message: String::new() }] {
        assert_eq!(lists(&not_watching(&state, 4, Some(&before), at(900))), lists(&OrchestrStatus::default()));
    }
}

#[test]
fn masks_credentials_in_messages() {
    let (pod, mut finding) = crashing("shop", "cart", "StartError", 50);
    let secret = "login --password=hunter2 failed";
    finding.message = secret.into();
    finding.containers[0].message = secret.into();
    finding.containers[0].last_termination.as_mut().unwrap().message = secret.into();
    let scenario = Scenario::of([(pod, finding)]);
    let status = serde_json::to_string(&scenario.status(None)).unwrap();
    assert!(!status.contains("hunter2"), "{status}");
    assert_eq!(status.matches("login --password=[REDACTED]").count(), 3, "{status}");
}

#[test]
fn masks_credentials_hidden_by_control_characters() {
    for secret in ["\u{1b}[31mpassword\u{1b}[0m=hunter2", "passw\u{200e}ord=hunter2", "passw\u{0}ord=hunter2"] {
        let words = format!("Readiness probe failed: login {secret} refused");
        let json = serde_json::json!({
            "metadata": {"name": "cart-1", "namespace": "shop", "uid": "1"},
            "spec": {"containers": [{"name": "app", "readinessProbe": {"exec": {"command": ["check"]}}}]},
            "status": {
                "phase": "Running", "message": words, "startTime": "2026-01-01T00:00:00Z",
                "conditions": [{"type": "Ready", "status": "False", "message": words,
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "containerStatuses": [{"name": "app", "ready": false, "started": true,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}],
            },
        });
        let pod = crate::pods::from_json(&json.to_string()).unwrap();
        let involved = InvolvedObject { container: "app".to_owned(), ..InvolvedObject::default() };
        let event = Event { involved, reason: "Unhealthy".to_owned(), message: words, count: 3, ..Event::default() };
        let facts = Facts { events: vec![event].into(), ..Facts::default() };
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let Health::Problem(finding) = assess(&pod, &facts, &Thresholds::default(), now).health else {
            panic!("it is not ready")
        };
        let status = serde_json::to_string(&Scenario::of([(pod, *finding)]).status(None)).unwrap();
        assert!(status.contains("Unhealthy ×3") && !status.contains("hunter2"), "{status}");
    }
}

#[test]
fn shows_the_first_lines_of_evidence_without_credentials() {
    let (pod, mut finding) = crashing("shop", "cart", "Error", 50);
    let long = "x".repeat(4096);
    let evidence = ["login --password=hunter2 failed", &long, "third", "fourth", "fifth"];
    finding.explanation.evidence = evidence.map(str::to_owned).to_vec();
    let scenario = Scenario { webhooks: true, ..Scenario::of([(pod, finding)]) };
    let status = scenario.status(None);
    let shown = &status.problematic_pods[0].evidence;
    assert_eq!((shown.len(), shown[0].as_str()), (4, "login --password=[REDACTED] failed"));
    assert!(shown[1].len() <= 512 && shown[1].ends_with("x…"), "{}", shown[1]);
    assert_eq!(shown[2..], ["third", "fourth"]);
    assert_eq!(scenario.alert_incidents()[0].texts.evidence, *shown);
}
