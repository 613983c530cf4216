//! Computes what a pod requires of a node. It is kept only while the pod has none, to name what no node offers.

use arcstr::ArcStr;

use crate::quantity::Quantity;

use super::{
    convert::{first_names, pairs, text},
    message::{self, Amount, ContainerPort, NodeSelectorRequirement, UnscheduledPodSpec, Volume, VolumeSource},
    pod::{FirstNames, HostPort, NodeTerm, NodeTerms, Protocol, Requirements, Toleration, Tolerations},
};

/// How many terms are kept of a node selector, and of all alternatives of a node affinity together.
const TERMS: usize = 16;
/// How many tolerations are kept.
const TOLERATIONS: usize = 16;
/// How many resources are kept.
const RESOURCES: usize = 16;
/// How many host ports are kept.
const PORTS: usize = 32;

/// Whether a pod on this node, in this phase, still requires anything.
pub(super) fn matter(node: &str, phase: &str) -> bool {
    node.is_empty() && !matches!(phase, "Succeeded" | "Failed")
}

impl HostPort {
    /// Ports of a single address are left out: whether they collide with others depends on both addresses.
    fn new(port: &ContainerPort) -> Option<Self> {
        let protocol = match &*port.protocol {
            b"" | b"TCP" => Protocol::Tcp,
            b"UDP" => Protocol::Udp,
            b"SCTP" => Protocol::Sctp,
            _ => return None,
        };
        let number = u16::try_from(port.host_port).ok().filter(|port| *port > 0)?;
        matches!(&*port.host_ip, b"" | b"0.0.0.0" | b"::").then_some(Self { port: number, protocol })
    }

    pub(super) fn first<'a>(ports: impl Iterator<Item = &'a ContainerPort>) -> Box<[Self]> {
        ports.filter_map(Self::new).take(PORTS).collect()
    }
}

/// The requests of a pod: the most that is needed at any time. Init containers run one after the other, beside the sidecars
/// that were started before. A quantity that cannot be read is left out.
fn requests(spec: &UnscheduledPodSpec) -> Vec<(ArcStr, Quantity)> {
    let (mut sidecars, mut most) = (Vec::new(), Vec::new());
    for container in &spec.init_containers {
        let mut present = sidecars.clone();
        merge(&mut present, parsed(&container.resources.requests), Quantity::plus);
        if container.restart_policy == "Always" {
            sidecars.clone_from(&present);
        }
        merge(&mut most, present, Quantity::max);
    }
    for container in &spec.containers {
        merge(&mut sidecars, parsed(&container.resources.requests), Quantity::plus);
    }
    merge(&mut most, sidecars, Quantity::max);
    // Where the pod as a whole has requests, those of its containers do not count.
    merge(&mut most, parsed(&spec.resources.requests), |_, own| own);
    merge(&mut most, parsed(&spec.overhead), Quantity::plus);
    most.retain(|(_, quantity)| !quantity.is_zero());
    most.shrink_to_fit();
    most
}

fn parsed(amounts: &[Amount]) -> impl Iterator<Item = (ArcStr, Quantity)> {
    amounts.iter().filter_map(|own| Some((text(&own.key), Quantity::parse(&text(&own.value.string))?)))
}

fn merge(
    requests: &mut Vec<(ArcStr, Quantity)>,
    others: impl IntoIterator<Item = (ArcStr, Quantity)>,
    with: impl Fn(Quantity, Quantity) -> Quantity,
) {
    for (resource, quantity) in others {
        let is_full = requests.len() >= RESOURCES;
        match requests.iter_mut().find(|(own, _)| *own == resource) {
            Some((_, own)) => *own = with(*own, quantity),
            None if is_full => {}
            None => requests.push((resource, quantity)),
        }
    }
}

/// The claim of a volume. That of a generic ephemeral volume is named after the pod.
fn claim(pod: &str, volume: &Volume) -> Option<ArcStr> {
    match &volume.source {
        VolumeSource { persistent_volume_claim: Some(claim), .. } => Some(text(&claim.claim_name)),
        VolumeSource { ephemeral: Some(_), .. } => Some(arcstr::format!("{pod}-{}", text(&volume.name))),
        _ => None,
    }
}

fn term(own: &NodeSelectorRequirement) -> NodeTerm {
    NodeTerm { key: text(&own.key), operator: text(&own.operator), values: first_names(&own.values, |value| value) }
}

fn toleration(own: &message::Toleration) -> Toleration {
    let [key, operator, value, effect] = [&own.key, &own.operator, &own.value, &own.effect].map(|own| text(own));
    Toleration { key, operator, value, effect }
}

impl Requirements {
    /// What a pod of this name requires. Absent if it requires nothing.
    pub(super) fn of(pod: &str, spec: &UnscheduledPodSpec) -> Option<Box<Self>> {
        let in_selector =
            |(key, value)| NodeTerm { key, operator: "In".into(), values: FirstNames::from_iter([value]) };
        let mut room = TERMS;
        let required = &spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution;
        let affinity = required.node_selector_terms.iter().take(TERMS).map(|own| {
            let terms = NodeTerms::of(own.match_expressions.iter().chain(&own.match_fields).map(term), room);
            room -= terms.first.len();
            terms
        });
        let requirements = Self {
            selector: NodeTerms::of(pairs(&spec.node_selector).into_iter().map(in_selector), TERMS),
            affinity: affinity.collect(),
            requests: requests(spec),
            claims: spec.volumes.iter().filter_map(|volume| claim(pod, volume)).collect(),
            tolerations: Tolerations::of(spec.tolerations.iter().map(toleration), TOLERATIONS),
        };
        (requirements != Self::default()).then(|| Box::new(requirements))
    }
}
