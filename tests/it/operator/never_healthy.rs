//! PodsHealthy is True only if every selected pod is known to be. Every state of the object is recorded.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use orchestr_testbed::eventually;
use serde_json::{Value, json};

use crate::{
    proxy::{A_WHILE, Fate, Proxy, Seen},
    support::PATIENCE,
    world::{Record, World, ago, condition, config, crash_looping, healthy, listed, operate, watch_all, watch_with},
};

/// How late the rest of a list or a backlog comes.
const LATE: Duration = Duration::from_secs(3);

/// The status of a pod whose container was restarted half an hour ago and has run since.
fn restarted() -> Value {
    json!({
        "phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
        "containerStatuses": [{
            "name": "app", "ready": true, "started": true, "restartCount": 1, "image": "", "imageID": "",
            "state": {"running": {"startedAt": ago(1800)}},
            "lastState": {"terminated": {
                "exitCode": 1, "reason": "Error", "startedAt": ago(3600), "finishedAt": ago(1800),
                "containerID": format!("containerd://{:064}", 1),
            }},
        }],
    })
}

/// What PodsHealthy was, in order, each once: of states that answer this generation.
fn verdicts(record: &Record, generation: i64) -> Vec<String> {
    let mut verdicts = Vec::new();
    for (_, object) in record.states() {
        let Some(status) = object.status.filter(|status| status.observed_generation >= Some(generation)) else {
            continue;
        };
        let (verdict, reason, _) = condition(&status, "PodsHealthy");
        verdicts.push(format!("{verdict} {reason}"));
    }
    verdicts.dedup();
    verdicts
}

fn assert_never_healthy(record: &Record, generation: i64) {
    let verdicts = verdicts(record, generation);
    assert!(!verdicts.iter().any(|verdict| verdict.starts_with("True")), "{verdicts:?}");
}

fn starts_a_list(seen: &Seen) -> bool {
    seen.is_of_pods() && seen.query.contains_key("sendInitialEvents")
}

fn resumes(seen: &Seen) -> bool {
    seen.is_of_pods() && seen.is_watch() && !starts_a_list(seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_object_waits_for_the_history_that_it_needs() {
    let world = World::new("first-object").await;
    world.pod("cart", restarted()).await;
    let proxy = Proxy::start(world.client.clone()).await;
    let operator = world.operate_as(proxy.client());
    proxy.until_requested("the pods are listed", 1, starts_a_list).await;
    tokio::time::sleep(A_WHILE).await;
    proxy.rule(|seen| if starts_a_list(seen) { Fate::AnswerLate(LATE) } else { Fate::Forward });
    world.object("cluster", watch_with(json!({"thresholds": {"restarted": "2h"}}))).await;
    let record = world.record("cluster").await;
    world.status_where("cluster", "the restart is reported", |status| listed(status) == ["cart"]).await;
    assert_never_healthy(&record, 1);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_needs_more_history_waits_for_it() {
    let world = World::new("more-history").await;
    world.pod("cart", restarted()).await;
    world.object("cluster", watch_with(json!({"thresholds": {"restarted": "1m"}}))).await;
    let proxy = Proxy::start(world.client.clone()).await;
    let operator = world.operate_as(proxy.client());
    let is_healthy = |status: &orchestr::api::OrchestrStatus| condition(status, "PodsHealthy").0 == "True";
    world.status_where("cluster", "the restart was long ago", is_healthy).await;
    tokio::time::sleep(A_WHILE).await;

    let record = world.record("cluster").await;
    proxy.rule(|seen| if starts_a_list(seen) { Fate::AnswerLate(LATE) } else { Fate::Forward });
    world.patch_object("cluster", json!({"spec": {"thresholds": {"restarted": "2h"}}})).await;
    world.status_where("cluster", "the restart is reported", |status| listed(status) == ["cart"]).await;
    assert_never_healthy(&record, 2);

    // The list took it a step further than that: the next object needs none.
    let lists = proxy.count(starts_a_list);
    for (number, restarted) in ["2h30m", "3h", "5h"].into_iter().enumerate() {
        let name = format!("more-{number}");
        world.object(&name, watch_with(json!({"thresholds": {"restarted": restarted}}))).await;
        world.status_where(&name, "the restart is reported", |status| listed(status) == ["cart"]).await;
    }
    assert_eq!(proxy.count(starts_a_list), lists);
    operator.stop().await;
}

/// While nothing can be read, one pod recovers and another breaks. Of what was missed, the recovery comes first.
async fn what_was_missed_comes_slowly(name: &str, refusal: Fate, awaited: &str) {
    let world = World::new(name).await;
    world.pod("cart", crash_looping(3)).await;
    world.pod("web", healthy()).await;
    world.object("cluster", watch_with(json!({"logs": {"enabled": false}}))).await;
    let proxy = Proxy::start(world.client.clone()).await;
    let operator = world.operate_as(proxy.client());
    world.status_where("cluster", "the crash is reported", |status| listed(status) == ["cart"]).await;
    let record = world.record("cluster").await;

    proxy.rule(move |seen| if seen.is_of_pods() { refusal.clone() } else { Fate::Forward });
    proxy.end_watches();
    world.set_status("cart", healthy()).await;
    world.set_status("web", crash_looping(1)).await;
    tokio::time::sleep(A_WHILE).await;
    world.ready("cluster", awaited).await;
    proxy.rule(|seen| if seen.is_of_pods() { Fate::Stall(1, LATE) } else { Fate::Forward });
    world.status_where("cluster", "all of it is seen", |status| listed(status) == ["web"]).await;
    assert_never_healthy(&record, 1);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_everything_that_was_missed_is_seen_first() {
    what_was_missed_comes_slowly("backlog", Fate::Refuse(503, "away"), "Watching").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_lost_right_everything_that_was_missed_is_seen_first() {
    what_was_missed_comes_slowly("right-back", Fate::Refuse(403, "no"), "PodAccessDenied").await;
}

/// The resource version has expired: everything is listed.
#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_that_took_too_long_the_list_is_complete_first() {
    let world = World::new("expired").await;
    world.pod("cart", crash_looping(3)).await;
    world.pod("web", healthy()).await;
    world.object("cluster", watch_with(json!({"logs": {"enabled": false}}))).await;
    let proxy = Proxy::start(world.client.clone()).await;
    let operator = world.operate_as(proxy.client());
    world.status_where("cluster", "the crash is reported", |status| listed(status) == ["cart"]).await;
    let record = world.record("cluster").await;
    proxy.rule(|seen| if seen.is_of_pods() { Fate::Refuse(503, "away") } else { Fate::Forward });
    proxy.end_watches();
    world.set_status("web", crash_looping(1)).await;
    world.set_status("cart", healthy()).await;
    proxy.rule(|seen| match seen {
        _ if resumes(seen) => Fate::Refuse(410, "too old"),
        _ if seen.is_of_pods() => Fate::Stall(1, LATE),
        _ => Fate::Forward,
    });
    world.status_where("cluster", "all of it is seen", |status| listed(status) == ["web"]).await;
    assert_never_healthy(&record, 1);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_selects_nothing_is_not_healthy() {
    let world = World::new("nothing").await;
    world.pod("web", healthy()).await;
    for (name, pods, reason) in [
        ("typo-in-label", json!({"selector": {"matchLabels": {"app": "wbe"}}}), "NoPodsSelected"),
        (
            "all-excluded",
            json!({"namespaces": [world.namespace], "selector": {"matchLabels": {"a": "b"}}}),
            "NoPodsSelected",
        ),
        ("outside", json!({"namespaces": ["elsewhere"]}), "OutsideNamespaces"),
        ("excluded", json!({"excludeNamespaces": ["*"]}), "OutsideNamespaces"),
        ("half-outside", json!({"namespaces": [world.namespace, "elsewhere"]}), "OutsideNamespaces"),
    ] {
        world.object(name, watch_with(json!({"pods": pods}))).await;
        let record = world.record(name).await;
        let operator = world.operate();
        let status = world.ready(name, "Watching").await;
        let (healthy, found, message) = condition(&status, "PodsHealthy");
        assert_eq!((healthy, found), ("Unknown", reason), "{name}: {message}");
        assert!(name != "half-outside" || message.contains("elsewhere"), "{message}");
        assert_never_healthy(&record, 1);
        operator.stop().await;
    }
    // It becomes healthy once there is a pod.
    let operator = world.operate();
    world.patch_pod("web", json!({"metadata": {"labels": {"app": "wbe"}}})).await;
    let is_healthy = |status: &orchestr::api::OrchestrStatus| condition(status, "PodsHealthy").0 == "True";
    world.status_where("typo-in-label", "there is a pod", is_healthy).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_cannot_be_read_is_not_healthy() {
    let world = World::new("unread").await;
    world.pod("bad", healthy()).await;
    world.pod("web", healthy()).await;
    world.object("cluster", watch_all()).await;
    let record = world.record("cluster").await;
    let proxy = Proxy::start(world.client.clone()).await;
    let mangle = |line: &str| match line.contains(r#""name":"bad""#) {
        true => line.replace(r#""phase":"Running""#, r#""phase":7"#),
        false => line.to_owned(),
    };
    proxy.rule(move |seen| if seen.is_of_pods() { Fate::Mangle(Arc::new(mangle)) } else { Fate::Forward });
    let operator = world.operate_as(proxy.client());
    let status = world.ready("cluster", "Watching").await;
    let (healthy, reason, message) = condition(&status, "PodsHealthy");
    assert_eq!((healthy, reason), ("Unknown", "PodsUnreadable"), "{message}");
    assert!(message.contains(&format!("{}/bad", world.namespace)), "{message}");
    assert_never_healthy(&record, 1);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_the_last_check_is_refreshed_while_nothing_changes() {
    let world = World::new("checked").await;
    world.pod("web", healthy()).await;
    world.object("cluster", watch_all()).await;
    world.object("paused", json!({"alerts": {"checkRunningPods": false}})).await;
    let mut config = config(&[&world.namespace]);
    config.check_interval = Duration::from_secs(3);
    let operator = operate(world.client.clone(), config);
    for name in ["cluster", "paused"] {
        let first = world.status_where(name, "it is checked", |status| status.last_check_time.is_some()).await;
        let time =
            |status: &orchestr::api::OrchestrStatus| status.last_check_time.as_ref().map_or(Timestamp::MIN, |at| at.0);
        let (mut seen, mut statuses) = (time(&first), Vec::new());
        eventually("it is checked twice more", PATIENCE, async || {
            let status = world.status(name).await;
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
    operator.stop().await;
}
