//! Tests of workloads over time.

use jiff::SignedDuration;
use orchestr_testbed::objects::controlled_by;
use serde_json::{Value, json};

use super::{object::Workload, *};
use crate::{
    api::{Cause, Incident, Severity},
    events::InvolvedObject,
    pods::testing::controller,
    report::MissingPods,
};

mod resumed;

/// A sequence of events, reads and checks, with a clock.
struct Sequence {
    workloads: Workloads,
    start: Instant,
    now: Instant,
    wall: Timestamp,
}

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn key(kind: WorkloadKind, name: &str) -> WorkloadKey {
    WorkloadKey { namespace: "shop".to_owned(), kind, name: name.to_owned(), uid: format!("uid-{name}") }
}

fn event(kind: WorkloadKind, name: &str, message: &str, first: i64) -> Event {
    let involved = InvolvedObject {
        kind: kind.as_str().to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        container: String::new(),
    };
    Event {
        involved,
        related: None,
        reason: "FailedCreate".to_owned(),
        message: message.to_owned(),
        count: 1,
        first: Some(wall(first)),
        last: Some(wall(first)),
    }
}

const NO_ACCOUNT: &str = r#"Error creating: pods "api-5d9f-" is forbidden: error looking up service account shop/api: serviceaccount "api" not found"#;

/// A workload as it is read.
fn workload(kind: WorkloadKind, name: &str, spec: Value, status: Value) -> WorkloadReading {
    let mut json = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "creationTimestamp": wall(-9000).to_string()},
        "spec": spec, "status": status,
    });
    json["spec"]["template"] = json!({"metadata": {"labels": {"app": "api"}}});
    if kind == WorkloadKind::ReplicaSet {
        let deployment = name.rsplit_once('-').map_or(name, |(deployment, _)| deployment);
        json["metadata"]["ownerReferences"] = controlled_by("Deployment", deployment, "d");
    }
    WorkloadReading::Read(Box::new(Workload::new(kind, &serde_json::from_value(json).unwrap(), None)))
}

/// A ReplicaSet with this many pods, which has failed to create the others since a time.
fn replica_set(name: &str, replicas: u32, of: u32, failed_at: Option<i64>) -> WorkloadReading {
    let conditions: Vec<_> = failed_at
        .map(|at| {
            json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": NO_ACCOUNT,
                "lastTransitionTime": wall(at).to_string()})
        })
        .into_iter()
        .collect();
    let status = json!({"replicas": replicas, "conditions": conditions});
    workload(WorkloadKind::ReplicaSet, name, json!({"replicas": of}), status)
}

fn job(active: u32, failed: u32) -> WorkloadReading {
    workload(WorkloadKind::Job, "sums", json!({}), json!({"active": active, "failed": failed}))
}

impl Sequence {
    fn new() -> Self {
        let start = Instant::now();
        Self { workloads: Workloads::default(), start, now: start, wall: wall(0) }
    }

    fn at(&mut self, second: i64) {
        self.now = self.start + Duration::from_secs(second.try_into().unwrap());
        self.wall = wall(second);
    }

    fn event(&mut self, event: &Event) -> bool {
        self.workloads.on_event(event, self.now, self.wall)
    }

    /// The names of the workloads that are read now.
    fn reads(&mut self) -> Vec<String> {
        self.workloads.take_due(self.now).into_iter().map(|query| query.key.name).collect()
    }

    fn answer(&mut self, key: &WorkloadKey, reading: WorkloadReading) -> bool {
        self.workloads.answered(key, reading, self.now, self.wall)
    }

    /// Handles an event about the ReplicaSet, and answers the read.
    fn refused(&mut self, name: &str, reading: WorkloadReading) {
        let first = self.wall.as_second() - wall(0).as_second();
        self.event(&event(WorkloadKind::ReplicaSet, name, NO_ACCOUNT, first));
        assert_eq!(self.reads(), [name]);
        self.answer(&key(WorkloadKind::ReplicaSet, name), reading);
    }

    /// The ReplicaSet `api-5d9f` is read at this second, and has so many of three pods.
    fn read_at(&mut self, second: i64, replicas: u32, failed_at: Option<i64>) -> bool {
        self.at(second);
        assert_eq!(self.reads(), ["api-5d9f"], "after {second} s");
        self.answer(&replica_set_key(), replica_set("api-5d9f", replicas, 3, failed_at))
    }

    fn report(&self) -> Reported {
        self.workloads.report(&NamespacedName::new("ns", "object"), &|_, _| true, &|_, _| false, self.wall)
    }

    fn missing(&self) -> Vec<MissingPods> {
        self.report().missing
    }

    fn due_in(&self) -> Option<Duration> {
        self.workloads.next_due().map(|due| due.saturating_duration_since(self.now))
    }
}

fn replica_set_key() -> WorkloadKey {
    key(WorkloadKind::ReplicaSet, "api-5d9f")
}

#[test]
fn pods_that_are_missing_for_30_seconds_are_a_problem() {
    let mut sequence = Sequence::new();
    sequence.refused("api-5d9f", replica_set("api-5d9f", 1, 3, Some(0)));
    assert!(sequence.missing().is_empty());
    assert_eq!(sequence.report().recheck, Some(wall(30)));

    // It is read again shortly before that.
    for (second, due) in [(2, 4), (6, 8), (14, 15), (29, 32)] {
        sequence.read_at(second, 1, Some(0));
        assert_eq!(sequence.due_in(), Some(Duration::from_secs(due)), "after {second} s");
    }
    sequence.at(30);
    let [missing] = &sequence.missing()[..] else { panic!() };
    assert_eq!((missing.missing, missing.of, missing.since), (2, 3, wall(0)));
    assert_eq!(missing.owner, Owner { kind: "Deployment".to_owned(), name: "api".to_owned() });
    assert_eq!(missing.controllers, [replica_set_key().as_owner()]);
    assert_eq!(missing.explanation.cause, Cause::ServiceAccountMissing);
    assert_eq!(missing.explanation.message, "1 of 3 pods exist: the service account api does not exist");
}

#[test]
fn pods_missing_for_a_while_are_a_problem_immediately() {
    let mut sequence = Sequence::new();
    assert!(!sequence.event(&event(WorkloadKind::ReplicaSet, "api-5d9f", NO_ACCOUNT, 0)), "nothing is known yet");
    assert_eq!(sequence.due_in(), Some(Duration::ZERO));
    assert_eq!(sequence.reads(), ["api-5d9f"]);
    assert_eq!(sequence.due_in(), None, "while it is read");
    assert!(sequence.answer(&replica_set_key(), replica_set("api-5d9f", 0, 3, Some(-300))));
    assert_eq!((sequence.missing()[0].since, sequence.missing()[0].missing), (wall(-300), 3));
}

#[test]
fn an_event_about_a_workload_with_all_its_pods_opens_nothing() {
    let mut sequence = Sequence::new();
    sequence.refused("api-5d9f", replica_set("api-5d9f", 3, 3, None));
    // The status may have been older than the event, so it is read again.
    for second in [2, 6, 14] {
        assert!(!sequence.read_at(second, 3, None));
    }
    assert_eq!(sequence.due_in(), None);
    sequence.at(600);
    assert!(sequence.missing().is_empty());
}

#[test]
fn a_replica_set_without_its_condition_is_read_again() {
    let mut sequence = Sequence::new();
    sequence.refused("api-5d9f", replica_set("api-5d9f", 0, 3, None));
    assert_eq!(sequence.report().recheck, None);
    sequence.read_at(2, 0, Some(1));
    assert_eq!(sequence.report().recheck, Some(wall(31)));

    // Between two attempts it has no condition for a moment.
    sequence.read_at(60, 1, None);
    assert_eq!((sequence.missing()[0].missing, sequence.missing()[0].since), (2, wall(1)));
    for second in [62, 64, 66, 68] {
        sequence.read_at(second, 1, None);
        assert_eq!(sequence.missing().len(), 1, "{second}");
    }
    sequence.read_at(70, 1, None);
    assert!(sequence.missing().is_empty(), "pods are missing for another reason");
}

#[test]
fn the_start_of_a_shortage_never_moves_forward() {
    let mut sequence = Sequence::new();
    sequence.refused("api-5d9f", replica_set("api-5d9f", 0, 3, Some(-60)));
    sequence.read_at(60, 1, Some(50));
    assert_eq!(sequence.missing()[0].since, wall(-60));
    // A rollout: the new ReplicaSet fails alike, and the old one is scaled down.
    sequence.refused("api-77c8", replica_set("api-77c8", 0, 3, Some(60)));
    assert_eq!((sequence.missing()[0].missing, sequence.missing()[0].of), (5, 6));
    assert_eq!(sequence.missing()[0].controllers.len(), 2);
    sequence.workloads.known.get_mut(&replica_set_key()).unwrap().pods_changed(sequence.now);
    sequence.at(61);
    sequence.reads();
    sequence.answer(&replica_set_key(), replica_set("api-5d9f", 0, 0, None));
    assert_eq!((sequence.missing()[0].since, sequence.missing()[0].missing), (wall(-60), 3));
}

#[test]
fn a_shortage_after_a_recovery_is_a_new_one() {
    let mut sequence = Sequence::new();
    sequence.refused("api-5d9f", replica_set("api-5d9f", 0, 3, Some(-60)));
    assert!(sequence.read_at(60, 3, None));
    assert!(sequence.missing().is_empty());
    sequence.at(300);
    // The event counts from the first one of the same text.
    sequence.event(&event(WorkloadKind::ReplicaSet, "api-5d9f", NO_ACCOUNT, -60));
    sequence.reads();
    sequence.answer(&replica_set_key(), replica_set("api-5d9f", 2, 3, Some(-60)));
    assert_eq!((sequence.missing()[0].since, sequence.missing()[0].missing), (wall(60), 1));
}

#[test]
fn a_pod_that_appears_leads_to_a_read() {
    let pod = |uid: &str| Pod {
        namespace: "shop".into(),
        controller: Some(crate::pods::Controller { uid: uid.into(), ..Default::default() }),
        ..Pod::default()
    };
    let mut sequence = Sequence::new();
    assert!(!sequence.workloads.is_watched(&pod("uid-api-5d9f")));
    sequence.refused("api-5d9f", replica_set("api-5d9f", 0, 3, Some(-60)));
    sequence.read_at(59, 0, Some(-60));
    assert!(sequence.due_in() > Some(Duration::from_secs(3)));
    assert!(sequence.workloads.is_watched(&pod("uid-api-5d9f")));
    sequence.workloads.pods_changed(&pod("other"), sequence.now);
    sequence.workloads.pods_changed(&pod("uid-api-5d9f"), sequence.now);
    assert_eq!(sequence.due_in(), Some(Duration::from_millis(500)));

    // It appears during a read, so there is another one.
    sequence.at(60);
    sequence.reads();
    sequence.workloads.pods_changed(&pod("uid-api-5d9f"), sequence.now);
    assert_eq!(sequence.due_in(), None);
    sequence.answer(&replica_set_key(), replica_set("api-5d9f", 0, 3, Some(-60)));
    assert_eq!(sequence.due_in(), Some(Duration::from_millis(500)));
}

#[test]
fn a_burst_of_events_leads_to_one_read_a_second() {
    let mut sequence = Sequence::new();
    sequence.refused("api-5d9f", replica_set("api-5d9f", 0, 3, Some(-60)));
    for _ in 0..100 {
        sequence.event(&event(WorkloadKind::ReplicaSet, "api-5d9f", NO_ACCOUNT, 0));
        assert!(sequence.reads().is_empty());
    }
    assert_eq!(sequence.due_in(), Some(Duration::from_secs(1)));
}

/// An event about a Job in a namespace.
fn event_in(namespace: &str, number: usize) -> Event {
    let mut event = event(WorkloadKind::Job, &format!("sums-{number}"), NO_ACCOUNT, 0);
    event.involved.namespace = namespace.to_owned();
    event.involved.uid = format!("{namespace}-{number}");
    event
}

#[test]
fn each_workload_is_read_once_at_a_time() {
    let mut sequence = Sequence::new();
    for second in 0..60 {
        sequence.at(second);
        (0..MOST_IN_NAMESPACE).for_each(|number| _ = sequence.event(&event_in("flood", number)));
        sequence.event(&event_in("shop", 0));
        // None is answered.
        let expected = if second == 0 { MOST_IN_NAMESPACE + 1 } else { 0 };
        assert_eq!(sequence.workloads.take_due(sequence.now).len(), expected, "after {second} s");
        assert_eq!(sequence.due_in(), None);
    }
}

#[test]
fn an_event_with_another_reason_changes_the_explanation() {
    let mut sequence = Sequence::new();
    sequence.refused("api-5d9f", replica_set("api-5d9f", 0, 3, Some(-60)));
    assert!(!sequence.event(&event(WorkloadKind::ReplicaSet, "api-5d9f", NO_ACCOUNT, 0)), "the same reason");
    assert!(sequence.event(&event(WorkloadKind::ReplicaSet, "api-5d9f", "Error creating: etcd is full", 0)));
    assert_eq!(sequence.missing()[0].explanation.message, "0 of 3 pods exist: etcd is full");
}

#[test]
fn reads_less_and_less_often_while_nothing_changes() {
    let mut sequence = Sequence::new();
    sequence.refused("api-5d9f", replica_set("api-5d9f", 0, 3, Some(-60)));
    let mut reads = 0;
    for second in 1..=3600 {
        sequence.at(second);
        for _ in sequence.reads() {
            reads += 1;
            sequence.answer(&replica_set_key(), replica_set("api-5d9f", 0, 3, Some(-60)));
        }
    }
    assert!((60..70).contains(&reads), "{reads} reads in an hour");
}

#[test]
fn a_deleted_workload_is_gone_at_once_and_for_good() {
    let mut sequence = Sequence::new();
    sequence.refused("api-5d9f", replica_set("api-5d9f", 0, 3, Some(-60)));
    sequence.refused("api-77c8", replica_set("api-77c8", 0, 3, Some(-60)));
    assert!(sequence.answer(&replica_set_key(), WorkloadReading::Gone));
    assert_eq!(sequence.workloads.gone().count(), 0, "another ReplicaSet of the owner misses pods");
    assert!(sequence.answer(&key(WorkloadKind::ReplicaSet, "api-77c8"), WorkloadReading::Gone));
    assert!(sequence.missing().is_empty());
    let gone: Vec<_> =
        sequence.workloads.gone().map(|(namespace, owner)| format!("{namespace}/{}", owner.name)).collect();
    assert_eq!((gone, sequence.due_in()), (vec!["shop/api".to_owned()], None));
    assert!(!sequence.answer(&replica_set_key(), WorkloadReading::Gone), "an answer that comes late");

    sequence.refused("api-66b9", replica_set("api-66b9", 0, 3, Some(0)));
    assert_eq!(sequence.workloads.gone().count(), 0, "it misses pods again");
}

#[test]
fn a_denied_read_reports_nothing_and_ends_nothing() {
    let mut sequence = Sequence::new();
    sequence.refused("api-5d9f", WorkloadReading::Denied("no".to_owned()));
    sequence.at(600);
    assert!(sequence.missing().is_empty());
    let warnings = |sequence: &Sequence, selects: bool| sequence.workloads.warnings(|_| selects, sequence.now);
    assert_eq!(warnings(&sequence, true), ["could not check whether pods are missing: no"]);
    assert!(warnings(&sequence, false).is_empty());
    assert_eq!(sequence.reads(), ["api-5d9f"]);
    assert!(sequence.answer(&replica_set_key(), replica_set("api-5d9f", 0, 3, Some(0))));
    assert_eq!((sequence.missing().len(), warnings(&sequence, true).len()), (1, 0));

    sequence.at(700);
    sequence.reads();
    assert!(sequence.answer(&replica_set_key(), WorkloadReading::Denied("no".to_owned())));
    assert_eq!((sequence.missing().len(), warnings(&sequence, true).len()), (1, 1), "a lost right is no recovery");
    assert_eq!(sequence.due_in(), Some(Duration::from_secs(60)));
    for reading in [WorkloadReading::Unavailable, WorkloadReading::Denied("no".to_owned())] {
        sequence.at(2000);
        sequence.reads();
        assert!(!sequence.answer(&replica_set_key(), reading));
        assert_eq!(sequence.missing().len(), 1);
    }
}

#[test]
fn a_job_that_waits_after_a_failed_pod_misses_nothing() {
    let (mut sequence, sums) = (Sequence::new(), key(WorkloadKind::Job, "sums"));
    sequence.event(&event(WorkloadKind::Job, "sums", NO_ACCOUNT, -61));
    sequence.reads();
    sequence.answer(&sums, job(0, 1));
    assert!(sequence.missing().is_empty(), "the event is more than a minute old, and a pod has failed");
    sequence.at(10);
    sequence.event(&event(WorkloadKind::Job, "sums", NO_ACCOUNT, 10));
    sequence.reads();
    sequence.answer(&sums, job(0, 1));
    sequence.at(40);
    assert_eq!(sequence.missing().len(), 1);
    sequence.reads();
    assert!(sequence.answer(&sums, job(0, 2)));
    assert!(sequence.missing().is_empty(), "a pod was created and has failed");
}

#[test]
fn reports_only_selected_pods_without_exclusion() {
    let mut sequence = Sequence::new();
    sequence.refused("api-5d9f", replica_set("api-5d9f", 0, 3, Some(-60)));
    let object = NamespacedName::new("ns", "object");
    let selected = |namespace: &str, labels: &[(String, String)]| namespace == "shop" && labels[0].1 == "api";
    assert_eq!(sequence.workloads.report(&object, &selected, &|_, _| false, sequence.wall).missing.len(), 1);
    assert!(sequence.workloads.report(&object, &|_, _| false, &|_, _| false, sequence.wall).missing.is_empty());
    let WorkloadReading::Read(mut ignored) = replica_set("api-5d9f", 0, 3, Some(-60)) else { panic!() };
    ignored.is_ignored = true;
    sequence.at(2);
    sequence.reads();
    sequence.answer(&replica_set_key(), WorkloadReading::Read(ignored));
    let reported = sequence.report();
    assert_eq!((reported.missing.len(), reported.ignored), (0, 3));
}

fn omitted(sequence: &Sequence) -> usize {
    sequence.workloads.omitted.values().map(HashSet::len).sum()
}

#[test]
fn counts_the_workloads_beyond_its_limits() {
    let mut sequence = Sequence::new();
    let in_namespace = |sequence: &mut Sequence, namespace: &str, n: usize| sequence.event(&event_in(namespace, n));
    for n in 0..MOST_IN_NAMESPACE + 5 {
        assert_eq!(in_namespace(&mut sequence, "shop", n), n >= MOST_IN_NAMESPACE, "only the warning changes");
    }
    assert!(!in_namespace(&mut sequence, "shop", MOST_IN_NAMESPACE), "counted already");
    assert!(sequence.workloads.warnings(|_| true, sequence.now)[0].starts_with("5 workloads could not create pods"));
    for namespace in 0..10 {
        for n in 0..MOST_IN_NAMESPACE {
            in_namespace(&mut sequence, &format!("ns-{namespace}"), n);
        }
    }
    assert_eq!(sequence.workloads.known.len(), MOST);
    assert_eq!(omitted(&sequence), 5 + 11 * MOST_IN_NAMESPACE - MOST);
    for n in 0..2 * MOST_COUNTED {
        in_namespace(&mut sequence, "flood", n);
    }
    assert_eq!((sequence.workloads.known.len(), omitted(&sequence)), (MOST, MOST_COUNTED));

    // A workload that has its pods does not make room in another namespace that is full itself.
    let other =
        WorkloadKey { namespace: "ns-0".to_owned(), uid: "ns-0-0".to_owned(), ..key(WorkloadKind::Job, "sums-0") };
    sequence.reads();
    sequence.answer(&other, job(1, 0));
    in_namespace(&mut sequence, "shop", MOST_IN_NAMESPACE);
    assert!(sequence.workloads.known.contains_key(&other));

    // A workload that has its pods makes room.
    let first = WorkloadKey { uid: "shop-0".to_owned(), ..key(WorkloadKind::Job, "sums-0") };
    sequence.answer(&first, job(1, 0));
    in_namespace(&mut sequence, "shop", MOST_IN_NAMESPACE);
    assert!(!sequence.workloads.known.contains_key(&first));
    assert_eq!(sequence.workloads.known.len(), MOST);
}

#[test]
fn forgets_workloads_an_hour_after_they_have_their_pods() {
    let mut sequence = Sequence::new();
    sequence.refused("api-5d9f", replica_set("api-5d9f", 3, 3, None));
    sequence.workloads.compact(|_| true, sequence.wall.checked_add(MEMORY).unwrap());
    assert_eq!(sequence.workloads.known.len(), 1);
    let later = sequence.wall.checked_add(MEMORY + SignedDuration::from_secs(1)).unwrap();
    sequence.workloads.compact(|_| true, later);
    assert!(sequence.workloads.known.is_empty());

    sequence.refused("api-5d9f", replica_set("api-5d9f", 0, 3, Some(-60)));
    sequence.workloads.compact(|_| true, later);
    assert_eq!(sequence.missing().len(), 1);
    sequence.workloads.compact(|namespace| namespace != "shop", later);
    assert_eq!((sequence.workloads.known.len(), sequence.due_in()), (0, None), "no object selects its namespace");
}

#[test]
fn events_about_a_workload_that_does_not_exist_cause_one_read() {
    let mut sequence = Sequence::new();
    let mut reads = 0;
    for second in 0..600 {
        sequence.at(second);
        sequence.event(&event(WorkloadKind::ReplicaSet, "api-5d9f", NO_ACCOUNT, second));
        for _ in sequence.reads() {
            reads += 1;
            sequence.answer(&replica_set_key(), WorkloadReading::Gone);
        }
    }
    assert_eq!(reads, 1);
    for number in 0..2 * MOST_ABSENT {
        let mut forged = event(WorkloadKind::ReplicaSet, "api-5d9f", NO_ACCOUNT, 600);
        forged.involved.uid = number.to_string();
        sequence.event(&forged);
        sequence.reads();
        sequence.answer(&WorkloadKey { uid: number.to_string(), ..replica_set_key() }, WorkloadReading::Gone);
    }
    assert_eq!((sequence.workloads.absent.len(), sequence.workloads.known.len()), (MOST_ABSENT, 0));
}

#[test]
fn events_and_pods_that_change_nothing_cause_few_reads() {
    let mut sequence = Sequence::new();
    let mut pod = Pod { namespace: "shop".into(), ..Pod::default() };
    pod.controller = Some(crate::pods::Controller {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "api-5d9f".into(),
        uid: "uid-api-5d9f".into(),
    });
    let mut reads = 0;
    for second in 0..3600 {
        sequence.at(second);
        sequence.event(&event(WorkloadKind::ReplicaSet, "api-5d9f", &format!("{NO_ACCOUNT} {second}"), second));
        sequence.workloads.pods_changed(&pod, sequence.now);
        for _ in sequence.reads() {
            reads += 1;
            sequence.answer(&replica_set_key(), replica_set("api-5d9f", 1, 3, Some(0)));
        }
    }
    assert!((360..=370).contains(&reads), "{reads} reads in an hour");
}

#[test]
fn an_event_in_another_namespace_takes_no_workload_over() {
    let mut sequence = Sequence::new();
    sequence.refused("api-5d9f", replica_set("api-5d9f", 1, 3, Some(0)));
    let mut forged = event(WorkloadKind::ReplicaSet, "other", NO_ACCOUNT, 0);
    forged.involved.namespace = "attacker".to_owned();
    forged.involved.uid = "uid-api-5d9f".to_owned();
    sequence.event(&forged);
    let pod = |namespace: &str| Pod {
        namespace: namespace.into(),
        controller: Some(controller("ReplicaSet", "api-5d9f", "uid-api-5d9f")),
        ..Pod::default()
    };
    assert_eq!(sequence.reads(), ["other"]);
    let other = WorkloadKey { namespace: "attacker".to_owned(), name: "other".to_owned(), ..replica_set_key() };
    sequence.answer(&other, WorkloadReading::Gone);
    assert!(sequence.workloads.is_watched(&pod("shop")) && !sequence.workloads.is_watched(&pod("attacker")));
    sequence.at(1);
    sequence.workloads.pods_changed(&pod("shop"), sequence.now);
    sequence.at(2);
    assert_eq!(sequence.reads(), ["api-5d9f"]);
}

#[test]
fn what_was_forgotten_is_read_again_because_of_events() {
    let mut sequence = Sequence::new();
    sequence.refused("api-1", replica_set("api-1", 1, 3, Some(0)));
    sequence.at(60);
    assert_eq!(sequence.missing().len(), 1);
    sequence.workloads.forget_readings(sequence.now);
    assert_eq!((sequence.missing().len(), sequence.workloads.open.len()), (0, 0));
    // Meanwhile it has got its pods.
    assert_eq!(sequence.reads(), ["api-1"]);
    sequence.answer(&key(WorkloadKind::ReplicaSet, "api-1"), replica_set("api-1", 3, 3, None));
    sequence.at(120);
    assert_eq!(sequence.missing().len(), 0);
    // If it still lacks them, the shortage is as old as before.
    sequence.refused("web-1", replica_set("web-1", 1, 3, Some(110)));
    sequence.at(180);
    let since = sequence.missing()[0].since;
    sequence.workloads.forget_readings(sequence.now);
    assert!(sequence.reads().contains(&"web-1".to_owned()));
    sequence.answer(&key(WorkloadKind::ReplicaSet, "web-1"), replica_set("web-1", 1, 3, Some(110)));
    assert_eq!(sequence.missing()[0].since, since);
}

/// A Job that its deadline has ended, and whose pods are gone.
fn overdue_job() -> WorkloadReading {
    let failed = json!({"type": "Failed", "status": "True", "reason": "DeadlineExceeded",
        "message": "Job was active longer than specified deadline", "lastTransitionTime": wall(0).to_string()});
    workload(
        WorkloadKind::Job,
        "sums",
        json!({"activeDeadlineSeconds": 600}),
        json!({"failed": 1, "conditions": [failed]}),
    )
}

#[test]
fn a_job_without_pods_is_reported_after_its_deadline() {
    let deadline = || Event {
        reason: "DeadlineExceeded".to_owned(),
        ..event(WorkloadKind::Job, "sums", "Job was active longer than specified deadline", 0)
    };
    let mut sequence = Sequence::new();
    sequence.event(&deadline());
    assert_eq!(sequence.reads(), ["sums"]);
    sequence.answer(&key(WorkloadKind::Job, "sums"), overdue_job());
    assert!(sequence.missing().is_empty(), "its pods may not be gone yet");
    sequence.at(30);
    let [own] = sequence.missing().try_into().unwrap();
    assert_eq!((own.reason, own.missing, own.of), ("DeadlineExceeded", 1, 1));
    assert_eq!(own.explanation.cause, Cause::DeadlineExceeded);
    assert_eq!(
        own.explanation.message,
        "0 of 1 pod exists: the Job ran into its deadline of 600 s, which ended its pods"
    );
    let object = NamespacedName::new("ns", "object");
    let with_pods = sequence.workloads.report(&object, &|_, _| true, &|_, job| job == "sums", sequence.wall);
    assert!(with_pods.missing.is_empty(), "the failed pods are reported");
    sequence.at(90);
    assert_eq!(sequence.reads(), ["sums"]);
    sequence.answer(&key(WorkloadKind::Job, "sums"), WorkloadReading::Gone);
    assert!(sequence.missing().is_empty(), "the Job is gone");

    // An event alone proves nothing: the Job may have completed, or run on.
    for status in
        [json!({"active": 1}), json!({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]})]
    {
        let mut sequence = Sequence::new();
        sequence.event(&deadline());
        sequence.reads();
        sequence.answer(&key(WorkloadKind::Job, "sums"), workload(WorkloadKind::Job, "sums", json!({}), status));
        sequence.at(60);
        assert!(sequence.missing().is_empty());
    }
}
