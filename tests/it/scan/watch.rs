//! `orchestr scan --watch`.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::{
    command::{assert_fails, assert_usage_error, orchestr},
    pod_statuses::{ago, completed, crash_looping, failed_for_good, healthy},
    running_command::{RunningCommand, interrupt},
    terminal::Terminal,
    test_env::TestEnv,
};

fn scan(env: &TestEnv, more: &[&str]) -> Command {
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    orchestr(&[&["scan", "--watch", "--kubeconfig", kubeconfig, "-n", &env.namespace], more].concat())
}

#[test]
fn rejects_what_cannot_be_watched() {
    for flags in [&["-f", "-"][..], &["--all-contexts"], &["--logs"], &["--by", "node"], &["--since", "1m"]] {
        assert_usage_error(&mut orchestr(&[&["scan", "--watch"], flags].concat()), &["cannot be used with"]);
    }
    let sentence = "--watch prints a table, or a line for each change: it cannot be combined with -o";
    for format in ["json", "yaml", "html", "markdown", "junit", "github"] {
        assert_fails(&mut orchestr(&["scan", "--watch", "-o", format]), sentence);
    }
    let sentence = "--watch is for one cluster: give one --context";
    assert_fails(&mut orchestr(&["scan", "-w", "--context", "eu", "--context", "us"]), sentence);
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_prints_each_change_in_a_pipe() {
    let env = TestEnv::new("scan-watch").await;
    let namespace = env.namespace.as_str();
    assert_fails(&mut scan(&env, &["-n", "nosuchns"]), "there is no namespace \"nosuchns\"");

    env.pod("well", healthy()).await;
    env.pod("old", crash_looping(7)).await;
    let watch = RunningCommand::start(scan(&env, &["--pending", "3s"]));
    watch.says(&format!("1 of 2 pods in {namespace} namespace has a problem.")).await;
    watch.prints(&format!("Z + {namespace}/old CrashLoopBackOff")).await;
    env.pod("new", crash_looping(3)).await;
    watch.prints(&format!("Z + {namespace}/new CrashLoopBackOff")).await;
    // Only a timer shows that it has waited for too long.
    let late = json!({"phase": "Pending", "startTime": ago(0), "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(0)}]});
    env.pod("late", late).await;
    env.delete_pod("old").await;
    watch.prints(&format!("Z - {namespace}/old CrashLoopBackOff")).await;
    watch.prints(&format!("Z + {namespace}/late Pending ContainerCreating")).await;
    let (code, out, err) = watch.interrupt().await;
    assert_eq!(code, 1, "{err}");
    assert!(!out.contains("/well") && out.matches("/new ").count() == 1, "{out}");

    for name in ["new", "late"] {
        env.delete_pod(name).await;
    }
    let watch = RunningCommand::start(scan(&env, &[]));
    watch.says(&format!("No problems in {namespace} namespace: 1 pod.")).await;
    let (code, out, err) = watch.interrupt().await;
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
}

/// A Job that is complete or has failed, and a failed pod of it.
async fn ended_job(env: &TestEnv, name: &str, is_complete: bool) {
    let owner = env.job(name, if is_complete { completed(5) } else { failed_for_good(5) }).await;
    env.pod_with(name, owner, json!({"phase": "Failed", "reason": "Evicted"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_judges_failed_pods_by_their_jobs() {
    let env = TestEnv::new("scan-watch-jobs").await;
    let namespace = env.namespace.as_str();
    for index in 0..12 {
        ended_job(&env, &format!("sums-{index}"), index > 0).await;
    }
    let watch = RunningCommand::start(scan(&env, &[]));
    watch.says(&format!("1 of 12 pods in {namespace} namespace has a problem.")).await;
    let (code, out, err) = watch.interrupt().await;
    assert_eq!(code, 1, "{err}");
    assert!(!err.contains("No problems") && out.lines().count() == 1 && out.contains("/sums-0 "), "{out}{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_draws_the_table_again_on_a_terminal() {
    let env = TestEnv::new("scan-drawn").await;
    env.pod("well", healthy()).await;
    let (terminal, process_end) = Terminal::new(60, 10);
    let mut command = scan(&env, &[]);
    let child = command.stdin(Stdio::null()).stdout(process_end).stderr(Stdio::null()).spawn().unwrap();
    // It keeps a copy of the end of the terminal.
    drop(command);
    let last = |text: &str| text.rsplit("\u{1b}[H\u{1b}[2J").next().unwrap_or_default().to_owned();
    let healthy_line = format!("No problems in {} namespace: 1 pod.", env.namespace);
    terminal.shows("that nothing is wrong", |text| last(text).contains(&healthy_line[..40])).await;
    for index in 0..9 {
        env.pod(&format!("cart-{index}"), crash_looping(7)).await;
    }
    terminal.shows("the table", |text| last(text).contains("cart-0") && last(text).contains(" more lines")).await;
    let drawn = last(&terminal.text());
    assert!(drawn.lines().count() < 10 && drawn.lines().all(|line| line.chars().count() <= 60), "{drawn}");
    let code = tokio::task::spawn_blocking(move || interrupt(child)).await.unwrap();
    assert_eq!(code, 1, "{}", terminal.text());
}
