//! Causes that several incidents have in common.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::{
    api::Cause,
    diagnosis::{Explanation, Subject, SubjectKind},
    pods::ContainerSpec,
};

/// A pod on a node that does not report.
fn on_dead_node(owner: &str, node: &str) -> (Pod, Finding) {
    explained(owner, ProblemKind::NotReady, node, Cause::NodeNotReady, None)
}

fn explained(owner: &str, kind: ProblemKind, node: &str, cause: Cause, subject: Option<Subject>) -> (Pod, Finding) {
    let (pod, finding) = crashing("shop", owner, "Error", 500);
    let explanation =
        Explanation { cause, message: "a sentence".into(), subject: subject.map(Arc::new), ..Explanation::default() };
    (Pod { node: node.into(), started: Some(at(0)), ..pod }, Finding { kind, explanation, ..finding })
}

fn pulling(owner: &str, image: &str, cause: Cause) -> (Pod, Finding) {
    let subject = match cause {
        Cause::RegistryUnreachable | Cause::ImageRateLimited => {
            let registry = image.split_once('/').map_or("docker.io", |(registry, _)| registry);
            Subject::cluster_wide(SubjectKind::Registry, registry)
        }
        _ => Subject::cluster_wide(SubjectKind::Image, image),
    };
    let (mut pod, finding) = explained(owner, ProblemKind::Image, "node-1", cause, Some(subject));
    pod.containers = vec![ContainerSpec { name: "app".into(), image: image.into(), ..ContainerSpec::default() }];
    (pod, finding)
}

fn lacking(owner: &str, kind: SubjectKind, name: &str, cause: Cause) -> (Pod, Finding) {
    explained(owner, ProblemKind::Start, "node-1", cause, Some(Subject::namespaced(kind, "shop", name)))
}

fn messages(status: &OrchestrStatus) -> Vec<&str> {
    status.common_causes.iter().map(|own| own.message.as_str()).collect()
}

fn messages_of(pods: Vec<(Pod, Finding)>) -> Vec<String> {
    messages(&Scenario::of(pods).status(None)).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_node_explains_most_of_its_pods_of_three_owners() {
    let mut pods: Vec<_> = (0..9).map(|n| on_dead_node(["a", "b", "c", "d"][n % 4], "node-7")).collect();
    pods[3].1.since = at(400);
    pods.push(on_dead_node("a", "node-8"));
    let status = Scenario::of(pods).status(None);
    let [own] = status.common_causes.as_slice() else { panic!("{:?}", status.common_causes) };
    assert_eq!((own.kind.as_str(), own.name.as_str(), own.owners, own.pods), ("Node", "node-7", 4, 9));
    assert_eq!(own.since.0, at(400));
    assert_eq!(own.message, "node-7 does not report: 9 of its 10 pods, of 4 owners, are not ready");
}

#[test]
fn a_mostly_healthy_node_is_no_common_cause() {
    let of = |cause, owners: &[&str], others: u64| {
        let pods = owners.iter().map(|owner| explained(owner, ProblemKind::Failed, "node-7", cause, None));
        Scenario { other_pods_on_node: others, ..Scenario::of(pods) }.status(None).common_causes.len()
    };
    assert_eq!(of(Cause::NodePressure, &["a", "b", "c"], 2), 1);
    assert_eq!(of(Cause::NodePressure, &["a", "b", "c"], 3), 0, "half of the pods");
    assert_eq!(of(Cause::NodePressure, &["a", "b", "b"], 0), 0, "two owners");
    assert_eq!(of(Cause::NodeNotReady, &["a", "b", "b"], 0), 0, "two owners");
    assert_eq!(of(Cause::ReadinessProbe, &["a", "b", "c"], 0), 0, "nothing says that it is the node");
}

#[test]
fn a_silent_node_explains_the_pods_that_were_ready_before() {
    let marked = (0..34).map(|n| on_dead_node(&format!("own{n}"), "node-7"));
    let broken = (0..40).map(|n| explained(&format!("bad{n}"), ProblemKind::Crash, "node-7", Cause::ExitCode, None));
    let pods: Vec<_> = marked.chain(broken).collect();
    let scenario = || Scenario { other_pods_on_node: 20, ..Scenario::of(pods.clone()) };
    let status = scenario().status(None);
    let [own] = status.common_causes.as_slice() else { panic!("{:?}", status.common_causes) };
    assert_eq!(own.message, "node-7 does not report: 34 of its 94 pods, of 34 owners, are not ready");
    let sizes: Vec<_> = grouped(scenario()).into_iter().map(|(name, owners)| (name, owners.len())).collect();
    assert_eq!(sizes, [(String::new(), 40), ("node-7".to_owned(), 34)], "a crash has a cause of its own");
}

/// Two pods that the node controller has marked do not make the node the cause of what another fault explains.
#[test]
fn a_few_marked_pods_prove_nothing_about_the_others() {
    let pressed = ["c", "d"].map(|owner| explained(owner, ProblemKind::Failed, "node-7", Cause::NodePressure, None));
    let pods = ["a", "b"].map(|owner| on_dead_node(owner, "node-7")).into_iter().chain(pressed);
    let status = Scenario { other_pods_on_node: 4, ..Scenario::of(pods) }.status(None);
    assert!(status.common_causes.is_empty(), "{:?}", status.common_causes);
}

#[test]
fn a_crash_on_the_node_is_not_explained_by_the_node() {
    let node = || ["a", "b", "c"].map(|owner| on_dead_node(owner, "node-7"));
    let crash = explained("d", ProblemKind::Crash, "node-7", Cause::ExitCode, None);
    let status = Scenario::of(node().into_iter().chain([crash])).status(None);
    let [own] = status.common_causes.as_slice() else { panic!("{:?}", status.common_causes) };
    assert_eq!((own.owners, own.pods), (3, 3));
    let crashes = ["a", "b", "c"].map(|owner| explained(owner, ProblemKind::Crash, "node-7", Cause::ExitCode, None));
    assert!(messages_of(crashes.to_vec()).is_empty());
}

#[test]
fn a_failing_mount_of_one_node_is_its_fault() {
    for (cause, message) in [
        (Cause::SandboxFailed, "node-7 cannot set up sandboxes of pods: 3 of its 4 pods, of 3 owners, cannot start"),
        (Cause::MountFailed, "node-7 cannot mount volumes: 3 of its 4 pods, of 3 owners, cannot start"),
    ] {
        let failing = |owner, node| explained(owner, ProblemKind::Creating, node, cause, None);
        let mut pods = ["a", "b", "c"].map(|owner| failing(owner, "node-7")).to_vec();
        assert_eq!(messages_of(pods.clone()), [message]);
        pods.push(failing("d", "node-8"));
        assert!(messages_of(pods).is_empty(), "{cause}: perhaps the network or the storage");
    }
}

#[test]
fn an_image_and_a_registry_explain_three_owners() {
    let image = |owner| pulling(owner, "ghcr.io/acme/cart:1.42", Cause::ImageNotFound);
    assert_eq!(
        messages_of(["a", "b", "c"].map(image).to_vec()),
        ["image ghcr.io/acme/cart:1.42 does not exist: 3 pods of 3 owners cannot start"]
    );
    assert!(messages_of(["a", "b"].map(image).to_vec()).is_empty());
    let different = |cause| {
        ["a", "b", "c"].iter().map(|own| pulling(own, &format!("ghcr.io/acme/{own}:1"), cause)).collect::<Vec<_>>()
    };
    assert!(messages_of(different(Cause::ImageNotFound)).is_empty(), "three typos");
    for (cause, message) in [
        (Cause::RegistryUnreachable, "registry ghcr.io cannot be reached: 3 pods of 3 owners cannot pull 3 images"),
        (Cause::ImageRateLimited, "registry ghcr.io limits the rate of pulls: 3 pods of 3 owners cannot pull 3 images"),
        (
            Cause::ImageAuth,
            "registry ghcr.io/acme refuses access to the namespace shop: 3 pods of 3 owners cannot pull 3 images",
        ),
    ] {
        assert_eq!(messages_of(different(cause)), [message]);
    }
    // A single image is named itself.
    let same = ["a", "b", "c"].map(|owner| pulling(owner, "cart:1", Cause::ImageRateLimited));
    let message =
        "image cart:1 is refused by its registry, which limits the rate of pulls: 3 pods of 3 owners cannot start";
    assert_eq!(messages_of(same.to_vec()), [message]);
}

/// The same in another namespace.
fn in_namespace(namespace: &str, (pod, finding): (Pod, Finding)) -> (Pod, Finding) {
    (Pod { namespace: namespace.into(), ..pod }, finding)
}

#[test]
fn refused_credentials_explain_only_their_namespace() {
    for images in [["acme/x1", "acme/x2", "acme/x3", "acme/cart"], ["acme/cart"; 4]] {
        let [x1, x2, x3, cart] = images.map(|image| format!("registry.corp/{image}"));
        let pulls = |namespace, owner, image: &str, cause| in_namespace(namespace, pulling(owner, image, cause));
        let evil =
            |cause| [("a", &x1), ("b", &x2), ("c", &x3)].map(|(owner, image)| pulls("evil", owner, image, cause));
        let members = |cause| {
            let pods = evil(cause).into_iter().chain([pulls("payments", "cart", &cart, cause)]);
            grouped(Scenario::of(pods)).into_iter().map(|(_, owners)| owners.join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(members(Cause::ImageAuth), ["cart", "a b c"], "{images:?}");
        // A registry that cannot be reached is the same for all namespaces.
        assert_eq!(members(Cause::RegistryUnreachable), ["a b c cart"], "{images:?}");
    }
}

#[test]
fn refused_images_of_several_projects_have_no_common_cause() {
    let projects = ["a", "b", "c"].map(|own| pulling(own, &format!("ghcr.io/{own}/{own}"), Cause::ImageAuth));
    assert!(messages_of(projects.to_vec()).is_empty());
    for prefix in ["", "acme/"] {
        let hub = ["a", "b", "c"].map(|own| pulling(own, &format!("{prefix}{own}"), Cause::ImageAuth));
        assert!(messages_of(hub.to_vec()).is_empty(), "Docker Hub refuses images that do not exist as well");
    }
    let mixed = [
        pulling("a", "ghcr.io/a", Cause::ImageRateLimited),
        pulling("b", "ghcr.io/b", Cause::ImageRateLimited),
        pulling("c", "ghcr.io/c", Cause::RegistryUnreachable),
    ];
    assert!(messages_of(mixed.to_vec()).is_empty(), "two causes");
}

#[test]
fn a_missing_object_explains_two_owners() {
    for (kind, cause, message) in [
        (
            SubjectKind::ConfigMap,
            Cause::ConfigMapMissing,
            "ConfigMap shop/own does not exist: 2 pods of 2 owners cannot start",
        ),
        (SubjectKind::Secret, Cause::SecretMissing, "Secret shop/own does not exist: 2 pods of 2 owners cannot start"),
        (SubjectKind::Secret, Cause::KeyMissing, "Secret shop/own lacks a key: 2 pods of 2 owners cannot start"),
    ] {
        let pods = ["a", "b"].map(|owner| lacking(owner, kind, "own", cause));
        assert_eq!(messages_of(pods.to_vec()), [message]);
        assert!(messages_of(pods[..1].to_vec()).is_empty());
        let others = [lacking("a", kind, "own", cause), lacking("b", kind, "other", cause)];
        assert!(messages_of(others.to_vec()).is_empty());
    }
    let class = || Some(Subject::cluster_wide(SubjectKind::StorageClass, "fast-ssd"));
    let pods = ["a", "b"].map(|own| explained(own, ProblemKind::Unschedulable, "", Cause::VolumeUnbound, class()));
    let message = "StorageClass fast-ssd provides no volumes: 2 pods of 2 owners wait for a volume";
    assert_eq!(messages_of(pods.to_vec()), [message]);
}

#[test]
fn an_exceeded_quota_explains_missing_pods() {
    let missing = |owner: &str| MissingPods {
        namespace: "shop".to_owned(),
        owner: Owner { kind: "Deployment".to_owned(), name: owner.to_owned() },
        controllers: Vec::new(),
        reason: "FailedCreate",
        since: at(600),
        tolerated: Duration::from_secs(30),
        missing: 3,
        of: 3,
        explanation: Explanation {
            cause: Cause::QuotaExceeded,
            subject: Some(Arc::new(Subject::namespaced(SubjectKind::ResourceQuota, "shop", "mem-cap"))),
            ..Explanation::default()
        },
        ownership: None,
    };
    let status = Scenario { missing: ["a", "b"].map(missing).to_vec(), ..Scenario::default() }.status(None);
    let message = "ResourceQuota shop/mem-cap is exceeded: 6 pods of 2 owners cannot be created";
    assert_eq!(messages(&status), [message]);
}

#[test]
fn common_causes_are_limited_to_those_of_most_pods() {
    let pods = (0..12).flat_map(|number| {
        let name = format!("config-{number:02}");
        (0..number + 2).map(move |owner| {
            let owner = format!("{name}-{owner}");
            lacking(&owner, SubjectKind::ConfigMap, &name, Cause::ConfigMapMissing)
        })
    });
    let status = Scenario::of(pods).status(None);
    let pods: Vec<i64> = status.common_causes.iter().map(|own| own.pods).collect();
    assert_eq!(pods, [13, 12, 11, 10, 9, 8, 7, 6, 5, 4]);
}

#[test]
fn common_causes_are_kept_while_the_pods_are_not_known() {
    let old = Scenario::of(["a", "b", "c"].map(|owner| on_dead_node(owner, "node-7"))).status(None);
    let kept = not_watching(&NotWatching::Syncing, 3, Some(&old), at(900));
    assert_eq!((kept.common_causes.len(), &kept.common_causes), (1, &old.common_causes));
    let changed = OrchestrStatus { common_causes: Vec::new(), ..old.clone() };
    assert_eq!(differs(Some(&old), &changed), Change::Substantial);
}

/// The owners of the incidents that alerts group by each common cause.
fn grouped(scenario: Scenario) -> Vec<(String, Vec<String>)> {
    grouped_by_key(&Scenario { webhooks: true, ..scenario }, |_| true)
}

/// The same of some incidents.
pub(super) fn grouped_by_key(
    scenario: &Scenario,
    chosen: impl Fn(&crate::report::Incident) -> bool,
) -> Vec<(String, Vec<String>)> {
    let mut grouped = std::collections::BTreeMap::<_, Vec<String>>::new();
    for incident in scenario.alert_incidents().into_iter().filter(chosen) {
        let key = incident.common_cause.map_or_else(Default::default, |own| (own.name.clone(), own.key.clone()));
        grouped.entry(key).or_default().push(incident.owner.name.clone());
    }
    let mut grouped: Vec<_> = grouped.into_iter().map(|((name, _), owners)| (name, owners)).collect();
    grouped.iter_mut().for_each(|(_, owners)| owners.sort());
    grouped
}

#[test]
fn alerts_group_an_incident_if_its_pods_have_one_cause() {
    let dead = ["a", "b", "c", "d"].map(|owner| on_dead_node(owner, "node-7"));
    let other = explained("d", ProblemKind::NotReady, "node-8", Cause::ReadinessProbe, None);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        grouped(Scenario::of(dead.into_iter().chain([other]))),
        [(String::new(), names(&["d"])), ("node-7".to_owned(), names(&["a", "b", "c"]))]
    );
}

#[test]
fn alerts_group_an_incident_by_the_node_of_most_of_its_pods() {
    let (mut pods, owners) = (Vec::new(), ["a", "b", "c"]);
    for (owner, nodes) in
        owners.iter().zip([["node-1", "node-1", "node-2"], ["node-1", "node-2", "node-2"], ["node-2"; 3]])
    {
        pods.extend(nodes.map(|node| on_dead_node(owner, node)));
    }
    pods.push(on_dead_node("c", "node-1"));
    let status = Scenario::of(pods.clone()).status(None);
    assert_eq!(status.common_causes.iter().map(|own| own.name.as_str()).collect::<Vec<_>>(), ["node-2", "node-1"]);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        grouped(Scenario::of(pods)),
        [("node-1".to_owned(), names(&["a"])), ("node-2".to_owned(), names(&["b", "c"]))]
    );
}

#[test]
fn a_common_cause_has_one_key_in_all_reports() {
    let keys = |owners: &[&str]| {
        let pods = owners.iter().map(|owner| on_dead_node(owner, "node-7"));
        let scenario = Scenario { webhooks: true, ..Scenario::of(pods) };
        let incidents = scenario.alert_incidents();
        incidents
            .into_iter()
            .map(|own| own.common_cause.unwrap().key.clone())
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!((keys(&["a", "b", "c"]).len(), keys(&["a", "b", "c"])), (1, keys(&["d", "e", "f", "g"])));
}

/// A fault of a cluster, which affects the pods of several owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Node(u8),
    ConfigMap(u8),
    Secret(u8),
    Image(u8),
    Registry(u8),
    /// Each pod crashes for reasons of its own.
    Crash,
    Unexplained,
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        3 => (0..2_u8).prop_map(Fault::Node),
        2 => (0..2_u8).prop_map(Fault::ConfigMap),
        1 => (0..2_u8).prop_map(Fault::Secret),
        2 => (0..2_u8).prop_map(Fault::Image),
        2 => (0..2_u8).prop_map(Fault::Registry),
        1 => Just(Fault::Crash),
        1 => Just(Fault::Unexplained),
    ]
}

impl Fault {
    fn pod(self, owner: u8, node: u8) -> (Pod, Finding) {
        let (owner, node) = (format!("own{owner}"), format!("node-{node}"));
        match self {
            Self::Node(node) => on_dead_node(&owner, &format!("node-{node}")),
            Self::ConfigMap(n) => lacking(&owner, SubjectKind::ConfigMap, &format!("o{n}"), Cause::ConfigMapMissing),
            Self::Secret(n) => lacking(&owner, SubjectKind::Secret, &format!("o{n}"), Cause::SecretMissing),
            Self::Image(n) => pulling(&owner, &format!("acme{n}.io/same:1"), Cause::ImageNotFound),
            Self::Registry(n) => pulling(&owner, &format!("r{n}.io/{owner}:1"), Cause::RegistryUnreachable),
            Self::Crash => explained(&owner, ProblemKind::Crash, &node, Cause::ExitCode, None),
            Self::Unexplained => explained(&owner, ProblemKind::NotReady, &node, Cause::Unknown, None),
        }
    }

    /// The kind and the name of the common cause.
    fn subject(self) -> Option<(&'static str, String)> {
        match self {
            Self::Node(n) => Some(("Node", format!("node-{n}"))),
            Self::ConfigMap(n) => Some(("ConfigMap", format!("shop/o{n}"))),
            Self::Secret(n) => Some(("Secret", format!("shop/o{n}"))),
            Self::Image(n) => Some(("Image", format!("acme{n}.io/same:1"))),
            Self::Registry(n) => Some(("Registry", format!("r{n}.io"))),
            Self::Crash | Self::Unexplained => None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn unrelated_faults_are_never_merged_and_end_with_their_pods(
        pods in prop::collection::vec((fault(), 0..6_u8, 0..3_u8), 0..40),
        repaired in fault(),
    ) {
        let scenario = |pods: &[(Fault, u8, u8)]| {
            let pods = pods.iter().map(|(fault, owner, node)| fault.pod(*owner, *node));
            Scenario { other_pods_on_node: 0, webhooks: true, ..Scenario::of(pods) }
        };
        let before = scenario(&pods).status(None);
        let members: Vec<(String, String)> = scenario(&pods)
            .alert_incidents()
            .into_iter()
            .filter_map(|own| Some((own.common_cause?.name.clone(), own.owner.name.clone())))
            .collect();
        for (cause, owner) in members {
            let is_member = pods.iter().any(|(fault, number, _)| {
                format!("own{number}") == owner && fault.subject().is_some_and(|(_, name)| name.ends_with(&cause))
            });
            prop_assert!(is_member, "{} has no fault of {}", owner, cause);
        }
        for own in &before.common_causes {
            let members: Vec<_> = pods
                .iter()
                .filter(|(fault, ..)| fault.subject().is_some_and(|(kind, name)| own.kind == kind && own.name == name))
                .collect();
            prop_assert_eq!(own.pods, members.len() as i64, "{:?} counts other pods", own);
            let owners: std::collections::BTreeSet<_> = members.iter().map(|(_, owner, _)| owner).collect();
            prop_assert_eq!(own.owners, owners.len() as i64);
            let least = if matches!(own.kind.as_str(), "ConfigMap" | "Secret") { 2 } else { 3 };
            prop_assert!(owners.len() >= least);
        }
        // The order of the pods does not matter.
        let mut reversed = pods.clone();
        reversed.reverse();
        prop_assert_eq!(&scenario(&reversed).status(None).common_causes, &before.common_causes);

        let left: Vec<_> = pods.iter().copied().filter(|(fault, ..)| *fault != repaired).collect();
        let after = scenario(&left).status(None);
        let of_repaired = |own: &crate::api::CommonCause| {
            repaired.subject().is_some_and(|(kind, name)| own.kind == kind && own.name == name)
        };
        prop_assert!(!after.common_causes.iter().any(of_repaired), "{:?}", after.common_causes);
        let unaffected = |status: &OrchestrStatus| -> Vec<_> {
            let others = status.common_causes.iter().filter(|own| !of_repaired(own) && own.kind != "Node");
            others.cloned().collect()
        };
        prop_assert_eq!(unaffected(&after), unaffected(&before), "other causes stay");
    }
}
