//! Pods that cannot be decoded. An API server never sends one, so the proxy makes them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use kube::api::DeleteParams;
use orchestr::config::StreamingLists;
use serde_json::Value;

use crate::{
    pod_statuses::{crash_looping, healthy},
    proxy::{ProxiedRequest, Proxy, ProxyAction},
    test_env::{TestEnv, condition, listed, watch_all, watch_with},
};

/// Replaces the phase of the pod `bad` by a number, in JSON.
fn mangle(text: &str) -> String {
    if let Ok(mut list) = serde_json::from_str::<Value>(text)
        && let Some(pods) = list["items"].as_array_mut()
    {
        pods.iter_mut()
            .filter(|pod| pod["metadata"]["name"] == "bad")
            .for_each(|pod| pod["status"]["phase"] = 7.into());
        return list.to_string();
    }
    // In an event, the name precedes the phase.
    if text.contains(r#""name":"bad""#) {
        text.replace(r#""phase":"Running""#, r#""phase":7"#)
    } else {
        text.to_owned()
    }
}

/// Replaces the phase of the pod `bad` by a number, in protobuf.
fn mangle_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|window| window == what);
    // The tag of field 1, a length, and the text: the name in the metadata, and the phase in the status.
    if let Some(bad) = find(&bytes, b"\x0a\x03bad")
        && let Some(phase) = find(&bytes[bad..], b"\x0a\x07Running")
    {
        bytes[bad + phase] = 0x08;
    }
    bytes
}

fn actions() -> [ProxyAction; 2] {
    [ProxyAction::Mangle(Arc::new(mangle)), ProxyAction::MangleBytes(Arc::new(mangle_bytes))]
}

#[tokio::test(flavor = "multi_thread")]
async fn names_a_pod_that_cannot_be_decoded_and_continues() {
    let ways = [StreamingLists::Always, StreamingLists::Never].map(|lists| actions().map(|action| (lists, action)));
    for (lists, action) in ways.into_iter().flatten() {
        let env = TestEnv::new("unreadable").await;
        env.pod("bad", crash_looping(3)).await;
        env.pod("cart", crash_looping(3)).await;
        env.pod("web", healthy()).await;
        env.object("cluster", watch_all()).await;
        let elsewhere = serde_json::json!({"pods": {"namespaces": ["elsewhere"]}});
        env.object("elsewhere", watch_with(elsewhere)).await;
        let proxy = Proxy::start(env.client.clone()).await;
        proxy.on(ProxiedRequest::is_of_pods, action);
        let _operator = env.operator().through(&proxy).streaming_lists(lists).start();

        let status = env.until("the others are reported", |status| listed(status) == ["cart"]).await;
        assert_eq!(status.watched_pods, 2);
        let expected =
            format!("watching 2 pods; 1 pod could not be read: {}/bad (a value of the wrong type", env.namespace);
        let (ready, reason, message) = condition(&status, "Ready");
        assert!(ready == "True" && reason == "Watching" && message.starts_with(&expected), "{lists:?}: {message}");
        let message = condition(&env.wait_for_ready("elsewhere", "Watching").await, "Ready").2.to_owned();
        assert_eq!(message, "watching 0 pods", "another object does not mention it");

        // A watch continues after it.
        env.set_status("bad", crash_looping(4)).await;
        env.set_status("web", crash_looping(1)).await;
        env.until("the watch continues", |status| listed(status) == ["cart", "web"]).await;

        // Once it can be decoded, it is handled like the others.
        proxy.rule(|_| ProxyAction::Forward);
        proxy.end_watches();
        env.set_status("bad", crash_looping(5)).await;
        let soon = std::time::Duration::from_secs(30);
        let all = ["bad", "cart", "web"];
        let status = env.wait_for_status_within(soon, "cluster", "it is read", |status| listed(status) == all).await;
        assert_eq!(condition(&status, "Ready").2, "watching 3 pods");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forgets_a_deleted_pod_that_could_not_be_decoded() {
    for action in actions() {
        let env = TestEnv::new("unread-gone").await;
        env.pod("bad", crash_looping(3)).await;
        env.object("cluster", watch_all()).await;
        let proxy = Proxy::start(env.client.clone()).await;
        proxy.on(ProxiedRequest::is_of_pods, action);
        let _operator = env.operator().through(&proxy).start();
        let is_named =
            |status: &orchestr::api::OrchestrStatus| condition(status, "Ready").2.contains("could not be read");
        env.until("it is named", is_named).await;
        env.pods().delete("bad", &DeleteParams::default().grace_period(0)).await.unwrap();
        let soon = std::time::Duration::from_secs(30);
        env.wait_for_status_within(soon, "cluster", "it is gone", |status| {
            condition(status, "Ready").2 == "watching 0 pods"
        })
        .await;
    }
}

/// An event that cannot be decoded may be any change, so the operator lists all pods again.
#[tokio::test(flavor = "multi_thread")]
async fn lists_again_after_a_malformed_event() {
    let in_json = ["{\"type\":\"MODIFIED\",\"object\":7}", "{\"surprise\":true}", "garbage"];
    // The last is an event whose object cannot be decoded.
    let in_protobuf: [&[u8]; 3] = [b"garbage", b"", b"\x0a\x08MODIFIED\x12\x03\x0a\x017"];
    let json = in_json.map(|garbage| {
        let spoilt = AtomicBool::new(false);
        let spoil = move |line: &str| {
            let is_it = line.contains("CrashLoopBackOff") && !spoilt.swap(true, Ordering::SeqCst);
            if is_it { garbage.to_owned() } else { line.to_owned() }
        };
        (garbage.to_owned(), ProxyAction::Mangle(Arc::new(spoil)))
    });
    let protobuf = in_protobuf.map(|garbage| {
        let spoilt = AtomicBool::new(false);
        let spoil = move |event: &[u8]| {
            let is_it =
                event.windows(16).any(|text| text == b"CrashLoopBackOff") && !spoilt.swap(true, Ordering::SeqCst);
            if is_it { garbage.to_vec() } else { event.to_vec() }
        };
        (format!("{garbage:?}"), ProxyAction::MangleBytes(Arc::new(spoil)))
    });
    for (garbage, action) in json.into_iter().chain(protobuf) {
        let env = TestEnv::new("garbage").await;
        env.pod("cart", healthy()).await;
        env.object("cluster", watch_all()).await;
        let proxy = Proxy::start(env.client.clone()).await;
        proxy.on(move |request| request.is_of_pods() && request.is_watch(), action);
        let _operator = env.operator().through(&proxy).start();
        env.wait_for_ready("cluster", "Watching").await;
        let lists = || proxy.count(|request| request.is_of_pods() && request.query.contains_key("sendInitialEvents"));
        let before = lists();
        env.set_status("cart", crash_looping(3)).await;
        let soon = std::time::Duration::from_secs(30);
        env.wait_for_status_within(soon, "cluster", &format!("{garbage} is made up for"), |status| {
            listed(status) == ["cart"]
        })
        .await;
        assert_eq!(lists(), before + 1, "{garbage}");
    }
}
