//! PodsHealthy is True only if every selected pod is known to be healthy. The tests record every state of the object.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use orchestr::config::Timings;
use orchestr_testbed::eventually;
use serde_json::json;

use crate::{
    pod_statuses::{crash_looping, healthy, restarted},
    proxy::{ProxiedRequest, Proxy, ProxyAction, SETTLE_TIME},
    support::TIMEOUT,
    test_env::{TestEnv, condition, listed, watch_all, watch_with},
};

/// The delay of the rest of a list or a backlog.
const LATE: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_the_list_before_judging_the_first_object() {
    let env = TestEnv::new("first-object").await;
    env.pod("cart", restarted(1800)).await;
    let (proxy, _operator) = env.proxied_operator().await;
    proxy.wait_for_requests("the pods are listed", 1, ProxiedRequest::is_streaming_list).await;
    tokio::time::sleep(SETTLE_TIME).await;
    proxy.on(ProxiedRequest::is_streaming_list, ProxyAction::AnswerLate(LATE));
    env.object("cluster", watch_with(json!({"thresholds": {"restarted": "2h"}}))).await;
    let record = env.record("cluster").await;
    env.until("the restart is reported", |status| listed(status) == ["cart"]).await;
    record.assert_never_healthy(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_a_new_list_when_a_threshold_reaches_further_back() {
    let env = TestEnv::new("more-history").await;
    env.pod("cart", restarted(1800)).await;
    env.object("cluster", watch_with(json!({"thresholds": {"restarted": "1m"}}))).await;
    let (proxy, _operator) = env.proxied_operator().await;
    let is_healthy = |status: &orchestr::api::OrchestrStatus| condition(status, "PodsHealthy").0 == "True";
    env.until("the restart was long ago", is_healthy).await;
    tokio::time::sleep(SETTLE_TIME).await;

    let record = env.record("cluster").await;
    proxy.on(ProxiedRequest::is_streaming_list, ProxyAction::AnswerLate(LATE));
    env.patch_object("cluster", json!({"spec": {"thresholds": {"restarted": "2h"}}})).await;
    env.until("the restart is reported", |status| listed(status) == ["cart"]).await;
    record.assert_never_healthy(2).await;

    // The lookback was extended by a whole step, so the next objects need no further list.
    let lists = proxy.count(ProxiedRequest::is_streaming_list);
    for (number, restarted) in ["2h30m", "3h", "5h"].into_iter().enumerate() {
        let name = format!("more-{number}");
        env.object(&name, watch_with(json!({"thresholds": {"restarted": restarted}}))).await;
        env.wait_for_status(&name, "the restart is reported", |status| listed(status) == ["cart"]).await;
    }
    assert_eq!(proxy.count(ProxiedRequest::is_streaming_list), lists);
}

/// One tenant's threshold does not hold up what others are shown.
#[tokio::test(flavor = "multi_thread")]
async fn other_objects_do_not_wait_while_older_failures_are_listed() {
    let env = TestEnv::new("backfill").await;
    env.pod("cart", restarted(1800)).await;
    env.pod("web", healthy()).await;
    for name in ["more", "cluster"] {
        env.object(name, watch_with(json!({"logs": {"enabled": false}}))).await;
    }
    let (proxy, _operator) = env.proxied_operator().await;
    let is_healthy = |status: &orchestr::api::OrchestrStatus| condition(status, "PodsHealthy").0 == "True";
    for name in ["more", "cluster"] {
        env.wait_for_status(name, "the restart was long ago", is_healthy).await;
    }
    let lists = |request: &ProxiedRequest| request.is_streaming_list() || request.is_first_page();
    let before = proxy.count(lists);
    proxy.on(lists, ProxyAction::Refuse(503, "away"));
    env.patch_object("more", json!({"spec": {"thresholds": {"restarted": "2h"}}})).await;
    proxy.wait_for_requests("older failures are listed", before + 1, lists).await;
    env.set_status("web", crash_looping(1)).await;
    env.until("the crash is reported", |status| listed(status) == ["web"]).await;
    let status = env.status("more").await;
    assert_eq!(listed(&status), [""; 0], "its older failures are not known yet");

    // A pod that is deleted and one that changes meanwhile stay as the watch has reported them.
    env.set_status("web", healthy()).await;
    env.until("the recovery is reported", is_healthy).await;
    proxy.rule(|_| ProxyAction::Forward);
    env.wait_for_status("more", "the restart is reported", |status| listed(status) == ["cart"]).await;
    let status = env.status("cluster").await;
    assert_eq!(condition(&status, "PodsHealthy").0, "True");
}

/// During the outage one pod recovers and another fails. The recovery is the first event after it.
async fn stays_unhealthy_while_missed_events_are_delayed(name: &str, refusal: ProxyAction, awaited: &str) {
    let env = TestEnv::new(name).await;
    env.pod("cart", crash_looping(3)).await;
    env.pod("web", healthy()).await;
    env.object("cluster", watch_with(json!({"logs": {"enabled": false}}))).await;
    let (proxy, _operator) = env.proxied_operator().await;
    env.until("the crash is reported", |status| listed(status) == ["cart"]).await;
    let record = env.record("cluster").await;

    proxy.on(ProxiedRequest::is_of_pods, refusal);
    proxy.end_watches();
    env.set_status("cart", healthy()).await;
    env.set_status("web", crash_looping(1)).await;
    tokio::time::sleep(SETTLE_TIME).await;
    env.wait_for_ready("cluster", awaited).await;
    proxy.on(ProxiedRequest::is_of_pods, ProxyAction::Stall(1, LATE));
    env.until("all of it is seen", |status| listed(status) == ["web"]).await;
    record.assert_never_healthy(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stays_unhealthy_after_an_outage_until_caught_up() {
    stays_unhealthy_while_missed_events_are_delayed("backlog", ProxyAction::Refuse(503, "away"), "Watching").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stays_unhealthy_after_a_lost_permission_until_caught_up() {
    stays_unhealthy_while_missed_events_are_delayed("right-back", ProxyAction::Refuse(403, "no"), "PodAccessDenied")
        .await;
}

/// The resource version has expired, so all pods are listed again.
#[tokio::test(flavor = "multi_thread")]
async fn stays_unhealthy_until_the_new_list_is_complete() {
    let env = TestEnv::new("expired").await;
    env.pod("cart", crash_looping(3)).await;
    env.pod("web", healthy()).await;
    env.object("cluster", watch_with(json!({"logs": {"enabled": false}}))).await;
    let (proxy, _operator) = env.proxied_operator().await;
    env.until("the crash is reported", |status| listed(status) == ["cart"]).await;
    let record = env.record("cluster").await;
    proxy.on(ProxiedRequest::is_of_pods, ProxyAction::Refuse(503, "away"));
    proxy.end_watches();
    env.set_status("web", crash_looping(1)).await;
    env.set_status("cart", healthy()).await;
    proxy.rule(|request| match request {
        _ if request.resumes_watch() => ProxyAction::Refuse(410, "too old"),
        _ if request.is_of_pods() => ProxyAction::Stall(1, LATE),
        _ => ProxyAction::Forward,
    });
    env.until("all of it is seen", |status| listed(status) == ["web"]).await;
    record.assert_never_healthy(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn is_unknown_if_nothing_is_selected() {
    let env = TestEnv::new("nothing").await;
    env.pod("web", healthy()).await;
    for (name, pods, reason) in [
        ("typo-in-label", json!({"selector": {"matchLabels": {"app": "wbe"}}}), "NoPodsSelected"),
        (
            "all-excluded",
            json!({"namespaces": [env.namespace], "selector": {"matchLabels": {"a": "b"}}}),
            "NoPodsSelected",
        ),
        ("outside", json!({"namespaces": ["elsewhere"]}), "OutsideNamespaces"),
        ("excluded", json!({"excludeNamespaces": ["*"]}), "OutsideNamespaces"),
        ("half-outside", json!({"namespaces": [env.namespace, "elsewhere"]}), "OutsideNamespaces"),
    ] {
        env.object(name, watch_with(json!({"pods": pods}))).await;
        let record = env.record(name).await;
        let operator = env.operator().start();
        let status = env.wait_for_ready(name, "Watching").await;
        let (healthy, found, message) = condition(&status, "PodsHealthy");
        assert_eq!((healthy, found), ("Unknown", reason), "{name}: {message}");
        assert!(name != "half-outside" || message.contains("elsewhere"), "{message}");
        record.assert_never_healthy(1).await;
        operator.stop().await;
    }
    // It becomes healthy once there is a pod. A running operator counts healthy pods once a minute only.
    env.patch_pod("web", json!({"metadata": {"labels": {"app": "wbe"}}})).await;
    let operator = env.operator().start();
    let is_healthy = |status: &orchestr::api::OrchestrStatus| condition(status, "PodsHealthy").0 == "True";
    env.wait_for_status("typo-in-label", "there is a pod", is_healthy).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn is_unknown_if_a_pod_cannot_be_decoded() {
    let env = TestEnv::new("unread").await;
    env.pod("bad", healthy()).await;
    env.pod("web", healthy()).await;
    env.object("cluster", watch_all()).await;
    let record = env.record("cluster").await;
    let proxy = Proxy::start(env.client.clone()).await;
    let mangle = |line: &str| match line.contains(r#""name":"bad""#) {
        true => line.replace(r#""phase":"Running""#, r#""phase":7"#),
        false => line.to_owned(),
    };
    proxy.on(ProxiedRequest::is_of_pods, ProxyAction::Mangle(Arc::new(mangle)));
    let _operator = env.operator().through(&proxy).start();
    let status = env.wait_for_ready("cluster", "Watching").await;
    let (healthy, reason, message) = condition(&status, "PodsHealthy");
    assert_eq!((healthy, reason), ("Unknown", "PodsUnreadable"), "{message}");
    assert!(message.contains(&format!("{}/bad", env.namespace)), "{message}");
    record.assert_never_healthy(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refreshes_last_check_time_while_nothing_changes() {
    let env = TestEnv::new("checked").await;
    env.pod("web", healthy()).await;
    env.object("cluster", watch_all()).await;
    env.object("paused", json!({"alerts": {"checkRunningPods": false}})).await;
    let _operator =
        env.operator().timings(Timings { check_interval: Duration::from_secs(3), ..Timings::default() }).start();
    for name in ["cluster", "paused"] {
        let first = env.wait_for_status(name, "it is checked", |status| status.last_check_time.is_some()).await;
        let time =
            |status: &orchestr::api::OrchestrStatus| status.last_check_time.as_ref().map_or(Timestamp::MIN, |at| at.0);
        let (mut seen, mut statuses) = (time(&first), Vec::new());
        eventually("it is checked twice more", TIMEOUT, async || {
            let status = env.status(name).await;
            if time(&status) > seen {
                seen = time(&status);
                statuses.push(status);
            }
            if statuses.len() < 2 { Err(format!("last at {seen}")) } else { Ok(()) }
        })
        .await
        .unwrap();
        for mut status in statuses {
            status.last_check_time.clone_from(&first.last_check_time);
            assert_eq!(status, first, "nothing else changes");
        }
    }
}
