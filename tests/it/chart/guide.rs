//! Runs every command of `docs/install.md`, in its order, on one cluster.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use futures::StreamExt;
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use orchestr_testbed::{ControlPlane, Options, eventually};
use regex::Regex;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    Ended,
    lifecycle::{copy, inventory},
    readme, repository, run,
};
use crate::{
    command::{ends, orchestr},
    support::TIMEOUT,
    test_env::Plane,
};

const MARKS: [&str; 2] = ["<!-- flags: begin -->\n", "<!-- flags: end -->"];

fn guide() -> String {
    fs::read_to_string(repository("docs/install.md")).unwrap()
}

/// A block of code in a document.
#[derive(Debug)]
struct Block {
    language: String,
    text: String,
}

fn blocks(document: &str) -> Vec<Block> {
    let mut parts = document.split("```").skip(1).step_by(2).map(|block| block.split_once('\n').unwrap());
    parts.by_ref().map(|(language, text)| Block { language: language.to_owned(), text: text.to_owned() }).collect()
}

/// A folder with what the commands read, with these programs and with kubectl.
pub(crate) async fn workspace(plane: &ControlPlane, programs: &[(&str, PathBuf)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for part in ["crd", "deploy", "samples"] {
        copy(Path::new(&repository(part)), &folder.path().join(part));
    }
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let kubectl = ("kubectl", orchestr_testbed::kubectl().await.unwrap());
    for (name, program) in programs.iter().chain([&kubectl]) {
        std::os::unix::fs::symlink(fs::canonicalize(program).unwrap(), bin.join(name)).unwrap();
    }
    // Both names are this cluster.
    let mut config: Value = serde_json::from_str(&fs::read_to_string(plane.admin_kubeconfig()).unwrap()).unwrap();
    let context = config["contexts"][0]["context"].clone();
    config["contexts"] =
        ["testbed", "prod-eu", "prod-us"].iter().map(|name| json!({"name": name, "context": context})).collect();
    fs::write(folder.path().join("kubeconfig"), config.to_string()).unwrap();
    folder
}

/// A shell that runs commands in this folder.
pub(crate) fn shell(folder: &Path, commands: &str) -> std::process::Command {
    let mut command = std::process::Command::new("bash");
    let path = format!("{}/bin:{}", folder.display(), std::env::var("PATH").unwrap());
    command.args(["-euo", "pipefail", "-c", commands]).current_dir(folder).env_clear().env("PATH", path);
    command.env("HOME", folder).env("KUBECONFIG", folder.join("kubeconfig"));
    command
}

/// Runs commands in this folder.
pub(crate) async fn script(folder: &Path, commands: &str) -> Ended {
    run(&mut Command::from(shell(folder, commands))).await
}

/// Reports each Deployment as rolled out, as its controller would, and creates the Lease, as the operator would.
pub(crate) async fn roll_out(client: Client) {
    let deployments = Api::<Deployment>::all(client.clone());
    let changes = watcher(deployments, watcher::Config::default()).default_backoff().applied_objects();
    // After an error, the watcher continues.
    let report = changes.filter_map(async |change| change.ok()).for_each(async |deployment: Deployment| {
        let (spec, metadata) = (deployment.spec.unwrap_or_default(), deployment.metadata);
        let replicas = spec.replicas.unwrap_or(1);
        let status = json!({"status": {
            "observedGeneration": metadata.generation, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
        }});
        let namespace = metadata.namespace.unwrap_or_default();
        let lease = serde_json::from_value(json!({"metadata": {"name": "orchestr"}})).unwrap();
        // It may exist.
        let _ = Api::<Lease>::namespaced(client.clone(), &namespace).create(&PostParams::default(), &lease).await;
        let api = Api::<Deployment>::namespaced(client.clone(), &namespace);
        // It may have been deleted.
        let _ =
            api.patch_status(&metadata.name.unwrap_or_default(), &PatchParams::default(), &Patch::Merge(status)).await;
    });
    report.await;
}

#[tokio::test]
async fn every_command_of_the_installation_guide_works() {
    let plane = Plane::start(Options::default()).await;
    let before = inventory(&plane).await;
    let folder = workspace(&plane, &[("helm", orchestr_testbed::helm().await.unwrap())]).await;
    let mut controller = tokio::task::JoinSet::new();
    controller.spawn(roll_out(plane.admin().unwrap()));
    let document = guide();
    let (mut scripts, mut lists) = (0, 0);
    for Block { language, text } in blocks(&document) {
        match language.as_str() {
            "sh" => {
                let output = script(folder.path(), &text).await;
                assert!(output.succeeded, "{text}\n{}\n{}", output.stdout, output.stderr);
                scripts += 1;
            }
            "text left" => {
                let expected: BTreeSet<String> = text.lines().map(str::to_owned).collect();
                eventually("exactly this remains", TIMEOUT, async || {
                    let left: BTreeSet<_> = inventory(&plane).await.difference(&before).cloned().collect();
                    if left == expected { Ok(()) } else { Err(format!("{left:#?}")) }
                })
                .await
                .unwrap();
                lists += 1;
            }
            other => panic!("a block of {other:?} would not be tested"),
        }
    }
    assert!(scripts > 10 && lists > 2, "{scripts} scripts, {lists} lists");
}

/// The value of the chart that sets a flag.
fn value(flag: &str) -> String {
    match flag {
        "leader-elect" => "`leaderElection.enabled`".to_owned(),
        "lease-name" => "the name of the release, or `fullnameOverride`".to_owned(),
        "lease-namespace" => "the namespace of the release".to_owned(),
        "metrics-address" => "`metrics.enabled`, `metrics.port`".to_owned(),
        "heartbeat-url-file" => "`heartbeat.secretName`, `heartbeat.key`".to_owned(),
        "heartbeat-namespaces" => "`heartbeat.namespaces`".to_owned(),
        "kubeconfig" | "context" => "none: in the cluster, the service account is used".to_owned(),
        flag => {
            let mut words = flag.split('-');
            let first = words.next().unwrap_or_default().to_owned();
            let capitalize = |word: &str| format!("{}{}", word[..1].to_uppercase(), &word[1..]);
            format!("`operator.{}`", first + &words.map(capitalize).collect::<String>())
        }
    }
}

/// `UPDATE_SNAPSHOTS=1` writes the table.
#[test]
fn the_guide_lists_each_flag_with_variable_and_value() {
    let (_, help, _) = ends(&mut orchestr(&["run", "--help"]));
    let variable = Regex::new(r"\[env: (ORCHESTR_(\w+))").unwrap();
    let values = readme::leaves_of_schema();
    let mut table = "| flag | variable | value of the chart |\n|---|---|---|\n".to_owned();
    for found in variable.captures_iter(&help) {
        let (_, [variable, name]) = found.extract();
        let flag = name.to_lowercase().replace('_', "-");
        assert!(help.contains(&format!("--{flag}")), "{flag}");
        let value = value(&flag);
        for path in value.split('`').skip(1).step_by(2) {
            assert!(values.contains(path), "the chart has no value {path}");
        }
        table += &format!("| `--{flag}` | `{variable}` | {value} |\n");
    }
    let document = guide();
    let (before, rest) = document.split_once(MARKS[0]).unwrap();
    let (_, after) = rest.split_once(MARKS[1]).unwrap();
    let expected = format!("{before}{}{table}{}{after}", MARKS[0], MARKS[1]);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(repository("docs/install.md"), expected).unwrap();
    } else {
        assert_eq!(document, expected, "UPDATE_SNAPSHOTS=1 updates the table of docs/install.md");
    }
}

/// Folders in the table of the guide exist, and it lists all.
#[test]
fn the_guide_lists_each_folder_that_can_be_applied() {
    let mut found = BTreeSet::new();
    let mut folders = vec![PathBuf::from(repository("deploy"))];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.ends_with("kustomization.yaml") {
                found.insert(folder.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    // Parts of the others.
    for part in ["deploy/base", "deploy/cluster"] {
        assert!(found.remove(part), "{part}");
    }
    let row = Regex::new(r"(?m)^\| `(deploy[\w/-]*)` \|").unwrap();
    let document = guide();
    let listed: BTreeSet<String> = row.captures_iter(&document).map(|row| row[1].to_owned()).collect();
    found.insert("deploy/webhooks".to_owned());
    assert_eq!(listed, found);
}
