//! The causes of refusals, each with another kind of controller.

use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota, ServiceAccount};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use orchestr::api::{Cause, Incident, OrchestrStatus, ProblemKind};
use orchestr_testbed::{Receiver, Reply, eventually};
use serde_json::{Value, json};

use super::controllers::{Workload, resource};
use crate::{
    pod_statuses::controlled_by,
    support::TIMEOUT,
    test_env::{TestEnv, condition, watch_all},
};

pub fn missing(status: &OrchestrStatus) -> Vec<&Incident> {
    status.incidents.iter().filter(|incident| incident.kind == ProblemKind::Missing).collect()
}

/// Waits until the object reports missing pods, and returns the incident.
async fn reported(env: &TestEnv) -> (OrchestrStatus, Incident) {
    let status = env.until("pods are missing", |status| !missing(status).is_empty()).await;
    let incident = missing(&status)[0].clone();
    assert_eq!((missing(&status).len(), incident.reason.as_str()), (1, "FailedCreate"));
    assert!(incident.example_pods.is_empty() && incident.container.is_empty());
    println!("{:?}: {}", incident.cause, incident.message);
    (status, incident)
}

fn owner(incident: &Incident) -> String {
    format!("{}/{}", incident.owner.kind, incident.owner.name)
}

/// Tries to create a pod until the API server refuses it: it notices new policies and webhooks after a moment.
async fn refused(env: &TestEnv, workload: &Workload<'_>, name: Option<&str>) -> String {
    eventually("the pod is refused", TIMEOUT, async || match workload.create_pod(name).await {
        Ok(pod) => {
            env.pods().delete(&pod, &DeleteParams::default().grace_period(0)).await.unwrap();
            Err(format!("{pod} was created"))
        }
        Err(message) => Ok(message),
    })
    .await
    .unwrap()
}

async fn apply(env: &TestEnv, kind: &str, plural: &str, object: Value) {
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind), plural);
    let api: Api<DynamicObject> = Api::all_with(env.client.clone(), &resource);
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

fn in_namespace(env: &TestEnv) -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": env.namespace}})
}

/// A quota on memory whose limit is reached. Its controller would count the usage.
pub async fn full_quota(env: &TestEnv) {
    let quotas: Api<ResourceQuota> = Api::namespaced(env.client.clone(), &env.namespace);
    let hard = json!({"requests.memory": "1Gi"});
    let quota = json!({"metadata": {"name": "mem-cap"}, "spec": {"hard": hard}});
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    let status = json!({"status": {"hard": hard, "used": {"requests.memory": "1Gi"}}});
    quotas.patch_status("mem-cap", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// A Deployment with a ReplicaSet that should have three pods.
pub async fn deployment<'e>(env: &'e TestEnv, name: &str, replicas: u32) -> Workload<'e> {
    let deployment = env.workload("Deployment", name, json!({"replicas": replicas})).await;
    let owners = controlled_by("Deployment", name, &deployment.uid);
    env.owned_workload("ReplicaSet", &format!("{name}-5d9f"), owners, json!({"replicas": replicas}), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_pods_of_a_deployment_that_exceed_a_quota() {
    let env = TestEnv::new("quota").await;
    full_quota(&env).await;
    let replica_set = deployment(&env, "api", 3).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    let status = env.wait_for_ready("cluster", "Watching").await;
    assert_eq!(condition(&status, "PodsHealthy").1, "NoPodsSelected");
    let refusal = refused(&env, &replica_set, None).await;
    replica_set.set_failing(0, 300, &refusal).await;
    replica_set.failed_create(&format!("Error creating: {refusal}"), 0).await;

    let (status, incident) = reported(&env).await;
    assert_eq!((incident.cause, owner(&incident)), (Cause::QuotaExceeded, "Deployment/api".to_owned()));
    assert_eq!((incident.pods, incident.of), (3, 3));
    assert_eq!(
        incident.message,
        "0 of 3 pods exist: the ResourceQuota mem-cap is exceeded: 256Mi of requests.memory requested, 1Gi of 1Gi used"
    );
    assert_eq!(incident.controllers.iter().map(|own| own.name.as_str()).collect::<Vec<_>>(), ["api-5d9f"]);
    assert_eq!((status.missing_pods, status.problematic_pod_count, status.watched_pods), (3, 0, 0));
    assert_eq!((status.top_reason.as_str(), status.problematic_pods.len()), ("FailedCreate", 0));
    let message = format!("0 of 0 pods have a problem; 3 are missing: FailedCreate ({}/api)", env.namespace);
    assert_eq!(condition(&status, "PodsHealthy"), ("False", "PodsUnhealthy", message.as_str()));

    // Its events are published as for other incidents.
    let note = eventually("an event is there", TIMEOUT, async || {
        let events = env.events("cluster").await;
        events.first().and_then(|event| event.note.clone()).ok_or_else(|| "no event".to_owned())
    })
    .await
    .unwrap();
    assert_eq!(note, format!("Deployment {}/api: {}", env.namespace, incident.message));
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_pods_of_a_daemon_set_that_pod_security_refuses() {
    let env = TestEnv::new("pod-security").await;
    let namespaces: Api<Namespace> = Api::all(env.client.clone());
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    namespaces.patch(&env.namespace, &PatchParams::default(), &Patch::Merge(labels)).await.unwrap();
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    env.wait_for_ready("cluster", "Watching").await;

    let daemon_set = env.workload("DaemonSet", "agent", json!({})).await;
    let refusal = refused(&env, &daemon_set, None).await;
    daemon_set
        .set_status(json!({
            "desiredNumberScheduled": 5, "currentNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 2,
        }))
        .await;
    daemon_set.failed_create(&format!("Error creating: {refusal}"), 45).await;
    let (_, incident) = reported(&env).await;
    assert_eq!((incident.cause, owner(&incident)), (Cause::PolicyRefused, "DaemonSet/agent".to_owned()));
    assert_eq!((incident.pods, incident.of, incident.controllers.len()), (3, 5, 0));
    assert!(
        incident.message.starts_with("2 of 5 pods exist: Pod Security refuses the pod at level restricted:latest: ")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_pods_of_a_stateful_set_that_a_policy_refuses() {
    let env = TestEnv::new("policy").await;
    let name = format!("no-latest-{}", env.namespace);
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]);
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules, "namespaceSelector": in_namespace(&env)},
            "validations": [{"expression": "false", "message": "images must come from registry.example.com"}],
        },
    });
    apply(&env, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", policy).await;
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    apply(&env, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", binding).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    env.wait_for_ready("cluster", "Watching").await;

    let stateful_set = env.workload("StatefulSet", "db", json!({"replicas": 3})).await;
    let refusal = refused(&env, &stateful_set, Some("db-0")).await;
    stateful_set.set_status(json!({"replicas": 0})).await;
    stateful_set.failed_create(&format!("create Pod db-0 in StatefulSet db failed error: {refusal}"), 60).await;
    let (_, incident) = reported(&env).await;
    assert_eq!((incident.cause, owner(&incident)), (Cause::PolicyRefused, "StatefulSet/db".to_owned()));
    assert_eq!((incident.pods, incident.of), (3, 3));
    assert!(incident.message.starts_with("0 of 3 pods exist: "), "{}", incident.message);
    assert!(incident.message.ends_with("images must come from registry.example.com"), "{}", incident.message);
}

async fn webhook_for_pods(env: &TestEnv, client_config: Value) {
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": format!("images-{}", env.namespace)},
        "webhooks": [{
            "name": "images.example.com", "failurePolicy": "Fail", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 5, "namespaceSelector": in_namespace(env),
            "clientConfig": client_config,
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        }],
    });
    apply(env, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", webhook).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_pods_that_a_webhook_denies() {
    let env = TestEnv::new("webhook-denies").await;
    let receiver = Receiver::start_tls().await.unwrap();
    receiver.then(std::iter::repeat_n(Reply::DenyAdmission("image app:1 has no signature"), 100));
    let ca = BASE64_STANDARD.encode(receiver.ca_pem());
    webhook_for_pods(&env, json!({"url": receiver.url("/validate"), "caBundle": ca})).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    env.wait_for_ready("cluster", "Watching").await;
    let replica_set = deployment(&env, "api", 2).await;
    let refusal = refused(&env, &replica_set, None).await;
    replica_set.set_failing(1, 60, &refusal).await;
    replica_set.failed_create(&format!("(combined from similar events): Error creating: {refusal}"), 0).await;
    let (_, incident) = reported(&env).await;
    assert_eq!((incident.cause, incident.pods, incident.of), (Cause::WebhookRefused, 1, 2));
    assert_eq!(
        incident.message,
        "1 of 2 pods exist: the admission webhook images.example.com refuses the pod: image app:1 has no signature"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_pods_of_a_cron_jobs_job_whose_webhook_fails() {
    let env = TestEnv::new("webhook").await;
    webhook_for_pods(&env, json!({"url": "https://127.0.0.1:1/validate"})).await;
    env.object("cluster", watch_all()).await;
    let operator = env.operator().start();
    env.wait_for_ready("cluster", "Watching").await;

    let job_spec = json!({"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "app", "image": "example.com/app:1"}]}}});
    let cron_jobs: Api<DynamicObject> = Api::namespaced_with(env.client.clone(), &env.namespace, &resource("CronJob"));
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": job_spec}},
    });
    let cron_job = cron_jobs.create(&PostParams::default(), &serde_json::from_value(cron_job).unwrap()).await.unwrap();
    let owners = controlled_by("CronJob", "nightly", cron_job.metadata.uid.unwrap());
    let job = env.owned_workload("Job", "nightly-29", owners, json!({}), json!({})).await;
    let refusal = refused(&env, &job, None).await;
    job.failed_create(&format!("Error creating: {refusal}"), 60).await;
    let (_, incident) = reported(&env).await;
    assert_eq!((incident.cause, owner(&incident)), (Cause::WebhookRefused, "CronJob/nightly".to_owned()));
    assert_eq!((incident.pods, incident.of), (1, 1));
    assert_eq!(incident.controllers[0].name, "nightly-29");
    assert!(
        incident.message.starts_with("0 of 1 pod exists: the admission webhook images.example.com cannot be called: "),
        "{}",
        incident.message
    );
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_pods_without_their_service_account() {
    let env = TestEnv::new("account").await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    env.wait_for_ready("cluster", "Watching").await;
    let pod = json!({"serviceAccountName": "builder"});
    let spec = json!({"replicas": 2});
    let controller = env.owned_workload("ReplicationController", "build", json!([]), spec, pod).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(env.client.clone(), &env.namespace);
    assert!(accounts.get_opt("builder").await.unwrap().is_none());
    let refusal = refused(&env, &controller, None).await;
    controller.set_failing(0, 31, &refusal).await;
    controller.failed_create(&format!("Error creating: {refusal}"), 0).await;
    let (_, incident) = reported(&env).await;
    assert_eq!(
        (incident.cause, owner(&incident)),
        (Cause::ServiceAccountMissing, "ReplicationController/build".to_owned())
    );
    assert_eq!(incident.message, "0 of 2 pods exist: the service account builder does not exist");
}
