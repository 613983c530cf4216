//! Runs the commands of the pages of the documentation in their order, and compares what they print with what the pages show.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test --test it docs::walkthrough` writes what they print into the pages.

use std::{collections::BTreeSet, fs};

use orchestr_testbed::{Receiver, eventually};
use regex::{Captures, Regex};
use serde_json::Value;

use super::{
    cluster::Cluster,
    examples,
    pages::{Page, pages, root},
    shop::Shop,
};
use crate::{
    chart::guide::{script, shell, workspace},
    running_command::RunningCommand,
    running_operator::RunningOperator,
    support::TIMEOUT,
};

/// The pages with commands that other tests run, or that cannot be run here.
const OTHERS: [(&str, &str); 7] = [
    ("docs/install.md", "chart::guide"),
    ("docs/receivers/custom.md", "alerts::custom renders and sends the samples"),
    ("README.md", "the tests below, and wait::outputs"),
    ("deploy/chart/README.md", "docs/install.md has the same command"),
    ("CONTRIBUTING.md", "needs the tests themselves"),
    ("docs/releasing.md", "needs tags and a registry; release:: builds one"),
    ("docs/reliability.md", ".ci/run has a fault run, and .ci/long the fuzzer"),
];

/// What each script begins with.
const PRELUDE: &str = r#"
# These exit with 1 if pods have problems.
orchestr() {
    case "$1" in
    scan | show | explain) command orchestr "$@" || [ $? = 1 ] ;;
    *) command orchestr "$@" ;;
    esac
}
# The receivers of the test.
export ORCHESTR_WEBHOOK_ALLOW_HTTP=true ORCHESTR_WEBHOOK_ALLOW_LOOPBACK=true
# As in a pipeline of GitHub.
export GITHUB_STEP_SUMMARY=summary.md
"#;

/// The text with the same times and the same space between words. Times differ from run to run, and so does how they are
/// aligned and wrapped.
fn normalized(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, replacement) in [
        (r"\b\d{4}-\d\d-\d\dT[\d:.]+Z", "0s"),
        (r"\b(\d+(\.\d+)?(ms|[smhd]))+\b", "0s"),
        (r"\b\d+ (ms|[smhd])\b", "0s"),
        (r"\b[0-9a-f]{16}\b", "0123456789abcdef"),
        // The test's receiver answers 200 to everything.
        (r"delivered, 2\d\d in", "delivered, 200 in"),
        (r"\s+", " "),
    ] {
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

/// The commands of a pipeline of GitHub or GitLab.
fn pipeline(example: &Value) -> Vec<String> {
    match example {
        Value::Array(items) => items.iter().flat_map(pipeline).collect(),
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| match (name.as_str(), value) {
                ("run", Value::String(command)) => vec![command.clone()],
                ("script", Value::Array(lines)) => lines.iter().map(|line| line.as_str().unwrap().to_owned()).collect(),
                _ => pipeline(value),
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// A reader who runs the commands of pages.
struct Reader {
    cluster: Cluster,
    folder: tempfile::TempDir,
    operator: Option<RunningOperator>,
    /// Gets the messages for the URLs of the pages about receivers.
    receiver: Option<Receiver>,
    /// The pages that were run.
    pages: BTreeSet<String>,
    /// What is not as the pages show it.
    wrong: Vec<String>,
}

impl Reader {
    async fn new() -> Self {
        let cluster = Cluster::new().await;
        let folder = workspace(&cluster.env.plane, &[("orchestr", env!("CARGO_BIN_EXE_orchestr").into())]).await;
        // What a pipeline applies.
        fs::create_dir(folder.path().join("manifests")).unwrap();
        fs::copy(root().join("samples/minimal.yaml"), folder.path().join("manifests/minimal.yaml")).unwrap();
        Self { cluster, folder, operator: None, receiver: None, pages: BTreeSet::new(), wrong: Vec::new() }
    }

    /// Runs the blocks of a page.
    async fn follow(&mut self, path: &str) {
        self.follow_part(&Page::read(path)).await;
    }

    /// The same for a page without some sections.
    async fn follow_part(&mut self, page: &Page) {
        let begun = std::time::Instant::now();
        self.pages.insert(page.path.clone());
        for code in page.blocks() {
            self.cluster.create_service_accounts().await;
            match code.language.as_str() {
                "sh" => self.run(page, &code.text).await,
                "console" => {
                    for (command, expected) in prompts(&code.text) {
                        self.compare(page, &command, &expected).await;
                    }
                }
                "sh interrupted" => {
                    for command in code.text.lines() {
                        self.interrupt(page, command, "").await;
                    }
                }
                "console interrupted" => {
                    for (command, expected) in prompts(&code.text) {
                        self.interrupt(page, &command, &expected).await;
                    }
                }
                "yaml" => self.run_example(page, &code.text).await,
                // These commands need the nodes of a cluster, build the program, or are run by another test.
                "sh elsewhere" => {}
                // These are no commands: the module `receivers` and tests of the commands compare them.
                "text" | "json" => {}
                other => panic!("{}: a block of {other:?} would not be tested", page.path),
            }
        }
        println!("{} took {:.1} s", page.path, begun.elapsed().as_secs_f64());
    }

    async fn run(&mut self, page: &Page, commands: &str) {
        if self.operator.is_none() && commands.contains("samples/minimal.yaml") {
            let operator = self.cluster.env.operator().whole_cluster();
            self.operator = Some(operator.start());
        }
        let commands = self.with_receiver(commands);
        let ended = script(self.folder.path(), &format!("{PRELUDE}{commands}")).await;
        assert!(ended.succeeded, "{}: {commands}\n{}\n{}", page.path, ended.stdout, ended.stderr);
    }

    async fn compare(&mut self, page: &Page, command: &str, expected: &str) {
        // The progress of a wait depends on the time that it takes.
        let errors = if command.starts_with("orchestr wait") { "" } else { "2>&1" };
        let what = format!("{}: {command} prints\n{expected}", page.path);
        let mut printed = String::new();
        let shown = eventually(&what, self.patience(), async || {
            printed = script(self.folder.path(), &format!("{PRELUDE}{command} {errors}")).await.stdout;
            if normalized(&printed) == normalized(expected) { Ok(()) } else { Err(printed.clone()) }
        });
        if let Err(error) = shown.await {
            self.differs(page, expected, &printed, error.to_string());
        }
    }

    /// Runs a command that prints until it is interrupted. A line with ` - ` and a pod is expected when the pod is deleted.
    async fn interrupt(&mut self, page: &Page, command: &str, expected: &str) {
        let running = RunningCommand::start(shell(self.folder.path(), &format!("exec {command}")));
        // The summary.
        running.says("pod").await;
        for line in expected.lines() {
            let (_, change) = line.split_once(' ').unwrap();
            let mut words = change.split(' ');
            let (sign, pod) = (words.next().unwrap(), words.next().unwrap());
            if sign == "-" {
                let (namespace, name) = pod.split_once('/').unwrap();
                self.run(page, &format!("kubectl delete pod -n {namespace} {name}")).await;
            }
            running.prints(&format!(" {sign} {pod} ")).await;
        }
        let (code, printed, err) = running.interrupt().await;
        assert!(code < 2, "{}: {command}: {err}", page.path);
        if !expected.is_empty() && normalized(&printed) != normalized(expected) {
            self.differs(page, expected, &(printed.clone() + "\n"), printed);
        }
    }

    /// Applies an example of an object. Runs the commands of an example of a pipeline.
    async fn run_example(&mut self, page: &Page, text: &str) {
        let example: Value = serde_yaml::from_str(text).unwrap();
        for command in pipeline(&example) {
            self.run(page, &command).await;
        }
        if let Some(object) = examples::object(example).filter(|object| object.get("spec").is_some()) {
            self.cluster.accepts(object).await;
        }
    }

    /// The commands with a URL of the test's receiver instead of the URL of the page.
    fn with_receiver(&self, commands: &str) -> String {
        let Some(receiver) = &self.receiver else { return commands.to_owned() };
        let url = Regex::new(r"url='https://[^']*?(\?routing_key=)?[^'=]*'").unwrap();
        let of_receiver = |found: &Captures| {
            let key = found.get(1).map_or_else(String::new, |key| format!("{}abc123", key.as_str()));
            format!("url='{}{key}'", receiver.url("/"))
        };
        let replaced = url.replace(commands, of_receiver).into_owned();
        // A test must not send anything to the URL of a page.
        let is_local = !commands.contains("=url=") || replaced.contains(&receiver.url("/"));
        assert!(is_local, "the URL of the receiver was not found in {commands}");
        replaced
    }

    /// How long to wait for an output.
    fn patience(&self) -> std::time::Duration {
        if is_update() { TIMEOUT / 6 } else { TIMEOUT }
    }

    /// Notes a difference, or writes it into the page.
    fn differs(&mut self, page: &Page, expected: &str, printed: &str, error: String) {
        if is_update() {
            let text = Page::read(&page.path).text;
            assert_eq!(text.matches(expected).count(), 1, "{}: {expected}", page.path);
            fs::write(root().join(&page.path), text.replace(expected, printed)).unwrap();
        } else {
            self.wrong.push(error);
        }
    }

    async fn stop_operator(&mut self) {
        if let Some(operator) = self.operator.take() {
            operator.stop().await;
        }
    }

    /// Sets up a receiver as its page says, and sends it a test alert.
    async fn follow_receiver(&mut self, name: &str) {
        let page = Page::read(&format!("docs/receivers/{name}.md"));
        let clean = "kubectl delete secrets -n orchestr-system --ignore-not-found ops-webhook ops-headers
            kubectl delete orchestrs -n orchestr-system --field-selector metadata.name!=cluster";
        self.run(&page, clean).await;
        let is_private = page.text.contains("--from-file=ca.crt");
        let receiver = if is_private { Receiver::start_tls().await } else { Receiver::start().await };
        let receiver = receiver.unwrap();
        fs::write(self.folder.path().join("ca.crt"), receiver.ca_pem()).unwrap();
        self.receiver = Some(receiver);
        self.follow_part(&page).await;
        let received = self.receiver.as_ref().unwrap().received();
        let is_test =
            received.iter().any(|request| String::from_utf8_lossy(&request.body).contains("orchestr webhook test"));
        assert!(is_test, "{name} got {received:?}");
    }
}

fn is_update() -> bool {
    std::env::var_os("UPDATE_SNAPSHOTS").is_some()
}

/// All pages on one cluster, because each cluster takes ten seconds and half a gigabyte.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_pages_print_what_they_show() {
    let mut reader = Reader::new().await;
    reader.follow("docs/first-steps.md").await;
    // Both contexts of the next page are this cluster.
    let (fleet_pipelines, page) = Page::read("docs/fleet.md").section("Pipelines");
    reader.run(&page, "kubectl run cart -n shop --image=busybox:1.37").await;
    reader.follow_part(&page).await;
    reader.run(&page, "kubectl delete pod -n shop cart").await;

    reader.cluster.controller.abort();
    let shop = Shop::new(&reader.cluster.env).await;
    let (trouble, rest) = Page::read("docs/pipelines.md").section("What ends a wait early");
    reader.follow_part(&rest).await;
    reader.follow_part(&fleet_pipelines).await;

    shop.break_cart(&reader.cluster.env).await;
    let ledger = "kubectl run ledger -n bank --image=registry.example/ledger:2.1";
    reader.run(&page, "kubectl create namespace bank").await;
    reader.cluster.create_service_accounts().await;
    reader.run(&page, ledger).await;
    reader.follow_part(&trouble).await;
    for name in ["status", "explain", "report", "history", "scan"] {
        reader.follow(&format!("docs/{name}.md")).await;
    }
    let report = fs::read_to_string(reader.folder.path().join("report.html")).unwrap();
    assert!(report.starts_with("<!DOCTYPE html>"), "{report}");
    // The page about scans has deleted it.
    reader.run(&page, ledger).await;
    reader.follow("docs/alerts.md").await;

    reader.stop_operator().await;
    for name in ["discord", "teams", "pagerduty", "alertmanager", "cloudevents", "generic", "slack"] {
        reader.follow_receiver(name).await;
    }
    // The next page shows what a test says if this Role is missing.
    reader.run(&page, "kubectl delete role -n orchestr-system orchestr-webhooks").await;
    reader.follow("docs/receivers/README.md").await;
    reader.follow("docs/operations.md").await;

    let others = OTHERS.map(|(path, _)| path.to_owned());
    let documented: BTreeSet<String> =
        pages().into_iter().filter(has_commands).map(|page| page.path).filter(|path| !others.contains(path)).collect();
    let missing: Vec<_> = documented.difference(&reader.pages).collect();
    assert!(missing.is_empty(), "no test runs the commands of {missing:?}");
    assert!(reader.wrong.is_empty(), "UPDATE_SNAPSHOTS=1 writes the pages:\n{}", reader.wrong.join("\n\n"));
}

fn has_commands(page: &Page) -> bool {
    let is_command = |language: &str| ["sh", "console"].contains(&language.split(' ').next().unwrap_or_default());
    page.blocks().iter().any(|code| is_command(&code.language))
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
