//! `--metrics-address` and `--heartbeat-url-file` of the binary.

use std::{net::TcpListener, process::Stdio};

use orchestr::version::{REVISION, VERSION};
use orchestr_testbed::{eventually, free_port, page};

use crate::{
    command::{assert_fails, orchestr},
    support::TIMEOUT,
    test_env::{TestEnv, watch_all},
};

#[test]
fn names_an_address_that_is_none_or_in_use() {
    let run = |address: &str| orchestr(&["run", "--kubeconfig", "/nonexistent", "--metrics-address", address]);
    let wrong = "--metrics-address: \"localhost:80\" must be :PORT or IP:PORT, such as :8080 or 127.0.0.1:8080";
    assert_fails(&mut run("localhost:80"), wrong);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let in_use = format!("cannot listen on --metrics-address {address}: Address already in use (os error 98)");
    assert_fails(&mut run(&address), &in_use);
}

#[test]
fn names_an_unusable_heartbeat_file_without_its_content() {
    let run = |path: &str| orchestr(&["run", "--kubeconfig", "/nonexistent", "--heartbeat-url-file", path]);
    let missing = "--heartbeat-url-file /nonexistent/url: cannot read the file: No such file or directory (os error 2)";
    assert_fails(&mut run("/nonexistent/url"), missing);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "http://example.com/hunter2").unwrap();
    let path = file.path().display().to_string();
    let plain = "the file's content is an http:// URL, which only --webhook-allow-http allows";
    assert_fails(&mut run(&path), &format!("--heartbeat-url-file {path}: {plain}"));
}

#[tokio::test]
async fn the_binary_serves_metrics_and_probes() {
    let env = TestEnv::new("serves").await;
    env.object("cluster", watch_all()).await;
    let port = free_port().unwrap();
    let mut command = tokio::process::Command::from(orchestr(&["run", "--namespaces", &env.namespace]));
    command.args(["--metrics-address", &format!(":{port}")]).arg("--kubeconfig").arg(env.plane.admin_kubeconfig());
    let _operator = command.kill_on_drop(true).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("it is ready", TIMEOUT, async || page(port, "/readyz", "").await.map_err(|error| error.to_string()))
        .await
        .unwrap();
    assert_eq!(page(port, "/livez", "").await.unwrap(), "ok\n");
    let metrics = page(port, "/metrics", "Accept: application/openmetrics-text\r\n").await.unwrap();
    assert!(metrics.ends_with("# EOF\n") && metrics.contains("\norchestr_synced 1\n"), "{metrics}");
    let revision = REVISION.unwrap_or("unknown");
    let version = format!("orchestr_build_info{{version=\"{VERSION}\",revision=\"{revision}\"}} 1");
    assert!(metrics.contains(&version), "{metrics}");
}
