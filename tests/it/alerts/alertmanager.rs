//! A real Alertmanager: it takes our alerts, and what it then sends is what our Generic body looks like.

use std::collections::BTreeSet;

use orchestr_testbed::{Alertmanager, Receiver, eventually};
use serde_json::{Value, json};

use super::support::{spec, webhook};
use crate::{
    support::PATIENCE,
    world::{World, crash_looping},
};

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// That two bodies have the same fields of the same kinds, all the way down but for labels and annotations.
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
async fn alertmanager_takes_alerts_resolves_them_and_sends_what_we_send() {
    let world = World::new("alertmanager").await;
    let (own, forwarded) = (Receiver::start().await.unwrap(), Receiver::start().await.unwrap());
    let alertmanager = Alertmanager::start(&forwarded.url("/")).await.unwrap();
    world.secret("am", &[("url", &alertmanager.url())]).await;
    world.secret("own", &[("url", &own.url("/"))]).await;
    world.pod("cart-0", crash_looping(7)).await;
    let mut spec = spec(&[webhook("am", "Alertmanager", json!({})), webhook("own", "Generic", json!({}))]);
    // A log that comes in between two messages makes them differ.
    spec["logs"] = json!({"enabled": false});
    world.object("cluster", spec).await;
    let operator = world.operate();

    let ours = own.wait_for(1, PATIENCE).await.unwrap();
    let theirs = forwarded.wait_for(1, PATIENCE).await.unwrap();
    println!("Alertmanager sent: {}", serde_json::to_string_pretty(&theirs[0].json()).unwrap());
    assert_alike(&ours[0].json(), &theirs[0].json());
    let shown = alertmanager.alerts().await.unwrap();
    println!("Alertmanager's API: {}", serde_json::to_string_pretty(&shown).unwrap());
    assert_eq!(shown.as_array().unwrap().len(), 1);
    assert_eq!(shown[0]["labels"]["alertname"], "OOMKilled");
    assert_eq!(shown[0]["labels"]["namespace"], world.namespace.as_str());
    assert_eq!(shown[0]["status"]["state"], "active");

    world.delete_pod("cart-0").await;
    let ended = |received: &[orchestr_testbed::Received]| {
        received.iter().find(|request| request.json()["status"] == "resolved").map(orchestr_testbed::Received::json)
    };
    let (ours, theirs) = eventually("the end is told", 2 * PATIENCE, async || {
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
    assert_eq!(shown, json!([]), "nothing goes on any more");
    operator.stop().await;
}
