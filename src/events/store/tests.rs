use proptest::prelude::*;
use serde_json::json;

use super::*;

fn pod(uid: u128) -> Pod {
    Pod { uid: Uid::from(uid), name: format!("pod-{uid}").into(), namespace: "shop".into(), ..Pod::default() }
}

fn event(uid: u128, reason: &str, message: &str, count: u32) -> Event {
    Event {
        involved: InvolvedObject {
            kind: "Pod".to_owned(),
            namespace: "shop".to_owned(),
            uid: format!("{uid:032x}"),
            container: "app".to_owned(),
            ..InvolvedObject::default()
        },
        related: None,
        reason: reason.to_owned(),
        message: message.to_owned(),
        count,
        first: Timestamp::from_second(100).ok(),
        last: Timestamp::from_second(100 + i64::from(count)).ok(),
    }
}

fn in_namespace(namespace: &str, event: Event) -> Event {
    let involved = InvolvedObject { namespace: namespace.to_owned(), ..event.involved };
    Event { involved, ..event }
}

/// The texts and counts of the events about a pod.
fn about(store: &EventStore, uid: u128) -> Vec<(String, u32)> {
    store.about(&pod(uid)).iter().map(|event| (event.message.clone(), event.count)).collect()
}

#[test]
fn counts_an_event_that_occurs_again() {
    let (mut store, now) = (EventStore::default(), Instant::now());
    for (count, recorded) in [
        (1, Recorded::New),
        (2, Recorded::New),
        (3, Recorded::Repeated),
        (3, Recorded::Ignored),
        (2, Recorded::Ignored),
        (4, Recorded::New),
        (7, Recorded::Repeated),
        (90, Recorded::New),
    ] {
        assert_eq!(store.record(1, event(5, "Unhealthy", "503", count), now), recorded, "{count}");
    }
    let events = store.about(&pod(5));
    let [only] = &*events else { panic!("{events:?}") };
    assert_eq!(
        (only.count, only.first, only.last),
        (90, Timestamp::from_second(100).ok(), Timestamp::from_second(190).ok())
    );
    assert_eq!((&*only.involved.name, &*only.involved.container), ("pod-5", "app"));
    assert_eq!(about(&store, 6), []);
}

#[test]
fn merges_events_that_differ_in_numbers() {
    let (mut store, now) = (EventStore::default(), Instant::now());
    for port in 0..20_u32 {
        let message = format!("dial tcp 10.0.0.1:{}: refused", 40_000 + port);
        store.record(
            port.into(),
            Event { last: Timestamp::from_second(port.into()).ok(), ..event(5, "Unhealthy", &message, 2) },
            now,
        );
    }
    assert_eq!(about(&store, 5), [("dial tcp 10.0.0.1:40019: refused".to_owned(), 40)]);
    store.record(99, event(5, "FailedMount", "dial tcp 10.0.0.1:40019: refused", 1), now);
    let other = InvolvedObject { container: "other".to_owned(), ..event(5, "", "", 1).involved };
    store.record(98, Event { involved: other, ..event(5, "Unhealthy", "dial tcp 10.0.0.1:40019: refused", 1) }, now);
    assert_eq!(about(&store, 5).len(), 3, "another reason or container");
}

#[test]
fn keeps_the_latest_of_many_different_events_about_one_pod() {
    let (mut store, start) = (EventStore::default(), Instant::now());
    // Short numbers make a difference, so only every 26,000th message has the same template.
    let message = |index: u32| format!("failure {}{}", char::from(b'a' + (index % 26) as u8), index / 26 % 999);
    for index in 0..10_000 {
        let at = start + Duration::from_millis(index.into());
        store.record(index.into(), event(5, "Failed", &message(index), 1), at);
    }
    assert_eq!(about(&store, 5).len(), MAX_PER_POD);
    assert!(about(&store, 5).iter().any(|(kept, _)| *kept == message(9_999)));
    assert!(store.dropped() > 9_000);
}

#[test]
fn drops_events_that_explain_nothing_or_concern_other_objects() {
    let (mut store, now) = (EventStore::default(), Instant::now());
    assert_eq!(store.record(1, event(5, "PolicyViolation", "no", 1), now), Recorded::Ignored);
    let orchestr = InvolvedObject { kind: "Orchestr".to_owned(), ..event(5, "", "", 1).involved };
    assert_eq!(store.record(1, Event { involved: orchestr, ..event(5, "Failed", "no", 1) }, now), Recorded::Ignored);
    assert!(!store.has_events_about(&pod(5)));
}

#[test]
fn drops_the_events_of_pods_without_news_first() {
    let limit = 10 * (POD_BYTES + ENTRY_BYTES + 100);
    let (mut store, now) = (EventStore::with_limit(limit), Instant::now());
    let message = "x".repeat(97);
    for uid in 0..10 {
        store.record(1, event(uid, "Failed", &message, 1), now);
    }
    assert_eq!(store.dropped(), 0);
    store.record(1, event(0, "Failed", &message, 2), now);
    store.record(1, event(10, "Failed", &message, 1), now);
    let kept: Vec<u128> = (0..=10).filter(|uid| store.has_events_about(&pod(*uid))).collect();
    assert_eq!((kept, store.dropped()), (vec![0, 2, 3, 4, 5, 6, 7, 8, 9, 10], 1));
}

#[test]
fn drops_old_events_and_those_of_deleted_pods() {
    let (mut store, start) = (EventStore::default(), Instant::now());
    store.record(1, event(5, "Failed", "old", 1), start);
    store.record(1, event(6, "Failed", "gone", 1), start);
    store.sweep(start + PATIENCE - Duration::from_secs(1), |_| false);
    assert!(store.has_events_about(&pod(6)), "its pod may not be known yet");
    store.sweep(start + PATIENCE, |uid| uid == Uid::from(5));
    assert!(!store.has_events_about(&pod(6)));
    store.record(2, event(5, "Failed", "new", 1), start + MAX_AGE / 2);
    store.sweep(start + MAX_AGE, |_| true);
    assert_eq!(about(&store, 5), [("new".to_owned(), 1)]);
    store.sweep(start + 2 * MAX_AGE, |_| true);
    assert_eq!(store.pods.total(), 0);
}

proptest! {
    #[test]
    fn stays_within_its_bounds(
        steps in prop::collection::vec((0_u128..20, 0_u64..6, 0_usize..3, "[a-d]{0,40}", 0_u32..2000, prop::bool::weighted(0.1)), 0..100),
        limit in 500_usize..4000,
    ) {
        let (mut store, start) = (EventStore::with_limit(limit), Instant::now());
        for (step, (uid, id, reason, message, count, is_sweep)) in steps.into_iter().enumerate() {
            let now = start + Duration::from_secs(30 * step as u64);
            if is_sweep {
                store.sweep(now, |uid| u128::from(uid) % 2 == 0);
            }
            let event = in_namespace(&format!("team-{}", uid % 3), event(uid, ["Failed", "Unhealthy", "Other"][reason], &message, count));
            let recorded = store.record(id, event, now);
            prop_assert!(reason < 2 || recorded == Recorded::Ignored);
            prop_assert!(store.pods.total() <= limit);
            let mut bytes = 0;
            store.pods.retain(|_, pod, size| {
                assert!((1..=MAX_PER_POD).contains(&pod.entries.len()));
                assert!(pod.entries.iter().all(|entry| entry.sources.len() <= MAX_SOURCES));
                assert_eq!(*size, pod.bytes());
                bytes += pod.bytes();
                true
            });
            prop_assert_eq!(store.pods.total(), bytes);
        }
    }
}

#[test]
fn an_event_of_another_namespace_is_no_evidence_about_a_pod() {
    let (mut store, now) = (EventStore::default(), Instant::now());
    let mut forged = event(5, "Unhealthy", "forged", 1);
    forged.involved.namespace = "attacker".to_owned();
    store.record(1, forged, now);
    assert!(about(&store, 5).is_empty() && !store.has_events_about(&pod(5)));
    store.record(1, event(5, "Unhealthy", "503", 1), now);
    assert_eq!(about(&store, 5), [("503".to_owned(), 1)]);
}

#[test]
fn a_namespace_within_its_share_keeps_its_events() {
    let (mut store, now) = (EventStore::with_limit(64 * 1024), Instant::now());
    for uid in 0..10 {
        store.record(1, event(uid, "Unhealthy", "503", 1), now);
    }
    let message = "x".repeat(200);
    for attacker in ["attacker", "zzz"] {
        for uid in 100..2_000 {
            store.record(1, in_namespace(attacker, event(uid, "Failed", &message, 1)), now);
        }
    }
    for uid in 0..10 {
        assert_eq!(about(&store, uid), [("503".to_owned(), 1)], "pod {uid}");
    }
    // Beyond its share, a namespace loses its own oldest ones.
    for uid in 1_000..3_000 {
        store.record(1, event(uid, "Failed", &message, 1), now);
    }
    assert!(!store.has_events_about(&pod(0)) && store.has_events_about(&pod(2_999)));
}

#[test]
fn keeps_why_claims_of_an_unscheduled_pod_are_not_provisioned() {
    let (mut store, now) = (EventStore::default(), Instant::now());
    let of_claim = |name: &str, reason: &str| {
        let involved = InvolvedObject {
            kind: CLAIM.to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            ..InvolvedObject::default()
        };
        Event { involved, ..event(7, reason, &format!("{name}: no class"), 1) }
    };
    assert_eq!(store.record(1, of_claim("data", "ProvisioningFailed"), now), Recorded::New);
    assert_eq!(store.record(2, of_claim("other", "ProvisioningFailed"), now), Recorded::New);
    assert_eq!(store.record(3, of_claim("data", "VolumeResizeFailed"), now), Recorded::Ignored);
    assert_eq!(store.record(4, in_namespace("bank", of_claim("data", "ProvisioningFailed")), now), Recorded::New);
    store.record(5, event(5, "FailedScheduling", "unbound", 9), now);
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    let changes = |node: &str| json!({"metadata": {"uid": format!("{:032x}", 5)}, "spec": {"nodeName": node, "volumes": volumes}});
    let pod = |node: &str| crate::pods::testing::pod("pod-5", changes(node));
    let about = |store: &EventStore, node: &str| {
        let events = store.about(&pod(node));
        events.iter().map(|event| format!("{}: {}", event.involved.kind, event.message)).collect::<Vec<_>>()
    };
    assert_eq!(about(&store, ""), ["PersistentVolumeClaim: data: no class", "Pod: unbound"]);
    assert_eq!(about(&store, "node-1"), ["Pod: unbound"]);
    // The claim's events do not depend on whether a pod has its identity.
    store.sweep(now + 2 * PATIENCE, |_| false);
    assert_eq!(about(&store, ""), ["PersistentVolumeClaim: data: no class"]);
    store.sweep(now + 2 * MAX_AGE, |_| true);
    assert_eq!(about(&store, ""), [""; 0]);
}

#[test]
fn messages_that_differ_in_ports_or_ids_have_the_same_template() {
    for (one, other, same) in [
        ("read tcp 10.0.0.1:43210->10.0.0.9:8080: reset", "read tcp 10.0.0.1:51022->10.0.0.9:8080: reset", true),
        ("sandbox \"0a1b2c3d4e5f\" failed", "sandbox \"9f8e7d6c5b4a\" failed", true),
        ("statuscode: 503", "statuscode: 500", false),
        ("Liveness probe failed", "Readiness probe failed", false),
        ("volume facade", "volume decade", false),
        ("volume \"a\"", "volume \"b\"", false),
        ("ab c", "a bc", false),
        ("(combined from similar events): no route", "no route", true),
    ] {
        let [of_one, of_other] = [one, other].map(|text| template(event(1, "Failed", text, 1).text()));
        assert_eq!(of_one == of_other, same, "{one} {other}");
    }
}
