//! Explains why a pod is not scheduled, from the scheduler's message.
//!
//! The scheduler checks each node in a fixed order and names the first reason that excludes it:
//! `0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint {gpu: }. preemption: …`.

use jiff::SignedDuration;

use crate::{
    api::Cause,
    events::{CLAIM, Event},
    pods::{NodeTerms, Pod, Requirements},
};

use super::{
    super::{
        facts::Facts,
        finding::Basis,
        one_line::{MESSAGE_LIMIT, one_line},
        port_holders::{NamedHolder, PortHolder},
    },
    Found, View,
    evidence::text,
    parse::{after_all, quoted},
};

/// More of a message is not read.
const READ_LIMIT: usize = 4 * MESSAGE_LIMIT;
/// The volume controller repeats an event at least every five minutes.
const CURRENT: SignedDuration = SignedDuration::from_mins(15);
/// How many terms of a node selector, and how many alternatives of a node affinity, a sentence names.
const TERMS: usize = 3;
const ALTERNATIVES: usize = 2;

pub(super) fn explain(view: &View<'_>) -> Found {
    let pod = view.pod;
    let condition = pod.condition("PodScheduled");
    if condition.is_some_and(|condition| condition.reason == "SchedulingGated") {
        let sentence = match pod.scheduling_gates.count() {
            0 => "a scheduling gate holds the pod".to_owned(),
            1 => format!("the scheduling gate {} holds the pod", pod.scheduling_gates),
            _ => format!("the scheduling gates {} hold the pod", pod.scheduling_gates),
        };
        return Found::new(Cause::SchedulingGate, sentence);
    }
    let own = condition.map_or("", |condition| condition.message.as_str());
    let reported = || view.events(&["FailedScheduling"], "").next().map(text).unwrap_or_default();
    let message = if own.is_empty() { reported() } else { own };
    if message.is_empty() {
        return Found::silent("no scheduler has reported on the pod");
    }
    of_message(&one_line(message, READ_LIMIT), view)
}

fn of_message(message: &str, view: &View<'_>) -> Found {
    let pod = view.pod;
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
    if let Some(found) = claim(reasons, view) {
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
    let cause = decide(&exclusions);
    let among = among(cause);
    let sentence = match cause {
        Cause::InsufficientResources => {
            let resources = resources(&exclusions);
            let what = if nodes == 1 { format!("free {resources}") } else { format!("enough free {resources}") };
            let detail = match requested(pod, &exclusions) {
                Some(requested) => format!("the pod requests {requested} ({reasons})"),
                None => reasons.to_owned(),
            };
            format!("{among} {} {what}: {detail}", verb("lacks", "has"))
        }
        Cause::Taints => format!("the pod does not tolerate the taints of the nodes: {reasons}"),
        Cause::NodeCordoned => match (nodes, among.as_str()) {
            (1, _) => format!("the only node is cordoned: {reasons}"),
            (_, "none of the other nodes") => format!("the other nodes are cordoned: {reasons}"),
            _ => format!("all {nodes} nodes are cordoned: {reasons}"),
        },
        Cause::PodAffinity => {
            let verb = verb("does not satisfy", "satisfies");
            format!("{among} {verb} the affinity or anti-affinity to other pods: {reasons}")
        }
        Cause::NodeSelector => {
            let selector = selector(pod).unwrap_or_else(|| "node selector or affinity".to_owned());
            format!("{among} {} the pod's {selector}: {reasons}", verb("does not match", "matches"))
        }
        Cause::PortConflict => format!("{}: {reasons}", port_conflict(view.facts)),
        Cause::VolumeNodeAffinity => {
            format!("{among} can use the pod's volume, which is on another node or in another zone: {reasons}")
        }
        Cause::VolumeUnbound => match claims(pod) {
            Some((_, claims)) => format!("no PersistentVolume fits the {claims}: {reasons}"),
            None => format!("no PersistentVolume fits the pod's claims: {reasons}"),
        },
        Cause::VolumeNotFound => format!("a PersistentVolume of the pod does not exist: {reasons}"),
        _ if nodes == 1 => format!("the only node does not fit: {reasons}"),
        _ => format!("none of {nodes} nodes fits: {reasons}"),
    };
    Found::new(cause, sentence).based_on(Basis::State)
}

/// How much the pod requests of the resources that nodes lack, for example `2 cpu and 6Gi memory`.
fn requested(pod: &Pod, exclusions: &[Exclusion<'_>]) -> Option<String> {
    let requests = &pod.requirements.as_deref()?.requests;
    let lacking = exclusions.iter().filter_map(|exclusion| exclusion.reason.strip_prefix("Insufficient "));
    let mut requested: Vec<String> = Vec::new();
    for resource in lacking {
        let request = requests.iter().find(|(own, _)| own == resource);
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
    let shown: Vec<_> = terms.first.iter().take(TERMS).map(ToString::to_string).collect();
    let more = (terms.first.len() - shown.len()) as u64 + u64::from(terms.more);
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    (!shown.is_empty()).then(|| format!("{}{rest}", shown.join(", ")))
}

fn port_conflict(facts: &Facts) -> String {
    match &facts.port_holder {
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
fn claim(reasons: &str, view: &View<'_>) -> Option<Found> {
    if reasons.contains("pod has unbound immediate PersistentVolumeClaims") {
        let sentence = not_provisioned(view).unwrap_or_else(|| match claims(view.pod) {
            Some((1, claim)) => format!("the {claim} is not bound"),
            Some((_, claims)) => format!("one of the {claims} is not bound"),
            None => "a PersistentVolumeClaim of the pod is not bound".to_owned(),
        });
        return Some(Found::new(Cause::VolumeUnbound, sentence));
    }
    let (name, rest) = quoted(reasons.strip_prefix("persistentvolumeclaim ")?)?;
    if rest.starts_with(" not found") {
        return Some(Found::new(Cause::VolumeNotFound, format!("the PersistentVolumeClaim {name} does not exist")));
    }
    let (volume, _) = quoted(rest.strip_prefix(" bound to non-existent persistentvolume ")?)?;
    let sentence = format!("the PersistentVolume {volume} of the claim {name} does not exist");
    Some(Found::new(Cause::VolumeNotFound, sentence))
}

/// The number and the names of the pod's claims, for example `PersistentVolumeClaims data, logs`.
fn claims(pod: &Pod) -> Option<(usize, String)> {
    let claims = pod.requirements.as_deref().map(|own| &own.claims).filter(|claims| !claims.is_empty())?;
    let plural = if claims.count() == 1 { "" } else { "s" };
    Some((claims.count(), format!("PersistentVolumeClaim{plural} {claims}")))
}

/// Why a claim of the pod is not bound, as an event about the claim says. The pod does not name the claim's UID, so an old
/// event may be about an earlier claim of the same name.
fn not_provisioned(view: &View<'_>) -> Option<String> {
    let is_current = |event: &&Event| {
        event.involved.kind == CLAIM
            && event.last >= view.pod.created
            && event.last.is_some_and(|last| view.now.duration_since(last) < CURRENT)
    };
    let event = view.events(&["ProvisioningFailed"], "").find(is_current)?;
    let claim = &event.involved.name;
    let class = after_all(text(event), &["storageclass.storage.k8s.io "]).and_then(quoted);
    Some(match class {
        Some((class, rest)) if rest.starts_with(" not found") => {
            format!("the PersistentVolumeClaim {claim} is not bound: the StorageClass {class} does not exist")
        }
        _ => format!("the PersistentVolumeClaim {claim} is not bound: {}", text(event)),
    })
}

/// Why some nodes do not fit.
struct Exclusion<'a> {
    reason: &'a str,
    cause: Cause,
}

/// The parts of `2 Insufficient cpu, 3 node(s) had untolerated taint {gpu: }`.
fn exclusions(reasons: &str) -> Vec<Exclusion<'_>> {
    let mut starts: Vec<usize> = vec![0];
    starts.extend(reasons.match_indices(", ").map(|(at, _)| at + 2).filter(|at| is_count(&reasons[*at..])));
    starts.push(reasons.len() + 2);
    let parts = starts.windows(2).filter_map(|pair| reasons.get(pair[0]..pair[1].saturating_sub(2)));
    parts
        .filter_map(|part| part.split_once(' '))
        .map(|(_, reason)| Exclusion { reason, cause: cause_of(reason) })
        .collect()
}

fn is_count(text: &str) -> bool {
    text.split_once(' ').is_some_and(|(count, _)| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Unknown for the reasons that have no code, such as topology spread constraints.
fn cause_of(reason: &str) -> Cause {
    let taints = ["node(s) had untolerated taint", "node(s) had taint"];
    let selectors = [
        "node(s) didn't match Pod's node affinity",
        "node(s) didn't match node selector",
        "node(s) didn't match the requested node name",
    ];
    let pods = [
        "node(s) didn't match pod affinity",
        "node(s) didn't match pod anti-affinity",
        "node(s) didn't satisfy existing pods anti-affinity",
    ];
    let volumes = [
        "node(s) didn't match PersistentVolume's node affinity",
        "node(s) had volume node affinity conflict",
        "node(s) had no available volume zone",
    ];
    let starts_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| reason.starts_with(prefix));
    match () {
        () if starts_with(&["Insufficient ", "Too many pods", "node(s) did not have enough free storage"]) => {
            Cause::InsufficientResources
        }
        () if starts_with(&taints) => Cause::Taints,
        () if reason.starts_with("node(s) were unschedulable") => Cause::NodeCordoned,
        () if starts_with(&selectors) => Cause::NodeSelector,
        () if starts_with(&pods) => Cause::PodAffinity,
        () if starts_with(&volumes) => Cause::VolumeNodeAffinity,
        () if reason.starts_with("node(s) didn't have free ports") => Cause::PortConflict,
        () if reason.starts_with("node(s) didn't find available persistent volumes") => Cause::VolumeUnbound,
        () if reason.contains("bound to non-existent pv(s)") => Cause::VolumeNotFound,
        () => Cause::Unknown,
    }
}

/// The cause that remains if several kinds of reasons exclude nodes.
fn decide(exclusions: &[Exclusion<'_>]) -> Cause {
    // Control plane nodes are not meant for ordinary pods.
    let is_reserved = |exclusion: &&Exclusion<'_>| {
        let taints = ["{node-role.kubernetes.io/control-plane:", "{node-role.kubernetes.io/master:"];
        exclusion.cause == Cause::Taints && taints.iter().any(|taint| exclusion.reason.contains(taint))
    };
    let others: Vec<_> = exclusions.iter().filter(|exclusion| !is_reserved(exclusion)).collect();
    let considered = if others.is_empty() { exclusions.iter().collect() } else { others };
    let has = |cause: Cause| considered.iter().any(|exclusion| exclusion.cause == cause);
    let only = |causes: &[Cause]| considered.iter().all(|exclusion| causes.contains(&exclusion.cause));
    let Some(first) = considered.first() else { return Cause::Unknown };
    if only(&[first.cause]) {
        return first.cause;
    }
    // Nodes that lack a resource or a port have passed the checks of taints and selectors. Nodes with a special resource
    // are often tainted, so a missing toleration may be the cause as well.
    let is_special =
        |exclusion: &&&Exclusion<'_>| exclusion.cause == Cause::InsufficientResources && exclusion.reason.contains('/');
    let mixes = |cause: Cause, others: &[Cause]| {
        has(cause) && considered.iter().all(|exclusion| exclusion.cause == cause || others.contains(&exclusion.cause))
    };
    let earlier = [Cause::Taints, Cause::NodeCordoned, Cause::NodeSelector];
    match () {
        () if mixes(Cause::InsufficientResources, &earlier) && !considered.iter().any(|own| is_special(&own)) => {
            Cause::InsufficientResources
        }
        () if mixes(Cause::PortConflict, &earlier) => Cause::PortConflict,
        // The nodes that match the selector are not those of the volume, or of the other pods.
        () if mixes(Cause::VolumeNodeAffinity, &[Cause::NodeSelector]) => Cause::VolumeNodeAffinity,
        () if mixes(Cause::PodAffinity, &[Cause::NodeSelector]) => Cause::PodAffinity,
        () => Cause::Unknown,
    }
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use orchestr_testbed::objects::merged;
    use serde_json::json;

    use super::*;
    use crate::{diagnosis::PortHolders, events::InvolvedObject};

    /// What explains a pod with this message of the scheduler, in the second 1000.
    fn explained(message: &str, pod: &Pod, facts: &Facts) -> Found {
        of_message(message, &View { pod, facts, now: at(1000) })
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn reads_the_messages_of_the_scheduler() {
        const PREEMPTION: &str = " preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling.";
        for (reasons, cause, sentence) in [
            (
                "3 Insufficient cpu, 2 Insufficient memory, 5 Too many pods.",
                Cause::InsufficientResources,
                "none of 5 nodes has enough free cpu and memory and room for pods: 3 Insufficient cpu, 2 Insufficient memory, 5 \
                 Too many pods",
            ),
            (
                "1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 4 Insufficient nvidia.com/gpu.",
                Cause::InsufficientResources,
                "none of the other nodes has enough free nvidia.com/gpu: 1 node(s) had untolerated taint \
                 {node-role.kubernetes.io/control-plane: }, 4 Insufficient nvidia.com/gpu",
            ),
            (
                "2 node(s) had untolerated taint {gpu: yes}, 3 node(s) had untolerated taint {a/b: c}.",
                Cause::Taints,
                "the pod does not tolerate the taints of the nodes: 2 node(s) had untolerated taint {gpu: yes}, 3 node(s) had \
                 untolerated taint {a/b: c}",
            ),
            (
                "5 node(s) had untolerated taint(s).",
                Cause::Taints,
                "the pod does not tolerate the taints of the nodes: 5 node(s) had untolerated taint(s)",
            ),
            (
                "5 node(s) had taint {key1: value1}, that the pod didn't tolerate.",
                Cause::Taints,
                "the pod does not tolerate the taints of the nodes: 5 node(s) had taint {key1: value1}, that the pod didn't \
                 tolerate",
            ),
            (
                "1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 4 node(s) didn't match Pod's node \
                 affinity/selector.",
                Cause::NodeSelector,
                "none of the other nodes matches the pod's node selector or affinity: 1 node(s) had untolerated taint \
                 {node-role.kubernetes.io/control-plane: }, 4 node(s) didn't match Pod's node affinity/selector",
            ),
            (
                "5 node(s) didn't have free ports for the requested pod ports.",
                Cause::PortConflict,
                "the pod's host port is taken: 5 node(s) didn't have free ports for the requested pod ports",
            ),
            (
                "3 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector.",
                Cause::InsufficientResources,
                "none of the other nodes has enough free cpu: 3 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector",
            ),
            (
                "pod has unbound immediate PersistentVolumeClaims.",
                Cause::VolumeUnbound,
                "a PersistentVolumeClaim of the pod is not bound",
            ),
            (
                "persistentvolumeclaim \"nope\" not found. not found",
                Cause::VolumeNotFound,
                "the PersistentVolumeClaim nope does not exist",
            ),
            (
                "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"pv-1\".",
                Cause::VolumeNotFound,
                "the PersistentVolume pv-1 of the claim data does not exist",
            ),
            // Any of the two may be the cause.
            (
                "2 node(s) had untolerated taint {gpu: yes}, 3 node(s) didn't match Pod's node affinity/selector.",
                Cause::Unknown,
                "none of 5 nodes fits: 2 node(s) had untolerated taint {gpu: yes}, 3 node(s) didn't match Pod's node \
                 affinity/selector",
            ),
            (
                "2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint {nvidia.com/gpu: }.",
                Cause::Unknown,
                "none of 5 nodes fits: 2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint {nvidia.com/gpu: }",
            ),
            (
                "5 node(s) didn't match pod topology spread constraints.",
                Cause::Unknown,
                "none of 5 nodes fits: 5 node(s) didn't match pod topology spread constraints",
            ),
        ] {
            for rest in [
                "",
                PREEMPTION,
                " no new claims to deallocate, preemption: 0/5 nodes are available: 5 No preemption victims.",
            ] {
                let message = format!("0/5 nodes are available: {reasons}{rest}");
                let found = explained(&message, &Pod::default(), &Facts::default());
                assert_eq!((found.cause, found.sentence.as_str()), (cause, sentence), "{reasons}{rest}");
            }
        }
    }

    #[test]
    fn keeps_the_words_of_other_messages() {
        for (message, cause, sentence) in [
            ("oops", Cause::Unknown, "the pod cannot be scheduled: oops"),
            ("0/3 nodes are available", Cause::Unknown, "the pod cannot be scheduled: 0/3 nodes are available"),
            (
                "0/x nodes are available: 1 Insufficient cpu",
                Cause::Unknown,
                "the pod cannot be scheduled: 0/x nodes are available: 1 Insufficient cpu",
            ),
            (
                "0/1 nodes are available: 1 Insufficient cpu.",
                Cause::InsufficientResources,
                "the only node lacks free cpu: 1 Insufficient cpu",
            ),
            ("0/2 nodes are available: .", Cause::Unknown, "none of 2 nodes fits: "),
            (
                "no nodes available to schedule pods",
                Cause::Unknown,
                "the cluster has no nodes that the scheduler knows",
            ),
        ] {
            let found = explained(message, &Pod::default(), &Facts::default());
            assert_eq!((found.cause, found.sentence.as_str()), (cause, sentence));
        }
        let binding = "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded";
        assert_eq!(explained(binding, &Pod::default(), &Facts::default()).cause, Cause::VolumeUnbound);
    }
    #[test]
    fn combines_the_reasons_of_several_nodes() {
        let selector = "2 node(s) didn't match Pod's node affinity/selector";
        let control_plane = "1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }";
        let anti_affinity = "3 node(s) didn't match pod anti-affinity rules";
        for (reasons, cause, sentence) in [
            (vec!["5 node(s) were unschedulable"], Cause::NodeCordoned, "all 5 nodes are cordoned"),
            (vec![control_plane, "4 node(s) were unschedulable"], Cause::NodeCordoned, "the other nodes are cordoned"),
            (
                vec![anti_affinity, "2 node(s) didn't satisfy existing pods anti-affinity rules"],
                Cause::PodAffinity,
                "none of 5 nodes satisfies the affinity or anti-affinity to other pods",
            ),
            (
                vec![selector, anti_affinity],
                Cause::PodAffinity,
                "none of the other nodes satisfies the affinity or anti-affinity to other pods",
            ),
            (
                vec!["5 node(s) had volume node affinity conflict"],
                Cause::VolumeNodeAffinity,
                "none of 5 nodes can use the pod's volume, which is on another node or in another zone",
            ),
            (
                vec![selector, "3 node(s) didn't match PersistentVolume's node affinity"],
                Cause::VolumeNodeAffinity,
                "none of the other nodes can use the pod's volume, which is on another node or in another zone",
            ),
            (
                vec!["2 Insufficient cpu", "3 node(s) were unschedulable"],
                Cause::InsufficientResources,
                "none of the other nodes has enough free cpu",
            ),
            // Any of the two may be the cause.
            (
                vec!["2 node(s) had untolerated taint {a: }", "3 node(s) were unschedulable"],
                Cause::Unknown,
                "none of 5 nodes fits",
            ),
            (vec!["2 Insufficient cpu", anti_affinity], Cause::Unknown, "none of 5 nodes fits"),
            (
                vec!["2 node(s) were unschedulable", "3 node(s) had volume node affinity conflict"],
                Cause::Unknown,
                "none of 5 nodes fits",
            ),
        ] {
            let reasons = reasons.join(", ");
            let found = explained(&format!("0/5 nodes are available: {reasons}."), &Pod::default(), &Facts::default());
            assert_eq!((found.cause, found.sentence), (cause, format!("{sentence}: {reasons}")));
        }
    }

    #[test]
    fn names_what_the_pod_requires() {
        let in_zones = |zones: serde_json::Value| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": zones}]});
        let affinity = |terms: serde_json::Value| {
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
            json!({"affinity": {"nodeAffinity": required}})
        };
        let operators = json!([{"matchExpressions": [
            {"key": "gpu", "operator": "Exists"}, {"key": "spot", "operator": "DoesNotExist"},
            {"key": "arch", "operator": "NotIn", "values": ["arm64"]}, {"key": "cores", "operator": "Gt", "values": ["8"]},
        ]}]);
        let resources = |cpu: &str| json!({"requests": {"cpu": cpu, "nvidia.com/gpu": "2"}});
        let hundred: serde_json::Map<_, _> = (100..200).map(|number| (format!("k{number}"), json!("v"))).collect();
        const SELECTOR: &str = "1 node(s) didn't match Pod's node affinity/selector";
        const LACKS: &str = "1 Insufficient cpu, 1 Insufficient nvidia.com/gpu, 1 Insufficient memory";
        for (spec, reasons, sentence) in [
            (json!({"nodeSelector": {"disk": "ssd"}}), SELECTOR, "does not match the pod's node selector disk=ssd: "),
            (
                json!({"nodeSelector": hundred}),
                SELECTOR,
                "does not match the pod's node selector k100=v, k101=v, k102=v and 97 more: ",
            ),
            (
                affinity(json!([in_zones(json!(["a", "b"])), in_zones(json!(["c"]))])),
                SELECTOR,
                "does not match the pod's node affinity zone in (a, b) or zone=c: ",
            ),
            (
                affinity(operators),
                SELECTOR,
                "does not match the pod's node affinity gpu, !spot, arch!=arm64 and 1 more: ",
            ),
            (json!({}), SELECTOR, "does not match the pod's node selector or affinity: "),
            // The sidecar runs beside the containers. The init container needs less.
            (
                json!({"containers": [{"name": "a", "resources": resources("2")}, {"name": "b", "resources": resources("1500m")}],
                    "initContainers": [{"name": "c", "resources": resources("1"), "restartPolicy": "Always"},
                        {"name": "d", "resources": {"requests": {"cpu": 3, "memory": "1Gi"}}}],
                    "overhead": {"cpu": "250m"}}),
                LACKS,
                "lacks free cpu and nvidia.com/gpu and memory: the pod requests 4750m cpu and 6 nvidia.com/gpu and 1Gi memory (",
            ),
            (
                json!({"containers": [{"name": "a", "resources": resources("2")}], "resources": {"requests": {"cpu": "999"}}}),
                LACKS,
                "lacks free cpu and nvidia.com/gpu and memory: the pod requests 999 cpu and 2 nvidia.com/gpu (",
            ),
        ] {
            let pod = crate::pods::testing::pod("a", json!({"spec": merged(spec, &json!({"nodeName": null}))}));
            let found = explained(&format!("0/1 nodes are available: {reasons}."), &pod, &Facts::default());
            assert!(found.sentence.starts_with(&format!("the only node {sentence}{reasons}")), "{}", found.sentence);
        }
    }

    #[test]
    fn names_the_pod_that_has_the_port() {
        const MESSAGE: &str = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
        let ports = json!([{"containerPort": 9100, "hostPort": 9100}]);
        let spec = |node: &str| json!({"nodeName": node, "containers": [{"name": "app", "ports": ports}]});
        let mut holders = PortHolders::default();
        holders.see(&crate::pods::testing::pod("exporter", json!({"spec": spec("rig-node")})));
        let pod = crate::pods::testing::pod("a", json!({"spec": spec(""), "status": {"phase": "Pending"}}));
        for (may_name, sentence) in [
            (true, "host port 9100 is taken by shop/exporter on rig-node: 1 node(s)"),
            (false, "host port 9100 is taken by a pod that is not shown here: 1 node(s)"),
        ] {
            let facts = Facts { port_holder: holders.holder(&pod, |_| may_name), ..Facts::default() };
            let found = explained(MESSAGE, &pod, &facts);
            assert!(found.sentence.starts_with(sentence), "{}", found.sentence);
        }
    }
    #[test]
    fn names_the_claim_and_why_it_is_not_bound() {
        const MESSAGE: &str = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found";
        const MISSING: &str = "storageclass.storage.k8s.io \"standard-v2\" not found";
        let pod = |claims: &[&str]| {
            let volumes = claims.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
            let volumes: Vec<_> = volumes.chain([json!({"name": "scratch", "emptyDir": {}})]).collect();
            let pod = json!({"metadata": {"creationTimestamp": "1970-01-01T00:10:00Z"}, "spec": {"nodeName": null, "volumes": volumes}});
            crate::pods::testing::pod("redis-0", pod)
        };
        let event = |kind: &str, message: &str, last: i64| {
            let involved =
                InvolvedObject { kind: kind.to_owned(), name: "redis-pvc".to_owned(), ..InvolvedObject::default() };
            let (reason, message) = ("ProvisioningFailed".to_owned(), message.to_owned());
            Event { involved, reason, message, last: Some(at(last)), ..Event::default() }
        };
        let claim = "PersistentVolumeClaim";
        for (claims, events, sentence) in [
            (&["redis-pvc"][..], vec![], "the PersistentVolumeClaim redis-pvc is not bound"),
            (&["data", "redis-pvc"], vec![], "one of the PersistentVolumeClaims data, redis-pvc is not bound"),
            (&[], vec![], "a PersistentVolumeClaim of the pod is not bound"),
            (
                &["data", "redis-pvc"],
                vec![event(claim, MISSING, 900)],
                "the PersistentVolumeClaim redis-pvc is not bound: the StorageClass standard-v2 does not exist",
            ),
            (
                &["redis-pvc"],
                vec![event(claim, "failed to provision volume with StorageClass \"fast\": no space", 900)],
                "the PersistentVolumeClaim redis-pvc is not bound: failed to provision volume with StorageClass \"fast\": no space",
            ),
            // Before the pod was created, and about a pod.
            (&["redis-pvc"], vec![event(claim, MISSING, 500)], "the PersistentVolumeClaim redis-pvc is not bound"),
            (&["redis-pvc"], vec![event("Pod", MISSING, 900)], "the PersistentVolumeClaim redis-pvc is not bound"),
        ] {
            let facts = Facts { events: events.into(), ..Facts::default() };
            let found = explained(MESSAGE, &pod(claims), &facts);
            assert_eq!((found.cause, found.sentence.as_str()), (Cause::VolumeUnbound, sentence));
            let late = of_message(MESSAGE, &View { pod: &pod(claims), facts: &facts, now: at(9000) });
            assert!(!late.sentence.contains("StorageClass"), "{}", late.sentence);
        }
    }
}
