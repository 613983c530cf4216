//! What the tutorial's Kopf operator left on objects.

use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use orchestr_testbed::eventually;
use serde_json::{Value, json};

use crate::{
    proxy::Proxy,
    support::PATIENCE,
    world::{World, crash_looping, listed, watch_all},
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

/// As its handler's result was stored, with a field that means something else by now.
fn status() -> Value {
    json!({
        "create_fn": {"problematicPods": ["cart"], "log": "Traceback (most recent call last)"},
        "kopf": {"progress": {}},
        "problematicPods": "cart",
        "conditions": "none",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn its_marks_go_and_its_status_is_replaced() {
    let world = World::new("kopf").await;
    world.pod("cart", crash_looping(3)).await;
    world.old_object("old", metadata(&["example.com/ours", FINALIZER]), watch_all(), status()).await;
    let operator = world.operate();
    let status = world.status_where("old", "it is told", |status| status.problematic_pod_count == 1).await;
    assert_eq!(listed(&status), ["cart"]);
    eventually("its marks are gone", PATIENCE, async || {
        let object = world.raw_objects().get("old").await.unwrap();
        let (finalizers, annotations) = (object.finalizers(), object.annotations());
        if finalizers == ["example.com/ours"] && annotations.keys().eq(["team"]) {
            Ok(())
        } else {
            Err(format!("{finalizers:?}, {annotations:?}"))
        }
    })
    .await
    .unwrap();
    let object = world.raw_objects().get("old").await.unwrap();
    let mut fields: Vec<_> = object.data["status"].as_object().unwrap().keys().collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "conditions",
            "ignoredPods",
            "incidents",
            "lastCheckTime",
            "observedGeneration",
            "omittedIncidents",
            "omittedPods",
            "problematicPodCount",
            "problematicPods",
            "topReason",
            "watchedPods",
        ]
    );
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_finalizer_blocks_no_deletion_and_nothing_else_is_touched() {
    let world = World::new("kopf-gone").await;
    world.old_object("blocked", metadata(&[FINALIZER]), watch_all(), json!(null)).await;
    world.old_object("ours", metadata(&["example.com/ours", FINALIZER]), watch_all(), json!(null)).await;
    for name in ["blocked", "ours"] {
        world.objects().delete(name, &DeleteParams::default()).await.unwrap();
    }
    let operator = world.operate();
    eventually("the one is gone, and the other waits for its own finalizer", PATIENCE, async || {
        let (blocked, ours) = (world.raw_objects().get_opt("blocked").await, world.raw_objects().get_opt("ours").await);
        match (blocked.unwrap(), ours.unwrap()) {
            (None, Some(ours)) if ours.finalizers() == ["example.com/ours"] => Ok(()),
            (blocked, ours) => Err(format!("{blocked:?}\n{ours:?}")),
        }
    })
    .await
    .unwrap();
    // It is left alone from then on: nobody waits for its status.
    let version = async || world.raw_objects().get("ours").await.unwrap().metadata.resource_version;
    let before = version().await;
    world.until_caught_up().await;
    let ours = world.raw_objects().get("ours").await.unwrap();
    assert_eq!((version().await, ours.data.get("status")), (before, Some(&json!(null))));
    operator.stop().await;
}

/// The removal is refused at first, and nothing else ever happens to the object.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_fails_is_tried_again() {
    let world = World::new("kopf-retry").await;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(world.client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(world.client.clone());
    let name = world.namespace.as_str();
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
    world.object("probe", watch_all()).await;
    eventually("the policy is in force", PATIENCE, async || {
        let patch = kube::api::Patch::Merge(json!({"metadata": {"labels": {"probe": fastrand::u32(..).to_string()}}}));
        match world.raw_objects().patch("probe", &kube::api::PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.message.contains("not today") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();

    world.old_object("old", metadata(&[FINALIZER]), watch_all(), json!(null)).await;
    let operator = world.operate();
    world.ready("old", "Watching").await;
    assert_eq!(world.raw_objects().get("old").await.unwrap().finalizers(), [FINALIZER]);
    bindings.delete(name, &DeleteParams::default()).await.unwrap();
    policies.delete(name, &DeleteParams::default()).await.unwrap();
    eventually("the finalizer is gone", PATIENCE, async || {
        let object = world.raw_objects().get("old").await.unwrap();
        if object.finalizers().is_empty() { Ok(()) } else { Err(format!("{:?}", object.finalizers())) }
    })
    .await
    .unwrap();
    operator.stop().await;
}

/// Its operator still runs, and adds its finalizer whenever it is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_fight_with_its_operator_is_bounded() {
    let world = World::new("kopf-fight").await;
    world.old_object("old", metadata(&[FINALIZER]), watch_all(), json!(null)).await;
    let proxy = Proxy::start(world.client.clone()).await;
    let operator = world.operate_as(proxy.client());
    let objects = world.raw_objects();
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
    let removals = proxy.count(|seen| seen.method == "PATCH" && seen.path.ends_with("/orchestrs/old"));
    assert!(added >= 2 && removals <= 6, "added {added} times, removed by {removals} patches");
    world.ready("old", "Watching").await;
    // Once that operator is stopped, the finalizer goes for good.
    eventually("the finalizer is gone", PATIENCE, async || {
        let object = objects.get("old").await.unwrap();
        if object.finalizers().is_empty() { Ok(()) } else { Err(format!("{:?}", object.finalizers())) }
    })
    .await
    .unwrap();
    operator.stop().await;
}
