//! The counts of nodes and of memory, compared with the pods, while pods move between nodes, end, and are evicted.

use std::collections::HashMap;

use proptest::prelude::*;

use crate::{index::*, pods::from_json};

const NODES: [&str; 4] = ["a", "b", "c", ""];
const PHASES: [&str; 4] = ["Pending", "Running", "Succeeded", "Failed"];

#[derive(Clone, Debug)]
enum Step {
    Apply { number: u64, node: usize, phase: usize, containers: usize, labels: usize },
    InsertUndecodable(u64),
    Remove(u64),
    List,
    Compact,
}

fn pod(number: u64, node: usize, phase: usize, containers: usize, labels: usize) -> Box<Pod> {
    let statuses: Vec<_> = (0..containers)
        .map(|index| {
            serde_json::json!({"name": format!("c{index}"), "restartCount": 3,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": format!("{number} {}", "w".repeat(3000))}}})
        })
        .collect();
    let json = serde_json::json!({
        "metadata": {
            "uid": number.to_string(), "namespace": format!("n{}", number % 3), "name": format!("pod-{number}"),
            "labels": {"app": labels.to_string()},
        },
        "spec": {"nodeName": NODES[node]},
        "status": {"phase": PHASES[phase], "containerStatuses": statuses, "conditions": [
            {"type": "Ready", "status": if containers == 0 { "True" } else { "False" }},
        ]},
    });
    Box::new(from_json(&json.to_string()).unwrap())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..9_u64, 0..4_usize, 0..4_usize, 0..3_usize, 0..2_usize).prop_map(
            |(number, node, phase, containers, labels)| Step::Apply { number, node, phase, containers, labels }),
        1 => (0..9_u64).prop_map(Step::InsertUndecodable),
        1 => (0..9_u64).prop_map(Step::Remove),
        1 => Just(Step::List),
        1 => Just(Step::Compact),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn nodes_and_memory_are_counted_exactly(steps in steps()) {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let mut index = Index::new(Duration::from_secs(600));
        (index.memory.full, index.memory.all) = (16 * 1024, 20 * 1024);
        let mut nodes: HashMap<Uid, &str> = HashMap::new();
        for step in steps {
            match step {
                Step::Apply { number, node, phase, containers, labels } => {
                    let pod = pod(number, node, phase, containers, labels);
                    nodes.insert(pod.uid, if pod.phase == "Succeeded" { "" } else { NODES[node] });
                    index.apply(pod, now);
                }
                Step::InsertUndecodable(number) => {
                    let pod = pod(number, 0, 0, 0, 0);
                    index.insert_undecodable(UndecodablePod::without_room(&pod, DecodeError::NoRoom));
                }
                Step::Remove(number) => drop(index.remove(Uid::from_text(&number.to_string()))),
                Step::List => {
                    index.begin_list(Some("n0"));
                    index.end_list(Some("n0"));
                }
                Step::Compact => index.compact(now),
            }
            for node in &NODES[..3] {
                let on_node = |uid: &Uid| nodes.get(uid) == Some(node);
                let pods = index.pods.iter().filter(|(uid, _)| on_node(uid)).count() as u32;
                let suspects = index.suspects.keys().filter(|uid| on_node(uid)).count() as u32;
                prop_assert_eq!(index.pods_on_node(node), PodCount { pods, suspects });
            }
            let bytes: usize = index.suspects.values().map(|suspect| suspect.size as usize).sum();
            prop_assert_eq!(bytes, index.memory.total());
            prop_assert!(bytes <= index.memory.all);
        }
    }
}
