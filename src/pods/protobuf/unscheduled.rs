//! The fields of a pod that matter only until it is scheduled. They are decoded in a second pass over the pods that have no
//! node, so that the others do not cost more.

use arcstr::ArcStr;
use bytes::Bytes;
use prost::Message;

use crate::pods::{
    FirstNames, NodeTerm, Requirements, Toleration,
    pod::LIST_LIMIT,
    requirements::{ContainerRequests, Requests, SpecFields, ephemeral_claim},
};

use super::{
    fields::{first_names, text},
    message::{Amount, Pair},
};

/// A `Pod`.
#[derive(Clone, PartialEq, Message)]
struct Unscheduled {
    #[prost(message, optional, tag = "2")]
    spec: Option<Spec>,
}

/// A `PodSpec`.
#[derive(Clone, PartialEq, Message)]
struct Spec {
    #[prost(message, repeated, tag = "1")]
    volumes: Vec<Volume>,
    #[prost(message, repeated, tag = "2")]
    containers: Vec<Container>,
    #[prost(message, repeated, tag = "7")]
    node_selector: Vec<Pair>,
    #[prost(message, optional, tag = "18")]
    affinity: Option<Affinity>,
    #[prost(message, repeated, tag = "20")]
    init_containers: Vec<Container>,
    #[prost(message, repeated, tag = "22")]
    tolerations: Vec<TolerationMessage>,
    #[prost(message, repeated, tag = "32")]
    overhead: Vec<Amount>,
    #[prost(message, optional, tag = "40")]
    resources: Option<Resources>,
}

#[derive(Clone, PartialEq, Message)]
struct Volume {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(message, optional, tag = "2")]
    source: Option<VolumeSource>,
}

#[derive(Clone, PartialEq, Message)]
struct VolumeSource {
    #[prost(message, optional, tag = "10")]
    claim: Option<Claim>,
    #[prost(message, optional, tag = "29")]
    ephemeral: Option<Ephemeral>,
}

/// A `PersistentVolumeClaimVolumeSource`.
#[derive(Clone, PartialEq, Message)]
struct Claim {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
}

/// Only whether there is one.
#[derive(Clone, PartialEq, Message)]
struct Ephemeral {}

#[derive(Clone, PartialEq, Message)]
struct Container {
    #[prost(message, optional, tag = "8")]
    resources: Option<Resources>,
    #[prost(bytes = "bytes", tag = "24")]
    restart_policy: Bytes,
}

/// `ResourceRequirements`.
#[derive(Clone, PartialEq, Message)]
struct Resources {
    #[prost(message, repeated, tag = "2")]
    requests: Vec<Amount>,
}

/// A `Toleration`.
#[derive(Clone, PartialEq, Message)]
struct TolerationMessage {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    operator: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    value: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    effect: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct Affinity {
    #[prost(message, optional, tag = "1")]
    node_affinity: Option<NodeAffinity>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeAffinity {
    #[prost(message, optional, tag = "1")]
    required: Option<NodeSelector>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeSelector {
    #[prost(message, repeated, tag = "1")]
    terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeSelectorTerm {
    #[prost(message, repeated, tag = "1")]
    expressions: Vec<NodeSelectorRequirement>,
    #[prost(message, repeated, tag = "2")]
    fields: Vec<NodeSelectorRequirement>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeSelectorRequirement {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    operator: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    values: Vec<Bytes>,
}

/// What the pod of this name, in this message, requires of a node. Absent if it cannot be decoded.
pub(super) fn requirements(name: &str, raw: Bytes) -> Option<Box<Requirements>> {
    let spec = Unscheduled::decode(raw).ok()?.spec.unwrap_or_default();
    let affinity = spec.affinity.and_then(|affinity| affinity.node_affinity?.required).unwrap_or_default();
    let alternatives = affinity.terms.into_iter().take(LIST_LIMIT + 1).map(|own| {
        let terms = own.expressions.iter().take(LIST_LIMIT + 1).chain(own.fields.iter().take(LIST_LIMIT + 1));
        terms.map(term).collect()
    });
    let mut selector: Vec<_> =
        spec.node_selector.iter().take(LIST_LIMIT + 1).map(|own| (text(&own.key), text(&own.value))).collect();
    selector.sort_unstable();
    Requirements::of(SpecFields {
        claims: spec.volumes.iter().take(LIST_LIMIT + 1).filter_map(|volume| claim(name, volume)).collect(),
        selector,
        affinity: alternatives.collect(),
        init_containers: spec.init_containers.iter().map(container).collect(),
        containers: spec.containers.iter().map(container).collect(),
        pod: requests(&spec.resources.unwrap_or_default().requests),
        overhead: requests(&spec.overhead),
        tolerations: spec.tolerations.iter().take(LIST_LIMIT + 1).map(toleration).collect(),
    })
}

fn toleration(own: &TolerationMessage) -> Toleration {
    let [key, operator, value, effect] = [&own.key, &own.operator, &own.value, &own.effect].map(|own| text(own));
    Toleration { key, operator, value, effect }
}

fn claim(pod: &str, volume: &Volume) -> Option<ArcStr> {
    let source = volume.source.as_ref()?;
    let of_ephemeral = || source.ephemeral.as_ref().map(|_| ephemeral_claim(pod, &text(&volume.name)));
    source.claim.as_ref().map(|claim| text(&claim.name)).or_else(of_ephemeral)
}

fn term(own: &NodeSelectorRequirement) -> NodeTerm {
    let values: FirstNames = first_names(&own.values, |value| value);
    NodeTerm { key: text(&own.key), operator: text(&own.operator), values }
}

fn container(own: &Container) -> ContainerRequests {
    let resources = own.resources.as_ref().map(|resources| resources.requests.as_slice()).unwrap_or_default();
    ContainerRequests { is_sidecar: own.restart_policy == "Always", requests: requests(resources) }
}

fn requests(amounts: &[Amount]) -> Requests {
    let mut requests = Requests::default();
    for amount in amounts {
        let quantity = amount.value.as_ref().map(|value| text(&value.string)).unwrap_or_default();
        requests.push(text(&amount.key), &quantity);
    }
    requests
}
