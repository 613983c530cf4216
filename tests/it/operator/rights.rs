//! Missing rights that are granted and revoked. The module `install` tests the roles of `deploy/`.

use k8s_openapi::api::{
    authorization::v1::SelfSubjectAccessReview,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use orchestr::api::OrchestrStatus;
use orchestr_testbed::eventually;
use serde_json::{Value, json};

use crate::{
    pod_statuses::{crash_looping, healthy},
    proxy::Proxy,
    support::TIMEOUT,
    telemetry::support::MetricsPage,
    test_env::{TestEnv, condition, listed, watch_all, watch_with},
};

const PODS: &str = "pods";
const OBJECTS: &str = "objects";

/// Grants rights in this namespace to its service account `operator`.
pub(super) async fn grant(env: &TestEnv, name: &str, rules: Value) {
    grant_to(env, &env.namespace, name, rules).await;
}

/// Grants rights in this namespace to the service account `operator` of another one.
async fn grant_to(env: &TestEnv, home: &str, name: &str, rules: Value) {
    let (roles, bindings) = apis(env);
    let params = PatchParams::apply("tests").force();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": home}],
    });
    roles.patch(name, &params, &Patch::Apply(role)).await.unwrap();
    bindings.patch(name, &params, &Patch::Apply(binding)).await.unwrap();
}

pub(super) async fn grant_objects(env: &TestEnv) {
    grant(env, OBJECTS, rules_for_objects()).await;
}

fn rules_for_objects() -> Value {
    json!([
        {"apiGroups": ["kopf.dev"], "resources": ["orchestrs"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["kopf.dev"], "resources": ["orchestrs/status"], "verbs": ["patch"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ])
}

pub(super) async fn grant_pods(env: &TestEnv, verbs: &[&str]) {
    grant(env, PODS, rules_for_pods(verbs)).await;
}

fn rules_for_pods(verbs: &[&str]) -> Value {
    json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}])
}

/// Revokes a right, and waits until the API server denies it. Until then, a new watch would succeed and stay open.
async fn revoke(env: &TestEnv, name: &str) {
    apis(env).1.delete(name, &DeleteParams::default()).await.unwrap();
    until_denied(account(env).await, &env.namespace, name).await;
}

/// Waits until an account has this right in a namespace no more.
async fn until_denied(account: Client, namespace: &str, name: &str) {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(account);
    let (group, resource) = if name == PODS { ("", "pods") } else { ("kopf.dev", "orchestrs") };
    for verb in ["list", "watch"] {
        let review = json!({"spec": {"resourceAttributes": {
            "namespace": namespace, "verb": verb, "group": group, "resource": resource,
        }}});
        let review: SelfSubjectAccessReview = serde_json::from_value(review).unwrap();
        eventually("the right is gone", TIMEOUT, async || {
            let answer = reviews.create(&PostParams::default(), &review).await.map_err(|error| error.to_string())?;
            if answer.status.is_some_and(|status| status.allowed) { Err(format!("may still {verb}")) } else { Ok(()) }
        })
        .await
        .unwrap();
    }
}

fn apis(env: &TestEnv) -> (Api<Role>, Api<RoleBinding>) {
    let (client, namespace) = (&env.client, &env.namespace);
    (Api::namespaced(client.clone(), namespace), Api::namespaced(client.clone(), namespace))
}

pub(super) async fn account(env: &TestEnv) -> Client {
    env.plane.ensure_service_account(&env.namespace, "operator").await.unwrap();
    env.plane.service_account(&env.namespace, "operator").await.unwrap().client().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_missing_permission_for_pods_until_granted() {
    let env = TestEnv::new("rights").await;
    env.pod("cart", crash_looping(3)).await;
    env.pod("web", healthy()).await;
    let proxy = Proxy::start(account(&env).await).await;
    grant_objects(&env).await;
    grant_pods(&env, &["list", "watch"]).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().through(&proxy).start();
    let before = env
        .until("it is reported without its log", |status| {
            status.problematic_pods.first().is_some_and(|pod| !pod.container_issues[0].log_note.is_empty())
        })
        .await;
    let note = format!("not allowed: get on pods/log in namespace {}", env.namespace);
    assert_eq!(before.problematic_pods[0].container_issues[0].log_note, note);

    // An open watch continues after the right to watch was revoked.
    revoke(&env, PODS).await;
    proxy.end_watches();
    let denied = env.wait_for_ready("cluster", "PodAccessDenied").await;
    let (ready, _, message) = condition(&denied, "Ready");
    let user = format!("system:serviceaccount:{}:operator", env.namespace);
    for part in ["cannot watch resource \"pods\"", &user, &env.namespace] {
        assert!(ready == "False" && message.contains(part), "{message}");
    }
    assert_eq!(condition(&denied, "PodsHealthy").0, "Unknown");
    assert_eq!(condition(&denied, "Stalled").0, "", "it recovers without a restart");
    assert_eq!((&denied.problematic_pods, &denied.incidents), (&before.problematic_pods, &before.incidents));
    assert_eq!((denied.watched_pods, denied.problematic_pod_count), (2, 1));

    // The pod was deleted while access was denied. Once access is granted, the operator notices the deletion.
    env.delete_pod("cart").await;
    grant_pods(&env, &["list", "watch"]).await;
    let soon = std::time::Duration::from_secs(30);
    let status = env
        .wait_for_status_within(soon, "cluster", "it watches again", |status| condition(status, "Ready").0 == "True")
        .await;
    assert_eq!(condition(&status, "Ready").1, "Watching");
    env.until("the deleted pod is no longer listed", |status| listed(status).is_empty()).await;

    revoke(&env, PODS).await;
    proxy.end_watches();
    env.wait_for_ready("cluster", "PodAccessDenied").await;
}

/// Without streaming lists, the list is the first request.
#[tokio::test(flavor = "multi_thread")]
async fn names_the_verb_of_a_missing_permission() {
    let env = TestEnv::new("verbs").await;
    env.pod("cart", crash_looping(3)).await;
    let client = account(&env).await;
    grant_objects(&env).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().client(client).streaming_lists(orchestr::config::StreamingLists::Never).start();
    let status = env.wait_for_ready("cluster", "PodAccessDenied").await;
    assert!(condition(&status, "Ready").2.contains("cannot list resource \"pods\""), "{status:?}");
    grant_pods(&env, &["list"]).await;
    let named = "cannot watch resource \"pods\"";
    env.until("watch is named", |status| condition(status, "Ready").2.contains(named)).await;
    grant_pods(&env, &["list", "watch"]).await;
    env.until("it is reported", |status| listed(status) == ["cart"]).await;
}

/// Watches two namespaces, one of which is forbidden.
#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_namespace_does_not_delay_another() {
    let (open, closed) = (TestEnv::new("open").await, TestEnv::new("closed").await);
    open.pod("cart", crash_looping(3)).await;
    let client = account(&open).await;
    grant_objects(&open).await;
    grant_pods(&open, &["list", "watch"]).await;
    open.object("here", watch_with(json!({"pods": {"namespaces": [open.namespace]}}))).await;
    open.object("everywhere", watch_all()).await;
    let _operator = open.operator().client(client).namespaces(&[&open.namespace, &closed.namespace]).start();
    open.wait_for_status("here", "it is reported", |status| listed(status) == ["cart"]).await;
    let status = open.wait_for_ready("everywhere", "Watching").await;
    assert!(condition(&status, "Ready").2.contains(&closed.namespace), "{status:?}");
    assert_eq!(listed(&status), ["cart"]);
}

/// The Role that permits the operator to read a namespace is deleted together with the namespace.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_gone_is_named_and_the_rest_is_healthy() {
    let (kept, gone) = (TestEnv::new("kept").await, TestEnv::new("gone").await);
    kept.pod("web", healthy()).await;
    gone.pod("cart", crash_looping(3)).await;
    for env in [&kept, &gone] {
        grant_to(env, &kept.namespace, OBJECTS, rules_for_objects()).await;
        grant_to(env, &kept.namespace, PODS, rules_for_pods(&["list", "watch"])).await;
    }
    let of = |env: &TestEnv| watch_with(json!({"pods": {"namespaces": [env.namespace]}}));
    kept.object("both", watch_all()).await;
    kept.object("here", of(&kept)).await;
    kept.object("there", of(&gone)).await;
    let proxy = Proxy::start(account(&kept).await).await;
    let page = MetricsPage::start();
    let start = |page: &MetricsPage| {
        let namespaces = [&*kept.namespace, &*gone.namespace];
        kept.operator().through(&proxy).namespaces(&namespaces).metrics(&page.metrics).start()
    };
    let operator = start(&page);
    kept.wait_for_status("both", "it is reported", |status| listed(status) == ["cart"]).await;
    page.wait_for("it is synced", |page| page.value("orchestr_synced") == 1.0).await;

    for kind in ["pods", "roles", "rolebindings", "serviceaccounts"] {
        kept.plane.delete_prefix(&format!("/registry/{kind}/{}/", gone.namespace)).await.unwrap();
    }
    kept.plane.delete_prefix(&format!("/registry/namespaces/{}", gone.namespace)).await.unwrap();
    until_denied(account(&kept).await, &gone.namespace, PODS).await;
    until_denied(account(&kept).await, &gone.namespace, OBJECTS).await;
    proxy.end_watches();
    let is_named = |status: &OrchestrStatus| {
        let message = condition(status, "Ready").2;
        message.contains(&gone.namespace) && message.contains("unreadable or gone")
    };
    let named = kept.wait_for_status("there", "the namespace is named", is_named).await;
    assert_eq!(condition(&named, "Ready").1, "PodAccessDenied");
    let check = async |page: &MetricsPage| {
        let status = kept.wait_for_status("both", "the namespace is named", is_named).await;
        assert_eq!((listed(&status), condition(&status, "Ready").0), (Vec::new(), "True"));
        assert_eq!(condition(&status, "PodsHealthy").0, "Unknown", "{status:?}");
        let healthy = kept.wait_for_ready("here", "Watching").await;
        assert_eq!(condition(&healthy, "PodsHealthy").0, "True");
        page.wait_for("it is synced", |page| page.value("orchestr_synced") == 1.0).await;
        page.wait_for("it says so", |page| page.value("orchestr_unreadable_namespaces") == 1.0).await;
    };
    check(&page).await;
    operator.stop().await;
    // As a rollout of the operator waits for it.
    let page = MetricsPage::start();
    let operator = start(&page);
    check(&page).await;
    kept.set_status("web", crash_looping(1)).await;
    kept.wait_for_status("both", "the rest is watched", |status| listed(status) == ["web"]).await;
    operator.stop().await;
}
