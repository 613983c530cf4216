//! What the nodes of a cluster have and offer, all of them together. Thousands of nodes have few different labels, taints and
//! sizes, so this takes little memory.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
};

use arcstr::ArcStr;
use serde::Deserialize;

use crate::{
    pods::{NodeTerm, Toleration, Tolerations},
    quantity::Quantity,
};

/// How much the labels of all nodes may take, in bytes. Of more, nothing is said about labels.
const LABEL_BYTES: usize = 2 << 20;
/// How many nodes are named.
const NAMES: usize = 3;
/// The field of a node that an affinity can require. It is kept like a label.
const NAME_FIELD: &str = "metadata.name";

/// The nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNodes {
    count: usize,
    labels: HashMap<ArcStr, Label>,
    label_bytes: usize,
    /// The largest quantity that a node offers of each resource.
    largest: BTreeMap<String, Quantity>,
    cordoned: NodeNames,
    /// The nodes that are not cordoned, by the taints that keep pods away.
    tainted: BTreeMap<Vec<Taint>, NodeNames>,
}

/// A label of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Label {
    nodes: usize,
    values: HashSet<ArcStr>,
}

/// The first names of nodes, and how many there are: `a, b, c and 7 more`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeNames {
    first: BTreeSet<ArcStr>,
    pub(super) count: usize,
}

/// A taint that keeps pods away from a node: `dedicated=gpu:NoSchedule`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub(super) struct Taint {
    key: String,
    value: String,
    effect: String,
}

/// The fields of a node that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeObject {
    metadata: NodeMetadata,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeMetadata {
    name: String,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    unschedulable: bool,
    taints: Option<Vec<Taint>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    allocatable: Option<BTreeMap<String, String>>,
}

impl ClusterNodes {
    /// Adds a node.
    pub fn add(&mut self, node: &NodeObject) {
        let NodeObject { metadata, spec, status } = node;
        let name = ArcStr::from(metadata.name.as_str());
        self.count += 1;
        self.add_label(NAME_FIELD, &name);
        let labels = metadata.labels.iter().flatten().filter(|(key, _)| *key != NAME_FIELD);
        labels.for_each(|(key, value)| self.add_label(key, value));
        for (resource, quantity) in status.allocatable.iter().flatten() {
            let Some(quantity) = Quantity::parse(quantity) else { continue };
            match self.largest.get_mut(resource) {
                Some(largest) => *largest = (*largest).max(quantity),
                None => _ = self.largest.insert(resource.clone(), quantity),
            }
        }
        // The scheduler says of a cordoned node nothing else.
        if spec.unschedulable {
            self.cordoned.add(name);
            return;
        }
        let taints = spec.taints.iter().flatten().filter(|taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute"));
        let taints: Vec<Taint> = taints.cloned().collect();
        if !taints.is_empty() {
            self.tainted.entry(taints).or_default().add(name);
        }
    }

    fn add_label(&mut self, key: &str, value: &str) {
        self.label_bytes += key.len() + value.len();
        if self.label_bytes > LABEL_BYTES {
            self.labels.clear();
            return;
        }
        if !self.labels.contains_key(key) {
            self.labels.insert(key.into(), Label::default());
        }
        let Some(label) = self.labels.get_mut(key) else { return };
        label.nodes += 1;
        if label.values.contains(value) {
            // It takes no room.
            self.label_bytes -= key.len() + value.len();
        } else {
            label.values.insert(value.into());
        }
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether it is certain that no node matches a term of a node selector or affinity.
    pub(super) fn none_matches(&self, term: &NodeTerm) -> bool {
        if self.label_bytes > LABEL_BYTES {
            return false;
        }
        let label = self.labels.get(&term.key);
        let values = term.values.first();
        let is_complete = values.len() == term.values.count();
        let number = |text: &ArcStr| text.parse::<i64>().ok();
        let all_have = || label.filter(|label| label.nodes >= self.count);
        match term.operator.as_str() {
            "Exists" => label.is_none(),
            "In" => is_complete && label.is_none_or(|label| !values.iter().any(|value| label.values.contains(value))),
            "DoesNotExist" => all_have().is_some(),
            "NotIn" => all_have().is_some_and(|label| label.values.iter().all(|value| values.contains(value))),
            "Gt" | "Lt" => {
                let Some(limit) = values.first().and_then(number) else { return false };
                let fits = |value: i64| if term.operator == "Gt" { value > limit } else { value < limit };
                !label.is_some_and(|label| label.values.iter().filter_map(number).any(fits))
            }
            _ => false,
        }
    }

    /// How much the largest node offers of a resource; zero if none offers any.
    pub(super) fn largest(&self, resource: &str) -> Quantity {
        self.largest.get(resource).copied().unwrap_or_default()
    }

    pub(super) fn cordoned(&self) -> &NodeNames {
        &self.cordoned
    }

    /// The taints that keep a pod away from nodes that are not cordoned, with these nodes: of each node the first, as the
    /// scheduler does. Absent if it is not known which taints the pod tolerates.
    pub(super) fn untolerated(&self, tolerations: &Tolerations) -> Option<BTreeMap<&Taint, NodeNames>> {
        let is_known = |toleration: &Toleration| matches!(&*toleration.operator, "" | "Equal" | "Exists");
        if tolerations.more > 0 || !tolerations.first.iter().all(is_known) {
            return None;
        }
        let mut untolerated: BTreeMap<&Taint, NodeNames> = BTreeMap::new();
        for (taints, nodes) in &self.tainted {
            let first = taints
                .iter()
                .find(|taint| !tolerations.first.iter().any(|toleration| taint.is_tolerated_by(toleration)));
            if let Some(taint) = first {
                untolerated.entry(taint).or_default().extend(nodes);
            }
        }
        Some(untolerated)
    }
}

impl NodeNames {
    fn add(&mut self, name: ArcStr) {
        self.count += 1;
        self.keep(name);
    }

    fn extend(&mut self, others: &Self) {
        self.count += others.count;
        others.first.iter().for_each(|name| self.keep(name.clone()));
    }

    fn keep(&mut self, name: ArcStr) {
        self.first.insert(name);
        if self.first.len() > NAMES {
            self.first.pop_last();
        }
    }
}

impl Taint {
    /// Whether it keeps ordinary pods away from the nodes of the control plane.
    pub(super) fn is_of_control_plane(&self) -> bool {
        matches!(&*self.key, "node-role.kubernetes.io/control-plane" | "node-role.kubernetes.io/master")
    }

    fn is_tolerated_by(&self, toleration: &Toleration) -> bool {
        let Toleration { key, operator, value, effect } = toleration;
        let exists = operator == "Exists";
        let has_key = *key == *self.key || key.is_empty() && exists;
        has_key && (exists || *value == *self.value) && (effect.is_empty() || *effect == *self.effect)
    }
}

impl fmt::Display for NodeNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.first.iter().map(ArcStr::as_str).collect();
        match (names.as_slice(), self.count.saturating_sub(names.len())) {
            ([first @ .., last], 0) if !first.is_empty() => write!(f, "{} and {last}", first.join(", ")),
            (_, 0) => f.write_str(&names.concat()),
            (_, more) => write!(f, "{} and {more} more", names.join(", ")),
        }
    }
}

/// As kubectl writes it.
impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, effect } = self;
        if value.is_empty() { write!(f, "{key}:{effect}") } else { write!(f, "{key}={value}:{effect}") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pods::FirstNames;

    fn nodes(objects: impl IntoIterator<Item = serde_json::Value>) -> ClusterNodes {
        let mut nodes = ClusterNodes::default();
        objects.into_iter().for_each(|object| nodes.add(&serde_json::from_value(object).unwrap()));
        nodes
    }

    fn tainted(name: &str, taint: [&str; 3]) -> serde_json::Value {
        let [key, value, effect] = taint;
        json!({"metadata": {"name": name}, "spec": {"taints": [{"key": key, "value": value, "effect": effect}]}})
    }

    #[test]
    fn knows_which_terms_no_node_matches() {
        let nodes = nodes([
            json!({"metadata": {"name": "a", "labels": {"os": "linux", "zone": "a", "cores": "8"}}}),
            json!({"metadata": {"name": "b", "labels": {"os": "linux", "zone": "b", "disk": "ssd"}}, "spec": {}, "status": {}}),
        ]);
        for (key, operator, values, none) in [
            ("disk", "In", &["ssd"][..], false),
            ("disk", "In", &["hdd", "nvme"], true),
            ("disk", "In", &["hdd", "ssd"], false),
            ("gpu", "In", &["a100"], true),
            ("gpu", "Exists", &[], true),
            ("disk", "Exists", &[], false),
            ("disk", "DoesNotExist", &[], false),
            ("zone", "DoesNotExist", &[], true),
            ("zone", "NotIn", &["a"], false),
            ("zone", "NotIn", &["a", "b", "c"], true),
            ("disk", "NotIn", &["ssd"], false),
            ("cores", "Gt", &["8"], true),
            ("cores", "Gt", &["7"], false),
            ("cores", "Lt", &["9"], false),
            ("cores", "Lt", &["8"], true),
            ("cores", "Gt", &["many"], false),
            ("gpu", "Near", &["a100"], false),
            ("metadata.name", "In", &["a"], false),
            ("metadata.name", "In", &["c"], true),
            // Not all values are kept.
            ("zone", "In", &["1", "2", "3", "4", "5", "6", "7", "8", "9"], false),
        ] {
            let values = FirstNames::from_iter(values.iter().copied());
            let term = NodeTerm { key: key.into(), operator: operator.into(), values };
            assert_eq!(nodes.none_matches(&term), none, "{term}");
        }
    }

    #[test]
    fn knows_what_the_largest_node_offers() {
        let node = |cpu: &str| json!({"status": {"allocatable": {"cpu": cpu, "bad": "x"}}});
        let nodes = nodes([node("1500m"), node("2"), node("1")]);
        let largest = |resource| nodes.largest(resource).short();
        assert_eq!((largest("cpu"), largest("nvidia.com/gpu")), ("2".to_owned(), "0".to_owned()));
    }

    #[test]
    fn knows_which_taints_a_pod_does_not_tolerate() {
        let mut objects = vec![
            tainted("cp", ["node-role.kubernetes.io/control-plane", "", "NoSchedule"]),
            tainted("rig", ["sre-fault", "blocked", "NoSchedule"]),
            tainted("soft", ["sre-fault", "soft", "PreferNoSchedule"]),
            tainted("leaving", ["node.kubernetes.io/not-ready", "", "NoExecute"]),
            json!({"metadata": {"name": "off"}, "spec": {"unschedulable": true, "taints": [{"key": "x", "effect": "NoSchedule"}]}}),
        ];
        objects.extend((0..5).map(|number| tainted(&format!("gpu-{number}"), ["gpu", "yes", "NoSchedule"])));
        let nodes = nodes(objects);
        assert_eq!((nodes.cordoned().to_string(), nodes.count()), ("off".to_owned(), 10));
        let told = |tolerations: &[[&str; 4]]| {
            let first = tolerations.iter().map(|toleration| {
                let [key, operator, value, effect] = toleration.map(ArcStr::from);
                Toleration { key, operator, value, effect }
            });
            let untolerated = nodes.untolerated(&Tolerations { first: first.collect(), more: 0 })?;
            let lines = untolerated.into_iter().map(|(taint, nodes)| format!("{taint} on {nodes}"));
            Some(lines.collect::<Vec<_>>().join("; "))
        };
        const GPU: &str = "gpu=yes:NoSchedule on gpu-0, gpu-1, gpu-2 and 2 more";
        const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane:NoSchedule on cp";
        const LEAVING: &str = "node.kubernetes.io/not-ready:NoExecute on leaving";
        const RIG: &str = "sre-fault=blocked:NoSchedule on rig";
        for (tolerations, untolerated) in [
            (&[][..], Some([GPU, CONTROL_PLANE, LEAVING, RIG].join("; "))),
            (&[["gpu", "", "yes", ""]], Some([CONTROL_PLANE, LEAVING, RIG].join("; "))),
            (&[["gpu", "Equal", "no", ""]], Some([GPU, CONTROL_PLANE, LEAVING, RIG].join("; "))),
            (&[["", "Exists", "", "NoSchedule"]], Some(LEAVING.to_owned())),
            (&[["", "Exists", "", ""]], Some(String::new())),
            (
                &[["gpu", "Exists", "", "NoExecute"], ["sre-fault", "Exists", "", ""]],
                Some([GPU, CONTROL_PLANE, LEAVING].join("; ")),
            ),
            (&[["gpu", "Gt", "5", ""]], None),
        ] {
            assert_eq!(told(tolerations), untolerated, "{tolerations:?}");
        }
        let more = Tolerations { first: Vec::new(), more: 1 };
        assert_eq!(nodes.untolerated(&more), None);
    }

    #[test]
    fn takes_little_memory_for_thousands_of_nodes() {
        let nodes = nodes((0..5000).map(|number| {
            let name = format!("ip-10-0-{}-{}.internal", number / 250, number % 250);
            json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": format!("z{}", number % 3)}}})
        }));
        assert!(nodes.label_bytes < 500_000, "{}", nodes.label_bytes);
        assert_eq!(nodes.labels.len(), 3);
    }

    #[test]
    fn says_nothing_about_labels_beyond_a_bound() {
        let value = "v".repeat(1000);
        let large =
            nodes((0..3000).map(|number| json!({"metadata": {"labels": {"note": format!("{value}{number}")}}})));
        let absent = NodeTerm { key: "gpu".into(), operator: "Exists".into(), values: FirstNames::default() };
        assert!(!large.none_matches(&absent) && large.labels.is_empty());
    }
}
