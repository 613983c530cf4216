//! New revisions of workloads that fail while the earlier one serves.

use k8s_openapi::api::apps::v1::{ControllerRevision, ReplicaSet};
use kube::Api;
use orchestr::api::{Incident, Revision};
use serde_json::{Value, json};

use crate::{
    pod_statuses::{ago, controlled_by, crash_looping, healthy, merged},
    proxy::{ProxiedRequest, Proxy, ProxyAction},
    test_env::{TestEnv, condition, watch_all},
};

/// A pod template whose container `app` has these fields.
fn template(labels: &Value, app: &Value) -> Value {
    let container = merged(json!({"name": "app", "image": "shop/cart:1.4.2"}), app);
    json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}})
}

/// Creates a ReplicaSet of a Deployment, as the Deployment controller does, and returns its UID.
async fn replica_set(env: &TestEnv, deployment: &str, hash: &str, number: u32, owner: Value, app: Value) -> String {
    let labels = json!({"app": deployment, "pod-template-hash": hash});
    let replica_set = json!({
        "metadata": {
            "name": format!("{deployment}-{hash}"), "labels": labels, "ownerReferences": owner,
            "annotations": {"deployment.kubernetes.io/revision": number.to_string()},
        },
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template(&labels, &app)},
    });
    env.create::<ReplicaSet>(replica_set).await.metadata.uid.unwrap()
}

/// Creates a ControllerRevision, as the StatefulSet and DaemonSet controllers do.
async fn controller_revision(env: &TestEnv, name: &str, number: i64, owner: Value, app: Value) {
    let mut template = template(&json!({"app": "db"}), &app);
    template["$patch"] = "replace".into();
    let revision = json!({
        "metadata": {"name": name, "ownerReferences": owner},
        "data": {"spec": {"template": template}}, "revision": number,
    });
    env.create::<ControllerRevision>(revision).await;
}

/// Creates a pod of this age in seconds.
async fn pod(env: &TestEnv, name: &str, owner: &Value, label: (&str, &str), age: i64, status: Value) {
    let changes = json!({"metadata": {
        "labels": {"app": "x", label.0: label.1}, "ownerReferences": owner, "creationTimestamp": ago(age),
    }});
    env.pod_with(name, changes, status).await;
}

/// Creates pods of a Deployment's revision.
async fn pods(env: &TestEnv, deployment: &str, hash: &str, uid: &str, age: i64, count: usize, status: &Value) {
    let owner = controlled_by("ReplicaSet", &format!("{deployment}-{hash}"), uid);
    for number in 0..count {
        let name = format!("{deployment}-{hash}-{number}");
        pod(env, &name, &owner, ("pod-template-hash", hash), age, status.clone()).await;
    }
}

/// Whether this reads a part of the group apps.
fn is_of_apps(request: &ProxiedRequest) -> bool {
    request.path.starts_with("/apis/apps/")
}

fn changes(incident: &Incident) -> &[String] {
    incident.revision.as_ref().map_or(&[], |revision| &revision.changes)
}

/// Waits for the only incident with changes in its revision.
async fn wait_for_changes(env: &TestEnv) -> Incident {
    let is_compared = |incidents: &[Incident]| matches!(incidents, [incident] if !changes(incident).is_empty());
    let status = env.until("the changes are shown", |status| is_compared(&status.incidents)).await;
    status.incidents.into_iter().next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn names_what_changed_in_the_only_revision_that_fails() {
    let env = TestEnv::new("rollout").await;
    let owner = controlled_by("Deployment", "cart", "00000000-0000-4000-8000-000000000001");
    let old = json!({
        "args": ["serve", "--token", "hunter2"], "resources": {"limits": {"memory": "1Gi"}},
        "env": [{"name": "DB_URL", "value": "postgres://cart:hunter2@db"}, {"name": "OLD", "value": "1"}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
    });
    let new = json!({
        "image": "shop/cart:1.42", "args": ["serve", "--token", "swordfish"],
        "resources": {"limits": {"memory": "512Mi"}},
        "env": [{"name": "DB_URL", "value": "postgres://cart:swordfish@db"}, {"name": "FEATURE_X", "value": "1"}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "timeoutSeconds": 2},
    });
    let one = replica_set(&env, "cart", "one", 41, owner.clone(), old).await;
    let two = replica_set(&env, "cart", "two", 42, owner, new).await;
    pods(&env, "cart", "one", &one, 3600, 7, &healthy()).await;
    pods(&env, "cart", "two", &two, 600, 3, &crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let (proxy, _operator) = env.proxied_operator().await;

    let incident = wait_for_changes(&env).await;
    assert_eq!((incident.pods, incident.of), (3, 10));
    let Revision { name, healthy_before, changes } = incident.revision.unwrap();
    assert_eq!((&*name, healthy_before), ("cart-two", 7));
    assert_eq!(
        changes,
        [
            "image of app: shop/cart:1.4.2 → shop/cart:1.42",
            "args of app: changed in parts that are not shown",
            "memory limit of app: 1Gi → 512Mi",
            "timeoutSeconds of the readiness probe of app: 1 → 2",
            "env of app: +FEATURE_X, -OLD, changed DB_URL",
        ]
    );

    // Each revision is read once, whatever happens to the pods and however many objects select them.
    env.object("other", watch_all()).await;
    env.wait_for_status("other", "it shows the changes", |status| {
        status
            .incidents
            .first()
            .is_some_and(|incident| incident.revision.as_ref().is_some_and(|own| own.changes == changes))
    })
    .await;
    for restarts in 4..8 {
        env.set_status("cart-two-0", crash_looping(restarts)).await;
        env.wait_until_caught_up().await;
    }
    let read: Vec<_> = proxy.requests(is_of_apps).into_iter().map(|request| (request.method, request.path)).collect();
    let path = |name: &str| format!("/apis/apps/v1/namespaces/{}/replicasets/{name}", env.namespace);
    assert_eq!(read, ["cart-two", "cart-one"].map(|name| ("GET".to_owned(), path(name))));

    // As soon as a pod of the earlier revision fails in the same way, the new revision does not explain it.
    env.set_status("cart-one-0", crash_looping(1)).await;
    env.until(
        "no revision is named",
        |status| matches!(&status.incidents[..], [incident] if incident.pods == 4 && incident.revision.is_none()),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compares_the_revisions_of_stateful_sets_and_daemon_sets() {
    for (kind, [old, new], [old_hash, new_hash]) in
        [("StatefulSet", ["db-1a", "db-2b"], ["db-1a", "db-2b"]), ("DaemonSet", ["db-1a", "db-2b"], ["1a", "2b"])]
    {
        let env = TestEnv::new("revisions").await;
        let owner = controlled_by(kind, "db", "00000000-0000-4000-8000-000000000002");
        controller_revision(&env, old, 1, owner.clone(), json!({"command": ["postgres"]})).await;
        controller_revision(&env, new, 2, owner.clone(), json!({"command": ["postgres", "-c", "fsync=of"]})).await;
        let label = |hash| ("controller-revision-hash", hash);
        for number in 0..2 {
            pod(&env, &format!("db-{number}"), &owner, label(old_hash), 3600, healthy()).await;
        }
        pod(&env, "db-2", &owner, label(new_hash), 600, crash_looping(3)).await;
        env.object("cluster", watch_all()).await;
        let (proxy, _operator) = env.proxied_operator().await;
        let incident = wait_for_changes(&env).await;
        assert_eq!((incident.pods, incident.of, &*incident.owner.kind), (1, 3, kind));
        let revision = incident.revision.unwrap();
        assert_eq!((&*revision.name, revision.healthy_before), (new, 2), "{kind}");
        assert_eq!(revision.changes, ["command of app: postgres → postgres -c fsync=of"], "{kind}");
        assert_eq!(proxy.count(is_of_apps), 2, "{kind}");
    }
}

/// Workloads whose revisions cannot be compared: none holds up a status, or causes more than two requests.
#[tokio::test(flavor = "multi_thread")]
async fn reports_revisions_that_cannot_be_compared_without_changes() {
    let env = TestEnv::new("odd-rollouts").await;
    let owner = controlled_by("Deployment", "x", "00000000-0000-4000-8000-000000000003");
    let (image, failing, well) = (json!({"image": "b:1"}), crash_looping(3), healthy());
    let unknown = "00000000-0000-4000-8000-000000000004";

    // The ReplicaSets do not exist.
    pods(&env, "gone", "one", unknown, 3600, 1, &well).await;
    pods(&env, "gone", "two", unknown, 600, 1, &failing).await;

    // The new one owns itself, and the old one is of another Deployment.
    let one = replica_set(&env, "loop", "one", 1, owner.clone(), json!({})).await;
    let two = replica_set(&env, "loop", "two", 2, owner.clone(), image.clone()).await;
    let itself = json!({"metadata": {"ownerReferences": controlled_by("ReplicaSet", "loop-two", two.as_str())}});
    let api: Api<ReplicaSet> = Api::namespaced(env.client.clone(), &env.namespace);
    api.patch("loop-two", &Default::default(), &kube::api::Patch::Merge(itself)).await.unwrap();
    pods(&env, "loop", "one", &one, 3600, 1, &well).await;
    pods(&env, "loop", "two", &two, 600, 1, &failing).await;

    // Another ReplicaSet has the name now.
    replica_set(&env, "reused", "one", 1, owner.clone(), json!({})).await;
    replica_set(&env, "reused", "two", 2, owner.clone(), image.clone()).await;
    pods(&env, "reused", "one", unknown, 3600, 1, &well).await;
    pods(&env, "reused", "two", unknown, 600, 1, &failing).await;

    // A label that would lead to another path.
    let sly = controlled_by("DaemonSet", "sly", unknown);
    pod(&env, "sly-1", &sly, ("controller-revision-hash", "1"), 3600, well.clone()).await;
    pod(&env, "sly-2", &sly, ("controller-revision-hash", "../../secrets?x="), 600, failing.clone()).await;

    // The revision that fails was replaced by the healthy one, whose pods happen to be older.
    let one = replica_set(&env, "undone", "one", 3, owner.clone(), json!({})).await;
    let two = replica_set(&env, "undone", "two", 2, owner.clone(), image.clone()).await;
    pods(&env, "undone", "one", &one, 3600, 1, &well).await;
    pods(&env, "undone", "two", &two, 600, 1, &failing).await;

    // A template of more than half a megabyte.
    let enormous = json!({"env": [{"name": "A", "value": "x".repeat(600_000)}]});
    let one = replica_set(&env, "vast", "one", 1, owner.clone(), json!({})).await;
    let two = replica_set(&env, "vast", "two", 2, owner.clone(), enormous).await;
    pods(&env, "vast", "one", &one, 3600, 1, &well).await;
    pods(&env, "vast", "two", &two, 600, 1, &failing).await;

    env.object("cluster", watch_all()).await;
    let (proxy, _operator) = env.proxied_operator().await;
    let too_large = "the pod template is too large to be compared";
    let named = |incident: &Incident| incident.revision.clone().map(|own| (own.name, own.changes.join("; ")));
    let expected = [
        ("gone", Some(("gone-two", ""))),
        ("loop", Some(("loop-two", ""))),
        ("reused", Some(("reused-two", ""))),
        ("sly", Some(("sly-../../secrets?x=", ""))),
        ("undone", None),
        ("vast", Some(("vast-two", too_large))),
    ];
    let expected = expected
        .map(|(owner, own)| (owner.to_owned(), own.map(|(name, changes)| (name.to_owned(), changes.to_owned()))));
    env.until("all are read", |status| {
        let mut shown: Vec<_> =
            status.incidents.iter().map(|incident| (incident.owner.name.clone(), named(incident))).collect();
        shown.sort();
        shown == expected
    })
    .await;
    env.wait_until_caught_up().await;
    for (owner, most) in [("gone", 1), ("loop", 2), ("reused", 1), ("sly", 0), ("undone", 2), ("vast", 1)] {
        let requests = proxy.count(|request| is_of_apps(request) && request.path.contains(owner));
        assert_eq!(requests, most, "{owner}");
    }
    assert_eq!(proxy.count(|request| request.path.contains("secrets")), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_once_that_revisions_may_not_be_read() {
    let env = TestEnv::new("rollout-denied").await;
    let owner = controlled_by("Deployment", "x", "00000000-0000-4000-8000-000000000005");
    for name in ["cart", "shop", "web"] {
        let one = replica_set(&env, name, "one", 1, owner.clone(), json!({})).await;
        let two = replica_set(&env, name, "two", 2, owner.clone(), json!({"image": "b:1"})).await;
        pods(&env, name, "one", &one, 3600, 2, &healthy()).await;
        pods(&env, name, "two", &two, 600, 1, &crash_looping(3)).await;
    }
    let proxy = Proxy::start(env.client.clone()).await;
    proxy.on(is_of_apps, ProxyAction::Refuse(403, "replicasets.apps is forbidden"));
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().through(&proxy).start();
    let status = env
        .until("the missing right is reported", |status| {
            condition(status, "Ready").2.contains("replicasets.apps is forbidden")
        })
        .await;
    let (ready, _, message) = condition(&status, "Ready");
    let sentence = "could not read the ReplicaSets of a workload to find what changed: replicasets.apps is forbidden";
    assert_eq!((ready, message.matches(sentence).count(), message.matches("forbidden").count()), ("True", 1, 1));
    assert_eq!(status.incidents.len(), 3);
    for Incident { revision, of, .. } in &status.incidents {
        let Revision { healthy_before, changes, .. } = revision.as_ref().unwrap();
        assert_eq!((*healthy_before, changes.len(), *of), (2, 0, 3));
    }
    for restarts in 4..8 {
        env.set_status("cart-two-0", crash_looping(restarts)).await;
        env.wait_until_caught_up().await;
    }
    // Those under way when the first was denied.
    let requests = proxy.count(is_of_apps);
    assert!((1..=3).contains(&requests), "{requests} requests");
}
