//! A real Alertmanager accepts the alerts, and forwards them in the form of the Generic format.

use std::collections::BTreeSet;

use orchestr_testbed::{Alertmanager, Receiver, eventually};
use serde_json::{Value, json};

use super::support::{spec, webhook};
use crate::{
    pod_statuses::{ago, container, crash_looping, terminated},
    support::TIMEOUT,
    test_env::TestEnv,
};

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Asserts that two bodies have the same fields of the same types.
fn assert_alike(ours: &Value, theirs: &Value) {
    assert_eq!(keys(ours), keys(theirs));
    for (name, value) in ours.as_object().unwrap() {
        let kind = |value: &Value| std::mem::discriminant(value);
        assert_eq!(kind(value), kind(&theirs[name]), "{name}: {value} and {}", theirs[name]);
    }
    for name in ["version", "status", "truncatedAlerts", "groupLabels"] {
        assert_eq!(ours[name], theirs[name], "{name}");
    }
    assert_eq!(ours["alerts"].as_array().unwrap().len(), theirs["alerts"].as_array().unwrap().len());
    for (ours, theirs) in ours["alerts"].as_array().unwrap().iter().zip(theirs["alerts"].as_array().unwrap()) {
        assert_eq!(keys(ours), keys(theirs));
        for name in ["status", "labels", "annotations", "startsAt", "generatorURL", "fingerprint"] {
            assert_eq!(ours[name], theirs[name], "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn alertmanager_accepts_alerts_and_forwards_the_same_body() {
    let env = TestEnv::new("alertmanager").await;
    let (own, forwarded) = (Receiver::start().await.unwrap(), Receiver::start().await.unwrap());
    let alertmanager = Alertmanager::start(&forwarded.url("/")).await.unwrap();
    env.secret("am", &[("url", &alertmanager.url())]).await;
    env.secret("own", &[("url", &own.url("/"))]).await;
    env.pod("cart-0", crash_looping(7)).await;
    let mut spec = spec(&[webhook("am", "Alertmanager", json!({})), webhook("own", "Generic", json!({}))]);
    // A log that arrives between two messages would make them differ.
    spec["logs"] = json!({"enabled": false});
    env.object("cluster", spec).await;
    let _operator = env.operator().fast_alerts().start();

    let ours = own.wait_for(1, TIMEOUT).await.unwrap();
    let theirs = forwarded.wait_for(1, TIMEOUT).await.unwrap();
    println!("Alertmanager sent: {}", serde_json::to_string_pretty(&theirs[0].json()).unwrap());
    assert_alike(&ours[0].json(), &theirs[0].json());
    let shown = alertmanager.alerts().await.unwrap();
    println!("Alertmanager's API: {}", serde_json::to_string_pretty(&shown).unwrap());
    assert_eq!(shown.as_array().unwrap().len(), 1);
    let labels = &shown[0]["labels"];
    assert_eq!([&labels["alertname"], &labels["kind"]], ["Crash", "Crash"]);
    assert_eq!((&labels["reason"], &shown[0]["annotations"]["reason"]), (&Value::Null, &json!("OOMKilled")));
    assert_eq!(shown[0]["labels"]["namespace"], env.namespace.as_str());
    assert_eq!(shown[0]["status"]["state"], "active");

    env.delete_pod("cart-0").await;
    let ended = |received: &[orchestr_testbed::Received]| {
        received.iter().find(|request| request.json()["status"] == "resolved").map(orchestr_testbed::Received::json)
    };
    let (ours, theirs) = eventually("the resolution is sent", 2 * TIMEOUT, async || {
        match (ended(&own.received()), ended(&forwarded.received())) {
            (Some(ours), Some(theirs)) => Ok((ours, theirs)),
            (ours, theirs) => Err(format!("by us: {}, by Alertmanager: {}", ours.is_some(), theirs.is_some())),
        }
    })
    .await
    .unwrap();
    assert_eq!(
        (ours["alerts"][0]["status"].as_str(), theirs["alerts"][0]["status"].as_str()),
        (Some("resolved"), Some("resolved"))
    );
    assert_eq!(ours["alerts"][0]["labels"], theirs["alerts"][0]["labels"]);
    let shown = alertmanager.alerts().await.unwrap();
    assert_eq!(shown, json!([]), "no alert is active any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn alertmanager_keeps_one_alert_through_changes_and_pauses() {
    let env = TestEnv::new("kept").await;
    let forwarded = Receiver::start().await.unwrap();
    let alertmanager = Alertmanager::start(&forwarded.url("/")).await.unwrap();
    env.secret("am", &[("url", &alertmanager.url())]).await;
    let app = container("app", json!({"state": terminated(1, &ago(5), &ago(1))}));
    let failed = json!({"containerStatuses": [app]});
    env.pod("cart-0", json!({"phase": "Running"})).await;
    env.set_status("cart-0", failed).await;
    let mut spec = spec(&[webhook("am", "Alertmanager", json!({}))]);
    spec["logs"] = json!({"enabled": false});
    env.object("cluster", spec).await;
    let _operator = env.operator().fast_alerts().start();
    let reason_is = async |wanted: &str| {
        eventually("Alertmanager has the reason", 4 * TIMEOUT, async || {
            let shown = alertmanager.alerts().await.unwrap();
            assert!(shown.as_array().unwrap().len() <= 1, "one trouble is one alert: {shown:#}");
            let found = shown[0]["annotations"]["reason"] == wanted;
            if found { Ok(shown[0].clone()) } else { Err(format!("{shown:#}")) }
        })
        .await
        .unwrap()
    };
    let first = reason_is("Error").await;
    // Somebody says how severe it is, and the next failure is an OOM kill. The next resend has both.
    let annotations = json!({"kopf.dev/severity": "info", "kopf.dev/team": "web"});
    env.patch_pod("cart-0", json!({"metadata": {"annotations": annotations}})).await;
    env.set_status("cart-0", crash_looping(3)).await;
    let second = reason_is("OOMKilled").await;
    assert_eq!((&first["fingerprint"], &first["startsAt"]), (&second["fingerprint"], &second["startsAt"]));
    assert_eq!((&first["labels"], &second["annotations"]["current_severity"]), (&second["labels"], &json!("info")));

    // The object is paused and the Secret deleted: the alert must not be resolved.
    env.update_spec("cluster", json!({"alerts": {"checkRunningPods": false}})).await;
    env.wait_for_ready("cluster", "Paused").await;
    env.delete_secret("am").await;
    let paused = alertmanager.alerts().await.unwrap()[0].clone();
    let kept = eventually("the alert is kept alive", 4 * TIMEOUT, async || {
        let shown = alertmanager.alerts().await.unwrap()[0].clone();
        let time = |alert: &Value| alert["endsAt"].as_str().unwrap_or_default().to_owned();
        if time(&shown) > time(&paused) { Ok(shown) } else { Err(format!("{shown:#}")) }
    })
    .await
    .unwrap();
    assert_eq!((&kept["fingerprint"], &kept["status"]["state"]), (&first["fingerprint"], &json!("active")));
}
