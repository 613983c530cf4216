//! The output and exit codes of the binary.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use k8s_openapi::api::{batch::v1::Job, core::v1::ServiceAccount};
use kube::{Api, api::PostParams};
use orchestr::version::version_and_revision;
use orchestr_testbed::{
    finish,
    fixtures::real_pods,
    pods::{Shape, filler},
};
use serde_json::{Value, json};

use crate::{
    pod_statuses::{completed, crash_looping, healthy},
    support::TIMEOUT,
    test_env::TestEnv,
};

/// A CA that has signed none of the certificates in use.
const OTHER_CA: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJpRENDQVMyZ0F3SUJBZ0lVVmhzTkZlbGdHRjdPRmI0Zy9pZ3RiUklZWkF3d0NnWUlLb1pJemowRUF3SXcKR0RFV01CUUdBMVVFQXd3TmMyOXRaV0p2WkhrZ1pXeHpaVEFnRncweU5qRXhNakV3TVRReE1ERmFHQTh5TVRJMgpNVEF5T0RBeE5ERXdNVm93R0RFV01CUUdBMVVFQXd3TmMyOXRaV0p2WkhrZ1pXeHpaVEJaTUJNR0J5cUdTTTQ5CkFnRUdDQ3FHU000OUF3RUhBMElBQkNPem5uWmx2Z2NncHlFZVBYZmw1S2JnaW80NDI5YTJ3UFNTdVZNTEdjNmsKRDJWVmlScUlNYzlSZS9CSDBwNkhLMS8yV0QvUDFYL0ZtNk5Gb1NvNTdkQ2pVekJSTUIwR0ExVWREZ1FXQkJSTApsUkV0cU95bHIrZ1dNRWthZ1grRHZ3aFNxakFmQmdOVkhTTUVHREFXZ0JSTGxSRXRxT3lscitnV01Fa2FnWCtECnZ3aFNxakFQQmdOVkhSTUJBZjhFQlRBREFRSC9NQW9HQ0NxR1NNNDlCQU1DQTBrQU1FWUNJUUN4THhKSzdOc0YKWXRZNm5Vc0hVSlZNYyt5NHFrUGx0UnN4UFRIeXZDaE1TQUloQUovWVBoVHRGeUdqNzc3NW5qL3h5NUJDdTRuRgpKSTJYVFJCdTRBZy9qaUNICi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K";

/// The binary, without environment variables or files that could configure a cluster.
pub fn orchestr(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orchestr"));
    command.args(args).env_clear().env("HOME", "/nonexistent");
    command
}

/// `orchestr run` as a process that is killed when it is dropped. Its log is left out.
pub fn run(kubeconfig: &Path, flags: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::from(orchestr(&[&["run"], flags].concat()));
    command.env("KUBECONFIG", kubeconfig).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Sends a signal such as `-TERM`.
pub async fn signal(program: &tokio::process::Child, signal: &str) {
    let pid = program.id().unwrap().to_string();
    assert!(tokio::process::Command::new("kill").args([signal, &pid]).status().await.unwrap().success());
}

/// Exit code, standard output, standard error.
pub fn ends(command: &mut Command) -> (i32, String, String) {
    let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    code_and_output(finish(process, TIMEOUT).unwrap())
}

fn code_and_output(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

pub fn fed(args: &[&str], input: &str) -> (i32, String, String) {
    let mut child = orchestr(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let input = input.to_owned();
    let feed = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = finish(child, TIMEOUT).unwrap();
    // The thread ends when the process closes its input.
    let _ = feed.join().unwrap();
    code_and_output(output)
}

/// Asserts exit code 2, and this line as the only error output.
#[track_caller]
pub fn assert_fails(command: &mut Command, sentence: &str) {
    assert_eq!(ends(command), (2, String::new(), format!("orchestr: {sentence}\n")));
}

/// Writes a kubeconfig for `server` to the folder.
fn kubeconfig(folder: &Path, server: &str, ca: &str, user: Value) -> PathBuf {
    let path = folder.join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": ca}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    });
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub fn list(pods: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": pods}).to_string()
}

/// Asserts that clap rejected the command line with a message that contains these parts.
#[track_caller]
pub fn assert_usage_error(command: &mut Command, parts: &[&str]) {
    let (code, out, err) = ends(command);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    for part in parts {
        assert!(err.contains(part), "{part:?} is missing from:\n{err}");
    }
}

#[test]
fn rejects_invalid_command_lines_with_the_message_of_clap() {
    assert_usage_error(
        &mut orchestr(&["scan", "--namespce", "shop"]),
        &[
            "error: unexpected argument '--namespce' found\n",
            "a similar argument exists: '--namespace'",
            "Usage: orchestr scan",
            "For more information, try '--help'.",
        ],
    );
    assert_usage_error(
        &mut orchestr(&["scan", "--pending", "5"]),
        &["error: invalid value '5' for '--pending <DURATION>': is not a duration such as 90s, 5m or 1h30m\n"],
    );
    assert_usage_error(
        orchestr(&["run"]).env("ORCHESTR_STREAMING_LISTS", "maybe"),
        &["error: invalid value 'maybe' for '--streaming-lists <WHEN>'\n", "[possible values: auto, always, never]"],
    );
    assert_usage_error(
        &mut orchestr(&["run", "--pod-log-reads", "0"]),
        &["error: invalid value '0' for '--pod-log-reads <COUNT>': 0 is not in 1..=256\n"],
    );
}

#[test]
fn reports_flags_that_cannot_be_used_in_one_line() {
    assert_fails(
        orchestr(&["run"]).env("ORCHESTR_NAMESPACES", "shop,Cart"),
        "--namespaces: \"Cart\" is not a namespace: lower-case letters, digits and '-', at most 63 of them",
    );
    assert_fails(
        orchestr(&["run"]).env("ORCHESTR_LOG", "orchestr=loud"),
        "--log: \"orchestr=loud\" is not a log filter such as info or orchestr=debug",
    );
    assert_fails(
        &mut orchestr(&["scan", "-l", "app on cart"]),
        "--selector: \"app on cart\" is not a label requirement such as app=cart, app!=cart, app in (cart,shop), app, !app or cores>2",
    );
}

#[test]
fn prints_help_version_and_crd_to_standard_output() {
    let (code, out, err) = ends(&mut orchestr(&["crd"]));
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, include_str!("../../crd/orchestr.yaml"));
    for (args, part) in [
        (["completions", "bash"].as_slice(), "complete -F _orchestr"),
        (&["completions", "zsh"], "#compdef orchestr"),
        (&["--version"], &format!("orchestr {}\n", version_and_revision())),
        (&["scan", "--help"], "Usage: orchestr scan"),
    ] {
        let (code, out, err) = ends(&mut orchestr(args));
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        assert!(out.contains(part), "{args:?}: {out}");
    }
}

/// krew links the program as `kubectl-orchestr` into a folder of PATH, and kubectl runs it for `kubectl orchestr`.
#[test]
fn shows_how_it_was_called_in_help_and_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    for (name, shown) in [("kubectl-orchestr", "kubectl orchestr"), ("orchestr", "orchestr"), ("orc", "orc")] {
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_orchestr"), &link).unwrap();
        let call = |args: &[&str]| ends(Command::new(&link).args(args).env_clear());
        let (code, out, _) = call(&["--help"]);
        assert!(code == 0 && out.contains(&format!("\nUsage: {shown} <COMMAND>\n")), "{out}");
        let (code, out, _) = call(&["scan", "--help"]);
        assert!(code == 0 && out.contains(&format!("\nUsage: {shown} scan [OPTIONS]\n")), "{out}");
        let (code, _, err) = call(&["scan", "--pending"]);
        assert!(code == 2 && err.contains("\nFor more information, try '--help'.\n"), "{err}");
        assert_eq!(call(&["--version"]).1, format!("orchestr {}\n", version_and_revision()));
    }
}

#[test]
fn lists_the_searched_places_if_there_is_no_kubeconfig() {
    for command in ["run", "scan"] {
        assert_fails(
            &mut orchestr(&[command]),
            "no cluster to ask: there is no ~/.kube/config, and this is not a pod of a cluster; name a kubeconfig with \
             --kubeconfig or KUBECONFIG",
        );
        assert_fails(orchestr(&[command]).env("KUBECONFIG", "/no/such"), "there is no kubeconfig at /no/such");
        let (code, _, err) = ends(orchestr(&[command]).env("KUBERNETES_SERVICE_HOST", "10.0.0.1"));
        assert_eq!(code, 2);
        assert!(err.starts_with("orchestr: cannot use the pod's service account: "), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn names_an_unreachable_cluster() {
    let folder = tempfile::tempdir().unwrap();
    // A port that was just released refuses connections.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let path = kubeconfig(folder.path(), &format!("https://{address}"), OTHER_CA, json!({}));
    for command in ["run", "scan"] {
        assert_fails(
            &mut orchestr(&[command, "--kubeconfig", text(&path)]),
            &format!(
                "cannot reach the cluster at https://{address}: connection refused; is it running, and is context \
                 \"here\" the right one?"
            ),
        );
    }
}

#[test]
fn uses_the_proxy_unless_no_proxy_excludes_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let path = kubeconfig(folder.path(), "https://k8s.example.invalid", OTHER_CA, json!({}));
    let error = |name: &str, value: &str| {
        let mut command = orchestr(&["scan", "--kubeconfig", text(&path)]);
        ends(command.env("HTTPS_PROXY", format!("http://{gone}")).env(name, value)).2
    };
    let by_proxy = error("NO_PROXY", "other.invalid");
    assert!(by_proxy.contains("connection refused"), "{by_proxy}");
    let directly = error("NO_PROXY", "example.invalid");
    assert!(!directly.contains("refused") && directly.contains("cannot reach the cluster"), "{directly}");
}

#[tokio::test]
async fn rejects_a_cluster_with_another_certificate_authority() {
    let plane = orchestr_testbed::shared().await;
    let folder = tempfile::tempdir().unwrap();
    let path = kubeconfig(folder.path(), plane.url(), OTHER_CA, json!({"token": "hunter2"}));
    for command in ["run", "scan"] {
        assert_fails(
            &mut orchestr(&[command, "--kubeconfig", text(&path)]),
            &format!(
                "cannot trust the cluster at {}: invalid peer certificate: UnknownIssuer; check the kubeconfig's \
                 certificate-authority-data and server",
                plane.url()
            ),
        );
    }
}

#[tokio::test]
async fn prints_no_credentials_when_they_are_rejected() {
    let plane = orchestr_testbed::shared().await;
    let mut config = plane.anonymous_config();
    config.auth_info.token = Some("hunter2".to_owned().into());
    let path = plane.kubeconfig_for("expired", &config).unwrap();
    for command in ["run", "scan"] {
        assert_fails(
            &mut orchestr(&[command, "--kubeconfig", text(&path)]),
            &format!(
                "the cluster at {} rejects the credentials of context \"testbed\": they may have expired; log in again, \
                 and check with `kubectl auth whoami`",
                plane.url()
            ),
        );
    }
    let plugin = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "interactiveMode": "Never",
        "args": ["-c", "echo hunter2; exit 3"],
    }});
    let folder = tempfile::tempdir().unwrap();
    let path = kubeconfig(folder.path(), plane.url(), OTHER_CA, plugin);
    assert_fails(
        &mut orchestr(&["scan", "--kubeconfig", text(&path)]),
        "the kubeconfig's credential plugin failed (exit status: 3): run it by hand to see why",
    );
}

#[tokio::test]
async fn names_a_missing_permission_and_the_command_that_grants_it() {
    let env = TestEnv::new("refused").await;
    let accounts = Api::<ServiceAccount>::namespaced(env.client.clone(), &env.namespace);
    let account = serde_json::from_value(json!({"metadata": {"name": "nobody"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let namespace = &env.namespace;
    let access = env.plane.service_account(namespace, "nobody").await.unwrap();
    let path = text(access.kubeconfig());
    let user = format!("system:serviceaccount:{namespace}:nobody");

    assert_fails(
        &mut orchestr(&["scan", "--kubeconfig", path]),
        &format!(
            "RBAC does not allow \"{user}\" to list pods in all namespaces: check with `kubectl auth can-i list pods \
             --all-namespaces`, grant it with `kubectl create clusterrolebinding orchestr-scan --clusterrole=view \
             --serviceaccount={namespace}:nobody`, or check one namespace with -n"
        ),
    );
    assert_fails(
        &mut orchestr(&["run", "--kubeconfig", path]),
        &format!(
            "RBAC does not allow \"{user}\" to list orchestrs.kopf.dev in all namespaces: check with `kubectl auth can-i list \
             orchestrs.kopf.dev --all-namespaces --as {user}`, grant it with `kubectl apply -k deploy`"
        ),
    );

    // The remedy in the error message works.
    let grant = ["create", "rolebinding", "orchestr-scan", "--namespace", namespace, "--clusterrole=view"];
    let subject = format!("--serviceaccount={namespace}:nobody");
    let granted = env.plane.kubectl(&[grant.as_slice(), &[&subject]].concat(), None).await.unwrap();
    assert!(granted.status.success(), "{}", granted.stderr);
    let (_, _, err) = orchestr_testbed::eventually("the grant is in effect", crate::support::TIMEOUT, async || {
        let outcome = ends(&mut orchestr(&["scan", "--kubeconfig", path, "-n", namespace]));
        if outcome.0 == 0 { Ok(outcome) } else { Err(outcome.2) }
    })
    .await
    .unwrap();
    assert_eq!(err, format!("No pods found in {namespace} namespace.\n"));
}

#[tokio::test]
async fn scan_reports_the_same_problems_as_the_status() {
    let env = TestEnv::new("scan").await;
    env.pod("well", healthy()).await;
    let kubeconfig = text(env.plane.admin_kubeconfig());
    let namespace = env.namespace.as_str();
    let scan =
        |more: &[&str]| ends(&mut orchestr(&[&["scan", "--kubeconfig", kubeconfig, "-n", namespace], more].concat()));
    assert_eq!(scan(&[]), (0, String::new(), format!("No problems in {namespace} namespace: 1 pod.\n")));

    let labels = json!({"metadata": {"labels": {"app": "cart"}}});
    env.pod_with("ill", labels, crash_looping(7)).await;
    let (code, out, err) = scan(&[]);
    assert_eq!((code, err), (1, format!("1 of 2 pods in {namespace} namespace has a problem.\n")));
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split("  ").map(str::trim).collect()).collect();
    let words = |row: usize| rows[row].iter().filter(|cell| !cell.is_empty()).copied().collect::<Vec<_>>();
    assert_eq!(words(0), ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "REASON", "MESSAGE"]);
    assert_eq!(words(1)[..3], ["ill", "0/1", "CrashLoopBackOff"]);
    let sentence = "app was OOM-killed 60 s after its start, 7 restarts; it has no memory limit of its own";
    assert_eq!(words(1)[5..], ["OOMKilled", sentence]);
    assert_eq!(rows.len(), 2);

    let (code, out, err) = scan(&["-o", "json"]);
    assert_eq!((code, err.as_str()), (1, ""));
    let mut json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&json["watchedPods"], &json["problematicPodCount"], &json["unreadablePods"]),
        (&json!(2), &json!(1), &json!(0))
    );
    let (_, out, _) = scan(&["-o", "yaml"]);
    assert_eq!(serde_yaml::from_str::<Value>(&out).unwrap(), json);
    // The same problems as in an object's status.
    env.object("all", json!({"alerts": {"checkRunningPods": true}})).await;
    let operator = env.operator().start();
    let status = env.wait_for_status("all", "the problem", |status| status.problematic_pod_count == 1).await;
    operator.stop().await;
    let mut theirs = serde_json::to_value(&status.problematic_pods).unwrap();
    for issue in theirs[0]["containerIssues"].as_array_mut().unwrap() {
        for field in ["logs", "logSource", "logNote"] {
            issue.as_object_mut().unwrap().remove(field);
        }
    }
    // Only a scan does not know when the crash loop began.
    assert_eq!(json["problematicPods"][0].as_object_mut().unwrap().remove("sinceAtLatest"), Some(json!(true)));
    assert_eq!(theirs, json["problematicPods"]);

    assert_eq!(scan(&["-l", "app=cart"]).2, format!("1 of 1 pods in {namespace} namespace has a problem.\n"));
    assert_eq!(scan(&["-l", "app notin (cart)"]).2, format!("No problems in {namespace} namespace: 1 pod.\n"));
    assert_eq!(scan(&["-l", "app=none"]).2, format!("No pods found in {namespace} namespace.\n"));
    let (code, _, _) = scan(&["--restarted", "0s"]);
    assert_eq!(code, 1, "a running failure is reported immediately, whatever the thresholds");
}

#[tokio::test]
async fn scan_ignores_a_failed_pod_of_a_completed_job() {
    let env = TestEnv::new("scan-job").await;
    let owner = env.job("sums", json!({})).await;
    env.pod_with("sums-a", owner, json!({"phase": "Failed", "reason": "Evicted"})).await;
    let scan = || {
        let kubeconfig = text(env.plane.admin_kubeconfig());
        ends(&mut orchestr(&["scan", "--kubeconfig", kubeconfig, "-n", &env.namespace]))
    };
    let (code, _, err) = scan();
    assert_eq!((code, err), (1, format!("1 of 1 pods in {} namespace has a problem.\n", env.namespace)));

    env.set_status_of::<Job>("sums", completed(5)).await;
    let (code, _, err) = scan();
    assert_eq!((code, err), (0, format!("No problems in {} namespace: 1 pod.\n", env.namespace)));
}

#[tokio::test]
async fn scan_reads_thousands_of_pods_in_pages() {
    let plane = orchestr_testbed::shared().await;
    let namespace = plane.namespace("scan-pages").await.unwrap();
    // More than two pages; one workload in 20 is crash-looping.
    let shape = Shape { namespaces: 1, workloads: 20, crash_looping: 20, ..Shape::default() };
    let ours = |text: String| text.replace("team-0", &namespace);
    let pods = (0..1_200).map(|index| filler(index, &shape)).map(|(key, pod)| (ours(key), ours(pod)));
    plane.load(pods).await.unwrap();
    let scan = |more: &[&str]| {
        let kubeconfig = text(plane.admin_kubeconfig());
        ends(&mut orchestr(&[&["scan", "--kubeconfig", kubeconfig, "-n", &namespace], more].concat()))
    };
    let (code, out, err) = scan(&[]);
    assert_eq!((code, err), (1, format!("60 of 1,200 pods in {namespace} namespace have problems.\n")));
    assert_eq!(out.lines().count(), 61);
    let document: Value = serde_json::from_str(&scan(&["-o", "json"]).1).unwrap();
    assert_eq!(document["problematicPods"].as_array().map(Vec::len), Some(60));
    assert_eq!(document["incidents"].as_array().map(Vec::len), Some(1));
}

#[test]
fn scan_reads_a_file_without_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pods.json");
    std::fs::write(&path, list(&real_pods())).unwrap();
    let (code, out, err) = ends(&mut orchestr(&["scan", "-f", text(&path)]));
    assert_eq!((code, err.as_str()), (1, "19 of 27 pods have problems.\n"));
    assert!(out.starts_with("NAMESPACE   NAME ") && out.lines().count() == 20, "{out}");

    let yaml = serde_yaml::to_string(&json!({"apiVersion": "v1", "kind": "List", "items": real_pods()})).unwrap();
    assert_eq!(fed(&["scan", "-f", "-"], &yaml), (code, out, err));
}

#[test]
fn scan_judges_a_file_as_of_a_given_time() {
    let pod = json!({
        "kind": "Pod", "metadata": {"name": "slow", "namespace": "shop", "creationTimestamp": "2026-03-01T12:00:00Z"},
        "spec": {"containers": [{"name": "app"}]}, "status": {"phase": "Pending"},
    });
    let at = |time: &str, more: &[&str]| fed(&[&["scan", "-f", "-", "--at", time], more].concat(), &pod.to_string()).0;
    assert_eq!(at("2026-03-01T12:00:30Z", &[]), 0);
    assert_eq!(at("2026-03-01T12:01:30Z", &[]), 1);
    assert_eq!(at("2026-03-01T12:01:30Z", &["--pending", "5m"]), 0);
}

#[test]
fn rejects_a_file_without_pods_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    assert_fails(
        &mut orchestr(&["scan", "-f", "/no/such"]),
        "cannot read pods from /no/such: No such file or directory (os error 2)",
    );
    assert_fails(
        &mut orchestr(&["scan", "-f", text(folder.path())]),
        &format!("cannot read pods from {}: Is a directory (os error 21)", folder.path().display()),
    );
    let (code, out, err) = fed(&["scan", "-f", "-"], r#"{"kind":"Secret","data":{"password":"hunter2"}}"#);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(
        err,
        "orchestr: cannot read pods from standard input: it contains a Secret instead of pods: create it with `kubectl \
         get pods -A -o json`\n"
    );
}

#[test]
fn scan_reports_pods_that_could_not_be_decoded() {
    let bad =
        json!({"kind": "Pod", "metadata": {"name": "bad", "namespace": "shop"}, "status": {"phase": ["hunter2"]}});
    let service = json!({"kind": "Service", "metadata": {"name": "cart"}});
    let well = json!({"kind": "Pod", "metadata": {"name": "well"}, "status": {"phase": "Succeeded"}});
    assert_eq!(
        fed(&["scan", "-f", "-"], &list(&[bad.clone(), service.clone(), well.clone()])),
        (
            2,
            String::new(),
            "orchestr: cannot decode 1 pod: shop/bad\n\
         orchestr: skipped 1 object of another kind, such as a Service\n\
         No problems: 1 pod.\n"
                .to_owned()
        )
    );
    // A Job is read, so it is not among the skipped objects.
    let other = |kind: &str| json!({"kind": kind, "metadata": {"name": "cart"}});
    let (_, _, err) = fed(&["scan", "-f", "-"], &list(&[other("Job"), service, other("ConfigMap"), well]));
    assert_eq!(
        err,
        "orchestr: skipped 2 objects of another kind, such as a Service\n\
         No problems: 1 pod.\n"
    );
    let ill = json!({"kind": "Pod", "metadata": {"name": "ill"}, "status": {"phase": "Failed"}});
    assert_eq!(fed(&["scan", "-f", "-"], &list(&[bad, ill])).0, 1, "a problem weighs more");
}

#[test]
fn scan_succeeds_if_its_output_pipe_is_closed() {
    let pods: Vec<_> = real_pods().into_iter().cycle().take(300).collect();
    for output in ["table", "json", "yaml"] {
        let mut child = orchestr(&["scan", "-f", "-", "-o", output])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        child.stdin.take().unwrap().write_all(list(&pods).as_bytes()).unwrap();
        let (code, _, err) = code_and_output(finish(child, TIMEOUT).unwrap());
        assert_eq!(code, 1, "{output}: {err}");
        assert!(!err.contains("orchestr:") && !err.contains("panicked"), "{output}: {err}");
    }
}

#[test]
fn prints_colours_and_progress_only_to_terminals() {
    let input = list(&real_pods());
    let (_, out, err) = fed(&["scan", "-f", "-"], &input);
    assert!(!out.contains('\u{1b}') && !err.contains(['\u{1b}', '\r']), "{out}{err}");
    let coloured = |name: &str, value: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pods.json");
        std::fs::write(&path, &input).unwrap();
        let mut command = orchestr(&["scan", "-f", text(&path)]);
        ends(command.env("CLICOLOR_FORCE", "1").env(name, value)).1.contains('\u{1b}')
    };
    assert!(coloured("TERM", "xterm"));
    assert!(!coloured("NO_COLOR", "1"));
}
