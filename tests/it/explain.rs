//! `orchestr explain` against a real API server, with the rights of its caller. [`crate::docs`] compares what it prints about a
//! crash.

use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::{CronJob, Job},
    core::v1::{ConfigMap, Event, PersistentVolumeClaim, ResourceQuota, Secret, ServiceAccount},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use orchestr_testbed::eventually;
use serde_json::{Value, json};

use crate::{
    command::{assert_fails, assert_usage_error, ends, orchestr},
    pod_statuses::{ago, container, controlled_by, crash_looping, healthy, merged},
    support::TIMEOUT,
    test_env::TestEnv,
    wait::support::{Rollout, waits},
};

/// Creates an event about an object.
pub(crate) async fn event(env: &TestEnv, kind: &str, name: &str, uid: &str, changes: Value) {
    let event = json!({
        "metadata": {"name": format!("{name}.{}", fastrand::u32(..))},
        "involvedObject": {"kind": kind, "namespace": env.namespace, "name": name, "uid": uid},
        "type": "Warning", "count": 3, "firstTimestamp": ago(60), "lastTimestamp": ago(30), "source": {"component": "kubelet"},
    });
    env.create::<Event>(merged(event, &changes)).await;
}

async fn uid(env: &TestEnv, pod: &str) -> String {
    env.pods().get(pod).await.unwrap().metadata.uid.unwrap()
}

fn explain(env: &TestEnv, args: &[&str]) -> (i32, String, String) {
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    ends(&mut orchestr(&[&["explain", "--kubeconfig", kubeconfig, "-n", &env.namespace], args].concat()))
}

fn explained(env: &TestEnv, target: &str) -> (i32, Value) {
    let (code, out, err) = explain(env, &[target, "-o", "json"]);
    assert_eq!(err, "");
    (code, serde_json::from_str(&out).unwrap())
}

/// Asserts that a text contains these parts, wherever its lines are wrapped.
#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(joined(text).contains(&joined(part)), "{part:?} is missing from:\n{text}");
    }
}

/// A pod that needs a ConfigMap that does not exist, and keys of others.
async fn pod_without_config(env: &TestEnv) {
    env.create::<ConfigMap>(json!({"metadata": {"name": "settings"}, "data": {"a": "hunter2"}})).await;
    env.create::<Secret>(json!({"metadata": {"name": "db"}, "stringData": {"url": "hunter2"}})).await;
    let key = |kind: &str, name: &str, key: &str| json!({"name": key, "valueFrom": {kind: {"name": name, "key": key}}});
    let spec = json!({"containers": [{
        "name": "app", "image": "example.com/app:1",
        "env": [key("configMapKeyRef", "settings", "a"), key("configMapKeyRef", "settings", "b"), key("secretKeyRef", "db", "url")],
        // The API server accepts any name here.
        "envFrom": [{"configMapRef": {"name": "nosuch"}}, {"secretRef": {"name": "../secrets/db", "optional": false}}],
    }]});
    let status = waits("CreateContainerConfigError", "configmap \"nosuch\" not found");
    env.pod_with("cart", json!({"spec": spec}), status).await;
    let uid = uid(env, "cart").await;
    let hostile = "Error: \u{1b}[31mpostgres://cart:hunter2@db/cart\u{202e}\n::error::x";
    let container = json!({"kind": "Pod", "namespace": env.namespace, "name": "cart", "uid": uid, "fieldPath": "spec.containers{app}"});
    event(env, "Pod", "cart", &uid, json!({"reason": "Failed", "message": hostile, "involvedObject": container})).await;
    let scheduled = json!({"type": "Normal", "reason": "Scheduled", "message": "assigned to node-1", "count": 1, "lastTimestamp": ago(90)});
    event(env, "Pod", "cart", &uid, scheduled).await;
    // An event about another pod of the same name.
    event(env, "Pod", "cart", "00000000-0000-4000-9000-000000000000", json!({"reason": "Killing"})).await;
}

#[tokio::test]
async fn explains_which_configuration_of_a_pod_is_missing() {
    let env = TestEnv::new("explain-config").await;
    pod_without_config(&env).await;
    let (code, explanation) = explained(&env, "cart");
    assert_eq!((code, &explanation["state"]), (1, &json!("Problem")));
    let pod = &explanation["pods"][0];
    assert_eq!(pod["problem"]["cause"], "ConfigMapMissing");
    assert_eq!(pod["explanation"], "app needs the ConfigMap nosuch, which does not exist");
    let objects: Vec<_> = pod["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| {
            json!([object["kind"], object["name"], object["exists"], object["missingKeys"], object["uncheckedKeys"]])
        })
        .collect();
    assert_eq!(
        objects,
        [
            json!(["ConfigMap", "nosuch", false, null, null]),
            json!(["Secret", "../secrets/db", false, null, null]),
            json!(["ConfigMap", "settings", true, ["b"], null]),
            json!(["Secret", "db", true, null, ["url"]]),
        ]
    );
    let events = pod["events"]["shown"].as_array().unwrap();
    let reasons: Vec<_> = events.iter().map(|event| [&event["type"], &event["reason"], &event["count"]]).collect();
    assert_eq!(
        reasons,
        [[&json!("Warning"), &json!("Failed"), &json!(3)], [&json!("Normal"), &json!("Scheduled"), &json!(1)]]
    );

    let (code, out, err) = explain(&env, &["pod/cart"]);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    assert_contains(
        &out,
        &[
            &format!(
                "pod/cart in {} has a problem\n  CreateContainerConfigError, ConfigMapMissing for ",
                env.namespace
            ),
            "\n    app: Waiting (CreateContainerConfigError), not ready, image example.com/app:1\n",
            "\n    ConfigMap nosuch (envFrom of app) does not exist\n",
            "\n    ConfigMap settings (env of app) does not have the key b\n",
            " Normal Scheduled (Pod cart, kubelet): assigned to node-1\n",
            "The node node-1 does not exist.",
        ],
    );
    let all = format!("{out}{explanation}");
    assert!(!all.contains("hunter2") && !out.contains(['\u{1b}', '\u{202e}']) && !out.contains("\n::error"), "{all}");
}

#[tokio::test]
async fn distinguishes_healthy_from_settling_pods() {
    let env = TestEnv::new("explain-well").await;
    let mut status = healthy();
    status["conditions"][1]["lastTransitionTime"] = json!(ago(26 * 3600 + 1800));
    env.pod("well", status).await;
    let starting = json!({
        "phase": "Pending", "startTime": ago(1),
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(1)}],
        "initContainerStatuses": [container("init", json!({"state": {"running": {"startedAt": ago(1)}}}))],
    });
    env.pod_with("starting", json!({"spec": {"initContainers": [{"name": "init", "image": "a"}]}}), starting).await;
    let (code, out, _) = explain(&env, &["well"]);
    let expected =
        format!("pod/well in {} is healthy\n  Running, ready for 26h\n  on node-1, created 24h ago\n", env.namespace);
    assert_eq!((code, out.starts_with(&expected)), (0, true), "{out}");
    let (code, starting) = explained(&env, "po/starting");
    assert_eq!((code, &starting["state"]), (0, &json!("Settling")), "{starting}");
    assert!(starting["pods"][0]["until"].is_string(), "{starting}");

    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let explain = |target: &str| orchestr(&["explain", "--kubeconfig", kubeconfig, "-n", &env.namespace, target]);
    let sentence = format!("there is no pod \"nosuch\" in namespace \"{}\"", env.namespace);
    assert_fails(&mut explain("nosuch"), &sentence);
    assert_fails(&mut explain("deploy/nosuch"), &sentence.replace("no pod", "no deployment"));
    assert_usage_error(&mut explain("service/x"), &["is of a kind that cannot be explained"]);
    assert_usage_error(&mut explain("deploy/../x"), &["is not the name of an object"]);
}

#[tokio::test]
async fn explains_the_newest_run_of_a_cron_job() {
    let env = TestEnv::new("explain-cron-job").await;
    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": "example.com/app:1"}]}});
    let spec = json!({"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}});
    let cron_job: CronJob = env.create(json!({"metadata": {"name": "nightly"}, "spec": spec})).await;
    let (code, nothing) = explained(&env, "cronjob/nightly");
    assert_eq!((code, &nothing["target"]), (0, &json!("cronjob/nightly")));
    let progress = nothing["workload"]["progress"].as_str().unwrap();
    assert_eq!(progress, "it has not succeeded yet, and none of its Jobs exists");
    let owner = controlled_by("CronJob", "nightly", cron_job.metadata.uid);
    let metadata = json!({"name": "nightly-1", "ownerReferences": owner});
    env.create::<Job>(json!({"metadata": metadata, "spec": {"template": template}})).await;
    let (code, run) = explained(&env, "cj/nightly");
    assert_eq!(
        (code, &run["target"], &run["workload"]["name"]),
        (0, &json!("cronjob/nightly"), &json!("job/nightly-1"))
    );
    let progress = run["workload"]["progress"].as_str().unwrap();
    assert!(progress.starts_with("the newest run of cronjob/nightly, which has not succeeded yet: "), "{progress}");
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let sentence = format!("there is no cronjob \"nosuch\" in namespace \"{}\"", env.namespace);
    let args = ["explain", "--kubeconfig", kubeconfig, "-n", &env.namespace, "cronjob/nosuch"];
    assert_fails(&mut orchestr(&args), &sentence);
}

#[tokio::test]
async fn lists_what_the_caller_may_not_read() {
    let env = TestEnv::new("explain-rights").await;
    let namespace = env.namespace.as_str();
    pod_without_config(&env).await;
    env.create::<ServiceAccount>(json!({"metadata": {"name": "blind"}})).await;
    let access = env.plane.service_account(namespace, "blind").await.unwrap();
    let kubeconfig = access.kubeconfig().to_str().unwrap();
    let explain =
        || ends(&mut orchestr(&["explain", "--kubeconfig", kubeconfig, "-n", namespace, "cart", "-o", "json"]));
    let (code, out, err) = explain();
    assert_eq!((code, out.as_str()), (2, ""));
    assert_contains(
        &err,
        &[&format!("\"system:serviceaccount:{namespace}:blind\" to get pods in namespace {namespace}")],
    );

    let subject = format!("--serviceaccount={namespace}:blind");
    for grant in [
        &["create", "role", "blind", "--namespace", namespace, "--verb=get", "--resource=pods"][..],
        &["create", "rolebinding", "blind", "--namespace", namespace, "--role=blind", &subject],
    ] {
        let granted = env.plane.kubectl(grant, None).await.unwrap();
        assert!(granted.status.success(), "{}", granted.stderr);
    }
    let (code, out, err) = eventually("the grant is in effect", TIMEOUT, async || {
        let outcome = explain();
        if outcome.0 == 2 { Err(outcome.2) } else { Ok(outcome) }
    })
    .await
    .unwrap();
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    let explanation: Value = serde_json::from_str(&out).unwrap();
    let mut unread: Vec<String> = serde_json::from_value(explanation["notRead"].clone()).unwrap();
    unread.sort_unstable();
    assert_eq!(
        unread,
        [
            format!("ConfigMap nosuch (not allowed: get configmaps in {namespace})"),
            format!("ConfigMap settings (not allowed: get configmaps in {namespace})"),
            "Node node-1 (not allowed: get nodes)".to_owned(),
            format!("Secret db (not allowed: get secrets in {namespace})"),
            format!("the events of Pod cart (not allowed: list events in {namespace})"),
        ]
    );
    let pod = &explanation["pods"][0];
    assert_eq!(pod["explanation"], "app needs the ConfigMap nosuch, which does not exist");
    assert_eq!(pod["objects"][0]["exists"], Value::Null, "{pod}");

    // These are the rules of the ClusterRole `view`, into which a controller copies them.
    let view = [
        "create",
        "rolebinding",
        "viewer",
        "--namespace",
        namespace,
        "--clusterrole=system:aggregate-to-view",
        &subject,
    ];
    let granted = env.plane.kubectl(&view, None).await.unwrap();
    assert!(granted.status.success(), "{}", granted.stderr);
    let expected =
        json!(["Node node-1 (not allowed: get nodes)", format!("Secret db (not allowed: get secrets in {namespace})")]);
    eventually("only nodes and Secrets are refused", TIMEOUT, async || {
        let explanation: Value = serde_json::from_str(&explain().1).unwrap();
        let mut unread: Vec<String> = serde_json::from_value(explanation["notRead"].clone()).unwrap();
        unread.sort_unstable();
        if json!(unread) == expected { Ok(()) } else { Err(format!("{unread:?}")) }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn explains_a_workload_whose_pods_are_refused_by_a_quota() {
    let env = TestEnv::new("explain-quota").await;
    let rollout = Rollout::new(&env, "cart", 3).await;
    rollout.counts(&env, 3, 1, 2).await;
    let message =
        "pods \"cart-new-x\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3";
    rollout.condition(&env, "ReplicaFailure", "True", "FailedCreate", message).await;
    env.create::<ResourceQuota>(json!({"metadata": {"name": "small"}, "spec": {"hard": {"pods": "3"}}})).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(env.client.clone(), &env.namespace);
    let used = json!({"status": {"hard": {"pods": "3"}, "used": {"pods": "3"}}});
    quotas.patch_status("small", &PatchParams::default(), &Patch::Merge(&used)).await.unwrap();
    let crashing = rollout.pod(&env, "a", crash_looping(7)).await;
    for suffix in ["a", "b"] {
        rollout.pod_of(&env, "old", suffix, healthy()).await;
    }
    let deployment = Api::<Deployment>::namespaced(env.client.clone(), &env.namespace).get("cart").await.unwrap();
    let scaled = json!({"type": "Normal", "reason": "ScalingReplicaSet", "message": "Scaled up cart-new to 1"});
    event(&env, "Deployment", "cart", &deployment.metadata.uid.unwrap(), scaled).await;

    let (code, out, err) = explain(&env, &["deploy/cart"]);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    assert_contains(
        &out,
        &[
            &format!(
                "deployment/cart in {} has a problem\n  its rollout is not complete: 1 of 3 replicas updated\n",
                env.namespace
            ),
            "\n  3 pods: 2 healthy, 1 with a problem\n",
            "\n  pods cannot be created (QuotaExceeded): the ResourceQuota small is exceeded",
            "\n    ResourceQuota small: pods 3 of 3\n",
            "\n  the newest revision is cart-new; what changed since cart-old:\n",
            "\n    OOMKilled, OutOfMemory: 1 of 3 pods for ",
            " Normal ScalingReplicaSet ×3 (Deployment cart, kubelet): Scaled up cart-new to 1\n",
            &format!("\npod/{crashing}\n  CrashLoopBackOff, OOMKilled, OutOfMemory for "),
        ],
    );
    // A pod is explained with the state of its workload.
    let (_, pod) = explained(&env, &crashing);
    assert_eq!(pod["workload"]["name"], "deployment/cart");
    assert_eq!(pod["workload"]["pods"], json!({"total": 3, "healthy": 2, "settling": 0, "problems": 1}));
    assert_eq!(pod["workload"]["revision"]["name"], "cart-new");
}

#[tokio::test]
async fn explains_healthy_workloads_and_unbound_claims() {
    let env = TestEnv::new("explain-claim").await;
    let rollout = Rollout::new(&env, "cart", 1).await;
    rollout.pod(&env, "a", healthy()).await;
    rollout.is_done(&env).await;
    let (code, out, _) = explain(&env, &["deployment/cart"]);
    let expected =
        format!("deployment/cart in {} is healthy\n  it is rolled out: 1 replica\n  1 pod: 1 healthy\n", env.namespace);
    assert_eq!((code, out.starts_with(&expected)), (0, true), "{out}");
    env.set_status_of::<Deployment>("cart", json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 0}))
        .await;
    assert_eq!(explained(&env, "deploy/cart").1["state"], "Settling");

    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "nosuch",
        "resources": {"requests": {"storage": "10Gi"}}}});
    let claim = env.create::<PersistentVolumeClaim>(claim).await;
    let failed = json!({"reason": "ProvisioningFailed", "message": "storageclass.storage.k8s.io \"nosuch\" not found"});
    event(&env, "PersistentVolumeClaim", "data", &claim.metadata.uid.unwrap(), failed).await;
    let volume = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    let status = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "lastTransitionTime": ago(600)}]});
    env.pod_with("train", json!({"spec": {"nodeName": null, "volumes": volume}}), status).await;
    let (code, out, _) = explain(&env, &["train"]);
    assert_eq!(code, 1, "{out}");
    assert_contains(
        &out,
        &[
            "PersistentVolumeClaim data (volume data) exists: Pending, StorageClass nosuch,",
            "Warning ProvisioningFailed ×3 (PersistentVolumeClaim data, kubelet):",
            "PodScheduled is False for 1",
            "m: Unschedulable: 0/3 nodes are available",
        ],
    );
}

#[tokio::test]
async fn suggests_objects_with_names_that_are_close() {
    let env = TestEnv::new("near-names").await;
    let namespace = env.namespace.as_str();
    env.create::<ConfigMap>(json!({"metadata": {"name": "app-configuration"}, "data": {"LOG_LEVELS": "hunter2"}}))
        .await;
    env.create::<Secret>(json!({"metadata": {"name": "db-credential"}, "stringData": {"url": "hunter2"}})).await;
    let pods = [
        ("config", "configmap \"app-config\" not found".to_owned(), "there is a ConfigMap app-configuration"),
        ("secret", "secret \"db-credentials\" not found".to_owned(), "there is a Secret db-credential"),
        (
            "key",
            format!("couldn't find key LOG_LEVEL in ConfigMap {namespace}/app-configuration"),
            "it has the key LOG_LEVELS",
        ),
        ("far", "configmap \"payments\" not found".to_owned(), ""),
        // Of a Secret, nothing but metadata is read.
        ("key-of-secret", format!("couldn't find key uri in Secret {namespace}/db-credential"), ""),
    ];
    for (pod, error, _) in &pods {
        env.pod_with(pod, json!({}), waits("CreateContainerConfigError", error)).await;
    }
    let scan = |kubeconfig: &str, format: &str| {
        let (code, out, err) =
            ends(&mut orchestr(&["scan", "--kubeconfig", kubeconfig, "-n", namespace, "-o", format]));
        assert_eq!(code, 1, "{err}");
        out
    };
    let admin = env.plane.admin_kubeconfig().to_str().unwrap();
    let hints = |kubeconfig: &str| -> Vec<(String, String)> {
        let scanned: Value = serde_json::from_str(&scan(kubeconfig, "json")).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let incidents = scanned["incidents"].as_array().unwrap().iter();
        let mut hints: Vec<_> = incidents.map(|own| (text(&own["examplePods"][0]), text(&own["hint"]))).collect();
        hints.sort_unstable();
        hints
    };
    let mut expected: Vec<_> = pods.iter().map(|(pod, _, hint)| ((*pod).to_owned(), (*hint).to_owned())).collect();
    expected.sort_unstable();
    assert_eq!(hints(admin), expected);
    let table = scan(admin, "wide");
    assert_contains(&table, &["app-config, which does not exist; there is a ConfigMap app-configuration"]);
    for (pod, _, hint) in &pods {
        let explained = explained(&env, pod).1;
        assert_eq!(explained["pods"][0]["hint"].as_str().unwrap_or_default(), *hint, "{pod}");
        assert!(!explained.to_string().contains("hunter2"));
    }
    let (_, out, _) = explain(&env, &["config"]);
    assert_contains(&out, &["which does not exist; there is a ConfigMap app-configuration"]);

    // A single check without patience: a wait is patient with what began long before it, as on a busy machine.
    let wait = |target: &str| {
        let flags = ["wait", target, "--kubeconfig", admin, "-n", namespace, "--grace", "0s", "--timeout", "0s"];
        let (code, out, err) = ends(&mut orchestr(&flags));
        assert_eq!(code, 1, "{out}{err}");
        out
    };
    assert_contains(&wait("pod/config"), &["which does not exist; there is a ConfigMap app-configuration"]);
    env.create::<ServiceAccount>(json!({"metadata": {"name": "deployers"}})).await;
    let rollout = Rollout::new(&env, "cart", 1).await;
    rollout.counts(&env, 1, 0, 0).await;
    let refused = format!(
        "pods \"cart-x\" is forbidden: error looking up service account {namespace}/deployer: serviceaccount \"deployer\" \
         not found"
    );
    rollout.condition(&env, "ReplicaFailure", "True", "FailedCreate", &refused).await;
    let sentence = "the service account deployer does not exist; there is a ServiceAccount deployers";
    assert_contains(&wait("deploy/cart"), &[sentence]);
    assert_contains(&explain(&env, &["deploy/cart"]).1, &[sentence]);

    // Somebody who may read pods only gets the same answer without hints.
    env.create::<ServiceAccount>(json!({"metadata": {"name": "reader"}})).await;
    let subject = format!("--serviceaccount={namespace}:reader");
    for grant in [
        &["create", "role", "reader", "--namespace", namespace, "--verb=get,list", "--resource=pods"][..],
        &["create", "rolebinding", "reader", "--namespace", namespace, "--role=reader", &subject],
    ] {
        let granted = env.plane.kubectl(grant, None).await.unwrap();
        assert!(granted.status.success(), "{}", granted.stderr);
    }
    let access = env.plane.service_account(namespace, "reader").await.unwrap();
    let reader = access.kubeconfig().to_str().unwrap();
    let unknown: Vec<_> = expected.iter().map(|(pod, _)| (pod.clone(), String::new())).collect();
    eventually("the grant is in effect", TIMEOUT, async || {
        let (code, _, err) = ends(&mut orchestr(&["scan", "--kubeconfig", reader, "-n", namespace, "-o", "json"]));
        if code == 1 { Ok(()) } else { Err(err) }
    })
    .await
    .unwrap();
    assert_eq!(hints(reader), unknown);
}
