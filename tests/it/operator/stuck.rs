//! The binary, while its only thread is blocked: its log is a pipe that nobody reads, and that is full. The limits are those
//! of production, so each test takes as long as they last.

use std::{
    io::{PipeReader, Write, pipe},
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use kube::api::DeleteParams;
use serde_json::json;
use tokio::process::{Child, Command};

use crate::test_env::{TestEnv, watch_all};

/// What a pipe holds on Linux.
const PIPE: usize = 64 * 1024;
/// How much of the log fits before the pipe is full: the lines of a start, but not those about objects.
const ROOM: usize = 12 * 1024;
/// How often an object is created and deleted, which is two lines of the log.
const ROUNDS: usize = 100;
const ABORTED: i32 = 6;

/// A program, and the end of its log, which must be kept open.
struct Blocked {
    program: Child,
    _log: PipeReader,
}

fn start(env: &TestEnv, stderr: Stdio) -> Child {
    Command::new(env!("CARGO_BIN_EXE_orchestr"))
        .args(["run", "--namespaces", &env.namespace])
        .env_clear()
        .env("KUBECONFIG", env.plane.admin_kubeconfig())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Starts the program and blocks it.
async fn blocked(env: &TestEnv) -> Blocked {
    let (log, mut end) = pipe().unwrap();
    end.write_all(&vec![b'\n'; PIPE - ROOM]).unwrap();
    let program = start(env, end.into());
    env.object("first", watch_all()).await;
    env.wait_for_ready("first", "Watching").await;
    for _ in 0..ROUNDS {
        env.object("blocking", json!({"alerts": {"checkRunningPods": false}})).await;
        env.objects().delete("blocking", &DeleteParams::default()).await.unwrap();
    }
    Blocked { program, _log: log }
}

async fn signal(program: &Child, signal: &str) {
    let pid = program.id().unwrap().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().await.unwrap().success());
}

async fn end(mut program: Child) -> ExitStatus {
    tokio::time::timeout(Duration::from_secs(60), program.wait()).await.expect("it ends").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn aborts_if_the_loop_makes_no_progress_for_half_a_minute() {
    let env = TestEnv::new("stuck").await;
    let begun = Instant::now();
    let blocked = blocked(&env).await;
    let status = end(blocked.program).await;
    assert_eq!(status.signal(), Some(ABORTED), "{status}");
    assert!(begun.elapsed() >= Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_with_a_failure_after_a_signal_if_the_loop_is_blocked() {
    let env = TestEnv::new("stuck-term").await;
    let blocked = blocked(&env).await;
    signal(&blocked.program, "-TERM").await;
    let begun = Instant::now();
    let status = end(blocked.program).await;
    assert_eq!(status.code(), Some(2), "{status}");
    let took = begun.elapsed();
    assert!((9..20).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn goes_on_after_it_was_stopped_for_longer_than_the_limit() {
    let env = TestEnv::new("stuck-stop").await;
    let program = start(&env, Stdio::null());
    env.object("cluster", watch_all()).await;
    env.wait_for_ready("cluster", "Watching").await;
    signal(&program, "-STOP").await;
    // Nothing can be awaited: the process must be stopped for longer than the watchdog's limit.
    tokio::time::sleep(Duration::from_secs(35)).await;
    signal(&program, "-CONT").await;
    env.object("later", watch_all()).await;
    env.wait_for_ready("later", "Watching").await;
    signal(&program, "-TERM").await;
    assert!(end(program).await.success());
}
