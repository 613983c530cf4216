//! The binary, while its only thread is blocked: its log is a pipe that nobody reads, and that is full. The limits are those
//! of production, so the test takes as long as they last.

use std::{
    io::{Write, pipe},
    time::{Duration, Instant},
};

use kube::api::DeleteParams;
use orchestr_testbed::{eventually, free_port, page};
use serde_json::json;

use crate::{
    command::{run, signal},
    support::TIMEOUT,
    test_env::{TestEnv, watch_all},
};

/// What a pipe holds on Linux.
const PIPE: usize = 64 * 1024;
/// How much of the log fits before the pipe is full: the lines of a start, but not those about objects.
const ROOM: usize = 12 * 1024;
/// How often an object is created and deleted, which is two lines of the log.
const ROUNDS: usize = 100;

/// The kubelet restarts the container: its liveness probe fails, and then it sends SIGTERM.
#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_loop_fails_liveness_and_ends_after_a_signal() {
    let env = TestEnv::new("stuck").await;
    let (_log, mut end) = pipe().unwrap();
    end.write_all(&vec![b'\n'; PIPE - ROOM]).unwrap();
    let port = free_port().unwrap();
    let flags = ["--namespaces", &env.namespace, "--metrics-address", &format!("127.0.0.1:{port}")];
    let mut program = run(env.plane.admin_kubeconfig(), &flags).stderr(end).spawn().unwrap();
    env.object("first", watch_all()).await;
    env.wait_for_ready("first", "Watching").await;
    assert_eq!(page(port, "/livez", "").await.unwrap(), "ok\n");
    for _ in 0..ROUNDS {
        env.object("blocking", json!({"alerts": {"checkRunningPods": false}})).await;
        env.objects().delete("blocking", &DeleteParams::default()).await.unwrap();
    }
    eventually("the liveness probe fails", TIMEOUT, async || match page(port, "/livez", "").await {
        Err(error) if error.to_string().contains("503 Service Unavailable") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();

    signal(&program, "-TERM").await;
    let begun = Instant::now();
    let status = tokio::time::timeout(Duration::from_secs(60), program.wait()).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(2), "{status}");
    let took = begun.elapsed();
    assert!((9..20).contains(&took.as_secs()), "{took:?}");
}
