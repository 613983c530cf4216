//! Explains why a pod is not scheduled, from the scheduler's message.
//!
//! The scheduler checks each node in a fixed order and names the first reason that excludes it:
//! `0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint {gpu: }. preemption: …`.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arcstr::ArcStr;
use jiff::SignedDuration;

use crate::{
    api::Cause,
    events::{CLAIM, Event},
    pods::{NodeTerms, Pod, Requirements},
};

use super::{
    super::{
        claims::ClaimFacts,
        finding::Basis,
        messages::first_of,
        one_line::{MESSAGE_LIMIT, one_line},
        port_holders::{NamedHolder, PortHolder},
        preemptions::Preempted,
    },
    Case, Found,
    exclusions::{Exclusion, Shown, decide, exclusions, lacking, may_show_more},
    parse::parts,
};

/// More of a message is not read.
const READ_LIMIT: usize = 4 * MESSAGE_LIMIT;
const UNBOUND: &str = "pod has unbound immediate PersistentVolumeClaims";
/// The volume controller repeats an event at least every five minutes.
const CURRENT: SignedDuration = SignedDuration::from_mins(15);
/// How long after a pod was created the events about preemptions are read again. An API server deletes events after an hour by
/// default, and what an event has said must not be lost then.
const RECENT: SignedDuration = SignedDuration::from_mins(30);
/// How many terms of a node selector, and how many alternatives of a node affinity, a sentence names.
const TERMS: usize = 3;
const ALTERNATIVES: usize = 2;

pub(super) fn explain(case: &Case<'_>) -> Found {
    let pod = case.pod;
    let condition = pod.condition("PodScheduled");
    if condition.is_some_and(|condition| condition.reason == "SchedulingGated") {
        let sentence = match pod.scheduling_gates.count() {
            0 => "a scheduling gate holds the pod".to_owned(),
            1 => format!("the scheduling gate {} holds the pod", pod.scheduling_gates),
            _ => format!("the scheduling gates {} hold the pod", pod.scheduling_gates),
        };
        return Found::new(Cause::SchedulingGate, sentence);
    }
    match message(case) {
        Some(message) => of_message(&message, case),
        None => Found::silent("no scheduler has reported on the pod"),
    }
}

/// What the scheduler says.
fn message(case: &Case<'_>) -> Option<String> {
    let written = case.pod.condition("PodScheduled").map_or("", |condition| condition.message.as_str());
    let reported = || case.events(&["FailedScheduling"], "").next().map(Event::text).unwrap_or_default();
    let message = if written.is_empty() { reported() } else { written };
    (!message.is_empty()).then(|| one_line(message, READ_LIMIT))
}

fn of_message(message: &str, case: &Case<'_>) -> Found {
    let pod = case.pod;
    if message.contains("binding volumes: ") && message.starts_with("running PreBind plugin \"VolumeBinding\"") {
        return Found::new(Cause::VolumeUnbound, format!("the volumes of the pod could not be bound: {message}"));
    }
    if message.starts_with("no nodes available to schedule pods") {
        return Found::unknown("the cluster has no nodes that the scheduler knows");
    }
    let (nodes, reasons) = match fit_error(message) {
        Some((nodes, reasons)) => (Some(nodes), reasons),
        None => (None, message),
    };
    if let Some(found) = claim(reasons, case) {
        return found;
    }
    let Some(nodes) = nodes else { return Found::unknown(format!("the pod cannot be scheduled: {message}")) };
    let exclusions = exclusions(reasons);
    // The scheduler does not check the resources of a node that it has excluded for another reason.
    let among = |cause: Cause| match nodes {
        1 => "the only node".to_owned(),
        _ if exclusions.iter().any(|exclusion| exclusion.cause != cause) => "none of the other nodes".to_owned(),
        nodes => format!("none of {nodes} nodes"),
    };
    let verb = |one: &'static str, several: &'static str| if nodes == 1 { one } else { several };
    let cluster = if may_show_more(pod, &exclusions) { case.world.nodes(pod) } else { None };
    let shown = Shown::of(pod, nodes as usize, &exclusions, cluster.as_deref());
    let cause = match decide(&exclusions, shown.are_taints_reserved) {
        Cause::Unknown => shown.proven(),
        cause => cause,
    };
    let reasons_after = |detail: Option<&String>| match detail {
        Some(detail) => format!("{detail} ({reasons})"),
        None => reasons.to_owned(),
    };
    let among = among(cause);
    let sentence = match cause {
        Cause::InsufficientResources => {
            let resources = resources(&exclusions);
            let what = if nodes == 1 { format!("free {resources}") } else { format!("enough free {resources}") };
            let largest = shown.resources.map(|largest| format!("; {largest}")).unwrap_or_default();
            let preempted = preempted(case).unwrap_or_default();
            let requested = requested(pod, &exclusions)
                .map(|requested| format!("the pod requests {requested}{largest}{preempted}"));
            let detail = match &requested {
                None if !preempted.is_empty() => format!("{reasons}{preempted}"),
                requested => reasons_after(requested.as_ref()),
            };
            format!("{among} {} {what}: {detail}", verb("lacks", "has"))
        }
        Cause::Taints => {
            format!("the pod does not tolerate the taints of the nodes: {}", reasons_after(shown.taints.as_ref()))
        }
        Cause::NodeCordoned => match (shown.cordoned, nodes, among.as_str()) {
            (Some(cordoned), ..) => format!("{cordoned}: {reasons}"),
            (None, 1, _) => format!("the only node is cordoned: {reasons}"),
            (None, _, "none of the other nodes") => format!("the other nodes are cordoned: {reasons}"),
            _ => format!("all {nodes} nodes are cordoned: {reasons}"),
        },
        Cause::PodAffinity => {
            let verb = verb("does not satisfy", "satisfies");
            format!("{among} {verb} the affinity or anti-affinity to other pods: {reasons}")
        }
        Cause::NodeSelector => {
            let selector = selector(pod).unwrap_or_else(|| "node selector or affinity".to_owned());
            let detail = reasons_after(shown.selector.as_ref());
            format!("{among} {} the pod's {selector}: {detail}", verb("does not match", "matches"))
        }
        Cause::PortConflict => format!("{}: {reasons}", port_conflict(case)),
        Cause::VolumeNodeAffinity => {
            format!("{among} can use the pod's volume, which is on another node or in another zone: {reasons}")
        }
        Cause::VolumeUnbound => match (unfit(case), claims(pod)) {
            (Some((name, claim)), _) => {
                format!("no PersistentVolume fits the PersistentVolumeClaim {name}: {} ({reasons})", claim.why)
            }
            (None, Some((_, claims))) => format!("no PersistentVolume fits the {claims}: {reasons}"),
            (None, None) => format!("no PersistentVolume fits the pod's claims: {reasons}"),
        },
        Cause::VolumeNotFound => format!("a PersistentVolume of the pod does not exist: {reasons}"),
        _ if nodes == 1 => format!("the only node does not fit: {reasons}"),
        _ => format!("none of {nodes} nodes fits: {}", reasons_after(shown.all().as_ref())),
    };
    Found::new(cause, sentence).based_on(Basis::State)
}

/// Which pod was preempted, so that this one was created in its place.
fn preempted(case: &Case<'_>) -> Option<String> {
    let is_recent = case.pod.created.is_some_and(|created| case.now.duration_since(created) < RECENT);
    let Preempted { victim, by } = case.world.preempted(case.pod, is_recent)?;
    let by = match by {
        Some(by) => format!("{by} of a higher priority"),
        None => "a pod of a higher priority that is not shown here".to_owned(),
    };
    Some(format!(", and {victim} was preempted by {by}"))
}

/// How much the pod requests of the resources that nodes lack, for example `2 cpu and 6Gi memory`.
fn requested(pod: &Pod, exclusions: &[Exclusion<'_>]) -> Option<String> {
    let requests = &pod.requirements.as_deref()?.requests;
    let lacking = exclusions.iter().filter_map(lacking);
    let mut requested: Vec<String> = Vec::new();
    for resource in lacking {
        let request = requests.iter().find(|(requested, _)| requested == resource);
        let request = request.map(|(resource, quantity)| format!("{quantity} {resource}"));
        requested.extend(request.filter(|request| !requested.contains(request)));
    }
    (!requested.is_empty()).then(|| requested.join(" and "))
}

/// The pod's node selector and affinity, for example `node selector disk=ssd`.
fn selector(pod: &Pod) -> Option<String> {
    let Requirements { selector, affinity, .. } = pod.requirements.as_deref()?;
    let alternatives: Vec<_> = affinity.iter().filter_map(terms).collect();
    let more = match alternatives.len().saturating_sub(ALTERNATIVES) {
        0 => String::new(),
        more => format!(" or {more} more"),
    };
    let first = alternatives.get(..ALTERNATIVES).unwrap_or(&alternatives);
    let affinity = (!first.is_empty()).then(|| format!("affinity {}{more}", first.join(" or ")));
    match (terms(selector), affinity) {
        (Some(selector), Some(affinity)) => Some(format!("node selector {selector} and {affinity}")),
        (Some(selector), None) => Some(format!("node selector {selector}")),
        (None, affinity) => affinity.map(|affinity| format!("node {affinity}")),
    }
}

/// For example `disk=ssd, zone in (a, b) and 97 more`.
fn terms(terms: &NodeTerms) -> Option<String> {
    (!terms.first.is_empty()).then(|| first_of(&terms.first, TERMS, terms.more as usize))
}

fn port_conflict(case: &Case<'_>) -> String {
    match case.world.port_holder(case.pod) {
        Some(PortHolder { port, pod: Some(NamedHolder { namespace, name, node }) }) => {
            format!("host port {port} is taken by {namespace}/{name} on {node}")
        }
        Some(PortHolder { port, pod: None }) => format!("host port {port} is taken by a pod that is not shown here"),
        None => "the pod's host port is taken".to_owned(),
    }
}

/// The number of nodes and the reasons in `0/5 nodes are available: REASONS. preemption: …`.
fn fit_error(message: &str) -> Option<(u32, &str)> {
    let (nodes, rest) = message.strip_prefix("0/")?.split_once(" nodes are available: ")?;
    // The rest is about preemption, which does not help either.
    let rest = rest.split_once(" preemption: ").map_or(rest, |(reasons, _)| reasons);
    let reasons = rest.split_once(". ").map_or(rest, |(reasons, _)| reasons);
    Some((nodes.parse().ok()?, reasons.trim_end_matches(['.', ',', ' '])))
}

/// What the scheduler says about the pod's claims, which concerns all nodes.
fn claim(reasons: &str, case: &Case<'_>) -> Option<Found> {
    if reasons.contains(UNBOUND) {
        let sentence = not_provisioned(case).or_else(|| unbound(case)).unwrap_or_else(|| match claims(case.pod) {
            Some((1, claim)) => format!("the {claim} is not bound"),
            Some((_, claims)) => format!("one of the {claims} is not bound"),
            None => "a PersistentVolumeClaim of the pod is not bound".to_owned(),
        });
        return Some(Found::new(Cause::VolumeUnbound, sentence));
    }
    if let Some([name, _]) = parts("persistentvolumeclaim {q} not found{}", reasons) {
        return Some(Found::new(Cause::VolumeNotFound, format!("the PersistentVolumeClaim {name} does not exist")));
    }
    let [name, volume, _] = parts("persistentvolumeclaim {q} bound to non-existent persistentvolume {q}{}", reasons)?;
    let sentence = format!("the PersistentVolume {volume} of the claim {name} does not exist");
    Some(Found::new(Cause::VolumeNotFound, sentence))
}

/// The number and the names of the pod's claims, for example `PersistentVolumeClaims data, logs`.
fn claims(pod: &Pod) -> Option<(usize, String)> {
    let claims = pod.requirements.as_deref().map(|required| &required.claims).filter(|claims| !claims.is_empty())?;
    let plural = if claims.count() == 1 { "" } else { "s" };
    Some((claims.count(), format!("PersistentVolumeClaim{plural} {claims}")))
}

/// Which claim of the pod is not bound, and why, if the claims show it.
fn unbound(case: &Case<'_>) -> Option<String> {
    let (count, _) = claims(case.pod)?;
    let known = case.world.claims(case.pod);
    let unbound = || known.iter().filter(|(_, claim)| claim.is_unbound && !claim.waits_for_pod);
    if let Some((name, claim)) = unbound().find(|(_, claim)| !claim.why.is_empty()) {
        return Some(format!("the PersistentVolumeClaim {name} is not bound: {}", claim.why));
    }
    let mut unbound = unbound();
    match (unbound.next(), unbound.next()) {
        (Some((name, _)), None) if count == known.len() => {
            Some(format!("the PersistentVolumeClaim {name} is not bound"))
        }
        _ => None,
    }
}

/// Which claim that waits for its pod no volume fits, and why.
fn unfit(case: &Case<'_>) -> Option<(ArcStr, Arc<ClaimFacts>)> {
    claims(case.pod).filter(|_| not_provisioned(case).is_none())?;
    case.world.claims(case.pod).into_iter().find(|(_, claim)| claim.is_unbound && !claim.why.is_empty())
}

/// Why a claim of the pod is not bound, as an event about the claim says. The pod does not name the claim's UID, so an old
/// event may be about an earlier claim of the same name.
fn not_provisioned(case: &Case<'_>) -> Option<String> {
    let is_current = |event: &&Event| {
        event.involved.kind == CLAIM
            && event.last >= case.pod.created
            && event.last.is_some_and(|last| case.now.duration_since(last) < CURRENT)
    };
    let event = case.events(&["ProvisioningFailed"], "").find(is_current)?;
    let claim = &event.involved.name;
    Some(match parts("{}storageclass.storage.k8s.io {q} not found{}", event.text()) {
        Some([_, class, _]) => {
            format!("the PersistentVolumeClaim {claim} is not bound: the StorageClass {class} does not exist")
        }
        None => format!("the PersistentVolumeClaim {claim} is not bound: {}", event.text()),
    })
}

/// The names of the resources, for example `cpu and memory`.
fn resources(exclusions: &[Exclusion<'_>]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for exclusion in exclusions.iter().filter(|exclusion| exclusion.cause == Cause::InsufficientResources) {
        let name = match exclusion.reason.strip_prefix("Insufficient ") {
            Some(name) => name,
            None if exclusion.reason.starts_with("Too many pods") => "room for pods",
            None => "storage",
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" and ")
}
