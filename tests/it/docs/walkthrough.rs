//! Runs the commands of `docs/first-steps.md` and `docs/fleet.md` in their order, and compares what they print with what the
//! pages show.

use std::{collections::BTreeSet, path::Path};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use orchestr_testbed::{
    Answer, ControlPlane, Kubelet, Options, eventually,
    pods::{Shape, filler},
};
use regex::Regex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::pages::{Page, root};
use crate::{
    chart::guide::{roll_out, script, workspace},
    pod_statuses::ago,
    running_operator::{EventsWatch, OperatorBuilder},
    support::TIMEOUT,
    test_env::Plane,
};

/// The pods of a new cluster, and the two of the operator.
const HEALTHY: usize = 11;
const LOG: &str = "connecting to the database\nDB_URL is not set\n";

/// A cluster with healthy pods, and with a node on which each new pod crashes.
struct Cluster {
    client: Client,
    /// The node, and the controllers.
    tasks: JoinSet<()>,
}

impl Cluster {
    async fn new(plane: &ControlPlane) -> Self {
        let shape = Shape { namespaces: 1, workloads: HEALTHY, crash_looping: 0, ..Shape::default() };
        let system = |text: String| text.replace("team-0", "kube-system");
        let pods = (0..HEALTHY).map(|index| filler(index, &shape)).map(|(key, pod)| (system(key), system(pod)));
        plane.load(pods).await.unwrap();
        let client = plane.admin().unwrap();
        let kubelet = Kubelet::start(plane, "kind-control-plane").await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(roll_out(client.clone()));
        tasks.spawn(run_pods(client.clone(), kubelet));
        Self { client, tasks }
    }

    /// Without this account, the API server refuses pods.
    async fn create_service_accounts(&self) {
        for namespace in Api::<Namespace>::all(self.client.clone()).list(&ListParams::default()).await.unwrap() {
            let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), &namespace.name_any());
            let account = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
            // It may exist.
            let _ = accounts.create(&PostParams::default(), &account).await;
        }
    }
}

/// Starts new pods, which crash, and ends those that are deleted.
async fn run_pods(client: Client, kubelet: Kubelet) {
    let changes =
        watcher(Api::<Pod>::all(client.clone()), watcher::Config::default()).default_backoff().applied_objects();
    // After an error, the watcher continues.
    let run = changes.filter_map(async |change| change.ok()).for_each(async |pod: Pod| {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
        let spec = pod.spec.unwrap_or_default();
        // Each request fails if the pod was changed in the meantime, which is another event.
        if pod.metadata.deletion_timestamp.is_some() {
            let _ = pods.delete(&name, &DeleteParams::default().grace_period(0)).await;
        } else if spec.node_name.is_none() {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": kubelet.node_name()},
            });
            let _ = pods.create_subresource::<Value, Value>("binding", &name, &PostParams::default(), &binding).await;
        } else if pod.status.and_then(|status| status.container_statuses).is_none() {
            let container = &spec.containers[0].name;
            kubelet.script(&namespace, &name, container, true, Answer::text(LOG));
            let status = json!({"status": crashed(container)});
            let _ = pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
        }
    });
    run.await;
}

/// The status of a pod whose container has failed for the third time.
fn crashed(container: &str) -> Value {
    let time = ago(0);
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": time});
    json!({
        "phase": "Running", "startTime": time,
        "conditions": [condition("PodScheduled", "True"), condition("Initialized", "True"), condition("Ready", "False")],
        "containerStatuses": [{
            "name": container, "ready": false, "started": false, "restartCount": 2, "image": "", "imageID": "",
            "state": {"waiting": {
                "reason": "CrashLoopBackOff",
                "message": format!("back-off 20s restarting failed container={container} pod={container}_shop"),
            }},
            "lastState": {"terminated": {
                "exitCode": 1, "reason": "Error", "startedAt": time, "finishedAt": time,
                "containerID": format!("containerd://{:064}", 2),
            }},
        }],
    })
}

/// The text with the same times and the same space between words. Times differ from run to run, and so does how they are
/// aligned and wrapped.
fn normalized(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, replacement) in
        [(r"\b(\d+(\.\d+)?(ms|[smhd]))+\b", "0s"), (r"\b[0-9a-f]{16}\b", "0123456789abcdef"), (r"\s+", " ")]
    {
        text = Regex::new(pattern).unwrap().replace_all(&text, replacement).into_owned();
    }
    text.trim().to_owned()
}

/// The commands in a block of a console, each with what it prints.
fn prompts(block: &str) -> Vec<(String, String)> {
    let prompts = Regex::new(r"(?m)^\$ ").unwrap();
    let prompts = prompts.split(block).skip(1).map(|prompt| prompt.split_once('\n').unwrap_or((prompt, "")));
    prompts.map(|(command, output)| (command.to_owned(), output.to_owned())).collect()
}

/// Runs a page.
async fn walk_through(page: &Page, cluster: &Cluster, folder: &Path) -> (usize, usize) {
    let (mut scripts, mut outputs) = (0, 0);
    let mut operator = None;
    for code in page.blocks() {
        cluster.create_service_accounts().await;
        match code.language.as_str() {
            "sh" => {
                if operator.is_none() && code.text.contains("samples/minimal.yaml") {
                    operator = Some(
                        OperatorBuilder::new(cluster.client.clone(), "", EventsWatch::default())
                            .whole_cluster()
                            .start(),
                    );
                }
                let ended = script(folder, &code.text).await;
                assert!(ended.succeeded, "{}: {}\n{}\n{}", page.path, code.text, ended.stdout, ended.stderr);
                scripts += 1;
            }
            "console" => {
                for (command, expected) in prompts(&code.text) {
                    let what = format!("{}: {command} prints\n{expected}", page.path);
                    let shown = eventually(&what, TIMEOUT, async || {
                        let printed = script(folder, &format!("{command} 2>&1")).await.stdout;
                        if normalized(&printed) == normalized(&expected) { Ok(()) } else { Err(printed) }
                    });
                    shown.await.unwrap_or_else(|error| panic!("{error}"));
                    outputs += 1;
                }
            }
            // These commands need the nodes of a cluster, or build the program.
            "sh elsewhere" | "yaml" => {}
            other => panic!("{}: a block of {other:?} would not be tested", page.path),
        }
    }
    if let Some(operator) = operator {
        operator.stop().await;
    }
    (scripts, outputs)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_steps_and_the_fleet_print_what_the_pages_show() {
    let plane = Plane::start(Options::default()).await;
    let folder = workspace(&plane, &[("orchestr", env!("CARGO_BIN_EXE_orchestr").into())]).await;
    let cluster = Cluster::new(&plane).await;
    let (scripts, outputs) = walk_through(&Page::read("docs/first-steps.md"), &cluster, folder.path()).await;
    assert!(scripts > 3 && outputs > 3, "{scripts} scripts, {outputs} outputs");
    // Both contexts of the next page are this cluster.
    let started = script(folder.path(), "kubectl run cart -n shop --image=busybox:1.37").await;
    assert!(started.succeeded, "{}", started.stderr);
    let (scripts, outputs) = walk_through(&Page::read("docs/fleet.md"), &cluster, folder.path()).await;
    assert!(scripts > 0 && outputs > 0, "{scripts} scripts, {outputs} outputs");
    drop(cluster.tasks);
}

/// The README shows pods that were recorded on a real kubelet.
#[tokio::test]
async fn the_readme_shows_what_scan_prints_about_recorded_pods() {
    let page = Page::read("README.md");
    let block =
        page.blocks().into_iter().find(|code| code.language == "console" && code.text.contains("--at ")).unwrap();
    let (command, expected) = prompts(&block.text).remove(0);
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_orchestr"), bin.path().join("orchestr")).unwrap();
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
    let mut shell = tokio::process::Command::new("bash");
    let ended =
        shell.args(["-c", &command]).current_dir(root()).env_clear().env("PATH", path).kill_on_drop(true).output();
    let ended = tokio::time::timeout(TIMEOUT, ended).await.unwrap().unwrap();
    assert_eq!(String::from_utf8(ended.stdout).unwrap(), expected);
}

/// The other pages run their commands, with the same words.
#[test]
fn the_commands_of_the_readme_are_those_of_other_pages() {
    let lines = |page: &str, language: &str| -> BTreeSet<String> {
        let blocks = Page::read(page).blocks().into_iter().filter(|code| code.language == language);
        blocks.flat_map(|code| code.text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    let run: BTreeSet<String> =
        ["docs/first-steps.md", "docs/install.md"].iter().flat_map(|page| lines(page, "sh")).collect();
    let readme = lines("README.md", "sh");
    let others: Vec<_> = readme.difference(&run).collect();
    assert!(others.is_empty() && readme.len() > 2, "no page runs {others:?}");
}
