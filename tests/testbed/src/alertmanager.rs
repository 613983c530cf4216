//! A real Alertmanager on loopback.

use std::{ffi::OsString, fs, path::PathBuf, time::Duration};

use crate::{
    binaries::alertmanager,
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
pub struct Alertmanager {
    port: u16,
    _process: Process,
}

impl Alertmanager {
    /// Starts an Alertmanager that forwards firing and resolved alerts to `webhook` almost immediately.
    /// Fails when it cannot be built, or does not start: then with the end of its log.
    pub async fn start(webhook: &str) -> Result<Self> {
        let built = alertmanager().await?;
        let run = run_dir(&std::env::temp_dir(), "orchestr-alertmanager-")?;
        let port = pick()?;
        let config = format!(
            "route: {{receiver: test, group_by: [orchestr, orchestr_uid, cluster], group_wait: 100ms, group_interval: 1s}}\n\
             receivers: [{{name: test, webhook_configs: [{{url: '{webhook}', send_resolved: true}}]}}]\n"
        );
        let file: PathBuf = run.join("alertmanager.yml");
        fs::write(&file, config).doing(|| format!("write {}", file.display()))?;
        let args = [
            format!("--config.file={}", file.display()),
            format!("--storage.path={}", run.display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            // Disables clustering.
            "--cluster.listen-address=".to_owned(),
        ];
        let program =
            Program { name: "alertmanager", path: built, args: args.map(OsString::from).to_vec(), env: Env::Clean };
        let started = Self { port, _process: Process::spawn(&run, program)? };
        eventually("Alertmanager is ready", START, async || match get("Alertmanager", port, "/-/ready", "").await {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        })
        .await?;
        Ok(started)
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The active alerts in its API.
    pub async fn alerts(&self) -> Result<serde_json::Value> {
        Ok(serde_json::from_str(&get("Alertmanager", self.port, "/api/v2/alerts", "").await?)?)
    }
}
