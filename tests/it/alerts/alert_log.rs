//! `orchestr run --alert-log`, and `orchestr show --sent`.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::Path,
    process::Stdio,
};

use orchestr_testbed::{Receiver, Reply, eventually};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::support::{delivery, ids, spec, webhook};
use crate::{
    command::{assert_fails, ends, orchestr, run, signal},
    pod_statuses::crash_looping,
    support::TIMEOUT,
    test_env::TestEnv,
};

const TOKEN: &str = "token-hunter2";

/// An object with a failing pod, and a webhook to this receiver.
async fn scenario(name: &str) -> (TestEnv, Receiver) {
    let env = TestEnv::new(name).await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url(&format!("/{TOKEN}")))]).await;
    env.pod("cart-0", crash_looping(7)).await;
    env.object("cluster", spec(&[webhook("ops", "Generic", json!({}))])).await;
    (env, receiver)
}

fn flags<'a>(env: &'a TestEnv, target: &'a str) -> Vec<&'a str> {
    let allowed = ["--webhook-allow-http", "--webhook-allow-loopback", "--cluster-name", "prod"];
    [&allowed[..], &["--namespaces", &env.namespace, "--alert-log", target]].concat()
}

/// The lines of a file that are complete.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

async fn until_logged(path: &Path, what: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    eventually(what, 2 * TIMEOUT, async || {
        let lines = lines(path);
        if wanted(&lines) { Ok(lines) } else { Err(format!("{lines:?}")) }
    })
    .await
    .unwrap()
}

/// Makes another pod fail and waits for its alert, so that the operator evidently works.
async fn works(env: &TestEnv, receiver: &Receiver, pod: &str) {
    env.pod(pod, crash_looping(3)).await;
    eventually("the next alert arrives", 3 * TIMEOUT, async || {
        let bodies: Vec<_> =
            receiver.received().iter().map(|own| String::from_utf8_lossy(&own.body).into_owned()).collect();
        if bodies.iter().any(|body| body.contains(pod)) { Ok(()) } else { Err(format!("{} requests", bodies.len())) }
    })
    .await
    .unwrap();
}

async fn terminated(mut operator: Child) -> i32 {
    signal(&operator, "-TERM").await;
    tokio::time::timeout(TIMEOUT, operator.wait()).await.expect("it ends").unwrap().code().unwrap()
}

/// The names of all fields of a document, with those of objects in it.
fn fields(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Object(map) => {
            map.iter().flat_map(|(name, own)| fields(own).into_iter().chain([name.clone()])).collect()
        }
        Value::Array(items) => items.iter().flat_map(fields).collect(),
        _ => BTreeSet::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn has_a_line_for_each_attempt_until_the_object_is_deleted() {
    let (env, receiver) = scenario("alert-log").await;
    receiver.then([Reply::Status(503)]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("alerts.log");
    let operator = run(env.plane.admin_kubeconfig(), &flags(&env, path.to_str().unwrap())).spawn().unwrap();
    let first = until_logged(&path, "the second attempt is logged", |lines| lines.len() >= 2).await;
    let status = env
        .until("it is recorded", |status| delivery(status, "ops").is_some_and(|ops| ops.last_success.is_some()))
        .await;
    let results: Vec<_> = first.iter().map(|line| (&line["result"], &line["status"], &line["attempt"])).collect();
    let expected = [(json!("server_error"), json!(503), json!(1)), (json!("delivered"), json!(200), json!(2))];
    assert_eq!(results, expected.iter().map(|(a, b, c)| (a, b, c)).collect::<Vec<_>>());
    assert!(first[0]["retryAt"].is_string() && first[1].get("retryAt").is_none());
    for line in &first {
        assert_eq!(line["id"], ids(&receiver.received())[0]);
        assert_eq!(line["incidents"][0]["key"], status.incidents[0].key);
    }
    // The documented line was copied from this output.
    println!("{}", fs::read_to_string(&path).unwrap());
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/alerts.md")).unwrap();
    let documented = page.lines().find(|line| line.starts_with(r#"{"timestamp":"#)).unwrap();
    let expected = fields(&serde_json::from_str(documented).unwrap());
    assert_eq!(fields(&first[1]), expected);

    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let name = format!("{}/cluster", env.namespace);
    let (code, out, err) = ends(&mut orchestr(&["show", &name, "--sent", "--kubeconfig", kubeconfig]));
    assert_eq!((code, err.as_str()), (0, ""));
    for part in [&format!("{name}: 1 webhook\n"), "ops: last message accepted ", "firing", &status.incidents[0].key] {
        assert!(out.contains(part), "{part}: {out}");
    }

    env.objects().delete("cluster", &kube::api::DeleteParams::default()).await.unwrap();
    let note = |line: &Value| line["note"] == "no longer watched: the Orchestr was deleted";
    let all = until_logged(&path, "the last message is logged", |lines| lines.iter().any(note)).await;
    assert_eq!(all.last().unwrap()["incidents"][0]["status"], "resolved");
    assert_eq!(terminated(operator).await, 0);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("127.0.0.1") && !text.contains("restarts"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_an_incident_that_ended_before_it_was_sent() {
    let (env, receiver) = scenario("alert-log-dropped").await;
    receiver.then([Reply::Header(429, "Retry-After", "600".to_owned())]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("alerts.log");
    let _operator = run(env.plane.admin_kubeconfig(), &flags(&env, path.to_str().unwrap())).spawn().unwrap();
    until_logged(&path, "the attempt is logged", |lines| lines.len() == 1).await;
    env.delete_pod("cart-0").await;
    let lines = until_logged(&path, "it is dropped", |lines| lines.len() == 2).await;
    let expected = json!({
        "level": "WARN", "target": "orchestr::alert_log", "message": "not sent", "cluster": "prod", "namespace": env.namespace,
        "object": "cluster", "webhook": "ops", "result": "dropped", "incidentsDropped": 1,
    });
    let mut dropped = lines[1].clone();
    dropped.as_object_mut().unwrap().remove("timestamp");
    assert_eq!(dropped, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_holds_up_nothing() {
    let (env, receiver) = scenario("alert-log-closed").await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = run(env.plane.admin_kubeconfig(), &flags(&env, "-"));
    let mut operator = command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap()).spawn().unwrap();
    drop(operator.stdout.take());
    receiver.wait_for(1, TIMEOUT).await.unwrap();
    works(&env, &receiver, "web-0").await;
    let warned = until_logged(&log, "it says so", |lines| {
        lines.iter().any(|line| line["message"] == "lines of the alert log are not written")
    })
    .await;
    let warnings: Vec<_> = warned.iter().filter(|line| line["level"] == "WARN").collect();
    assert_eq!(warnings.len(), 1, "once a minute at most: {warnings:?}");
    assert_eq!(warnings[0]["why"], "Broken pipe (os error 32)");
    assert_eq!(terminated(operator).await, 0);
}

/// The operator, started by a shell after this command.
fn after(command: &str, env: &TestEnv, target: &str) -> Command {
    let program = env!("CARGO_BIN_EXE_orchestr");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("{command}; exec {program} run \"$@\""), "sh"]).args(flags(env, target)).env_clear();
    shell.env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").env("KUBECONFIG", env.plane.admin_kubeconfig());
    shell.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    shell
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_never_reads_holds_up_nothing() {
    let (env, receiver) = scenario("alert-log-stuck").await;
    // A pipe takes 64 KiB, so that the first line waits for its reader.
    let mut operator = after("head -c 65536 /dev/zero", &env, "-").stdout(Stdio::piped()).spawn().unwrap();
    let unread = operator.stdout.take();
    receiver.wait_for(1, TIMEOUT).await.unwrap();
    works(&env, &receiver, "web-0").await;
    assert_eq!(terminated(operator).await, 0, "its end waits for no reader either");
    drop(unread);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_holds_up_nothing() {
    let (env, receiver) = scenario("alert-log-full").await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("alerts.log");
    fs::write(&path, "x".repeat(500) + "\n").unwrap();
    // One block of 512 bytes, or 1,024 for some shells: only a part of the first line or the second fits.
    let operator = after("trap '' XFSZ; ulimit -f 1", &env, path.to_str().unwrap()).spawn().unwrap();
    receiver.wait_for(1, TIMEOUT).await.unwrap();
    works(&env, &receiver, "web-0").await;
    works(&env, &receiver, "web-1").await;
    assert!([512, 1024].contains(&fs::metadata(&path).unwrap().len()));
    assert_eq!(terminated(operator).await, 0);
}

#[test]
fn a_file_that_cannot_be_opened_ends_the_start() {
    let run = |file: &str| orchestr(&["run", "--kubeconfig", "/nonexistent", "--alert-log", file]);
    assert_fails(&mut run("/no/such/log"), "--alert-log /no/such/log: No such file or directory (os error 2)");
    assert_fails(&mut run("/dev/null"), "--alert-log /dev/null: it is no regular file");
}
