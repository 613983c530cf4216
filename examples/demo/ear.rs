//! A receiver that prints what it is told.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use orchestr::api::Orchestr;
use orchestr_testbed::{ControlPlane, Received, Receiver};
use serde_json::json;

use super::{Result, stage};

/// How long the first message may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Gives the demo's object a webhook, as Slack has them, and waits for the first message.
pub async fn listen(plane: &ControlPlane) -> Result<Receiver> {
    let receiver = Receiver::start().await?;
    let client = plane.admin()?;
    let secret = serde_json::from_value(json!({
        "metadata": {"name": "demo-webhook"}, "stringData": {"url": receiver.url("/services/demo")},
    }))?;
    Api::<Secret>::namespaced(client.clone(), stage::NAMESPACE).create(&PostParams::default(), &secret).await?;
    let webhook = json!({
        "name": "demo", "format": "Slack", "after": "0s",
        "urlFrom": {"secretKeyRef": {"name": "demo-webhook", "key": "url"}},
    });
    let patch = Patch::Merge(json!({"spec": {"webhooks": [webhook]}}));
    Api::<Orchestr>::namespaced(client, stage::NAMESPACE).patch(stage::OBJECT, &PatchParams::default(), &patch).await?;
    for message in receiver.wait_for(1, PATIENCE).await? {
        print(&message);
    }
    Ok(receiver)
}

/// Prints what comes after the first message, for ever.
pub async fn go_on(receiver: &Receiver) -> Result<()> {
    let mut told = 1;
    loop {
        for message in receiver.wait_for(told + 1, Duration::MAX).await?.iter().skip(told) {
            print(message);
            told += 1;
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
