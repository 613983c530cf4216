//! The state that another version of the operator has stored.

use orchestr_testbed::Receiver;
use serde_json::{Value, json};

use super::support::{delivery, spec, webhook};
use crate::{
    pod_statuses::{crash_looping, healthy},
    support::TIMEOUT,
    test_env::TestEnv,
};

/// Writes an object to etcd with another status, as a version with another CRD has stored it.
async fn store_status(env: &TestEnv, name: &str, edit: impl FnOnce(&mut Value)) {
    let object = env.raw_objects().get(name).await.unwrap();
    let mut object = json!(object);
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    edit(&mut object["status"]);
    let key = format!("/registry/kopf.dev/orchestrs/{}/{name}", env.namespace);
    env.plane.put(&key, object.to_string()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_a_newer_version_lose_neither_history_nor_alerts() {
    let env = TestEnv::new("newer-state").await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/"))]).await;
    env.pod("cart-0", crash_looping(7)).await;
    env.pod("web-0", crash_looping(7)).await;
    env.object("cluster", spec(&[webhook("ops", "Generic", json!({}))])).await;
    let operator = env.operator().fast_alerts().start();
    receiver.wait_for(1, TIMEOUT).await.unwrap();
    env.set_status("web-0", healthy()).await;
    let before = env
        .until("an incident has ended, and its end is sent", |status| {
            let ops = delivery(status, "ops");
            !status.history.is_empty()
                && ops.is_some_and(|ops| {
                    ops.pending.is_none() && ops.alerts.iter().any(|alert| alert.gone_since.is_some())
                })
        })
        .await;
    receiver.wait_for(2, TIMEOUT).await.unwrap();
    operator.stop().await;
    let sent = receiver.received().len();

    store_status(&env, "cluster", |status| {
        let alerts = status["webhooks"][0]["alerts"].as_array_mut().unwrap();
        let firing: Vec<&mut Value> = alerts.iter_mut().filter(|alert| alert["phase"] == "Firing").collect();
        assert_eq!(firing.len(), 1);
        for alert in firing {
            (alert["phase"], alert["severity"]) = (json!("Escalated"), json!("disaster"));
        }
        let mut newer = status["history"][0].clone();
        newer["began"] = json!({"at": "another shape"});
        status["history"].as_array_mut().unwrap().push(newer);
        let incident = &mut status["incidents"][0];
        (incident["kind"], incident["severity"]) = (json!("Newer"), json!("disaster"));
        status["problematicPods"][0]["containerIssues"][0]["logSource"] = json!("Archive");
    })
    .await;
    let operator = env.operator().fast_alerts().start();
    let written =
        env.until("a new operator has written it", |status| status.last_check_time > before.last_check_time).await;
    assert_eq!(written.history[0], before.history[0]);
    env.delete_pod("cart-0").await;
    let received = receiver.wait_for(sent + 1, 2 * TIMEOUT).await.unwrap();
    let next = received[sent].json();
    let owner = &next["alerts"][0]["labels"]["owner_name"];
    assert_eq!(
        (&next["status"], owner),
        (&json!("resolved"), &json!("cart-0")),
        "its end, and not its beginning again"
    );
    operator.stop().await;
}
