//! Kubernetes events about the object, which `kubectl describe` shows.

use std::time::Instant;

use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use orchestr_testbed::eventually;
use serde_json::json;

use crate::{
    pod_statuses::{crash_looping, healthy},
    proxy::SETTLE_TIME,
    support::TIMEOUT,
    test_env::{TestEnv, listed, watch_all},
};

#[tokio::test(flavor = "multi_thread")]
async fn publishes_an_event_when_a_problem_begins_and_ends() {
    let env = TestEnv::new("events").await;
    env.pod("cart", healthy()).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    env.wait_for_ready("cluster", "Watching").await;
    env.set_status("cart", crash_looping(3)).await;
    env.until("it is reported", |status| listed(status) == ["cart"]).await;
    env.set_status("cart", crash_looping(4)).await;
    env.until("the crash loop continues", |status| status.problematic_pods[0].container_issues[0].restarts == 4).await;
    env.set_status("cart", healthy()).await;
    env.until("it is over", |status| listed(status).is_empty()).await;
    eventually("both events are there", TIMEOUT, async || match env.events("cluster").await.len() {
        2 => Ok(()),
        other => Err(format!("there are {other}")),
    })
    .await
    .unwrap();
    let events = env.events("cluster").await;
    let fields = |index: usize| {
        let event = &events[index];
        (event.type_.as_deref().unwrap(), event.reason.as_deref().unwrap(), event.note.as_deref().unwrap())
    };
    let subject = format!("Pod {}/cart", env.namespace);
    let cause = "container app was OOM-killed (exit 137), 3 restarts";
    assert_eq!(fields(0), ("Warning", "OOMKilled", format!("{subject}: {cause}").as_str()));
    assert_eq!(fields(1), ("Normal", "Recovered", format!("{subject}, container app: OOMKilled is over").as_str()));
    let regarding = events[0].regarding.as_ref().unwrap();
    assert_eq!(regarding.uid, env.objects().get("cluster").await.unwrap().metadata.uid);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_repeated_events_and_recreates_deleted_ones() {
    let env = TestEnv::new("events-repeat").await;
    env.pod("cart", healthy()).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    env.wait_for_ready("cluster", "Watching").await;
    // The problem begins and ends again, until the event about its beginning says that it was counted so often.
    let repeats = async |count: Option<i32>| {
        env.set_status("cart", crash_looping(3)).await;
        env.until("it is reported", |status| listed(status) == ["cart"]).await;
        env.set_status("cart", healthy()).await;
        env.until("it is over", |status| listed(status).is_empty()).await;
        eventually("the event is counted", TIMEOUT, async || {
            let events = env.events("cluster").await;
            let counts: Vec<_> = events.iter().map(|event| event.series.as_ref().map(|series| series.count)).collect();
            if counts == [count; 2] { Ok(()) } else { Err(format!("{counts:?}")) }
        })
        .await
        .unwrap();
    };
    repeats(None).await;
    repeats(Some(2)).await;
    let events: Api<Event> = Api::namespaced(env.client.clone(), &env.namespace);
    events.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    repeats(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_the_events_of_a_storm() {
    let env = TestEnv::new("storm").await;
    let made = (0..200).map(|number| {
        let env = &env;
        async move { env.pod(&format!("cart-{number}"), crash_looping(3)).await }
    });
    let mut made = futures::stream::FuturesUnordered::from_iter(made);
    while futures::StreamExt::next(&mut made).await.is_some() {}
    env.object("cluster", json!({"alerts": {"checkRunningPods": true}, "logs": {"enabled": false}})).await;
    let _operator = env.operator().start();
    let status = env.until("the storm is reported", |status| status.problematic_pod_count == 200).await;
    assert_eq!(status.incidents.len() as i64 + status.omitted_incidents, 200);
    tokio::time::sleep(SETTLE_TIME).await;
    let events = env.events("cluster").await;
    assert!((1..=12).contains(&events.len()), "{} events", events.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn creating_an_object_again_grants_no_further_events() {
    let env = TestEnv::new("events-again").await;
    let _operator = env.operator().start();
    let begun = Instant::now();
    for _ in 0..80 {
        env.object("cluster", json!({})).await;
        env.wait_for_ready("cluster", "AlertsNotSet").await;
        env.objects().delete("cluster", &DeleteParams::default()).await.unwrap();
    }
    tokio::time::sleep(SETTLE_TIME).await;
    let events = env.events("cluster").await.len();
    // One more may be published every 6 s.
    let allowed = 50 + 1 + begun.elapsed().as_secs() as usize / 6;
    assert!((50..=allowed).contains(&events), "{events} events of 80, {allowed} allowed");
}

/// The API server accepts any text as the name in an owner reference.
#[tokio::test(flavor = "multi_thread")]
async fn names_of_owners_cannot_hide_or_reorder_text() {
    let env = TestEnv::new("events-names").await;
    let owner = format!("cart\u{202e}\u{1b}[2J\u{200b}{}", "x".repeat(500));
    let reference = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "example.com/v1", "kind": "App\u{202e}", "name": owner, "uid": "u", "controller": true},
    ]}});
    env.pod("cart", healthy()).await;
    env.patch_pod("cart", reference).await;
    env.set_status("cart", crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    let status = env.until("it is reported", |status| listed(status) == ["cart"]).await;
    let shown = &status.incidents[0].owner;
    assert_eq!(shown.kind, "App\u{fffd}");
    assert!(shown.name.starts_with("cart\u{fffd}\u{fffd}[2J\u{fffd}xxx") && shown.name.len() <= 253, "{shown:?}");
    assert_eq!(status.problematic_pods[0].owner.as_ref(), Some(shown));
    orchestr_testbed::eventually("its event is there", crate::support::TIMEOUT, async || {
        match env.events("cluster").await.len() {
            1 => Ok(()),
            other => Err(format!("there are {other}")),
        }
    })
    .await
    .unwrap();
    let deceptive = |text: &str| text.contains(['\u{202e}', '\u{1b}', '\u{200b}']);
    let event = serde_json::to_value(&env.events("cluster").await[0]).unwrap();
    let note = event["note"].as_str().unwrap();
    let related = event["related"].to_string();
    assert!(note.starts_with("App\u{fffd} ") && !deceptive(note), "{note}");
    assert!(!deceptive(&related), "{related}");
    let all: Vec<_> = status.conditions.iter().map(|condition| condition.message.as_str()).collect();
    assert!(!all.iter().any(|text| deceptive(text)), "{all:?}");
}
