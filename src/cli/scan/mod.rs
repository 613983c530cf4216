//! `orchestr scan`: one look at the pods, of the cluster or of a file.

mod cluster;
mod file;
mod namespaces;
mod object;
mod progress;
mod selector;
mod table;
mod tally;

use std::{
    fs::File,
    io::{self, BufReader, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    api::{GoDuration, Incident, ParseDurationError, PodProblem},
    clock::ClusterClock,
    diagnosis::Thresholds,
    report::{Troubled, in_full},
};

use super::{
    Failure,
    connect::{ConnectionFlags, Retries, connect},
    ignore_broken_pipe,
};
use namespaces::Namespaces;
use progress::{Progress, thousands};
use selector::LabelSelector;
use table::Layout;
use tally::{Filter, Tally};

/// The exit code where pods have problems.
const PROBLEMS: u8 = 1;
/// The exit code where nothing wrong was seen, but not everything could be looked at.
const NOT_ALL_SEEN: u8 = 2;
/// How much of a file is read at once, in bytes.
const BUFFER: usize = 256 * 1024;

/// The flags of `orchestr scan`.
#[derive(Debug, Args)]
pub(super) struct ScanFlags {
    #[command(flatten)]
    connection: ConnectionFlags,

    /// Look at these namespaces only: names, or patterns such as team-*; may be repeated
    #[arg(short, long, value_name = "NAMESPACE,…")]
    namespace: Vec<String>,

    /// Look at all namespaces, as is the default
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Look at the pods with these labels only, such as app=cart,tier!=web,cores>2
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,

    /// Look at the pods of a file that `kubectl get pods -A -o json` or -o yaml wrote; - is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,

    /// Judge a file's pods as of this time, such as 2026-03-01T12:00:00Z; now by default
    #[arg(long, value_name = "TIME", requires = "filename", value_parser = time)]
    at: Option<Timestamp>,

    /// Exit 2 if there was no pod to look at
    #[arg(long)]
    fail_on_empty: bool,

    /// What is printed
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,

    #[command(flatten)]
    thresholds: ThresholdFlags,
}

/// What is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table
    #[default]
    Table,
    /// A table with all columns
    Wide,
    /// JSON, with what the status of an Orchestr object holds
    Json,
    /// The same as YAML
    Yaml,
}

/// How long a state may last before it is a problem; the defaults of an object's `spec.thresholds`.
#[derive(Debug, Args)]
#[command(next_help_heading = "How long a state may last before it is a problem")]
struct ThresholdFlags {
    /// Not scheduled, or containers being created; 1m by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pending: Option<Duration>,

    /// An init container that still runs; 5m by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    initializing: Option<Duration>,

    /// Running, but not ready; 2m by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    not_ready: Option<Duration>,

    /// Being deleted, beyond the pod's own grace period; 1m by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    terminating: Option<Duration>,

    /// How long a container that failed and runs again is told; 10m by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    restarted: Option<Duration>,
}

fn time(text: &str) -> Result<Timestamp, &'static str> {
    text.parse().map_err(|_| "is not a time such as 2026-03-01T12:00:00Z or 2026-03-01T13:00:00+01:00")
}

fn duration(text: &str) -> Result<Duration, ParseDurationError> {
    GoDuration::from(text).parse()
}

impl ThresholdFlags {
    fn thresholds(&self) -> Thresholds {
        let defaults = Thresholds::default();
        Thresholds {
            pending: self.pending.unwrap_or(defaults.pending),
            initializing: self.initializing.unwrap_or(defaults.initializing),
            not_ready: self.not_ready.unwrap_or(defaults.not_ready),
            terminating: self.terminating.unwrap_or(defaults.terminating),
            restarted: self.restarted.unwrap_or(defaults.restarted),
            failed: defaults.failed,
        }
    }
}

/// What `-o json` and `-o yaml` print.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    watched_pods: u64,
    problematic_pod_count: usize,
    unreadable_pods: u64,
    incidents: Vec<Incident>,
    problematic_pods: Vec<PodProblem>,
}

pub(super) async fn scan(flags: ScanFlags) -> Result<ExitCode, Failure> {
    let selector = LabelSelector::new(flags.selector.as_deref().unwrap_or_default());
    let selector = selector.map_err(|error| Failure::new(format!("--selector: {error}")))?;
    let namespaces = Namespaces::new(&flags.namespace).map_err(Failure::new)?;
    let tally = match &flags.filename {
        Some(path) => of_file(path, &flags, Filter { namespaces, selector })?,
        None => of_cluster(&flags, namespaces).await?,
    };
    tell_gaps(&tally);
    match flags.output {
        Output::Table => print_table(&tally, false)?,
        Output::Wide => print_table(&tally, true)?,
        Output::Json => print_document(&tally, |document| {
            serde_json::to_string_pretty(document).map(|text| text + "\n").map_err(Failure::new)
        })?,
        Output::Yaml => {
            print_document(&tally, |document| serde_yaml::to_string(document).map_err(Failure::new))?;
        }
    }
    Ok(match tally {
        Tally { troubled, .. } if !troubled.is_empty() => ExitCode::from(PROBLEMS),
        Tally { pods: 0, .. } if flags.fail_on_empty => {
            note("there was no pod to look at (--fail-on-empty)");
            ExitCode::from(NOT_ALL_SEEN)
        }
        Tally { unreadable: 0, .. } => ExitCode::SUCCESS,
        _ => ExitCode::from(NOT_ALL_SEEN),
    })
}

async fn of_cluster(flags: &ScanFlags, namespaces: Namespaces) -> Result<Tally, Failure> {
    let mut cluster = connect(&flags.connection, Retries::InTheClient).await?;
    let clock = ClusterClock::default();
    cluster.client = clock.wrap_client(cluster.client);
    // The API server sees to the labels.
    let filter = Filter { namespaces, selector: LabelSelector::default() };
    let mut tally = Tally::new(flags.thresholds.thresholds(), clock.now(), filter);
    let mut progress = Progress::new();
    let selector = flags.selector.as_deref();
    cluster::read(&cluster, selector, &clock, &mut tally, &mut |pods| progress.tell(pods)).await?;
    let unread = cluster::read_jobs(&cluster, &mut tally).await;
    drop(progress);
    if unread > 0 {
        let jobs = counted(unread as u64, "Job");
        note(&format!("cannot read {jobs}: failed pods are listed even where a retry has completed their Job"));
    }
    Ok(tally)
}

fn of_file(path: &Path, flags: &ScanFlags, filter: Filter) -> Result<Tally, Failure> {
    let now = flags.at.unwrap_or_else(Timestamp::now);
    let mut tally = Tally::new(flags.thresholds.thresholds(), now, filter);
    let mut progress = Progress::new();
    let is_stdin = path == Path::new("-");
    let outcome = if is_stdin {
        file::read(io::stdin().lock(), &mut tally, &mut |pods| progress.tell(pods))
    } else {
        File::open(path).map_err(Into::into).and_then(|file| {
            file::read(BufReader::with_capacity(BUFFER, file), &mut tally, &mut |pods| progress.tell(pods))
        })
    };
    drop(progress);
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    outcome.map_err(|error| Failure::new(format!("cannot read pods from {name}: {error}")))?;
    if let Some(wanted) = tally.namespaces().unseen().next() {
        return Err(Failure::new(format!("{name} holds no pods of namespace {:?}", wanted.text())));
    }
    tally.settle_jobs();
    Ok(tally)
}

/// Tells what was not looked at.
fn tell_gaps(tally: &Tally) {
    if tally.unreadable > 0 {
        let names = tally.unreadable_names.join(", ");
        let more = if tally.unreadable > tally.unreadable_names.len() as u64 { ", …" } else { "" };
        note(&format!("cannot decode {}: {names}{more}", counted(tally.unreadable, "pod")));
    }
    if let Some(kind) = tally.stranger_kind.as_ref().filter(|kind| *kind != "Job") {
        note(&format!("passed over {} of another kind, such as a {kind}", counted(tally.strangers, "object")));
    }
}

/// Such as `1 pod` or `2,000 pods`.
fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", thousands(count), if count == 1 { "" } else { "s" })
}

fn print_table(tally: &Tally, wide: bool) -> Result<(), Failure> {
    let layout = Layout {
        namespaces: tally.namespaces().single().is_none(),
        wide,
        // A line that wraps can't be read as a row; what is cut is to be had with -o wide.
        width: terminal_size::terminal_size_of(io::stdout()).filter(|_| !wide).map(|(width, _)| width.0.into()),
    };
    if !tally.troubled.is_empty() {
        let mut out = anstream::AutoStream::auto(io::stdout().lock());
        let table = table::write(&mut out, &tally.troubled, layout, tally.now());
        ignore_broken_pipe(table.and_then(|()| out.flush()))?;
    }
    let place = tally.namespaces().place();
    let pods = thousands(tally.pods);
    say(&match (tally.pods, tally.troubled.len()) {
        (0, _) => format!("No pods found{place}."),
        (_, 0) => format!("No problems{place}: {}.", counted(tally.pods, "pod")),
        (_, 1) => format!("1 of {pods} pods{place} has a problem."),
        (_, problems) => format!("{} of {pods} pods{place} have problems.", thousands(problems as u64)),
    });
    Ok(())
}

fn print_document(tally: &Tally, text: impl Fn(&Document) -> Result<String, Failure>) -> Result<(), Failure> {
    let troubled: Vec<_> = tally.troubled.iter().map(|(pod, finding)| Troubled { pod, finding }).collect();
    let (incidents, problematic_pods) = in_full(&troubled);
    let text = text(&Document {
        watched_pods: tally.pods,
        problematic_pod_count: problematic_pods.len(),
        unreadable_pods: tally.unreadable,
        incidents,
        problematic_pods,
    })?;
    let mut out = io::stdout().lock();
    ignore_broken_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// A remark beside the output, in the form of a failure.
fn note(sentence: &str) {
    say(&format!("orchestr: {}", Failure::new(sentence)));
}

fn say(line: &str) {
    // Where nobody can be told, the output and the exit code have to do.
    let _ = writeln!(io::stderr(), "{line}");
}
