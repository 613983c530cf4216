//! SIGTERM to the program itself.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use tokio::process::{Child, Command};

use crate::{
    proxy::{Fate, Proxy, Seen},
    world::{World, crash_looping, listed, watch_all},
};

fn program(world: &World, proxy: &Proxy) -> Child {
    let kubeconfig = world.plane.kubeconfig_for(&format!("{}-shutdown", world.namespace), &proxy.config()).unwrap();
    Command::new(env!("CARGO_BIN_EXE_orchestr"))
        .args(["run", "--namespaces", &world.namespace])
        .env_clear()
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Sends SIGTERM, and tells how long the program took to end well.
async fn terminate(mut program: Child) -> Duration {
    let begun = Instant::now();
    let pid = program.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
    let status = tokio::time::timeout(Duration::from_secs(30), program.wait()).await.expect("it ends").unwrap();
    assert!(status.success(), "{status}");
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_at_once_where_nothing_is_under_way() {
    let world = World::new("term").await;
    world.pod("cart", crash_looping(3)).await;
    world.object("cluster", watch_all()).await;
    let proxy = Proxy::start(world.client.clone()).await;
    let program = program(&world, &proxy);
    world.status_where("cluster", "it is told", |status| listed(status) == ["cart"]).await;
    let took = terminate(program).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_in_five_seconds_whatever_hangs() {
    let world = World::new("term-hang").await;
    world.pod("cart", crash_looping(3)).await;
    world.object("cluster", watch_all()).await;
    let proxy = Proxy::start(world.client.clone()).await;
    proxy.rule(|seen| if seen.is_status_write() || seen.path.ends_with("/log") { Fate::Hang } else { Fate::Forward });
    let program = program(&world, &proxy);
    proxy.until_requested("the write hangs", 1, Seen::is_status_write).await;
    let took = terminate(program).await;
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// What is under way is finished, and told.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_under_way_is_finished() {
    let world = World::new("term-drain").await;
    world.pod("cart", crash_looping(3)).await;
    world.object("cluster", watch_all()).await;
    let proxy = Proxy::start(world.client.clone()).await;
    proxy.rule(|seen| if seen.is_status_write() { Fate::AnswerLate(Duration::from_secs(1)) } else { Fate::Forward });
    let program = program(&world, &proxy);
    proxy.until_requested("the write is under way", 1, Seen::is_status_write).await;
    terminate(program).await;
    assert_eq!(listed(&world.status("cluster").await), ["cart"]);
    assert_eq!(world.events("cluster").await.len(), 1, "and its event was told");
}
