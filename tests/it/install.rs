//! Applies `deploy/` with `kubectl apply -k`, and checks the rights of the operator.

use std::{collections::BTreeSet, process::Stdio};

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, Deployment},
    authorization::v1::{
        ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SelfSubjectRulesReview,
        SelfSubjectRulesReviewSpec,
    },
    batch::v1::Job,
    core::{self, v1::Pod},
    events::v1::Event,
    rbac::v1::ClusterRole,
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use orchestr::{api::Orchestr, version::version_and_revision};
use orchestr_testbed::{Answer, ControlPlane, Kubelet, Options, ServiceAccountAccess, eventually};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::{
    command::{assert_fails, orchestr},
    pod_statuses::{ago, controlled_by, crash_looping, healthy, pod, stored},
    support::TIMEOUT,
    test_env::Plane,
};

const SYSTEM: &str = "orchestr-system";

/// The operator's rights: group, resource, verbs.
const RIGHTS: [(&str, &str, &str); 13] = [
    ("", "events", "list watch"),
    ("", "pods", "list watch"),
    ("", "pods/log", "get"),
    ("", "replicationcontrollers", "get"),
    ("apps", "controllerrevisions", "get"),
    ("apps", "daemonsets", "get"),
    ("apps", "replicasets", "get"),
    ("apps", "statefulsets", "get"),
    ("batch", "cronjobs", "get"),
    ("batch", "jobs", "get"),
    ("events.k8s.io", "events", "create patch"),
    ("kopf.dev", "orchestrs", "get list watch"),
    ("kopf.dev", "orchestrs/status", "patch"),
];

/// Its right in the whole cluster that a Role cannot contain.
const CLUSTER_RIGHTS: [(&str, &str, &str); 1] = [("", "namespaces", "list watch")];

/// Its rights in its own namespace, for the Lease.
const LEASE_RIGHTS: [(&str, &str, &str); 2] =
    [("coordination.k8s.io", "leases", "create"), ("coordination.k8s.io", "leases", "get update")];

/// The rights of the optional ClusterRole `nodes-and-volumes`. Without it, the operator must not list nodes, which [`NEVER`] checks.
const OPTIONAL_RIGHTS: [(&str, &str, &str); 4] = [
    ("", "nodes", "list"),
    ("", "persistentvolumeclaims", "get"),
    ("storage.k8s.io", "storageclasses", "get"),
    ("", "persistentvolumes", "list"),
];

/// Rights that an attacker with the operator's token could abuse: verbs, group, resources.
const NEVER: [(&str, &str, &str); 15] = [
    ("get list watch", "", "secrets"),
    ("get", "", "configmaps"),
    ("get create update patch delete deletecollection", "", "pods"),
    ("create get", "", "pods/exec"),
    ("create", "", "pods/attach pods/portforward pods/eviction serviceaccounts/token"),
    ("patch", "", "pods/ephemeralcontainers pods/status"),
    ("list", "", "nodes"),
    ("get", "", "nodes/proxy services/proxy"),
    ("impersonate", "", "users serviceaccounts"),
    ("patch", "apps", "deployments"),
    ("create", "batch", "jobs"),
    ("escalate bind", "rbac.authorization.k8s.io", "clusterroles"),
    ("create patch delete", "kopf.dev", "orchestrs"),
    ("patch", "apiextensions.k8s.io", "customresourcedefinitions"),
    ("create", "admissionregistration.k8s.io", "validatingwebhookconfigurations"),
];

/// Each of [`NEVER`]: verb, group, resource. The last is all rights.
fn never() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let each = NEVER.into_iter().flat_map(|(verbs, group, resources)| {
        verbs.split(' ').flat_map(move |verb| resources.split(' ').map(move |resource| (verb, group, resource)))
    });
    each.chain([("*", "*", "*")])
}

/// The path of a folder of the repository.
fn repository(path: &str) -> String {
    format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))
}

pub(crate) async fn apply(plane: &ControlPlane, path: &str) {
    let output = plane.kubectl(&["apply", "-k", &repository(path)], None).await.unwrap();
    assert!(output.status.success(), "{}{}", output.stdout, output.stderr);
    // Such as a rejected pod, or an unknown or deprecated field. The warning about `last-applied-configuration` comes
    // from tests that have installed the CRD before.
    let warnings = output.stderr.lines().filter(|line| !line.contains("last-applied-configuration"));
    assert_eq!(warnings.collect::<Vec<_>>(), [""; 0]);
}

/// Applies a file.
pub(crate) async fn apply_file(plane: &ControlPlane, path: &str) {
    let output = plane.kubectl(&["apply", "-f", &repository(path)], None).await.unwrap();
    assert!(output.status.success(), "{}{}", output.stdout, output.stderr);
}

/// The shared control plane with the operator installed. It is installed once, because tests run concurrently.
pub(crate) async fn installed() -> &'static ControlPlane {
    static INSTALLED: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    let plane = orchestr_testbed::shared().await;
    INSTALLED.get_or_init(|| apply(plane, "deploy")).await;
    plane
}

/// The rights of a service account in a namespace, without those that every account has.
async fn rights(client: &Client, namespace: &str) -> BTreeSet<(String, String, String)> {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) },
        ..SelfSubjectRulesReview::default()
    };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await.unwrap();
    let mut rights = BTreeSet::new();
    for rule in answer.status.unwrap().resource_rules {
        let mut verbs = rule.verbs;
        verbs.sort_unstable();
        for group in rule.api_groups.unwrap_or_default() {
            for resource in rule.resources.clone().unwrap_or_default() {
                rights.insert((group.clone(), resource, verbs.join(" ")));
            }
        }
    }
    rights.retain(|(group, _, _)| group != "authorization.k8s.io" && group != "authentication.k8s.io");
    rights
}

/// `is_cluster` is whether a ClusterRole grants them.
fn expected_rights(namespace: &str, is_cluster: bool) -> BTreeSet<(String, String, String)> {
    let lease = LEASE_RIGHTS.iter().filter(|_| namespace == SYSTEM);
    let rights = RIGHTS.iter().chain(lease).chain(CLUSTER_RIGHTS.iter().filter(|_| is_cluster));
    rights.map(|&(group, resource, verbs)| (group.to_owned(), resource.to_owned(), verbs.to_owned())).collect()
}

async fn may(client: &Client, verb: &str, group: &str, resource: &str, namespace: Option<&str>) -> bool {
    let (resource, subresource) = resource.split_once('/').map_or((resource, None), |(r, s)| (r, Some(s.to_owned())));
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource,
                namespace: namespace.map(str::to_owned),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    Api::all(client.clone()).create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
}

/// The operator's service account. Waits until the authorizer has the applied roles.
async fn operator(plane: &ControlPlane, namespace: &str, is_cluster: bool) -> ServiceAccountAccess {
    let access = plane.service_account(SYSTEM, "orchestr").await.unwrap();
    let client = access.client().unwrap();
    eventually("the operator's rights are in effect", TIMEOUT, async || {
        let rights = rights(&client, namespace).await;
        if rights == expected_rights(namespace, is_cluster) { Ok(()) } else { Err(format!("{rights:#?}")) }
    })
    .await
    .unwrap();
    access
}

#[tokio::test]
async fn grants_the_operator_exactly_its_rights() {
    let plane = installed().await;
    let namespace = plane.namespace("anywhere").await.unwrap();
    let client = operator(plane, &namespace, true).await.client().unwrap();
    for (group, resource, verbs) in RIGHTS.into_iter().chain(CLUSTER_RIGHTS) {
        for verb in verbs.split(' ') {
            assert!(may(&client, verb, group, resource, None).await, "it may {verb} {resource}");
        }
    }
    for (verb, group, resource) in never() {
        for place in [None, Some(SYSTEM), Some(&namespace)] {
            assert!(!may(&client, verb, group, resource, place).await, "it must not {verb} {resource} in {place:?}");
        }
    }
    assert_eq!(rights(&client, SYSTEM).await, expected_rights(SYSTEM, true));
    // It may create any Lease in its namespace, because a right to create cannot name one, but change only its own.
    for verb in ["get", "update"] {
        assert!(
            !may(&client, verb, "coordination.k8s.io", "leases", Some(SYSTEM)).await,
            "it must not {verb} all Leases"
        );
    }
    // Applying it again, as for an upgrade, succeeds.
    apply(plane, "deploy").await;
}

#[test]
fn the_optional_role_grants_no_more_than_it_says() {
    let text = include_str!("../../deploy/components/nodes-and-volumes/role.yaml");
    let role: ClusterRole = serde_yaml::from_str(text.split("\n---\n").next().unwrap()).unwrap();
    let rules: Vec<_> = role.rules.iter().flatten().map(|rule| json!(rule)).collect();
    let expected = OPTIONAL_RIGHTS
        .map(|(group, resource, verb)| json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]}));
    assert_eq!(rules, expected);
}

#[test]
fn the_optional_rules_grant_no_more_than_they_say() {
    let text = include_str!("../../deploy/components/workload-history/rules.yaml");
    let operations: Value = serde_yaml::from_str(text).unwrap();
    let rule = |resources: &[&str], verb: &str| json!({"apiGroups": ["apps"], "resources": resources, "verbs": [verb]});
    let expected = [rule(&["deployments"], "get"), rule(&["replicasets", "controllerrevisions"], "list")];
    let added = expected.map(|rule| json!({"op": "add", "path": "/rules/-", "value": rule}));
    assert_eq!(operations, json!(added));
}

#[tokio::test]
async fn its_pod_meets_the_restricted_pod_security_standard() {
    let plane = installed().await;
    let client = plane.admin().unwrap();
    let deployment = Api::<Deployment>::namespaced(client.clone(), SYSTEM).get("orchestr").await.unwrap();
    let template = deployment.spec.unwrap().template;
    let mut pod = Pod { metadata: template.metadata.unwrap(), spec: template.spec, ..Pod::default() };
    pod.metadata.name = Some("as-the-deployment-makes-it".to_owned());
    let pods = Api::<Pod>::namespaced(client, SYSTEM);
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let made = pods.create(&dry_run, &pod).await.unwrap();

    let container = &made.spec.as_ref().unwrap().containers[0];
    let security = container.security_context.as_ref().unwrap();
    assert_eq!(security.read_only_root_filesystem, Some(true));
    let resources = container.resources.as_ref().unwrap();
    assert!(resources.requests.as_ref().is_some_and(|requests| requests.contains_key("cpu")));
    assert!(resources.limits.as_ref().is_some_and(|limits| limits.contains_key("memory")));

    // The standard is enforced: without any one of these settings, the pod is rejected.
    pod.spec.as_mut().unwrap().containers[0].security_context.as_mut().unwrap().allow_privilege_escalation = None;
    let refusal = pods.create(&dry_run, &pod).await.unwrap_err().to_string();
    assert!(refusal.contains(r#"violates PodSecurity "restricted"#), "{refusal}");
}

#[tokio::test]
async fn grants_access_to_orchestrs_only_by_explicit_roles() {
    let plane = installed().await;
    let client = plane.admin().unwrap();
    let ours = ListParams::default().labels("app.kubernetes.io/name=orchestr");
    let roles = Api::<ClusterRole>::all(client).list(&ours).await.unwrap().items;
    let names: Vec<_> = roles.iter().map(|role| role.metadata.name.as_deref().unwrap_or_default()).collect();
    assert_eq!(names, ["orchestr", "orchestr-editor", "orchestr-viewer"]);
    for role in &roles {
        // With an aggregation label, everyone who may view the workloads of a namespace could also view its Orchestr
        // objects.
        let labels = role.metadata.labels.iter().flatten();
        assert!(!labels.clone().any(|(name, _)| name.contains("/aggregate-to-")), "{labels:?}");
    }

    let namespace = plane.namespace("people").await.unwrap();
    bind(plane, &namespace, "orchestr-viewer", "viewer").await;
    let viewer = Client::try_from(plane.user("viewer", &[])).unwrap();
    eventually("the binding is in effect", TIMEOUT, async || {
        let may_list = may(&viewer, "list", "kopf.dev", "orchestrs", Some(&namespace)).await;
        if may_list { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await
    .unwrap();
    for verb in ["create", "update", "patch", "delete"] {
        assert!(!may(&viewer, verb, "kopf.dev", "orchestrs", Some(&namespace)).await, "{verb}");
    }
}

pub(crate) async fn bind(plane: &ControlPlane, namespace: &str, role: &str, user: &str) {
    let args = ["create", "rolebinding", &format!("{role}-{user}"), "--namespace", namespace];
    let flags = [format!("--clusterrole={role}"), format!("--user={user}")];
    let output = plane.kubectl(&[args.as_slice(), &[&flags[0], &flags[1]]].concat(), None).await.unwrap();
    assert!(output.status.success(), "{}", output.stderr);
}

#[tokio::test]
async fn the_policy_limits_an_object_to_the_rights_of_its_writer() {
    let plane = installed().await;
    crate::support::install_crd(plane).await;
    let namespace = plane.namespace("tenant").await.unwrap();
    // Names that no other test uses, because cluster-wide bindings are never removed.
    for (role, user) in [("orchestr-editor", "tenant"), ("view", "tenant"), ("orchestr-editor", "stranger")] {
        bind(plane, &namespace, role, user).await;
    }
    bind(plane, &namespace, "orchestr-editor", "tenant-sre").await;
    let grant = ["create", "clusterrolebinding", "tenant-sre", "--clusterrole=view", "--user=tenant-sre"];
    assert!(plane.kubectl(&grant, None).await.unwrap().status.success());
    apply(plane, "deploy/tenancy").await;

    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let write = async |user: &str, pods: serde_json::Value, logs: bool| {
        let client = Client::try_from(plane.user(user, &[])).unwrap();
        let spec = json!({"alerts": {"checkRunningPods": true}, "pods": pods, "logs": {"enabled": logs}});
        let object = json!({"apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": "a"}, "spec": spec});
        let objects = Api::<Orchestr>::namespaced(client, &namespace);
        let outcome = objects.create(&dry_run, &serde_json::from_value(object).unwrap()).await;
        outcome.map(drop).map_err(|error| error.to_string())
    };
    let own = json!({"namespaces": [namespace]});
    eventually("the policy is in effect", TIMEOUT, async || match write("tenant", json!({}), true).await {
        Err(refusal) if refusal.contains("list pods in all namespaces") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    for (user, pods, logs, refused) in [
        ("tenant", own.clone(), true, None),
        ("tenant", json!({"namespaces": ["*"]}), true, Some("list pods in all namespaces")),
        ("tenant", json!({"namespaces": [namespace, "kube-system"]}), false, Some("list pods in all namespaces")),
        ("tenant", json!({"namespaces": []}), false, Some("list pods in all namespaces")),
        ("stranger", own.clone(), true, Some("list pods in the namespace of the Orchestr")),
        ("tenant-sre", json!({"namespaces": ["*"]}), true, None),
        ("tenant-sre", json!({}), true, None),
    ] {
        let outcome = write(user, pods.clone(), logs).await;
        match refused {
            None => assert_eq!(outcome, Ok(()), "{user} {pods}"),
            Some(why) => {
                assert!(outcome.as_ref().is_err_and(|message| message.contains(why)), "{user} {pods}: {outcome:?}")
            }
        }
    }
}

#[tokio::test]
async fn names_each_missing_step_and_is_confined_to_its_namespace() {
    let plane = Plane::start(Options::default()).await;
    plane.ensure_namespace("shop").await.unwrap();
    plane.ensure_namespace("elsewhere").await.unwrap();
    apply(&plane, "deploy/namespaced").await;
    let access = operator(&plane, "shop", false).await;
    let client = access.client().unwrap();
    for place in ["elsewhere", "kube-system"] {
        assert_eq!(rights(&client, place).await, BTreeSet::new(), "{place}");
    }
    let of_lease: BTreeSet<_> =
        expected_rights(SYSTEM, false).difference(&expected_rights("shop", false)).cloned().collect();
    assert_eq!(rights(&client, SYSTEM).await, of_lease);
    for (group, resource, verbs) in RIGHTS.into_iter().chain(CLUSTER_RIGHTS) {
        for verb in verbs.split(' ') {
            assert!(!may(&client, verb, group, resource, None).await, "it must not {verb} {resource} everywhere");
        }
    }
    let user = format!("system:serviceaccount:{SYSTEM}:orchestr");
    let refused = |place: &str, flag: &str, remedy: &str| {
        format!(
            "RBAC does not allow \"{user}\" to list orchestrs.kopf.dev {place}: check with `kubectl auth can-i list \
             orchestrs.kopf.dev {flag} --as {user}`, grant it with {remedy}"
        )
    };
    let run = |namespaces: &str| {
        let mut command = orchestr(&["run", "--kubeconfig", access.kubeconfig().to_str().unwrap()]);
        command.env("ORCHESTR_NAMESPACES", namespaces);
        command
    };
    assert_fails(&mut run(""), &refused("in all namespaces", "--all-namespaces", "`kubectl apply -k deploy`"));
    // If only some of the namespaces cannot be read, the operator starts: they may be gone.
    assert_fails(
        &mut run("elsewhere,kube-system"),
        &refused("in namespace elsewhere", "--namespace elsewhere", "a Role as in deploy/namespaced"),
    );

    // The Deployment watches exactly the namespaces in which it has rights.
    let deployment = Api::<Deployment>::namespaced(plane.admin().unwrap(), SYSTEM).get("orchestr").await.unwrap();
    let container = deployment.spec.unwrap().template.spec.unwrap().containers.remove(0);
    let env = container.env.unwrap().into_iter().map(|env| (env.name, env.value.unwrap_or_default()));
    let expected = [
        ("ORCHESTR_CLUSTER_NAME", ""),
        ("ORCHESTR_LEADER_ELECT", "true"),
        ("ORCHESTR_METRICS_ADDRESS", ":8080"),
        ("ORCHESTR_NAMESPACES", "shop"),
    ];
    assert_eq!(env.collect::<Vec<_>>(), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

/// Creates a pod with a status on `node-1`.
async fn create_pod(client: &Client, namespace: &str, metadata: serde_json::Value, status: serde_json::Value) {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let spec = json!({"nodeName": "node-1", "containers": [{"name": "app", "image": "example.com/app:1"}]});
    let pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
    let name = pods.create(&PostParams::default(), &pod).await.unwrap().metadata.name.unwrap();
    let patch = Patch::Merge(json!({"status": status}));
    pods.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
}

/// Creates a StatefulSet's two revisions, each with a pod. Only that of the new one fails.
async fn bad_rollout(plane: &ControlPlane, namespace: &str) {
    let revisions = Api::<ControllerRevision>::namespaced(plane.admin().unwrap(), namespace);
    let owners = controlled_by("StatefulSet", "db", "s");
    for (number, age, status) in [(1, 3600, healthy()), (2, 60, crash_looping(7))] {
        let name = format!("db-{number}");
        let containers = json!([{"name": "app", "image": format!("example.com/db:{number}")}]);
        let revision = json!({
            "metadata": {"name": name, "ownerReferences": owners}, "revision": number,
            "data": {"spec": {"template": {"spec": {"containers": containers}}}},
        });
        revisions.create(&PostParams::default(), &serde_json::from_value(revision).unwrap()).await.unwrap();
        let labels = json!({"controller-revision-hash": name});
        let metadata = json!({"creationTimestamp": ago(age), "ownerReferences": owners, "labels": labels});
        let changes = json!({"metadata": metadata, "spec": {"containers": containers}, "status": status});
        // Written to etcd, because the API server would give both pods the same age.
        let (key, pod) = stored("pods", &pod(namespace, &name, changes));
        plane.put(&key, pod).await.unwrap();
    }
}

/// Creates an object with a status that violates the schema. The operator reads it again before it replaces the status.
async fn old_object(plane: &ControlPlane, namespace: &str) -> Api<Orchestr> {
    let object = json!({
        "apiVersion": "kopf.dev/v1", "kind": "Orchestr",
        "metadata": {
            "name": "cluster", "namespace": namespace, "uid": format!("{namespace}-cluster"), "generation": 1,
            "creationTimestamp": ago(3600),
        },
        "spec": {"alerts": {"checkRunningPods": true}, "pods": {"namespaces": [namespace]}},
        "status": {"problematicPods": "none"},
    });
    let (key, object) = stored("kopf.dev/orchestrs", &object);
    plane.put(&key, object).await.unwrap();
    Api::namespaced(plane.admin().unwrap(), namespace)
}

/// Workloads that could not create a pod: the kind, the prefix of the key in etcd, and the status.
const WORKLOADS: [(&str, &str, &str); 4] = [
    ("DaemonSet", "daemonsets", r#"{"desiredNumberScheduled": 1, "currentNumberScheduled": 0}"#),
    ("ReplicaSet", "replicasets", FAILING),
    ("ReplicationController", "controllers", FAILING),
    ("StatefulSet", "statefulsets", r#"{"replicas": 0}"#),
];
const FAILING: &str = r#"{"replicas": 0, "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}"#;

/// The API server would set `creationTimestamp` to now, and pods could not have been missing for long.
async fn old_workload(plane: &ControlPlane, namespace: &str, (kind, prefix, status): (&str, &str, &str)) {
    let labels = json!({"app": "api"});
    let is_core = kind == "ReplicationController";
    let workload = json!({
        "apiVersion": if is_core { "v1" } else { "apps/v1" }, "kind": kind,
        "metadata": {
            "name": "api", "namespace": namespace, "uid": kind, "creationTimestamp": ago(3600), "generation": 1,
        },
        "spec": {
            "replicas": 1, "selector": if is_core { labels.clone() } else { json!({"matchLabels": labels}) },
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}},
        },
        "status": serde_json::from_str::<serde_json::Value>(status).unwrap(),
    });
    let (key, workload) = stored(prefix, &workload);
    plane.put(&key, workload).await.unwrap();
}

/// Writes an event as the recorder of a controller does.
async fn failed_create(client: Client, namespace: &str, kind: &str) {
    let events = Api::<core::v1::Event>::namespaced(client, namespace);
    let event = json!({
        "metadata": {"name": format!("api.{:x}", fastrand::u64(..))}, "type": "Warning", "reason": "FailedCreate",
        "message": "Error creating: pods \"api-x\" is forbidden: exceeded quota: mem, requested: pods=1, used: pods=1, limited: pods=1",
        "involvedObject": {"kind": kind, "namespace": namespace, "name": "api", "uid": kind},
        "firstTimestamp": ago(60), "lastTimestamp": ago(0), "count": 2, "source": {"component": "tests"},
    });
    events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
}

/// Runs the binary with these rights until it has used each of them, and then ends it with SIGTERM, as a kubelet does.
async fn works(access: &ServiceAccountAccess, flags: &[&str], objects: &Api<Orchestr>, events: &Api<Event>) {
    // As in the Deployment. The Lease is in the account's namespace.
    let mut command = tokio::process::Command::from(orchestr(&[&["run", "--leader-elect"], flags].concat()));
    command.env("ORCHESTR_KUBECONFIG", access.kubeconfig());
    let mut operator = command.kill_on_drop(true).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the operator has used all its rights", TIMEOUT, async || {
        let object = objects.get("cluster").await.map_err(|error| error.to_string())?;
        let status = object.status.clone().unwrap_or_default();
        let logs = status.problematic_pods.iter().flat_map(|pod| &pod.container_issues).map(|issue| &*issue.logs);
        let events_of = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let is_ours = |event: &&Event| event.regarding.as_ref().and_then(|own| own.kind.as_deref()) == Some("Orchestr");
        let event_count = events_of.iter().filter(is_ours).count();
        if status.missing_pods != WORKLOADS.len() as i64 {
            for (kind, ..) in WORKLOADS {
                failed_create(objects.clone().into_client(), objects.namespace().unwrap(), kind).await;
            }
        }
        let mut revisions = status.incidents.iter().filter_map(|incident| incident.revision.as_ref());
        let done = (status.watched_pods, status.problematic_pod_count) == (5, 3)
            && logs.eq(["out of memory"; 2])
            && revisions.any(|revision| revision.changes.len() == 1)
            && status.missing_pods == WORKLOADS.len() as i64
            && event_count > 0;
        if done { Ok(()) } else { Err(format!("{event_count} events, {object:#?}")) }
    })
    .await
    .unwrap();
    let pid = operator.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let mut log = String::new();
    let mut stderr = operator.stderr.take().unwrap();
    let ends = async {
        stderr.read_to_string(&mut log).await.unwrap();
        operator.wait().await.unwrap()
    };
    let status = tokio::time::timeout(TIMEOUT, ends).await.expect("the operator ends");
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(!log.contains("out of memory"), "logs of containers are not for our own: {log}");
    for line in log.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok_and(|line| line.is_object()), "{line}");
    }
}

#[tokio::test]
async fn the_operator_works_with_its_rights_and_uses_each() {
    let plane = Plane::start(Options { audit_log: true, ..Options::default() }).await;
    let kubelet = Kubelet::start(&plane, "node-1").await.unwrap();
    kubelet.script_default(Answer::text("out of memory\n"));
    let client = plane.admin().unwrap();
    apply(&plane, "crd").await;
    crate::support::install_crd(&plane).await;
    for namespace in ["shop", "elsewhere"] {
        plane.ensure_namespace(namespace).await.unwrap();
        let jobs = Api::<Job>::namespaced(client.clone(), namespace);
        let job = json!({"metadata": {"name": "sums"}, "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "app", "image": "example.com/app:1"}],
        }}}});
        let job = jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": ago(5)});
        let complete = json!({"status": {
            "startTime": ago(60), "completionTime": ago(5), "succeeded": 1, "uncountedTerminatedPods": {},
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
        }});
        jobs.patch_status("sums", &PatchParams::default(), &Patch::Merge(&complete)).await.unwrap();
        let owner = |name: &str, uid: &Option<String>| controlled_by("Job", name, uid);
        let retried = json!({"name": "sums-a", "ownerReferences": owner("sums", &job.metadata.uid)});
        create_pod(&client, namespace, retried, json!({"phase": "Failed", "reason": "Evicted"})).await;
        // A failed run of a CronJob. Only the CronJob shows whether a later run succeeded.
        let run = json!({
            "metadata": {"name": "nightly-1", "ownerReferences": controlled_by("CronJob", "nightly", "c")},
            "spec": job.spec.as_ref().map(|spec| json!({"template": {"spec": spec.template.spec}})),
        });
        let run = jobs.create(&PostParams::default(), &serde_json::from_value(run).unwrap()).await.unwrap();
        let failed = json!({"status": {
            "startTime": ago(60), "failed": 1, "conditions": [condition("FailureTarget"), condition("Failed")],
        }});
        jobs.patch_status("nightly-1", &PatchParams::default(), &Patch::Merge(&failed)).await.unwrap();
        let failed = json!({"name": "nightly-1-a", "ownerReferences": owner("nightly-1", &run.metadata.uid)});
        create_pod(&client, namespace, failed, json!({"phase": "Failed"})).await;
        create_pod(&client, namespace, json!({"name": "cart"}), crash_looping(7)).await;
        bad_rollout(&plane, namespace).await;
        for workload in WORKLOADS {
            old_workload(&plane, namespace, workload).await;
        }
    }

    let events = |namespace: &str| Api::<Event>::namespaced(client.clone(), namespace);
    apply(&plane, "deploy/namespaced").await;
    let access = operator(&plane, "shop", false).await;
    works(&access, &["--namespaces", "shop"], &old_object(&plane, "shop").await, &events("shop")).await;

    apply(&plane, "deploy").await;
    let access = operator(&plane, "elsewhere", true).await;
    // If the server does not stream lists, the operator requests pages, which requires the verb `list`.
    works(&access, &["--streaming-lists", "never"], &old_object(&plane, "elsewhere").await, &events("elsewhere")).await;

    let user = format!("system:serviceaccount:{SYSTEM}:orchestr");
    let log = plane.audit_log().unwrap();
    let ours: Vec<_> = log.iter().filter(|entry| entry["user"]["username"] == user).collect();
    let refused: Vec<_> = ours.iter().filter(|entry| entry["responseStatus"]["code"] == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    // The test itself reviews the account's rights.
    let requests = ours.iter().filter(|entry| entry["objectRef"]["apiGroup"] != "authorization.k8s.io");
    let mut user_agents: Vec<_> = requests.map(|entry| entry["userAgent"].as_str().unwrap_or_default()).collect();
    user_agents.dedup();
    assert_eq!(user_agents, [format!("orchestr/{}", version_and_revision())]);
    // Each right is used.
    for (group, resource, verbs) in RIGHTS.into_iter().chain(CLUSTER_RIGHTS).chain(LEASE_RIGHTS) {
        for verb in verbs.split(' ').filter(|verb| (resource, *verb) != ("events", "patch")) {
            let (resource, subresource) = resource.split_once('/').map_or((resource, None), |(r, s)| (r, Some(s)));
            let is_use = |entry: &&&serde_json::Value| {
                let object = &entry["objectRef"];
                entry["verb"] == verb
                    && object["apiGroup"].as_str().unwrap_or_default() == group
                    && object["resource"] == resource
                    && object["subresource"].as_str() == subresource
            };
            assert!(
                ours.iter().find(is_use).is_some(),
                "nothing has used the right to {verb} {resource} {subresource:?}"
            );
        }
    }
}
