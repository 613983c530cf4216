//! A Slack-like webhook receiver that prints the alerts it gets.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use orchestr::api::Orchestr;
use orchestr_testbed::{ControlPlane, Received, Receiver};
use serde_json::json;

use super::{Result, cluster};

/// The limit for the first message.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Adds a Slack webhook to the demo's object, and waits for the first message.
pub async fn receive_first(plane: &ControlPlane) -> Result<Receiver> {
    let receiver = Receiver::start().await?;
    let client = plane.admin()?;
    let secret = serde_json::from_value(json!({
        "metadata": {"name": "demo-webhook"}, "stringData": {"url": receiver.url("/services/demo")},
    }))?;
    Api::<Secret>::namespaced(client.clone(), cluster::NAMESPACE).create(&PostParams::default(), &secret).await?;
    let webhook = json!({
        "name": "demo", "format": "Slack", "after": "0s",
        "urlFrom": {"secretKeyRef": {"name": "demo-webhook", "key": "url"}},
    });
    let patch = Patch::Merge(json!({"spec": {"webhooks": [webhook]}}));
    Api::<Orchestr>::namespaced(client, cluster::NAMESPACE)
        .patch(cluster::OBJECT, &PatchParams::default(), &patch)
        .await?;
    for message in receiver.wait_for(1, TIMEOUT).await? {
        print(&message);
    }
    Ok(receiver)
}

/// Prints each message after the first one, and never returns.
pub async fn receive_more(receiver: &Receiver) -> Result<()> {
    let mut printed = 1;
    loop {
        for message in receiver.wait_for(printed + 1, Duration::MAX).await?.iter().skip(printed) {
            print(message);
            printed += 1;
        }
    }
}

fn print(message: &Received) {
    for block in message.json()["blocks"].as_array().into_iter().flatten() {
        for line in block["text"]["text"].as_str().unwrap_or_default().lines() {
            println!("  {line}");
        }
    }
}
