//! An API server that goes away, comes back, forgets, or falls silent.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use orchestr::config::StreamingLists;
use orchestr_testbed::Options;
use serde_json::json;

use crate::{
    proxy::{A_WHILE, Fate, Proxy, Seen},
    support::{PATIENCE, install_crd},
    world::{World, condition, config, crash_looping, healthy, listed, operate, watch_all},
};

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_while_the_api_server_is_away_is_seen_when_it_is_back() {
    let world = World::alone("outage", Options::default()).await;
    for name in ["cart", "goes", "web"] {
        world.pod(name, if name == "web" { healthy() } else { crash_looping(3) }).await;
    }
    world.object("cluster", watch_all()).await;
    let proxy = Proxy::start(world.client.clone()).await;
    let operator = operate(proxy.client(), config(&[]));
    world.status_where("cluster", "two are told", |status| listed(status) == ["cart", "goes"]).await;

    // It is killed, and forgets everything that was before: whoever watched has to begin anew.
    world.plane.kill_api_server().await.unwrap();
    let prefix = orchestr_testbed::pods::key(&world.namespace, "goes");
    assert_eq!(world.plane.delete_prefix(&prefix).await.unwrap(), 1);
    world.plane.compact_etcd().await.unwrap();
    tokio::time::sleep(A_WHILE).await;
    world.plane.start_api_server().await.unwrap();
    let status = world.status_where("cluster", "one is gone", |status| listed(status) == ["cart"]).await;
    assert_eq!((status.watched_pods, condition(&status, "Ready").1), (2, "Watching"));
    world.set_status("web", crash_looping(1)).await;
    world.status_where("cluster", "the watch goes on", |status| listed(status) == ["cart", "web"]).await;

    // It is restarted as by an upgrade, while things change.
    let restart = world.plane.restart_api_server();
    restart.await.unwrap();
    world.set_status("web", healthy()).await;
    world.pod("late", crash_looping(1)).await;
    world.status_where("cluster", "the watch goes on", |status| listed(status) == ["cart", "late"]).await;
    world.object("second", watch_all()).await;
    world.ready("second", "Watching").await;

    // Even the kind of its objects goes away and comes back.
    let crds: kube::Api<CustomResourceDefinition> = kube::Api::all(world.client.clone());
    let name = orchestr::api::crd::crd().metadata.name.unwrap();
    crds.delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
    orchestr_testbed::until(crds, &name, PATIENCE, |crd| crd.is_none()).await.unwrap();
    install_crd(&world.plane).await;
    world.object("cluster", watch_all()).await;
    world.status_where("cluster", "it is told", |status| listed(status) == ["cart", "late"]).await;
    operator.stop().await;
}

/// Resource versions that a watch holds are gone from the history: 410.
#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_gone_is_listed_anew() {
    let world = World::alone("gone", Options::default()).await;
    for name in ["cart", "goes", "web"] {
        world.pod(name, if name == "web" { healthy() } else { crash_looping(3) }).await;
    }
    world.object("cluster", watch_all()).await;
    let proxy = Proxy::start(world.client.clone()).await;
    let mut config = config(&[]);
    config.streaming_lists = StreamingLists::Never;
    let operator = operate(proxy.client(), config);
    world.status_where("cluster", "two are told", |status| listed(status) == ["cart", "goes"]).await;
    let lists = |seen: &Seen| seen.is_of_pods() && !seen.is_watch();
    assert_eq!(proxy.count(lists), 1);
    // The status may be told before the watch has begun.
    proxy.until_requested("a watch", 1, |seen| seen.is_of_pods() && seen.is_watch()).await;

    proxy.rule(|_| Fate::Refuse(503, "away"));
    proxy.end_watches();
    world.delete_pod("goes").await;
    world.set_status("web", crash_looping(1)).await;
    for round in 0..10 {
        world.patch_pod("cart", json!({"metadata": {"labels": {"round": round.to_string()}}})).await;
    }
    world.plane.compact_etcd().await.unwrap();
    world.plane.restart_api_server().await.unwrap();
    proxy.rule(|_| Fate::Forward);
    let status = world.status_where("cluster", "all is seen", |status| listed(status) == ["cart", "web"]).await;
    assert_eq!(status.watched_pods, 2);
    assert!(proxy.count(lists) >= 2, "they were listed anew");
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_streaming_lists_pods_come_in_pages() {
    let world = World::alone("pages", Options { streaming_lists: false, ..Options::default() }).await;
    let shape = orchestr_testbed::pods::Shape { namespaces: 1, workloads: 10, crash_looping: 10, ..Default::default() };
    world.plane.ensure_namespace("team-0").await.unwrap();
    world.plane.load((0..1200).map(|index| orchestr_testbed::pods::filler(index, &shape))).await.unwrap();
    world.object("cluster", watch_all()).await;
    let pages = |seen: &Seen| seen.is_of_pods() && !seen.is_watch();
    let streams = |seen: &Seen| seen.is_of_pods() && seen.query.contains_key("sendInitialEvents");
    for (lists, expected_pages, expected_streams) in [(StreamingLists::Auto, 3, 1), (StreamingLists::Never, 3, 0)] {
        let proxy = Proxy::start(world.client.clone()).await;
        let mut config = config(&[]);
        config.streaming_lists = lists;
        let operator = operate(proxy.client(), config);
        world.object(&format!("{lists:?}").to_lowercase(), watch_all()).await;
        let name = format!("{lists:?}").to_lowercase();
        let status = world.status_where(&name, "all are told", |status| status.watched_pods == 1200).await;
        assert_eq!(status.problematic_pod_count, 120);
        assert_eq!((proxy.count(pages), proxy.count(streams)), (expected_pages, expected_streams), "{lists:?}");
        operator.stop().await;
    }

    // It is asked for and refused: pods can't be read, and that is said.
    let proxy = Proxy::start(world.client.clone()).await;
    let mut config = config(&[]);
    config.streaming_lists = StreamingLists::Always;
    let operator = operate(proxy.client(), config);
    world.object("always", watch_all()).await;
    world.ready("always", "Syncing").await;
    assert_eq!(proxy.count(pages), 0);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_streaming_lists_there_are_no_pages() {
    let world = World::new("streams").await;
    world.pod("cart", crash_looping(3)).await;
    world.object("cluster", watch_all()).await;
    let proxy = Proxy::start(world.client.clone()).await;
    let operator = world.operate_as(proxy.client());
    world.status_where("cluster", "it is told", |status| listed(status) == ["cart"]).await;
    assert_eq!(proxy.count(|seen| seen.is_of_pods() && !seen.is_watch()), 0);
    assert_eq!(proxy.count(Seen::is_of_pods), 1);
    operator.stop().await;
}

/// Nobody hangs up, and nothing comes any more: as when a load balancer has forgotten a connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_falls_silent_is_given_up() {
    let world = World::new("silent-server").await;
    world.pod("cart", healthy()).await;
    world.object("cluster", watch_all()).await;
    let proxy = Proxy::start(world.client.clone()).await;
    let mut config = proxy.config();
    // As the command does, with less patience.
    orchestr::watch::set_read_timeout(&mut config);
    assert!(
        config.read_timeout.is_some_and(|patience| patience > Duration::from_secs(120)),
        "the first bookmark comes after two minutes"
    );
    config.read_timeout = Some(Duration::from_secs(3));
    let operator = world.operate_as(kube::Client::try_from(config).unwrap());
    world.ready("cluster", "Watching").await;
    proxy.fall_silent();
    world.set_status("cart", crash_looping(3)).await;
    tokio::time::sleep(A_WHILE).await;
    proxy.answer_newcomers();
    world.status_within(Duration::from_secs(45), "cluster", "it is told", |status| listed(status) == ["cart"]).await;
    operator.stop().await;
}
