//! Objects that the tutorial's Kopf operator left behind.

use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use orchestr_testbed::eventually;
use serde_json::{Value, json};

use crate::{
    pod_statuses::crash_looping,
    proxy::Proxy,
    support::TIMEOUT,
    test_env::{TestEnv, listed, watch_all},
};

const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";
const ANNOTATION: &str = "kopf.zalando.org/last-handled-configuration";

fn metadata(finalizers: &[&str]) -> Value {
    json!({
        "finalizers": finalizers,
        "annotations": {ANNOTATION: r#"{"spec":{"alerts":{"checkRunningPods":true}}}"#, "team": "shop"},
        "managedFields": [{
            "manager": "kopf", "operation": "Update", "apiVersion": "kopf.dev/v1", "time": "2024-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {
                "f:metadata": {"f:finalizers": {}, "f:annotations": {format!("f:{ANNOTATION}"): {}}},
                "f:status": {".": {}, "f:create_fn": {}, "f:problematicPods": {}, "f:conditions": {}},
            },
        }],
    })
}

/// The result of the Kopf handler as it was stored, with a field that has another meaning now.
fn status() -> Value {
    json!({
        "create_fn": {"problematicPods": ["cart"], "log": "Traceback (most recent call last)"},
        "kopf": {"progress": {}},
        "problematicPods": "cart",
        "conditions": "none",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn removes_kopf_metadata_and_replaces_the_status() {
    let env = TestEnv::new("kopf").await;
    env.pod("cart", crash_looping(3)).await;
    env.old_object("old", metadata(&["example.com/ours", FINALIZER]), watch_all(), status()).await;
    let operator = env.operator().start();
    let status = env.wait_for_status("old", "it is reported", |status| status.problematic_pod_count == 1).await;
    assert_eq!(listed(&status), ["cart"]);
    eventually("the metadata of Kopf is removed", TIMEOUT, async || {
        let object = env.raw_objects().get("old").await.unwrap();
        let (finalizers, annotations) = (object.finalizers(), object.annotations());
        if finalizers == ["example.com/ours"] && annotations.keys().eq(["team"]) {
            Ok(())
        } else {
            Err(format!("{finalizers:?}, {annotations:?}"))
        }
    })
    .await
    .unwrap();
    let object = env.raw_objects().get("old").await.unwrap();
    let mut fields: Vec<_> = object.data["status"].as_object().unwrap().keys().collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "conditions",
            "historySince",
            "ignoredPods",
            "incidents",
            "lastCheckTime",
            "observedGeneration",
            "omittedIncidents",
            "omittedPods",
            "problematicPodCount",
            "problematicPods",
            "topCause",
            "topReason",
            "watchedPods",
        ]
    );
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removes_only_the_kopf_finalizer_of_a_deleted_object() {
    let env = TestEnv::new("kopf-gone").await;
    env.old_object("blocked", metadata(&[FINALIZER]), watch_all(), json!(null)).await;
    env.old_object("ours", metadata(&["example.com/ours", FINALIZER]), watch_all(), json!(null)).await;
    for name in ["blocked", "ours"] {
        env.objects().delete(name, &DeleteParams::default()).await.unwrap();
    }
    let operator = env.operator().start();
    eventually("the one is gone, and the other waits for its own finalizer", TIMEOUT, async || {
        let (blocked, ours) = (env.raw_objects().get_opt("blocked").await, env.raw_objects().get_opt("ours").await);
        match (blocked.unwrap(), ours.unwrap()) {
            (None, Some(ours)) if ours.finalizers() == ["example.com/ours"] => Ok(()),
            (blocked, ours) => Err(format!("{blocked:?}\n{ours:?}")),
        }
    })
    .await
    .unwrap();
    // From then on, the operator does not write to the object, because it is being deleted.
    let version = async || env.raw_objects().get("ours").await.unwrap().metadata.resource_version;
    let before = version().await;
    env.wait_until_caught_up().await;
    let ours = env.raw_objects().get("ours").await.unwrap();
    assert_eq!((version().await, ours.data.get("status")), (before, Some(&json!(null))));
    operator.stop().await;
}

/// The removal is rejected at first, and no other event about the object follows.
#[tokio::test(flavor = "multi_thread")]
async fn retries_a_failed_removal() {
    let env = TestEnv::new("kopf-retry").await;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(env.client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(env.client.clone());
    let name = env.namespace.as_str();
    let policy = json!({
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                "resourceRules": [{
                    "apiGroups": ["kopf.dev"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["orchestrs"],
                }],
            },
            "validations": [{"expression": "false", "message": "not today"}],
        },
    });
    let binding = json!({
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    policies.create(&PostParams::default(), &serde_json::from_value(policy).unwrap()).await.unwrap();
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    env.object("probe", watch_all()).await;
    eventually("the policy is in force", TIMEOUT, async || {
        let patch = kube::api::Patch::Merge(json!({"metadata": {"labels": {"probe": fastrand::u32(..).to_string()}}}));
        match env.raw_objects().patch("probe", &kube::api::PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.message.contains("not today") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();

    env.old_object("old", metadata(&[FINALIZER]), watch_all(), json!(null)).await;
    let operator = env.operator().start();
    env.wait_for_ready("old", "Watching").await;
    assert_eq!(env.raw_objects().get("old").await.unwrap().finalizers(), [FINALIZER]);
    bindings.delete(name, &DeleteParams::default()).await.unwrap();
    policies.delete(name, &DeleteParams::default()).await.unwrap();
    eventually("the finalizer is gone", TIMEOUT, async || {
        let object = env.raw_objects().get("old").await.unwrap();
        if object.finalizers().is_empty() { Ok(()) } else { Err(format!("{:?}", object.finalizers())) }
    })
    .await
    .unwrap();
    operator.stop().await;
}

/// The Kopf operator is still running, and restores its finalizer whenever it is removed.
#[tokio::test(flavor = "multi_thread")]
async fn limits_removals_while_the_kopf_operator_runs() {
    let env = TestEnv::new("kopf-fight").await;
    env.old_object("old", metadata(&[FINALIZER]), watch_all(), json!(null)).await;
    let proxy = Proxy::start(env.client.clone()).await;
    let operator = env.operator().through(&proxy).start();
    let objects = env.raw_objects();
    let begun = Instant::now();
    let mut added = 0;
    while begun.elapsed() < Duration::from_secs(20) {
        if objects.get("old").await.unwrap().finalizers().is_empty() {
            let patch = kube::api::Patch::Merge(json!({"metadata": {"finalizers": [FINALIZER]}}));
            objects.patch("old", &kube::api::PatchParams::default(), &patch).await.unwrap();
            added += 1;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let removals = proxy.count(|request| request.method == "PATCH" && request.path.ends_with("/orchestrs/old"));
    assert!(added >= 2 && removals <= 6, "added {added} times, removed by {removals} patches");
    env.wait_for_ready("old", "Watching").await;
    // Once the Kopf operator is stopped, the finalizer stays removed.
    eventually("the finalizer is gone", TIMEOUT, async || {
        let object = objects.get("old").await.unwrap();
        if object.finalizers().is_empty() { Ok(()) } else { Err(format!("{:?}", object.finalizers())) }
    })
    .await
    .unwrap();
    operator.stop().await;
}
