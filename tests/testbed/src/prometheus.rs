//! A real Prometheus on loopback, and promtool.

use std::{ffi::OsString, fs, process::Stdio, time::Duration};

use tokio::{io::AsyncWriteExt, process::Command};

use crate::{
    binaries::prometheus,
    error::{Doing, Result},
    http_get::get,
    port::pick,
    process::{Env, Process, Program, run_dir},
    wait::eventually,
};

/// The limit for its start.
const START: Duration = Duration::from_secs(60);

/// The server. It ends with this value and with this process.
#[derive(Debug)]
pub struct Prometheus {
    port: u16,
    _process: Process,
}

/// The result of promtool.
#[derive(Debug)]
pub struct PromtoolOutput {
    pub success: bool,
    /// Its output and its errors.
    pub text: String,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes a port on loopback every second.
    /// Fails when it cannot be built, or does not start: then with the end of its log.
    pub async fn start(target: u16) -> Result<Self> {
        let built = prometheus().await?.join("prometheus");
        let run = run_dir(&std::env::temp_dir(), "orchestr-prometheus-")?;
        let port = pick()?;
        let config = format!(
            "global: {{scrape_interval: 1s}}\n\
             scrape_configs:\n\
             - {{job_name: orchestr, honor_labels: true, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}\n"
        );
        let file = run.join("prometheus.yml");
        fs::write(&file, config).doing(|| format!("write {}", file.display()))?;
        let args = [
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", run.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ];
        let args = args.map(OsString::from).to_vec();
        let program = Program { name: "prometheus", path: built, args, env: Env::Clean };
        let started = Self { port, _process: Process::spawn(&run, program)? };
        eventually("Prometheus is ready", START, async || match get("Prometheus", port, "/-/ready", "").await {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        })
        .await?;
        Ok(started)
    }

    /// The result of an instant query: a list of samples with their labels.
    pub async fn query(&self, expression: &str) -> Result<Vec<serde_json::Value>> {
        let query: String = form_urlencoded::byte_serialize(expression.as_bytes()).collect();
        let answer = get("Prometheus", self.port, &format!("/api/v1/query?query={query}"), "").await?;
        let answer: serde_json::Value = serde_json::from_str(&answer)?;
        Ok(answer["data"]["result"].as_array().cloned().unwrap_or_default())
    }

    /// The targets that it scrapes, and their state.
    pub async fn targets(&self) -> Result<serde_json::Value> {
        Ok(serde_json::from_str(&get("Prometheus", self.port, "/api/v1/targets", "").await?)?)
    }
}

/// Runs promtool, with this input.
pub async fn promtool(args: &[&str], input: &str) -> Result<PromtoolOutput> {
    let doing = || "run promtool".to_owned();
    let mut command = Command::new(prometheus().await?.join("promtool"));
    command.args(args).kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().doing(doing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // It may end before it has read all.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = child.wait_with_output().await.doing(doing)?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Ok(PromtoolOutput { success: output.status.success(), text })
}

/// The body of a page of a program on loopback, with these header lines.
pub async fn page(port: u16, path: &str, headers: &str) -> Result<String> {
    get("the operator", port, path, headers).await
}

/// A free port on loopback.
pub fn free_port() -> Result<u16> {
    pick()
}
