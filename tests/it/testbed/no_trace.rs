//! A control plane leaves no process and no file behind, however the process that started it ends.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    time::Duration,
};

use orchestr_testbed::{ControlPlane, Options, binaries, eventually, finish, shared};
use tokio::signal::unix::{SignalKind, signal};

const LIMIT: Duration = Duration::from_secs(30);
/// How long the other process may take to start its control plane on a busy machine.
const START: Duration = Duration::from_secs(5 * 60);
const ROLE: &str = "ORCHESTR_STARTER";

/// Another process that has started a control plane, and that ends as its role requires.
struct Starter {
    process: Child,
    run: PathBuf,
}

impl Starter {
    fn ended(self) -> ExitStatus {
        finish(self.process, LIMIT).unwrap().status
    }
}

async fn starter(role: &str) -> Starter {
    starter_by(&mut Command::new(std::env::current_exe().unwrap()), role).await
}

async fn starter_by(command: &mut Command, role: &str) -> Starter {
    // Build the programs here, because that takes minutes the first time.
    binaries().await.unwrap();
    let mut process = command
        .args(["--exact", "testbed::no_trace::starter_process", "--ignored", "--nocapture"])
        .env(ROLE, role)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let run = lines.find_map(|line| Some(line.ok()?.split_once("run: ")?.1.into()));
        let _ = sender.send(run);
        // Read all output, so that the process never ends because its output pipe is closed or full.
        lines.for_each(drop);
    });
    match receiver.recv_timeout(START) {
        Ok(Some(run)) => Starter { process, run },
        other => {
            process.kill().unwrap();
            panic!("the other process did not print the folder of its control plane: {other:?}");
        }
    }
}

/// Whether this process ignores SIGINT, as a process that a script starts in the background does. Its children then
/// ignore it too.
fn interrupt_is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & (1 << (2 - 1)) != 0
}

#[tokio::test]
#[ignore = "the other tests run it, in a process of its own"]
async fn starter_process() {
    let role = std::env::var(ROLE).expect("only the other tests run this one");
    let print_run = |plane: &ControlPlane| {
        let run = plane.admin_kubeconfig().parent().unwrap();
        assert!(processes(run).len() >= 4, "two programs and their shells");
        println!("run: {}", run.display());
    };
    match role.as_str() {
        "panic" => {
            let plane = ControlPlane::start(Options::default()).await.unwrap();
            print_run(&plane);
            panic!("as asked");
        }
        "exit" => {
            print_run(shared().await);
            std::process::exit(0);
        }
        _ => {
            let plane = shared().await;
            if interrupt_is_ignored() {
                let mut interrupt = signal(SignalKind::interrupt()).unwrap();
                print_run(plane);
                interrupt.recv().await;
                std::process::exit(130);
            }
            print_run(plane);
            std::future::pending().await
        }
    }
}

/// The ids of the processes that have `run` in their command line: etcd, the API server and their shells.
fn processes(run: &Path) -> Vec<u32> {
    let run = run.to_str().unwrap().as_bytes();
    let ids = fs::read_dir("/proc").unwrap();
    ids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|id| {
            let command = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            command.windows(run.len()).any(|part| part == run)
        })
        .collect()
}

async fn vanishes(run: &Path) {
    eventually("the end of its processes", LIMIT, async || match processes(run) {
        left if left.is_empty() => Ok(()),
        left => Err(format!("processes {left:?} are left")),
    })
    .await
    .unwrap();
    assert!(!run.exists(), "{} is left", run.display());
}

#[tokio::test]
async fn leaves_nothing_after_sigkill() {
    let mut starter = starter("wait").await;
    starter.process.kill().unwrap();
    let run = starter.run.clone();
    starter.ended();
    vanishes(&run).await;
}

#[tokio::test]
async fn leaves_nothing_after_ctrl_c() {
    interrupted(starter("wait").await).await;
}

#[tokio::test]
async fn leaves_nothing_after_ctrl_c_in_the_background() {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "trap '' INT; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    interrupted(starter_by(&mut command, "wait").await).await;
}

async fn interrupted(starter: Starter) {
    let id = starter.process.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &id]).status().unwrap();
    assert!(sent.success());
    let run = starter.run.clone();
    assert!(!starter.ended().success());
    vanishes(&run).await;
}

#[tokio::test]
async fn leaves_nothing_after_a_panic() {
    let starter = starter("panic").await;
    let run = starter.run.clone();
    assert!(!starter.ended().success());
    vanishes(&run).await;
}

#[tokio::test]
async fn leaves_nothing_after_an_exit_without_destructors() {
    let starter = starter("exit").await;
    let run = starter.run.clone();
    assert!(starter.ended().success());
    vanishes(&run).await;
}
