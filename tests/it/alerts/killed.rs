//! Kills the operator between the steps of a delivery: decided → stored → sent → answered → recorded.

use std::time::Duration;

use orchestr_testbed::{Received, Receiver, Reply, eventually};
use serde_json::json;

use super::support::{delivery, ids, kill, spec, webhook};
use crate::{
    pod_statuses::crash_looping,
    proxy::{ProxiedRequest, Proxy, ProxyAction},
    support::TIMEOUT,
    test_env::TestEnv,
};

/// When the operator is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// The write that stores the message never arrives.
    Decided,
    /// The message is stored, but the operator gets no answer and sends nothing.
    Stored,
    /// The receiver has the message, but has not answered.
    Sent,
    /// The receiver has answered, but the write that records it never arrives.
    Answered,
    /// The answer is recorded, but the operator gets no answer to that write.
    Recorded,
}

struct Story {
    /// The requests until the operator was killed.
    before: Vec<Received>,
    /// All requests, including those of the next operator and the resolution.
    all: Vec<Received>,
}

async fn story(step: Step) -> Story {
    let env = TestEnv::new("killed").await;
    let receiver = Receiver::start().await.unwrap();
    let proxy = Proxy::start(env.client.clone()).await;
    let kubeconfig = proxy_kubeconfig(&proxy);
    env.secret("ops", &[("url", &receiver.url("/hook"))]).await;
    env.pod("cart-0", crash_looping(7)).await;
    env.object("cluster", spec(&[webhook("ops", "Generic", json!({}))])).await;

    let shared = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    // The first write that a message waits for is the first one; its record is the one after it.
    proxy.rule(move |request| {
        if !request.is_delivery_state_write() {
            return ProxyAction::Forward;
        }
        let lost_answer = ProxyAction::AnswerLate(Duration::from_secs(3600));
        match (step, shared.fetch_add(1, std::sync::atomic::Ordering::SeqCst)) {
            (Step::Decided, 0) | (Step::Answered, 1) => ProxyAction::Hang,
            (Step::Stored, 0) | (Step::Recorded, 1) => lost_answer,
            _ => ProxyAction::Forward,
        }
    });
    if step == Step::Sent {
        receiver.then([Reply::Hang]);
    }
    let first = env.program(&kubeconfig);
    match step {
        Step::Decided => {
            proxy.wait_for_requests("the message is to be stored", 1, ProxiedRequest::is_delivery_state_write).await
        }
        Step::Stored => pending(&env, true).await,
        Step::Sent => drop(receiver.wait_for(1, TIMEOUT).await.unwrap()),
        Step::Answered => {
            proxy.wait_for_requests("the outcome is to be recorded", 2, ProxiedRequest::is_delivery_state_write).await
        }
        Step::Recorded => {
            receiver.wait_for(1, TIMEOUT).await.unwrap();
            pending(&env, false).await;
        }
    }
    kill(first).await;
    let before = receiver.received();
    let stored = env.status("cluster").await;
    let stored_id = delivery(&stored, "ops").and_then(|state| state.pending.as_ref()).map(|pending| pending.id.clone());
    assert_eq!(stored_id.is_some(), matches!(step, Step::Stored | Step::Sent | Step::Answered), "{step:?}");

    proxy.rule(|_| ProxyAction::Forward);
    let second = env.program(&kubeconfig);
    env.until("the incident is sent", |status| {
        delivery(status, "ops").is_some_and(|ops| ops.last_success.is_some() && ops.pending.is_none())
    })
    .await;
    if let Some(id) = stored_id {
        assert_eq!(ids(&receiver.received()).last(), Some(&id.as_str()), "what was stored is what is sent");
    }
    env.delete_pod("cart-0").await;
    let sent = receiver.received().len();
    receiver.wait_for(sent + 1, 2 * TIMEOUT).await.unwrap();
    pending(&env, false).await;
    kill(second).await;
    let all = receiver.received();
    let what = |request: &Received| request.json()["status"].as_str().unwrap_or_default().to_owned();
    for request in &all {
        println!("{step:?}: {} {}", what(request), request.header("webhook-id"));
    }
    Story { before, all }
}

/// Waits until a message is stored as pending, or no message is.
async fn pending(env: &TestEnv, wanted: bool) {
    env.until("the state is stored", |status| {
        delivery(status, "ops").is_some_and(|ops| ops.pending.is_some() == wanted && !ops.alerts.is_empty())
    })
    .await;
}

fn proxy_kubeconfig(proxy: &Proxy) -> tempfile::TempPath {
    let json = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
        "clusters": [{"name": "proxy", "cluster": {"server": proxy.config().cluster_url.to_string()}}],
        "users": [{"name": "proxy", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), json.to_string()).unwrap();
    file.into_temp_path()
}

/// The status of each message and its number of requests. Requests with the same ID are one message.
fn messages(received: &[Received]) -> Vec<(String, usize)> {
    let mut messages: Vec<(String, String, usize)> = Vec::new();
    for request in received {
        let (id, status) = (request.header("webhook-id").to_owned(), request.json()["status"].to_string());
        match messages.iter_mut().find(|(known, ..)| *known == id) {
            Some((_, known, count)) => {
                assert_eq!(*known, status, "the same message");
                *count += 1;
            }
            None => messages.push((id, status, 1)),
        }
    }
    messages.into_iter().map(|(_, status, count)| (status.trim_matches('"').to_owned(), count)).collect()
}

fn expected(firing: usize) -> Vec<(String, usize)> {
    vec![("firing".to_owned(), firing), ("resolved".to_owned(), 1)]
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_once_if_killed_before_the_message_is_stored() {
    let story = story(Step::Decided).await;
    assert_eq!((story.before.len(), messages(&story.all)), (0, expected(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_once_if_killed_before_the_message_is_sent() {
    let story = story(Step::Stored).await;
    assert_eq!((story.before.len(), messages(&story.all)), (0, expected(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn resends_the_same_id_if_killed_before_the_answer() {
    let story = story(Step::Sent).await;
    assert_eq!((story.before.len(), messages(&story.all)), (1, expected(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn resends_the_same_id_if_killed_before_it_is_recorded() {
    let story = story(Step::Answered).await;
    assert_eq!((story.before.len(), messages(&story.all)), (1, expected(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_nothing_if_killed_after_the_success_is_recorded() {
    let story = story(Step::Recorded).await;
    assert_eq!((story.before.len(), messages(&story.all)), (1, expected(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_again_if_the_status_was_wiped_during_downtime() {
    let env = TestEnv::new("wiped").await;
    let receiver = Receiver::start().await.unwrap();
    let proxy = Proxy::start(env.client.clone()).await;
    let kubeconfig = proxy_kubeconfig(&proxy);
    env.secret("ops", &[("url", &receiver.url("/hook"))]).await;
    env.pod("cart-0", crash_looping(7)).await;
    env.object("cluster", spec(&[webhook("ops", "Generic", json!({}))])).await;
    let first = env.program(&kubeconfig);
    receiver.wait_for(1, TIMEOUT).await.unwrap();
    pending(&env, false).await;
    kill(first).await;
    let patch = json!({"status": null});
    let params = kube::api::PatchParams::default();
    env.objects().patch_status("cluster", &params, &kube::api::Patch::Merge(&patch)).await.unwrap();
    let second = env.program(&kubeconfig);
    eventually("the incident is sent again", TIMEOUT, async || match receiver.received().len() {
        2 => Ok(()),
        other => Err(format!("{other} requests")),
    })
    .await
    .unwrap();
    let received = receiver.received();
    assert_ne!(ids(&received)[0], ids(&received)[1], "it is another message");
    kill(second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restores_a_wiped_status_and_sends_nothing_again() {
    let env = TestEnv::new("restored").await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/hook"))]).await;
    env.pod("cart-0", crash_looping(7)).await;
    env.object("cluster", spec(&[webhook("ops", "Generic", json!({}))])).await;
    let operator = env.operator().fast_alerts().start();
    receiver.wait_for(1, TIMEOUT).await.unwrap();
    pending(&env, false).await;
    let before = env.status("cluster").await;
    for wiped in [json!({"status": {"webhooks": null}}), json!({"status": null})] {
        let params = kube::api::PatchParams::default();
        env.objects().patch_status("cluster", &params, &kube::api::Patch::Merge(&wiped)).await.unwrap();
        let restored = env
            .until("what was sent is remembered", |status| {
                delivery(status, "ops").is_some_and(|ops| !ops.alerts.is_empty())
            })
            .await;
        assert_eq!(delivery(&restored, "ops"), delivery(&before, "ops"), "{wiped}");
    }
    operator.stop().await;
    // The next operator continues from the stored state: it sends the end, but not the start again.
    let operator = env.operator().fast_alerts().start();
    env.wait_for_ready("cluster", "Watching").await;
    env.delete_pod("cart-0").await;
    let received = receiver.wait_for(2, 2 * TIMEOUT).await.unwrap();
    assert_eq!((received[1].json()["status"].as_str(), received.len()), (Some("resolved"), 2));
    operator.stop().await;
}
