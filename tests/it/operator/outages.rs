//! An API server that stops, restarts, compacts its history, or stops responding.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use orchestr::config::StreamingLists;
use orchestr_testbed::Options;
use serde_json::json;

use crate::{
    pod_statuses::{crash_looping, healthy},
    proxy::{ProxiedRequest, Proxy, ProxyAction, SETTLE_TIME},
    support::{TIMEOUT, install_crd, streams_lists},
    test_env::{TestEnv, condition, listed, watch_all},
};

#[tokio::test(flavor = "multi_thread")]
async fn catches_up_after_an_outage_of_the_api_server() {
    let env = TestEnv::with_own_plane("outage", Options::default()).await;
    for name in ["cart", "goes", "web"] {
        env.pod(name, if name == "web" { healthy() } else { crash_looping(3) }).await;
    }
    env.object("cluster", watch_all()).await;
    let proxy = Proxy::start(env.client.clone()).await;
    let _operator = env.operator().through(&proxy).whole_cluster().start();
    env.until("two are reported", |status| listed(status) == ["cart", "goes"]).await;

    // It is killed, and etcd is compacted: watches cannot resume.
    env.plane.kill_api_server().await.unwrap();
    let prefix = orchestr_testbed::pods::key(&env.namespace, "goes");
    assert_eq!(env.plane.delete_prefix(&prefix).await.unwrap(), 1);
    env.plane.compact_etcd().await.unwrap();
    tokio::time::sleep(SETTLE_TIME).await;
    env.plane.start_api_server().await.unwrap();
    let status = env.until("one is gone", |status| listed(status) == ["cart"]).await;
    assert_eq!((status.watched_pods, condition(&status, "Ready").1), (2, "Watching"));
    env.set_status("web", crash_looping(1)).await;
    env.until("the watch continues", |status| listed(status) == ["cart", "web"]).await;

    // It is restarted as by an upgrade, and changes happen in the meantime.
    let restart = env.plane.restart_api_server();
    restart.await.unwrap();
    env.set_status("web", healthy()).await;
    env.pod("late", crash_looping(1)).await;
    env.until("the watch continues", |status| listed(status) == ["cart", "late"]).await;
    env.object("second", watch_all()).await;
    env.wait_for_ready("second", "Watching").await;

    // The CRD is deleted and created again.
    let crds: kube::Api<CustomResourceDefinition> = kube::Api::all(env.client.clone());
    let name = orchestr::api::crd::crd().metadata.name.unwrap();
    crds.delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
    orchestr_testbed::until(crds, &name, TIMEOUT, |crd| crd.is_none()).await.unwrap();
    install_crd(&env.plane).await;
    env.object("cluster", watch_all()).await;
    env.until("it is reported", |status| listed(status) == ["cart", "late"]).await;
}

/// The resource version of a watch is no longer in the history (410).
#[tokio::test(flavor = "multi_thread")]
async fn lists_again_when_the_resource_version_has_expired() {
    let env = TestEnv::with_own_plane("gone", Options::default()).await;
    for name in ["cart", "goes", "web"] {
        env.pod(name, if name == "web" { healthy() } else { crash_looping(3) }).await;
    }
    env.object("cluster", watch_all()).await;
    let proxy = Proxy::start(env.client.clone()).await;
    let _operator = env.operator().through(&proxy).whole_cluster().streaming_lists(StreamingLists::Never).start();
    env.until("two are reported", |status| listed(status) == ["cart", "goes"]).await;
    let lists = |request: &ProxiedRequest| request.is_of_pods() && !request.is_watch();
    assert_eq!(proxy.count(lists), 1);
    // The status may be written before the watch has started.
    proxy.wait_for_requests("a watch", 1, |request| request.is_of_pods() && request.is_watch()).await;

    proxy.rule(|_| ProxyAction::Refuse(503, "away"));
    proxy.end_watches();
    env.delete_pod("goes").await;
    env.set_status("web", crash_looping(1)).await;
    for round in 0..10 {
        env.patch_pod("cart", json!({"metadata": {"labels": {"round": round.to_string()}}})).await;
    }
    env.plane.compact_etcd().await.unwrap();
    env.plane.restart_api_server().await.unwrap();
    proxy.rule(|_| ProxyAction::Forward);
    let status = env.until("all is seen", |status| listed(status) == ["cart", "web"]).await;
    assert_eq!(status.watched_pods, 2);
    assert!(proxy.count(lists) >= 2, "they were listed again");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_pages_if_the_server_does_not_stream_lists() {
    let env = TestEnv::with_own_plane("pages", Options { streaming_lists: false, ..Options::default() }).await;
    let shape = orchestr_testbed::pods::Shape { namespaces: 1, workloads: 10, crash_looping: 10, ..Default::default() };
    env.plane.ensure_namespace("team-0").await.unwrap();
    env.plane.load((0..1200).map(|index| orchestr_testbed::pods::filler(index, &shape))).await.unwrap();
    env.object("cluster", watch_all()).await;
    let pages = |request: &ProxiedRequest| request.is_of_pods() && !request.is_watch();
    let streams = |request: &ProxiedRequest| request.is_of_pods() && request.query.contains_key("sendInitialEvents");
    for (lists, expected_pages, expected_streams) in [(StreamingLists::Auto, 3, 1), (StreamingLists::Never, 3, 0)] {
        let proxy = Proxy::start(env.client.clone()).await;
        let operator = env.operator().through(&proxy).whole_cluster().streaming_lists(lists).start();
        env.object(&format!("{lists:?}").to_lowercase(), watch_all()).await;
        let name = format!("{lists:?}").to_lowercase();
        let status = env.wait_for_status(&name, "all are reported", |status| status.watched_pods == 1200).await;
        assert_eq!(status.problematic_pod_count, 120);
        assert_eq!((proxy.count(pages), proxy.count(streams)), (expected_pages, expected_streams), "{lists:?}");
        operator.stop().await;
    }

    // With `always`, a server that does not stream lists leaves the object syncing.
    let proxy = Proxy::start(env.client.clone()).await;
    let operator = env.operator().through(&proxy).whole_cluster().streaming_lists(StreamingLists::Always).start();
    env.object("always", watch_all()).await;
    env.wait_for_ready("always", "Syncing").await;
    assert_eq!(proxy.count(pages), 0);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_one_streamed_list_and_no_pages() {
    let env = TestEnv::new("streams").await;
    env.pod("cart", crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let (proxy, _operator) = env.proxied_operator().await;
    env.until("it is reported", |status| listed(status) == ["cart"]).await;
    if streams_lists() {
        assert_eq!(proxy.count(|request| request.is_of_pods() && !request.is_watch()), 0);
        assert_eq!(proxy.count(ProxiedRequest::is_of_pods), 1);
    }
}

/// The connection stays open without any data, as when a load balancer has dropped its state.
#[tokio::test(flavor = "multi_thread")]
async fn drops_a_connection_that_has_gone_silent() {
    let env = TestEnv::new("silent-server").await;
    env.pod("cart", healthy()).await;
    env.object("cluster", watch_all()).await;
    let proxy = Proxy::start(env.client.clone()).await;
    let mut config = proxy.config();
    // Like the client of `orchestr run`, but with a shorter timeout.
    orchestr::watch::set_read_timeout(&mut config);
    assert!(
        config.read_timeout.is_some_and(|patience| patience > Duration::from_secs(120)),
        "the first bookmark comes after two minutes"
    );
    config.read_timeout = Some(Duration::from_secs(3));
    let _operator = env.operator().client(kube::Client::try_from(config).unwrap()).start();
    env.wait_for_ready("cluster", "Watching").await;
    proxy.fall_silent();
    env.set_status("cart", crash_looping(3)).await;
    tokio::time::sleep(SETTLE_TIME).await;
    proxy.answer_newcomers();
    env.wait_for_status_within(Duration::from_secs(45), "cluster", "it is reported", |status| {
        listed(status) == ["cart"]
    })
    .await;
}
