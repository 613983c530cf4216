//! Nothing is left of a control plane whose process ends, however it ends.

use std::{
    fs,
    io::{BufRead, BufReader, Lines},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use orchestr_testbed::{ControlPlane, Options, eventually, shared};

const LIMIT: Duration = Duration::from_secs(30);
const ROLE: &str = "ORCHESTR_STARTER";

/// Another process, which started a control plane and ends as its role says.
struct Starter {
    process: Child,
    /// Its end stays open: a test's output must not be what ends it.
    _lines: Lines<BufReader<ChildStdout>>,
    run: PathBuf,
}

fn starter(role: &str) -> Starter {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "no_trace::starter_process", "--ignored", "--nocapture"])
        .env(ROLE, role)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let run = lines
        .find_map(|line| Some(line.unwrap().split_once("run: ")?.1.into()))
        .expect("the other process tells where its control plane is");
    Starter { process, _lines: lines, run }
}

#[tokio::test]
#[ignore = "the other tests run it, in a process of its own"]
async fn starter_process() {
    let role = std::env::var(ROLE).expect("only the other tests run this one");
    let tell = |plane: &ControlPlane| {
        let run = plane.admin_kubeconfig().parent().unwrap();
        assert!(processes(run).len() >= 4, "two programs and their guardians");
        println!("run: {}", run.display());
    };
    match role.as_str() {
        "panic" => {
            let plane = ControlPlane::start(Options::default()).await.unwrap();
            tell(&plane);
            panic!("as asked");
        }
        "exit" => {
            tell(shared().await);
            std::process::exit(0);
        }
        _ => {
            tell(shared().await);
            std::future::pending().await
        }
    }
}

/// The ids of the processes that have `run` in their command line: etcd, the API server and their guardians.
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
async fn after_sigkill() {
    let mut starter = starter("wait");
    starter.process.kill().unwrap();
    starter.process.wait().unwrap();
    vanishes(&starter.run).await;
}

#[tokio::test]
async fn after_ctrl_c() {
    let mut starter = starter("wait");
    let id = starter.process.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &id]).status().unwrap();
    assert!(sent.success());
    assert!(!starter.process.wait().unwrap().success());
    vanishes(&starter.run).await;
}

#[tokio::test]
async fn after_a_panic() {
    let mut starter = starter("panic");
    assert!(!starter.process.wait().unwrap().success());
    vanishes(&starter.run).await;
}

#[tokio::test]
async fn after_an_exit_without_destructors() {
    let mut starter = starter("exit");
    assert!(starter.process.wait().unwrap().success());
    vanishes(&starter.run).await;
}
