//! The Helm chart in `deploy/chart`, with a real Helm and a real API server.

mod copies;
pub(crate) mod guide;
mod lifecycle;
mod readme;
mod same_objects;
mod server;
mod values;

use std::{path::PathBuf, process::Stdio, time::Duration};

use orchestr_testbed::ControlPlane;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

/// The limit for a run of Helm or kubectl.
const LIMIT: Duration = Duration::from_secs(3 * 60);
/// The namespace of `deploy/base`.
const SYSTEM: &str = "orchestr-system";

/// The path of a file or folder of the repository.
fn repository(path: &str) -> String {
    format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))
}

fn chart() -> String {
    repository("deploy/chart")
}

/// The result of a program.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) succeeded: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The standard output of a program that succeeded.
    #[track_caller]
    fn ok(self) -> String {
        assert!(self.succeeded, "{}\n{}", self.stdout, self.stderr);
        self.stdout
    }

    /// The error output of a program that failed.
    #[track_caller]
    fn failed(self) -> String {
        assert!(!self.succeeded, "it succeeded: {}", self.stdout);
        self.stderr
    }
}

async fn run(command: &mut Command) -> Ended {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, command.output()).await.expect("the program ends").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { succeeded: output.status.success(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Helm with its caches in a temporary folder.
struct Helm {
    program: PathBuf,
    home: TempDir,
    kubeconfig: PathBuf,
}

impl Helm {
    /// For commands that need no cluster.
    async fn offline() -> Self {
        let program = orchestr_testbed::helm().await.unwrap_or_else(|error| panic!("{error}"));
        let home = tempfile::tempdir().unwrap();
        Self { program, kubeconfig: home.path().join("none"), home }
    }

    /// As the administrator of a cluster.
    async fn of(plane: &ControlPlane) -> Self {
        Self { kubeconfig: plane.admin_kubeconfig().to_owned(), ..Self::offline().await }
    }

    async fn run(&self, args: &[&str]) -> Ended {
        let mut command = Command::new(&self.program);
        command.args(args).env_clear().env("HOME", self.home.path()).env("KUBECONFIG", &self.kubeconfig);
        run(&mut command).await
    }

    /// Renders the chart as a release `orchestr`, with these values in YAML.
    async fn template(&self, values: &str) -> Ended {
        let file = self.values_file(values);
        let args = ["template", "orchestr", &chart(), "--namespace", SYSTEM, "--skip-tests", "--values", &file];
        self.run(&args).await
    }

    fn values_file(&self, values: &str) -> String {
        let file = self.home.path().join(format!("values-{}.yaml", fastrand::u64(..)));
        std::fs::write(&file, values).unwrap();
        file.to_str().unwrap().to_owned()
    }
}

/// The documents of a YAML stream.
fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n").map(|document| document.strip_prefix("---\n").unwrap_or(document));
    let documents = documents.map(|document| serde_yaml::from_str::<Value>(document).expect(document));
    documents.filter(|document| !document.is_null()).collect()
}
