//! Events on the object: what `kubectl describe` shows.

use serde_json::json;

use crate::{
    proxy::A_WHILE,
    world::{World, crash_looping, healthy, listed, watch_all},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_is_told_when_it_begins_and_when_it_ends() {
    let world = World::new("events").await;
    world.pod("cart", healthy()).await;
    world.object("cluster", watch_all()).await;
    let operator = world.operate();
    world.ready("cluster", "Watching").await;
    world.set_status("cart", crash_looping(3)).await;
    world.status_where("cluster", "it is told", |status| listed(status) == ["cart"]).await;
    world.set_status("cart", crash_looping(4)).await;
    world
        .status_where("cluster", "it goes on", |status| status.problematic_pods[0].container_issues[0].restarts == 4)
        .await;
    world.set_status("cart", healthy()).await;
    world.status_where("cluster", "it is over", |status| listed(status).is_empty()).await;
    orchestr_testbed::eventually("both events are there", crate::support::PATIENCE, async || {
        match world.events("cluster").await.len() {
            2 => Ok(()),
            other => Err(format!("there are {other}")),
        }
    })
    .await
    .unwrap();
    let events = world.events("cluster").await;
    let told = |index: usize| {
        let event = &events[index];
        (event.type_.as_deref().unwrap(), event.reason.as_deref().unwrap(), event.note.as_deref().unwrap())
    };
    let subject = format!("Pod {}/cart", world.namespace);
    let cause = "container app was OOM-killed (exit 137), 3 restarts";
    assert_eq!(told(0), ("Warning", "OOMKilled", format!("{subject}: {cause}").as_str()));
    assert_eq!(told(1), ("Normal", "Recovered", format!("{subject}, container app: OOMKilled is over").as_str()));
    let regarding = events[0].regarding.as_ref().unwrap();
    assert_eq!(regarding.uid, world.objects().get("cluster").await.unwrap().metadata.uid);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_makes_a_bounded_number_of_events() {
    let world = World::new("storm").await;
    let made = (0..200).map(|number| {
        let world = &world;
        async move { world.pod(&format!("cart-{number}"), crash_looping(3)).await }
    });
    let mut made = futures::stream::FuturesUnordered::from_iter(made);
    while futures::StreamExt::next(&mut made).await.is_some() {}
    world.object("cluster", json!({"alerts": {"checkRunningPods": true}, "logs": {"enabled": false}})).await;
    let operator = world.operate();
    let status = world.status_where("cluster", "the storm is told", |status| status.problematic_pod_count == 200).await;
    assert_eq!(status.incidents.len() as i64 + status.omitted_incidents, 200);
    tokio::time::sleep(A_WHILE).await;
    let events = world.events("cluster").await;
    assert!((1..=12).contains(&events.len()), "{} events", events.len());
    operator.stop().await;
}
