//! A node that stops reporting is one alert, in Alertmanager and elsewhere.

use std::collections::BTreeSet;

use orchestr_testbed::{Alertmanager, Received, Receiver, eventually};
use serde_json::{Value, json};

use super::support::{spec, webhook};
use crate::{
    pod_statuses::{ago, controlled_by, healthy, not_ready},
    support::TIMEOUT,
    test_env::TestEnv,
};

/// The pods on the node, by the number of their owner: 9 of 4 owners, and one that stays healthy.
const OWNERS: [usize; 9] = [0, 1, 2, 3, 0, 1, 2, 3, 0];

/// What the node lifecycle controller makes of a running pod when its node stops reporting.
fn silent() -> Value {
    let mut status = healthy();
    status["conditions"] = json!([
        {"type": "PodScheduled", "status": "True"},
        {"type": "ContainersReady", "status": "True"},
        {"type": "Ready", "status": "False", "lastTransitionTime": ago(0)},
    ]);
    status
}

fn owned(owner: &str, node: &str) -> Value {
    json!({
        "metadata": {"ownerReferences": controlled_by("StatefulSet", owner, owner)},
        "spec": {"nodeName": node},
    })
}

/// The subjects of the alerts with this status in all messages: names of nodes and owners.
fn subjects(received: &[Received], status: &str) -> Vec<String> {
    let messages: Vec<Value> = received.iter().map(Received::json).collect();
    let alerts = messages.iter().flat_map(|message| message["alerts"].as_array().unwrap());
    let own = alerts.filter(|alert| alert["status"] == status).map(|alert| {
        let labels = &alert["labels"];
        labels["cause_name"].as_str().or(labels["owner_name"].as_str()).unwrap_or_default().to_owned()
    });
    own.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_node_is_one_alert_and_a_broken_pod_another() {
    let env = TestEnv::new("dead-node").await;
    let node = format!("node-of-{}", env.namespace);
    let (own, forwarded) = (Receiver::start().await.unwrap(), Receiver::start().await.unwrap());
    let alertmanager = Alertmanager::start(&forwarded.url("/")).await.unwrap();
    env.secret("am", &[("url", &alertmanager.url())]).await;
    env.secret("own", &[("url", &own.url("/"))]).await;
    let pods: Vec<String> = (0..OWNERS.len()).map(|number| format!("pod-{number}")).collect();
    for (pod, owner) in pods.iter().zip(OWNERS) {
        env.pod_with(pod, owned(&format!("owner-{owner}"), &node), healthy()).await;
    }
    env.pod_with("mirror", owned("other", &node), healthy()).await;
    let changes = json!({"after": "5s"});
    let mut spec = spec(&[webhook("am", "Alertmanager", changes.clone()), webhook("own", "Generic", changes)]);
    spec["logs"] = json!({"enabled": false});
    spec["thresholds"] = json!({"notReady": "1s"});
    env.object("cluster", spec).await;
    let _operator = env.operator().fast_alerts().start();
    env.wait_for_ready("cluster", "Watching").await;

    futures::future::join_all(pods.iter().map(|pod| env.set_status(pod, silent()))).await;
    let sentence = format!("{node} does not report: 9 of its 10 pods, of 4 owners, are not ready");
    let status = env
        .until("the common cause is shown", |status| status.common_causes.first().is_some_and(|own| own.pods == 9))
        .await;
    let common = &status.common_causes[0];
    assert_eq!((common.kind.as_str(), &common.name, common.owners), ("Node", &node, 4));
    assert_eq!((&common.message, status.common_causes.len()), (&sentence, 1));

    let first = own.wait_for(1, TIMEOUT).await.unwrap()[0].json();
    println!("the message: {first:#}");
    let alert = &first["alerts"][0];
    assert_eq!((first["alerts"].as_array().unwrap().len(), &alert["labels"]["cause_name"]), (1, &json!(node)));
    assert_eq!(alert["annotations"]["summary"], sentence);
    let affected = alert["annotations"]["affected"].as_str().unwrap();
    for (owner, pods) in [("owner-0", 3), ("owner-1", 2), ("owner-2", 2), ("owner-3", 2)] {
        let member = format!("{}/StatefulSet {owner} ({pods} pods)", env.namespace);
        assert!(affected.contains(&member), "{member}: {affected}");
    }
    let in_alertmanager = async || -> Vec<Value> {
        let shown = alertmanager.alerts().await.unwrap();
        shown.as_array().unwrap().iter().map(|alert| alert["labels"].clone()).collect()
    };
    let labels = eventually("Alertmanager has the alert", TIMEOUT, async || {
        let shown = in_alertmanager().await;
        if shown.is_empty() { Err("none".to_owned()) } else { Ok(shown) }
    })
    .await
    .unwrap();
    assert_eq!(labels.len(), 1, "{labels:?}");
    assert_eq!([&labels[0]["alertname"], &labels[0]["cause_name"]], ["OrchestrCommonCause", node.as_str()]);

    // The node comes back, but the kubelet does not find the first pod ready.
    let back = |pod: &String| if pod == "pod-0" { not_ready(0) } else { healthy() };
    let back: Vec<(&String, Value)> = pods.iter().map(|pod| (pod, back(pod))).collect();
    futures::future::join_all(back.into_iter().map(|(pod, status)| env.set_status(pod, status))).await;
    eventually("the node's alert is over, and the pod has its own", 2 * TIMEOUT, async || {
        let received = own.received();
        let (firing, resolved) = (subjects(&received, "firing"), subjects(&received, "resolved"));
        let is_over = resolved.contains(&node) && firing.contains(&"owner-0".to_owned());
        if is_over { Ok(()) } else { Err(format!("firing: {firing:?}, resolved: {resolved:?}")) }
    })
    .await
    .unwrap();
    let labels = eventually("Alertmanager has the pod's alert only", 2 * TIMEOUT, async || {
        let shown = in_alertmanager().await;
        let owners: Vec<_> = shown.iter().map(|labels| labels["owner_name"].as_str()).collect();
        if owners == [Some("owner-0")] { Ok(shown.clone()) } else { Err(format!("{shown:?}")) }
    })
    .await
    .unwrap();
    assert_eq!(labels.len(), 1);

    env.set_status("pod-0", healthy()).await;
    eventually("everything is over", 2 * TIMEOUT, async || {
        let resolved = subjects(&own.received(), "resolved");
        if resolved.contains(&"owner-0".to_owned()) { Ok(()) } else { Err(format!("resolved: {resolved:?}")) }
    })
    .await
    .unwrap();
    let received = own.received();
    let resolved = subjects(&received, "resolved");
    assert_eq!(resolved, [node.clone(), "owner-0".to_owned()], "each is resolved once");
    let firing = BTreeSet::from_iter(subjects(&received, "firing"));
    assert_eq!(firing, BTreeSet::from([node, "owner-0".to_owned()]), "no other owner has an alert");
    assert!(env.status("cluster").await.common_causes.is_empty());
}
