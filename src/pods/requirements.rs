//! Computes what a pod requires of a node. It is kept only while the pod has none, to name what no node offers.

use arcstr::ArcStr;

use crate::quantity::Quantity;

use super::pod::{FirstNames, HostPort, NodeTerm, NodeTerms, Protocol, Requirements, Toleration, Tolerations};

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
    pub(super) fn new(port: i64, protocol: &str, address: &str) -> Option<Self> {
        let protocol = match protocol {
            "" | "TCP" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => return None,
        };
        let port = u16::try_from(port).ok().filter(|port| *port > 0)?;
        matches!(address, "" | "0.0.0.0" | "::").then_some(Self { port, protocol })
    }

    pub(super) fn first(ports: impl Iterator<Item = Self>) -> Box<[Self]> {
        ports.take(PORTS).collect()
    }
}

impl NodeTerms {
    fn of(terms: impl Iterator<Item = NodeTerm>, room: &mut usize) -> Self {
        let mut list = Self::default();
        for term in terms {
            if *room > 0 {
                *room -= 1;
                list.first.push(term);
            } else {
                list.more = list.more.saturating_add(1);
            }
        }
        list.first.shrink_to_fit();
        list
    }
}

/// The claim of a generic ephemeral volume.
pub(super) fn ephemeral_claim(pod: &str, volume: &str) -> ArcStr {
    arcstr::format!("{pod}-{volume}")
}

/// The fields of a pod's spec, from which its requirements are computed.
#[derive(Default)]
pub(super) struct SpecFields {
    pub(super) claims: FirstNames,
    pub(super) selector: Vec<(ArcStr, ArcStr)>,
    /// The alternatives of the required node affinity.
    pub(super) affinity: Vec<Vec<NodeTerm>>,
    pub(super) init_containers: Vec<ContainerRequests>,
    pub(super) containers: Vec<ContainerRequests>,
    /// Those of the pod as a whole.
    pub(super) pod: Requests,
    pub(super) overhead: Requests,
    pub(super) tolerations: Vec<Toleration>,
}

/// The requests of a container.
#[derive(Default)]
pub(super) struct ContainerRequests {
    pub(super) is_sidecar: bool,
    pub(super) requests: Requests,
}

/// Quantities by resource.
#[derive(Clone, Default)]
pub(super) struct Requests(Vec<(ArcStr, Quantity)>);

impl Requests {
    /// A quantity that cannot be read is left out.
    pub(super) fn push(&mut self, resource: ArcStr, quantity: &str) {
        if let Some(quantity) = Quantity::parse(quantity) {
            self.merge(&Self(vec![(resource, quantity)]), Quantity::plus);
        }
    }

    fn merge(&mut self, others: &Self, with: impl Fn(Quantity, Quantity) -> Quantity) {
        for (resource, quantity) in &others.0 {
            let is_full = self.0.len() >= RESOURCES;
            match self.0.iter_mut().find(|(own, _)| own == resource) {
                Some((_, own)) => *own = with(*own, *quantity),
                None if is_full => {}
                None => self.0.push((resource.clone(), *quantity)),
            }
        }
    }

    /// The requests of a pod: the most that is needed at any time. Init containers run one after the other, beside the
    /// sidecars that were started before.
    fn of(spec: &SpecFields) -> Self {
        let (mut sidecars, mut most) = (Self::default(), Self::default());
        for container in &spec.init_containers {
            let mut present = sidecars.clone();
            present.merge(&container.requests, Quantity::plus);
            if container.is_sidecar {
                sidecars = present.clone();
            }
            most.merge(&present, Quantity::max);
        }
        for container in &spec.containers {
            sidecars.merge(&container.requests, Quantity::plus);
        }
        most.merge(&sidecars, Quantity::max);
        // Where the pod as a whole has requests, those of its containers do not count.
        most.merge(&spec.pod, |_, own| own);
        most.merge(&spec.overhead, Quantity::plus);
        most
    }
}

impl Requirements {
    /// Absent if the pod requires nothing.
    pub(super) fn of(spec: SpecFields) -> Option<Box<Self>> {
        let mut requests = Requests::of(&spec).0;
        requests.retain(|(_, quantity)| !quantity.is_zero());
        requests.shrink_to_fit();
        let in_selector =
            |(key, value)| NodeTerm { key, operator: "In".into(), values: FirstNames::from_iter([value]) };
        let selector = NodeTerms::of(spec.selector.into_iter().map(in_selector), &mut { TERMS });
        let mut room = TERMS;
        let affinity = spec.affinity.into_iter().take(TERMS);
        let affinity = affinity.map(|alternative| NodeTerms::of(alternative.into_iter(), &mut room)).collect();
        let mut tolerations = Tolerations { first: spec.tolerations, more: 0 };
        tolerations.more = tolerations.first.len().saturating_sub(TOLERATIONS).try_into().unwrap_or(u32::MAX);
        tolerations.first.truncate(TOLERATIONS);
        tolerations.first.shrink_to_fit();
        let requirements = Self { selector, affinity, requests, claims: spec.claims, tolerations };
        (requirements != Self::default()).then(|| Box::new(requirements))
    }
}
