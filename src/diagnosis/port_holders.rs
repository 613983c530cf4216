//! Which pods use ports of their nodes.

use std::collections::HashMap;

use arcstr::ArcStr;

use crate::pods::{HostPort, Pod, Uid};

/// How many pods are kept. Those of a DaemonSet use the same port on each node, and one of them is enough as an example.
const PODS: usize = 4096;
/// How many pods are kept for each port.
const PODS_OF_PORT: u32 = 64;

/// Pods that use ports of their nodes, but not all of them in a large cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortHolders {
    pods: HashMap<Uid, Holder>,
    counts: HashMap<HostPort, u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    pod: NamedHolder,
    ports: Box<[HostPort]>,
}

/// A pod that uses a port which another pod requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortHolder {
    pub port: HostPort,
    /// Absent if it must not be shown.
    pub pod: Option<NamedHolder>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedHolder {
    pub node: ArcStr,
    pub namespace: ArcStr,
    pub name: ArcStr,
}

impl PortHolders {
    /// Adds a pod, or what has changed about it.
    pub(crate) fn see(&mut self, pod: &Pod) {
        let holds = !pod.host_ports.is_empty() && !pod.node.is_empty() && !has_ended(pod);
        if !holds {
            self.remove(pod.uid);
            return;
        }
        let is_known = self.pods.get(&pod.uid).is_some_and(|holder| holder.pod.node == pod.node);
        let is_common = |port| self.counts.get(port).is_some_and(|count| *count >= PODS_OF_PORT);
        if is_known || self.pods.len() >= PODS || pod.host_ports.iter().all(is_common) {
            return;
        }
        self.remove(pod.uid);
        for port in &pod.host_ports {
            *self.counts.entry(*port).or_default() += 1;
        }
        let named = NamedHolder { node: pod.node.clone(), namespace: pod.namespace.clone(), name: pod.name.clone() };
        self.pods.insert(pod.uid, Holder { pod: named, ports: pod.host_ports.clone() });
    }

    pub(crate) fn remove(&mut self, uid: Uid) {
        let Some(holder) = self.pods.remove(&uid) else { return };
        for port in &holder.ports {
            if let Some(count) = self.counts.get_mut(port) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(port);
                }
            }
        }
    }

    /// A pod that uses one of the ports of a pod that is on no node yet. Always the same while nothing changes. Only these
    /// pods are named.
    pub(crate) fn holder(&self, pod: &Pod, may_name: impl Fn(Uid) -> bool) -> Option<PortHolder> {
        let taken = |holder: &Holder| pod.host_ports.iter().copied().find(|port| holder.ports.contains(port));
        let holders = self.pods.iter().filter_map(|(uid, holder)| Some((!may_name(*uid), taken(holder)?, holder)));
        let (is_hidden, port, holder) =
            holders.min_by_key(|(is_hidden, _, holder)| (*is_hidden, holder.pod.clone()))?;
        Some(PortHolder { port, pod: (!is_hidden).then(|| holder.pod.clone()) })
    }
}

/// The scheduler gives the ports of pods that have ended to others.
fn has_ended(pod: &Pod) -> bool {
    matches!(pod.phase.as_str(), "Succeeded" | "Failed")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, node: &str, phase: &str, port: serde_json::Value) -> Pod {
        let spec = json!({"nodeName": node, "containers": [{"name": "app", "ports": [port]}]});
        let changes = json!({"metadata": {"uid": uid}, "spec": spec, "status": {"phase": phase}});
        crate::pods::testing::pod(&format!("exporter-{uid}"), changes)
    }

    fn named(holders: &PortHolders, port: serde_json::Value) -> Option<String> {
        let holder = holders.holder(&pod("9", "", "Pending", port), |uid| uid != Uid::from_text("7"))?;
        Some(format!(
            "{} {}",
            holder.port,
            holder.pod.map_or_else(String::new, |pod| format!("{}@{}", pod.name, pod.node))
        ))
    }

    #[test]
    fn names_the_pod_that_holds_the_same_port() {
        let mut holders = PortHolders::default();
        holders.see(&pod("2", "b", "Running", json!({"hostPort": 9100})));
        holders.see(&pod("1", "a", "Running", json!({"hostPort": 9100, "hostIP": "0.0.0.0"})));
        holders.see(&pod("3", "a", "Running", json!({"hostPort": 53, "protocol": "UDP"})));
        holders.see(&pod("4", "a", "Running", json!({"hostPort": 80, "hostIP": "127.0.0.1"})));
        holders.see(&pod("5", "", "Pending", json!({"hostPort": 443})));
        assert_eq!(named(&holders, json!({"hostPort": 9100})).as_deref(), Some("9100 exporter-1@a"));
        assert_eq!(named(&holders, json!({"hostPort": 53, "protocol": "UDP"})).as_deref(), Some("53/UDP exporter-3@a"));
        for free in [json!({"hostPort": 53}), json!({"hostPort": 80}), json!({"hostPort": 443}), json!({})] {
            assert_eq!(named(&holders, free), None);
        }
        // It has ended, and then the other is deleted.
        holders.see(&pod("1", "a", "Failed", json!({"hostPort": 9100})));
        assert_eq!(named(&holders, json!({"hostPort": 9100})).as_deref(), Some("9100 exporter-2@b"));
        holders.remove(Uid::from_text("2"));
        assert_eq!(named(&holders, json!({"hostPort": 9100})), None);
    }

    #[test]
    fn does_not_name_pods_that_must_not_be_shown() {
        let mut holders = PortHolders::default();
        holders.see(&pod("7", "a", "Running", json!({"hostPort": 9100})));
        assert_eq!(named(&holders, json!({"hostPort": 9100})).as_deref(), Some("9100 "));
    }

    #[test]
    fn keeps_a_bounded_number_of_pods_for_each_port() {
        let mut holders = PortHolders::default();
        for uid in 1..=200 {
            holders.see(&pod(&uid.to_string(), "a", "Running", json!({"hostPort": 9100})));
        }
        holders.see(&pod("300", "b", "Running", json!({"hostPort": 9200})));
        assert_eq!(holders.pods.len(), 65);
        assert!(named(&holders, json!({"hostPort": 9200})).is_some());
    }
}
