//! Pods as a real kubelet wrote them, and the output of kubectl at the same time.

use serde_json::Value;

const PODS: &str = include_str!("../../fixtures/real-pods.json");
const STATUSES: &str = include_str!("../../fixtures/real-pods.status.tsv");

/// The output of `kubectl get pods` for one of [`real_pods`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealStatus {
    /// The pod's name.
    pub name: &'static str,
    /// `0/1`.
    pub ready: &'static str,
    /// `CrashLoopBackOff`.
    pub status: &'static str,
    /// The number only, without the time of the last restart.
    pub restarts: &'static str,
}

/// 27 pods of a kubelet 1.36 with containerd, about 90 s after they were created; all in the namespace `shop`.
///
/// # Panics
///
/// If the fixture is not a list of objects.
#[expect(clippy::panic, reason = "the fixture is part of this program")]
pub fn real_pods() -> Vec<Value> {
    match serde_json::from_str(PODS) {
        Ok(Value::Object(mut list)) => match list.remove("items") {
            Some(Value::Array(pods)) => pods,
            other => panic!("real-pods.json: items is {other:?}"),
        },
        other => panic!("real-pods.json: {other:?}"),
    }
}

/// The output of kubectl for each of [`real_pods`].
pub fn real_statuses() -> Vec<RealStatus> {
    let rows = STATUSES.lines().skip(1);
    rows.filter_map(|row| {
        let mut cells = row.split('\t');
        Some(RealStatus { name: cells.next()?, ready: cells.next()?, status: cells.next()?, restarts: cells.next()? })
    })
    .collect()
}
