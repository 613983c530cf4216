//! Sends SIGTERM to the binary.

use std::time::{Duration, Instant};

use tokio::process::Child;

use crate::{
    command::{run, signal},
    pod_statuses::crash_looping,
    proxy::{ProxiedRequest, Proxy, ProxyAction},
    test_env::{TestEnv, listed, watch_all},
};

fn program(env: &TestEnv, proxy: &Proxy) -> Child {
    let kubeconfig = env.plane.kubeconfig_for(&format!("{}-shutdown", env.namespace), &proxy.config()).unwrap();
    run(&kubeconfig, &["--namespaces", &env.namespace]).spawn().unwrap()
}

/// Sends SIGTERM, and returns the time until the program has exited successfully.
async fn terminate(mut program: Child) -> Duration {
    let begun = Instant::now();
    signal(&program, "-TERM").await;
    let status = tokio::time::timeout(Duration::from_secs(30), program.wait()).await.expect("it ends").unwrap();
    assert!(status.success(), "{status}");
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn exits_immediately_when_idle() {
    let env = TestEnv::new("term").await;
    env.pod("cart", crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let proxy = Proxy::start(env.client.clone()).await;
    let program = program(&env, &proxy);
    env.until("it is reported", |status| listed(status) == ["cart"]).await;
    let took = terminate(program).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn exits_within_five_seconds_when_requests_hang() {
    let env = TestEnv::new("term-hang").await;
    env.pod("cart", crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let proxy = Proxy::start(env.client.clone()).await;
    proxy.on(|request| request.is_status_write() || request.path.ends_with("/log"), ProxyAction::Hang);
    let program = program(&env, &proxy);
    proxy.wait_for_requests("the write hangs", 1, ProxiedRequest::is_status_write).await;
    let took = terminate(program).await;
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn finishes_a_running_write_before_it_exits() {
    let env = TestEnv::new("term-drain").await;
    env.pod("cart", crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let proxy = Proxy::start(env.client.clone()).await;
    proxy.on(ProxiedRequest::is_status_write, ProxyAction::AnswerLate(Duration::from_secs(1)));
    let program = program(&env, &proxy);
    proxy.wait_for_requests("the write is under way", 1, ProxiedRequest::is_status_write).await;
    terminate(program).await;
    assert_eq!(listed(&env.status("cluster").await), ["cart"]);
    assert_eq!(env.events("cluster").await.len(), 1, "and its event is published");
}
