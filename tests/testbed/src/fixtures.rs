//! Pods as a real kubelet wrote them, and what kubectl printed for them at that moment.

use serde_json::Value;

const PODS: &str = include_str!("../../fixtures/real-pods.json");
const STATUSES: &str = include_str!("../../fixtures/real-pods.status.tsv");

/// What `kubectl get pods` printed for one of [`real_pods`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealStatus {
    /// The pod's name.
    pub name: &'static str,
    /// `0/1`.
    pub ready: &'static str,
    /// `CrashLoopBackOff`.
    pub status: &'static str,
    /// As a number; how long ago is not kept.
    pub restarts: &'static str,
}

/// 27 pods of kubelet 1.36 with containerd, about 90 s after they were made; all in the namespace `shop`.
///
/// # Panics
///
/// When the fixture is no list of objects.
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

/// What kubectl printed for each of [`real_pods`].
pub fn real_statuses() -> Vec<RealStatus> {
    let rows = STATUSES.lines().skip(1);
    rows.filter_map(|row| {
        let mut cells = row.split('\t');
        Some(RealStatus { name: cells.next()?, ready: cells.next()?, status: cells.next()?, restarts: cells.next()? })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_a_status_for_each_pod() {
        let pods = real_pods();
        let names: Vec<_> = pods.iter().map(|pod| &pod["metadata"]["name"]).collect();
        let statuses = real_statuses();
        assert_eq!(statuses.len(), 27);
        assert_eq!(names, statuses.iter().map(|status| status.name).collect::<Vec<_>>());
    }
}
