//! What must be true when all is quiet: the book, the status, and the answer of `scan`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use orchestr::api::OrchestrStatus;
use orchestr_testbed::book::{self, Entry, Findings, Span};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{Result, cluster::pod_name, run::Run};

/// The limit until all is quiet: a receiver that failed for long is tried again after up to five minutes, and what returned
/// soon is resolved after as long.
const QUIET: Duration = Duration::from_secs(7 * 60);
/// How long it must stay quiet: longer than the pause between two messages.
const STAYS_QUIET: Duration = Duration::from_secs(35);

/// Waits until all is quiet, and returns what is wrong. Two versions may explain the same problem in other words.
pub async fn verdict(run: &mut Run, program: &Path, one_version: bool) -> Result<Findings> {
    run.cluster.touch_spec().await?;
    let begun = Instant::now();
    let mut quiet_since = None;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        run.replicas.revive(None)?;
        let mut findings = book::check(&run.book(), run.now());
        let status = run.cluster.status().await;
        let broken: BTreeSet<String> = run.cluster.broken.iter().copied().map(pod_name).collect();
        let listed: BTreeSet<String> = status.incidents.iter().map(|incident| incident.owner.name.clone()).collect();
        if broken != listed {
            findings.missing.push(format!("the status lists {listed:?}, but {broken:?} have a problem"));
        }
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
        if ready.is_none_or(|ready| ready.status != "True") {
            findings.missing.push(format!("Ready is {ready:?}"));
        }
        if findings.missing.is_empty() {
            quiet_since.get_or_insert_with(Instant::now);
        } else {
            quiet_since = None;
        }
        let is_quiet = quiet_since.is_some_and(|since| since.elapsed() >= STAYS_QUIET);
        if is_quiet || begun.elapsed() > QUIET {
            if one_version {
                findings.wrong.extend(differences(run, &status, program).await?);
            }
            findings.wrong.extend(history(run, &status));
            findings.wrong.extend(run.replicas.bad_lines());
            println!("quiet after {:.0} s", begun.elapsed().as_secs_f64());
            return Ok(findings);
        }
    }
}

/// Where the status and the answer of `scan` differ.
async fn differences(run: &Run, status: &OrchestrStatus, program: &Path) -> Result<Vec<String>> {
    let output = Command::new(program)
        .args(["scan", "-o", "json", "-n", "shop", "--kubeconfig"])
        .arg(run.cluster.plane.admin_kubeconfig())
        .stdin(Stdio::null())
        .output()
        .await?;
    let scanned: Value = serde_json::from_slice(&output.stdout)?;
    let (status, scanned) = (answers(&json!(status)), answers(&scanned));
    let pods: BTreeSet<&String> = status.keys().chain(scanned.keys()).collect();
    let differ = pods.into_iter().filter(|pod| status.get(*pod) != scanned.get(*pod));
    Ok(differ
        .map(|pod| format!("{pod}: {:?} in the status, {:?} by scan", status.get(pod), scanned.get(pod)))
        .collect())
}

/// What is said about each pod.
fn answers(document: &Value) -> BTreeMap<String, [String; 5]> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = document["problematicPods"].as_array().into_iter().flatten();
    pods.map(|pod| {
        (text(&pod["name"]), ["status", "kind", "reason", "cause", "message"].map(|field| text(&pod[field])))
    })
    .collect()
}

fn history(run: &Run, status: &OrchestrStatus) -> Vec<String> {
    let since_begin = |time: Timestamp| Duration::try_from(time.duration_since(run.begun_at)).unwrap_or_default();
    let entries = status.history.iter();
    let entries: Vec<Entry> =
        entries.map(|own| Entry { name: own.owner.name.clone(), ended: since_begin(own.ended.0) }).collect();
    let spans = status.unwatched.iter();
    let spans: Vec<Span> = spans
        .map(|own| Span {
            from: since_begin(own.from.0),
            until: own.until.as_ref().map_or(run.now(), |until| since_begin(until.0)),
            reason: own.reason.clone(),
        })
        .collect();
    println!("history: {} entries, {} spans", entries.len(), spans.len());
    book::check_history(&run.book(), &entries, &spans, status.omitted_history > 0)
}
