//! How much memory pods take that a tenant makes as large as possible, and what remains for others.

use serde_json::{Value, json};

use crate::index::*;
use crate::settings::Settings;

const LOOKBACK: Duration = Duration::from_secs(600);

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn scope(pods: Value) -> PodSelection {
    let spec = json!({"alerts": {"checkRunningPods": true}, "pods": pods});
    Settings::new(&serde_json::from_value(spec).unwrap()).unwrap().scope
}

fn uid(namespace: &str, number: u64) -> String {
    format!("{namespace}-{number}")
}

/// A crash-looping pod with so many containers, each with messages of 4 KiB.
fn failing(namespace: &str, number: u64, containers: usize) -> Box<Pod> {
    let statuses: Vec<_> = (0..containers)
        .map(|index| {
            json!({"name": format!("c{index}"), "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff",
                "message": format!("{number} {}", "w ".repeat(2050))}},
                "lastState": {"terminated": {"exitCode": 1, "message": format!("{number} {}", "t ".repeat(2000))}}})
        })
        .collect();
    let json = json!({
        "metadata": {"uid": uid(namespace, number), "namespace": namespace, "name": format!("pod-{number}")},
        "status": {"phase": "Running", "containerStatuses": statuses},
    });
    Box::new(crate::pods::from_json(&json.to_string()).unwrap())
}

/// A healthy pod with 256 labels of 380 bytes, which no other pod has.
fn labelled(namespace: &str, number: u64) -> Box<Pod> {
    let labels: serde_json::Map<_, _> = (0..256)
        .map(|n| {
            (format!("{}/{}{n:03}", "k".repeat(253), "n".repeat(60)), json!(format!("{}{number:06}", "v".repeat(57))))
        })
        .collect();
    let json = json!({
        "metadata": {"uid": uid(namespace, number), "namespace": namespace, "name": format!("pod-{number}"), "labels": labels},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    Box::new(crate::pods::from_json(&json.to_string()).unwrap())
}

fn undecodable(index: &Index, view: ViewId) -> u64 {
    index.undecodable(view).map_or(0, |(count, _)| count)
}

#[test]
fn long_labels_are_selected_exactly_also_by_later_objects() {
    let mut index = Index::new(LOOKBACK);
    for number in 0..20 {
        index.apply(labelled("shop", number), now());
    }
    let key = format!("{}/{}255", "k".repeat(253), "n".repeat(60));
    let value = format!("{}000007", "v".repeat(57));
    for (expression, count) in [
        (json!({"key": key, "operator": "In", "values": [value, "x"]}), 1),
        (json!({"key": key, "operator": "NotIn", "values": [value]}), 19),
        (json!({"key": key, "operator": "Exists"}), 20),
        (json!({"key": "app", "operator": "DoesNotExist"}), 20),
        (json!({"key": "app", "operator": "Exists"}), 0),
    ] {
        let view = index.add_view(scope(json!({"selector": {"matchExpressions": [expression]}})));
        assert_eq!(index.watched(view), count, "{expression}");
    }
}

#[test]
fn pods_with_long_labels_take_little_and_leave_room() {
    let mut index = Index::new(LOOKBACK);
    let view = index.add_view(scope(json!({})));
    for number in 0..600 {
        index.apply(labelled("evil", number), now());
    }
    index.apply(labelled("shop", 1), now());
    let bytes = index.label_sets.bytes();
    assert!(bytes < 2 << 20, "{bytes} bytes");
    let (watched, unjudged) = (index.watched(view), undecodable(&index, view));
    assert_eq!(watched + unjudged, 601, "the counts are exact");
    assert!(watched > 200 && unjudged > 0, "{watched}");
    let shop = index.add_view(scope(json!({"namespaces": ["shop"]})));
    assert_eq!((index.watched(shop), undecodable(&index, shop)), (1, 0));
    let (_, first) = index.undecodable(view).unwrap();
    assert_eq!(first.error.to_string(), "its namespace has too many long labels");

    // When they are gone, there is room again.
    for number in 0..600 {
        index.remove(Uid::from_text(&uid("evil", number)));
    }
    assert_eq!((index.watched(view), undecodable(&index, view)), (1, 0));
    index.apply(labelled("evil", 700), now());
    assert_eq!((index.watched(view), undecodable(&index, view)), (2, 0));
}

#[test]
fn the_suspects_of_one_namespace_do_not_cut_those_of_another() {
    let mut index = Index::new(LOOKBACK);
    (index.memory.full, index.memory.all) = (1 << 20, 3 << 19);
    let all = index.add_view(scope(json!({})));
    let shop = index.add_view(scope(json!({"namespaces": ["shop"]})));
    index.apply(failing("shop", 0, 1), now());
    let mut most = 0;
    for number in 0..900 {
        index.apply(failing("evil", number, 6), now());
        most = most.max(index.memory.total());
        // Now and then, a pod of another tenant fails.
        if number % 50 == 49 {
            index.apply(failing("shop", number, 1), now());
        }
    }
    assert!(most <= index.memory.all, "{most} bytes");
    let mut suspects: Vec<Pod> = index.suspects(all).cloned().collect();
    let counted: usize = suspects.iter_mut().map(|pod| memory::share_texts(&mut index.texts, pod)).sum();
    assert!(counted <= index.memory.total(), "{counted} bytes are more than {}", index.memory.total());
    assert_eq!((index.watched(shop), undecodable(&index, shop), index.suspects(shop).count()), (19, 0, 19));
    for pod in index.suspects(shop) {
        let status = &pod.statuses[0];
        assert!(status.state.waiting.as_ref().unwrap().message.len() > 4000, "it is whole");
    }
    let unjudged = undecodable(&index, all);
    assert_eq!(index.watched(all) + unjudged, 919, "the counts are exact");
    assert!(unjudged > 0);
    let (_, first) = index.undecodable(all).unwrap();
    assert_eq!(first.error.to_string(), "its namespace has too many pods that may have a problem");
    // Those that are judged fail for the same reason as before they were cut.
    assert!(
        index.suspects(all).all(|pod| pod.statuses[0].state.waiting.as_ref().unwrap().reason == "CrashLoopBackOff")
    );

    for number in 0..900 {
        index.remove(Uid::from_text(&uid("evil", number)));
    }
    index.apply(failing("evil", 1, 6), now());
    assert_eq!((index.suspects(all).count(), undecodable(&index, all)), (20, 0));
    assert!(
        index
            .suspects(all)
            .all(|pod| pod.statuses.len() == 1 || pod.statuses[5].state.waiting.as_ref().unwrap().message.len() > 500)
    );
}

#[test]
fn a_crash_looping_pod_takes_little_beside_what_it_shares() {
    use orchestr_testbed::pods::{Health, Shape, filler_as};
    let mut index = Index::new(LOOKBACK);
    // Two pods of one workload.
    let shape = Shape::default();
    for number in [0, shape.workloads] {
        let (_, json) = filler_as(number, &shape, Health::CrashLooping { restarts: 1 });
        index.apply(Box::new(crate::pods::from_json(&json).unwrap()), now());
    }
    let sizes: Vec<_> = index.suspects.values().map(|suspect| suspect.size).collect();
    assert!(sizes.len() == 2 && sizes.iter().all(|size| *size < 2000), "{sizes:?} bytes");
}
