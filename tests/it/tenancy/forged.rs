//! A tenant forges texts to change what objects of several namespaces say about another tenant. What they say without the
//! attack is the truth.

use std::collections::BTreeSet;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Event;
use kube::{Api, Client, ResourceExt, api::PostParams};
use orchestr::api::OrchestrStatus;
use orchestr_testbed::{Receiver, eventually};
use serde_json::{Value, json};

use crate::{
    alerts::support::webhook,
    install::{apply, bind, installed},
    pod_statuses::{self, ago, crash_looping, healthy},
    support::TIMEOUT,
    test_env::{TestEnv, watch_with},
};

/// The registry that the victim uses, and that the attacker's registry names in its answers.
const SHARED_REGISTRY: &str = "registry.shared.example";
/// The pods of the attacker: with a forged subject in the victim's namespace, with forged subjects in its own, with its own
/// registry, on a node that does not exist, and with a scheduling gate.
const FOREIGN_SUBJECTS: usize = 12;
const OWN_SUBJECTS: usize = 12;
const FOREIGN_REGISTRY: usize = 3;
const UNKNOWN_NODE: usize = 3;
const GATED: usize = 60;

/// A pod without a sandbox whose container waits.
fn waiting(reason: &str, message: &str) -> Value {
    let mut status = pod_statuses::waiting(reason, message, 3600);
    status["conditions"][1]["type"] = "PodReadyToStartContainers".into();
    status
}

fn image(name: &str) -> Value {
    json!({"spec": {"containers": [{"name": "app", "image": name}]}})
}

/// The victim's troubles: two owners lack a Secret, and one cannot reach a registry.
async fn break_victim(victim: &TestEnv) {
    let lacking = waiting("CreateContainerConfigError", "secret \"payments-db\" not found");
    victim.pod("api-0", lacking.clone()).await;
    victim.pod("jobs-0", lacking).await;
    let error = format!("Head \"https://{SHARED_REGISTRY}/v2/web\": dial tcp 10.0.0.1:443: i/o timeout");
    let image = image(&format!("{SHARED_REGISTRY}/web:1"));
    victim.pod_with("web-0", image, waiting("ErrImagePull", &error)).await;
}

/// What a kubelet and the scheduler write about the attacker's pods.
async fn create_pods(evil: &TestEnv) {
    let creating = || waiting("ContainerCreating", "");
    for index in 0..FOREIGN_SUBJECTS {
        evil.pod(&format!("foreign-{index}"), creating()).await;
    }
    for (name, owner) in (0..OWN_SUBJECTS).flat_map(|name| (0..3).map(move |owner| (name, owner))) {
        evil.pod(&format!("own-{name}-{owner}"), creating()).await;
    }
    let answer = format!(
        "failed to resolve reference \"evil.example/a:1\": Head \"https://{SHARED_REGISTRY}/v2/a?ns=evil.example\": dial tcp: \
         lookup {SHARED_REGISTRY}: no such host"
    );
    for index in 0..FOREIGN_REGISTRY {
        let image = image(&format!("evil.example/{index}:1"));
        evil.pod_with(&format!("registry-{index}"), image, waiting("ErrImagePull", &answer)).await;
    }
    for index in 0..UNKNOWN_NODE {
        let node = json!({"spec": {"nodeName": "node-x"}});
        evil.pod_with(&format!("node-{index}"), node, json!({"phase": "Pending"})).await;
    }
    let gated = json!({
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
    });
    for index in 0..GATED {
        let gate = json!({"spec": {"nodeName": null, "schedulingGates": [{"name": "evil.example/gate"}]}});
        evil.pod_with(&format!("gated-{index}"), gate, gated.clone()).await;
    }
}

/// Creates the attacker's events with the rights of a tenant.
async fn create_events(evil: &TestEnv, victim: &str) {
    let user = format!("{}-mallory", evil.namespace);
    bind(&evil.plane, &evil.namespace, "admin", &user).await;
    let events = Api::<Event>::namespaced(Client::try_from(evil.plane.user(&user, &[])).unwrap(), &evil.namespace);
    let pods = evil.pods().list(&Default::default()).await.unwrap().items;
    let forged = pods.iter().filter_map(|pod| {
        let name = pod.name_any();
        let (reason, message) = match name.split('-').collect::<Vec<_>>().as_slice() {
            ["foreign", _] => {
                let secret = format!("couldn't find key password in Secret {victim}/payments-db");
                ("FailedMount", format!("MountVolume.SetUp failed for volume \"0\" : {secret}"))
            }
            ["own", number, _] => (
                "FailedMount",
                format!("MountVolume.SetUp failed for volume \"0\" : secret \"forged-{number}\" not found"),
            ),
            ["node", _] => {
                ("FailedCreatePodSandBox", "Failed to create pod sandbox: rpc error: no IP addresses".to_owned())
            }
            _ => return None,
        };
        let event = json!({
            "metadata": {"name": format!("{name}.forged"), "namespace": evil.namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": evil.namespace, "name": name, "uid": pod.uid(),
            },
            "type": "Warning", "reason": reason, "message": message, "count": 25, "firstTimestamp": ago(600),
            "lastTimestamp": ago(5), "source": {"component": "kubelet"}, "reportingComponent": "kubelet",
        });
        Some(serde_json::from_value::<Event>(event).unwrap())
    });
    let forged: Vec<Event> = forged.collect();
    // A right that was just granted takes effect with a delay.
    eventually("the tenant may create events", TIMEOUT, async || {
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        events.create(&dry_run, &forged[0]).await.map(drop).map_err(|error| error.to_string())
    })
    .await
    .unwrap();
    let params = PostParams::default();
    for result in join_all(forged.iter().map(|event| events.create(&params, event))).await {
        result.unwrap();
    }
}

/// What a status says about a namespace.
fn status_about(status: &OrchestrStatus, namespace: &str) -> Value {
    let causes =
        status.common_causes.iter().filter(|own| own.name.contains(namespace) || own.message.contains(namespace));
    let registry = status.common_causes.iter().filter(|own| own.name.contains(SHARED_REGISTRY));
    let incidents = status.incidents.iter().filter(|own| own.namespace == namespace);
    let incidents = incidents
        .map(|own| json!([own.owner.name, own.kind, own.reason, own.cause, own.message, own.pods]).to_string());
    let mut pods: Vec<_> =
        status.problematic_pods.iter().filter(|pod| pod.namespace == namespace).map(|pod| &pod.name).collect();
    pods.sort();
    json!({
        "causes": causes.map(|own| json!([own.kind, own.name, own.owners, own.pods, own.message])).collect::<Vec<_>>(),
        "registry": registry.count(),
        "incidents": incidents.collect::<BTreeSet<_>>(),
        "pods": pods,
    })
}

/// The alerts that a receiver was sent and whose labels contain one of these names, with their status.
fn alerts_about(receiver: &Receiver, names: &[&str]) -> BTreeSet<String> {
    let requests = receiver.received();
    let alerts = requests.iter().flat_map(|request| request.json()["alerts"].as_array().cloned().unwrap_or_default());
    let shown = alerts.map(|alert| json!([alert["status"], alert["labels"]]).to_string());
    shown.filter(|alert| names.iter().any(|name| alert.contains(name))).collect()
}

async fn until_sent(receiver: &Receiver, what: &str, number: usize, names: &[&str]) {
    eventually(what, TIMEOUT, async || {
        let sent = alerts_about(receiver, names);
        if sent.len() >= number { Ok(()) } else { Err(format!("{sent:#?}")) }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_status_says_stays_true_whatever_others_forge() {
    apply(installed().await, "deploy/tenancy").await;
    let (ops, victim, evil) = (TestEnv::new("ops").await, TestEnv::new("tenant-b").await, TestEnv::new("evil").await);
    let (shared, own) = (Receiver::start().await.unwrap(), Receiver::start().await.unwrap());
    ops.secret("ops", &[("url", &shared.url("/"))]).await;
    victim.secret("own", &[("url", &own.url("/"))]).await;
    break_victim(&victim).await;
    let all = [&ops.namespace, &victim.namespace, &evil.namespace].map(String::as_str);
    let spec = |namespaces: &[&str], webhook: Value| {
        watch_with(json!({"pods": {"namespaces": namespaces}, "webhooks": [webhook]}))
    };
    ops.object("cluster", spec(&all, webhook("ops", "Generic", json!({})))).await;
    victim.object("own", spec(&all[1..2], webhook("own", "Generic", json!({})))).await;
    let _operator = ops.operator().namespaces(&all).fast_alerts().start();
    let told = |receiver: &Receiver| alerts_about(receiver, &[&victim.namespace, SHARED_REGISTRY]);
    for receiver in [&shared, &own] {
        until_sent(receiver, "the victim's incidents are sent", 2, &[&victim.namespace]).await;
    }
    let truth = status_about(&ops.status("cluster").await, &victim.namespace);
    assert_eq!(truth["causes"].as_array().unwrap().len(), 1, "{truth}");
    let told_before = (told(&shared), told(&own), own.received().len());

    ops.events_watch.until_watched().await;
    create_pods(&evil).await;
    create_events(&evil, &victim.namespace).await;
    let broken = FOREIGN_SUBJECTS + 3 * OWN_SUBJECTS + FOREIGN_REGISTRY + UNKNOWN_NODE + GATED;
    ops.until("the attack is seen", |status| {
        let forged = status.common_causes.iter().filter(|own| own.message.contains("forged")).count();
        status.problematic_pod_count == broken as i64 + 3 && forged >= 8
    })
    .await;
    until_sent(&shared, "the attack is sent", 1, &[&evil.namespace]).await;
    // What ends now is sent after all that the attack could end.
    ops.pod("marker-0", crash_looping(7)).await;
    until_sent(&shared, "the marker is sent", 1, &["marker-0"]).await;
    ops.set_status("marker-0", healthy()).await;
    until_sent(&shared, "the end of the marker is sent", 2, &["marker-0"]).await;
    let status = ops.status("cluster").await;
    assert_eq!(status_about(&status, &victim.namespace), truth, "the status that several namespaces share");
    assert_eq!(told(&shared), told_before.0, "the receiver that several namespaces share");
    assert_eq!((told(&own), own.received().len()), (told_before.1, told_before.2), "the victim's receiver");
    assert!(!status.common_causes.iter().any(|own| own.name.contains("node-x")), "{:?}", status.common_causes);
}
