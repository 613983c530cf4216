//! Annotations of pods and namespaces decide on severity and team, and these on the receivers.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use orchestr::api::{Incident, OrchestrStatus, Severity};
use orchestr_testbed::{Options, Received, Receiver, eventually};
use serde_json::{Value, json};

use super::support::{spec, webhook};
use crate::{
    pod_statuses::crash_looping,
    proxy::{Proxy, ProxyAction},
    support::TIMEOUT,
    test_env::{TestEnv, condition},
};

const RUNBOOK: &str = "https://runbooks.example/shop";

async fn annotate_namespace(env: &TestEnv, annotations: Value) {
    let namespaces: Api<Namespace> = Api::all(env.client.clone());
    let patch = json!({"metadata": {"annotations": annotations}});
    namespaces.patch(&env.namespace, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

fn incident<'a>(status: &'a OrchestrStatus, pod: &str) -> Option<&'a Incident> {
    status.incidents.iter().find(|incident| incident.owner.name == pod)
}

/// Of all alerts in these messages, the owner, the status, and the labels `severity` and `team`.
fn alerts(received: &[Received]) -> Vec<[String; 4]> {
    let messages: Vec<Value> = received.iter().map(Received::json).collect();
    let alerts = messages.iter().flat_map(|message| message["alerts"].as_array().unwrap());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let fields = |alert: &Value| {
        let labels = &alert["labels"];
        [&labels["owner_name"], &alert["status"], &labels["severity"], &labels["team"]].map(text)
    };
    alerts.map(fields).collect()
}

fn alert(fields: [&str; 4]) -> [String; 4] {
    fields.map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_by_the_annotations_of_pods_and_of_their_namespace() {
    let env = TestEnv::with_own_plane("ownership", Options::default()).await;
    let own = json!({"kopf.dev/severity": "info", "kopf.dev/team": "shop", "kopf.dev/runbook": RUNBOOK});
    annotate_namespace(&env, own).await;
    let receivers = [Receiver::start().await.unwrap(), Receiver::start().await.unwrap()];
    let [critical, web] = &receivers;
    env.secret("critical", &[("url", &critical.url("/"))]).await;
    env.secret("web", &[("url", &web.url("/"))]).await;
    env.pod_with("cart", json!({"metadata": {"annotations": {"kopf.dev/severity": "critical"}}}), crash_looping(7))
        .await;
    let annotations = json!({"kopf.dev/team": "web", "kopf.dev/dashboard": "javascript:alert(1)"});
    env.pod_with("front", json!({"metadata": {"annotations": annotations}}), crash_looping(7)).await;
    let mut spec = spec(&[
        webhook("critical", "Generic", json!({"match": {"severities": ["critical"]}})),
        webhook("web", "Generic", json!({"match": {"teams": ["web"], "severities": ["info", "warning"]}})),
    ]);
    spec["logs"] = json!({"enabled": false});
    env.object("cluster", spec).await;
    let proxy = Proxy::start(env.client.clone()).await;
    let operator = env.operator().through(&proxy).whole_cluster().fast_alerts().start();

    let status = env
        .until("both have the annotations of the namespace", |status| {
            ["cart", "front"].iter().all(|pod| incident(status, pod).is_some_and(|own| own.runbook == RUNBOOK))
        })
        .await;
    let shown = |pod| {
        let own = incident(&status, pod).unwrap();
        (own.severity, own.team.as_str(), own.invalid_annotations.join(", "))
    };
    assert_eq!(shown("cart"), (Some(Severity::Critical), "shop", String::new()));
    assert_eq!(shown("front"), (Some(Severity::Info), "web", "kopf.dev/dashboard".to_owned()));
    let first = critical.wait_for(1, TIMEOUT).await.unwrap();
    assert_eq!(alerts(&first), [alert(["cart", "firing", "critical", "shop"])]);
    assert_eq!(first[0].json()["alerts"][0]["annotations"]["runbook_url"], RUNBOOK);
    let first = web.wait_for(1, TIMEOUT).await.unwrap();
    assert_eq!(alerts(&first), [alert(["front", "firing", "info", "web"])]);

    // What the namespace says changes while both are firing: the pod's own annotation stays, the labels do as well.
    let changed = json!({"kopf.dev/severity": "critical", "kopf.dev/team": "bank", "kopf.dev/dashboard": "ftp://x"});
    annotate_namespace(&env, changed).await;
    let status = env
        .until("the annotations have changed", |status| incident(status, "cart").is_some_and(|own| own.team == "bank"))
        .await;
    let front = incident(&status, "front").unwrap();
    assert_eq!((front.severity, front.team.as_str()), (Some(Severity::Critical), "web"));
    assert_eq!(front.invalid_annotations, ["kopf.dev/dashboard", "kopf.dev/dashboard of the namespace"]);
    let critical_alerts = eventually("the pod that became critical is sent", TIMEOUT, async || {
        let sent = alerts(&critical.received());
        if sent.iter().any(|[owner, ..]| owner == "front") { Ok(sent) } else { Err(format!("{sent:?}")) }
    })
    .await
    .unwrap();
    assert!(critical_alerts.contains(&alert(["front", "firing", "critical", "web"])), "{critical_alerts:?}");
    env.delete_pod("front").await;
    eventually("both receivers have the end", TIMEOUT, async || {
        let ends = [(critical, "critical"), (web, "info")].map(|(receiver, severity)| {
            alerts(&receiver.received()).contains(&alert(["front", "resolved", severity, "web"]))
        });
        if ends == [true, true] { Ok(()) } else { Err(format!("{ends:?}")) }
    })
    .await
    .unwrap();
    assert!(alerts(&critical.received()).iter().all(|[owner, status, ..]| owner == "front" || status == "firing"));
    assert!(alerts(&web.received()).iter().all(|[owner, ..]| owner == "front"));
    operator.stop().await;

    // Without the permission, everything else works.
    let is_of_namespaces = |path: &str| path == "/api/v1/namespaces";
    proxy.rule(move |request| match is_of_namespaces(&request.path) {
        true => ProxyAction::Refuse(403, "namespaces is forbidden"),
        false => ProxyAction::Forward,
    });
    let operator = env.operator().through(&proxy).whole_cluster().fast_alerts().start();
    let warning = "annotations of namespaces are not updated: namespaces is forbidden";
    let status =
        env.until("the missing permission is reported", |status| condition(status, "Ready").2.contains(warning)).await;
    assert_eq!((condition(&status, "Ready").1, condition(&status, "PodsHealthy").0), ("Watching", "False"));
    let cart = incident(&status, "cart").unwrap();
    assert_eq!((cart.severity, cart.team.as_str(), cart.runbook.as_str()), (Some(Severity::Critical), "", ""));
    proxy.rule(|_| ProxyAction::Forward);
    env.until("it recovers", |status| {
        incident(status, "cart").is_some_and(|own| own.runbook == RUNBOOK)
            && !condition(status, "Ready").2.contains(warning)
    })
    .await;
    operator.stop().await;
}
