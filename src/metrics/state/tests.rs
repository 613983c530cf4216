use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::*;
use crate::api::{Cause, Owner};

const KINDS: [ProblemKind; 2] = [ProblemKind::Crash, ProblemKind::Image];

fn object(name: &str) -> NamespacedName {
    NamespacedName::new("shop", name)
}

fn incident(key: u64, namespace: &str) -> Incident {
    Incident {
        key: format!("{key:016x}").into(),
        namespace: namespace.into(),
        owner: Owner { kind: "Deployment".to_owned(), name: "cart".to_owned() }.into(),
        container: "app".into(),
        kind: KINDS[usize::try_from(key % 2).unwrap()],
        reason: "OOMKilled".into(),
        cause: Cause::OutOfMemory,
        pods: 3,
        since: Timestamp::from_second(100).unwrap(),
        ..Incident::default()
    }
}

fn report(state: &mut State, name: &str, incidents: impl IntoIterator<Item = Incident>) -> Changes {
    report_of(state, name, 1, incidents)
}

fn report_of(state: &mut State, name: &str, generation: i64, incidents: impl IntoIterator<Item = Incident>) -> Changes {
    let incidents: Vec<_> = incidents.into_iter().collect();
    let report = ObjectReport { generation, pods: 10, ..ObjectReport::default() };
    state.report(&object(name), &report, &incidents)
}

fn value(labels: &Labels<7>, name: &str) -> String {
    labels.iter().find(|(own, _)| *own == name).unwrap().1.to_string()
}

fn namespaces(state: &State) -> Vec<(String, usize)> {
    let mut counts = HashMap::new();
    for (labels, ..) in state.snapshot().incidents {
        *counts.entry(value(&labels, "namespace")).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable();
    counts
}

#[test]
fn an_incident_of_several_objects_has_one_series() {
    let mut state = State::default();
    report(&mut state, "a", [incident(1, "shop")]);
    let partial = Incident { pods: 1, reason: "Error".into(), cause: Cause::Unknown, ..incident(1, "shop") };
    report(&mut state, "b", [partial.clone()]);
    let values = |state: &State| {
        let incidents = state.snapshot().incidents;
        let of = |(labels, pods, _): (Arc<Labels<7>>, _, _)| (value(&labels, "reason"), value(&labels, "cause"), pods);
        incidents.into_iter().map(of).collect::<Vec<_>>()
    };
    let expected = |reason: &str, cause: &str, pods| [(reason.to_owned(), cause.to_owned(), pods)];
    assert_eq!(values(&state), expected("OOMKilled", "OutOfMemory", 3));
    state.withdraw(&object("a"));
    assert_eq!(values(&state), expected("OOMKilled", "OutOfMemory", 3), "until the other one reports again");
    report(&mut state, "b", [partial]);
    assert_eq!(values(&state), expected("Error", "Unknown", 1));
    report(&mut state, "b", []);
    assert_eq!(values(&state), []);
}

#[test]
fn counts_beginnings_and_ends_while_watched() {
    let mut state = State::default();
    let none = Changes::default();
    assert_eq!(report(&mut state, "a", [incident(1, "shop")]), none, "it began before");
    let changes = report(&mut state, "a", [incident(1, "shop"), incident(2, "shop")]);
    assert_eq!(changes, Changes { opened: vec![KINDS[0]], resolved: vec![] });
    assert_eq!(report(&mut state, "b", [incident(2, "shop")]), none);
    assert_eq!(report(&mut state, "a", [incident(1, "shop")]), none, "another object reports it");
    let changes = report(&mut state, "b", []);
    assert_eq!(changes, Changes { opened: vec![], resolved: vec![KINDS[0]] });
    assert_eq!(report_of(&mut state, "a", 2, [incident(3, "shop")]), none, "the spec selects other pods");
    state.withdraw(&object("a"));
    assert_eq!(report(&mut state, "a", [incident(3, "shop")]), none, "it was paused");
}

#[test]
fn keeps_nothing_of_incidents_that_are_over() {
    let mut state = State::default();
    for round in 0..5 {
        let keys = (0..3_000).map(|key| incident(1_000_000 * round + key, "shop"));
        report(&mut state, "a", keys);
        assert_eq!((state.snapshot().incidents.len(), state.snapshot().omitted_incidents), (INCIDENTS, 1_000));
    }
    state.withdraw(&object("a"));
    assert_eq!((state.known.len(), state.incidents.total(), state.objects.len()), (0, 0, 0));
}

#[test]
fn namespaces_share_the_series_equally_whoever_came_first() {
    let mut state = State::default();
    report(&mut state, "a", (0..10_000).map(|key| incident(key, "loud")));
    assert_eq!((namespaces(&state), state.snapshot().omitted_incidents), (vec![("loud".to_owned(), 2_000)], 8_000));
    report(&mut state, "b", (10_000..10_100).map(|key| incident(key, "shop")));
    assert_eq!(namespaces(&state), [("loud".to_owned(), 1_900), ("shop".to_owned(), 100)]);
    report(&mut state, "c", (20_000..30_000).map(|key| incident(key, "ml")));
    let shared = namespaces(&state);
    assert_eq!(shared.iter().map(|(_, count)| count).sum::<usize>(), INCIDENTS);
    assert_eq!(shared[2], ("shop".to_owned(), 100), "it takes less than its share");
    assert!(shared[..2].iter().all(|(_, count)| *count >= INCIDENTS / 3), "{shared:?}");
    // Repeated reports change nothing.
    report(&mut state, "a", (0..10_000).map(|key| incident(key, "loud")));
    assert_eq!(namespaces(&state), shared);
    // When there is room again, the next report takes it.
    state.withdraw(&object("c"));
    report(&mut state, "a", (0..10_000).map(|key| incident(key, "loud")));
    assert_eq!(namespaces(&state), [("loud".to_owned(), 1_900), ("shop".to_owned(), 100)]);
}

#[test]
fn objects_that_report_the_same_incidents_share_their_list() {
    let mut state = State::default();
    for number in 0..1_000 {
        report(&mut state, &number.to_string(), (0..500).map(|key| incident(key, "shop")));
    }
    let first = &state.objects[&object("0")].incidents;
    assert!(state.objects.values().all(|object| Arc::ptr_eq(&object.incidents, first)));
    assert_eq!(state.snapshot().incidents.len(), 500);
}

#[test]
fn adds_up_the_problems_beyond_the_limit() {
    let namespaces: Vec<String> = (0..1_000).map(|number| format!("ns-{number}")).collect();
    let counts: Vec<ProblemCount<'_>> =
        namespaces.iter().map(|namespace| ProblemCount { namespace, reason: "Error", pods: 2 }).collect();
    let listed = problems(&counts, 256);
    assert_eq!((listed.len(), listed.iter().map(|(_, pods)| pods).sum::<u64>()), (256, 2_000));
    assert_eq!(listed[255], ([("namespace", OTHER.into()), ("reason", OTHER.into())], 2 * 745));
    // Names that differ only in characters that are replaced.
    let odd = [("a\n", 1), ("a\r", 2)].map(|(reason, pods)| ProblemCount { namespace: "shop", reason, pods });
    assert_eq!(problems(&odd, 256), [([("namespace", "shop".into()), ("reason", "a\u{fffd}".into())], 3)]);
}

#[test]
fn follows_the_reason_and_cause_of_an_incident() {
    let mut state = State::default();
    report(&mut state, "a", [incident(1, "shop")]);
    let since = Timestamp::from_second(50).unwrap();
    let changed = Incident { reason: "Error\n".into(), cause: Cause::ExitCode, since, ..incident(1, "shop") };
    report(&mut state, "a", [changed]);
    let (labels, _, since) = state.snapshot().incidents.remove(0);
    assert_eq!((value(&labels, "reason").as_str(), since), ("Error\u{fffd}", 50));
    assert_eq!(value(&labels, "cause"), "ExitCode");
}

#[test]
fn many_namespaces_that_displace_others_take_little_time() {
    let names: Vec<String> = (0..1_999).map(|number| format!("ns-{number}")).collect();
    let many = || (0..20_000_u64).map(|key| incident(key, &names[usize::try_from(key).unwrap() % names.len()]));
    let (mut state, begun) = (State::default(), Instant::now());
    report(&mut state, "a", (100_000..102_000).map(|key| incident(key, "loud")));
    for _ in 0..3 {
        report(&mut state, "b", many());
    }
    assert_eq!((state.snapshot().incidents.len(), namespaces(&state).len()), (INCIDENTS, 2_000));
    // The bound is for a debug build on a busy machine.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn shows_the_same_objects_each_time() {
    let mut state = State::default();
    for number in 0..OBJECTS + 100 {
        report(&mut state, &format!("{number:05}"), []);
    }
    let last = object(&format!("{:05}", OBJECTS - 1));
    assert!(state.snapshot().objects.iter().all(|(name, _)| *name <= last));
    assert_eq!(state.snapshot().omitted_objects, 100);
}
