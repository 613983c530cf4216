//! `orchestr scan`: checks the pods of a cluster or of a file once.

mod cluster;
mod collector;
mod document;
mod file;
mod file_error;
mod namespaces;
mod object;
mod progress;
mod selector;
mod table;
mod yaml;

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
    report::{PodFinding, in_full},
};

use super::{
    Failure,
    connect::{ConnectionFlags, Retries, connect},
    ignore_broken_pipe,
};
use collector::{Collector, Filter};
use namespaces::Namespaces;
use progress::{Progress, thousands};
use selector::LabelSelector;
use table::Layout;

/// The exit code when pods have problems.
const PROBLEMS: u8 = 1;
/// The exit code when no problem was found, but not every pod could be checked.
const INCOMPLETE: u8 = 2;
/// The size of the read buffer for a file, in bytes.
const BUFFER_SIZE: usize = 256 * 1024;

/// The flags of `orchestr scan`.
#[derive(Debug, Args)]
pub(super) struct ScanFlags {
    #[command(flatten)]
    connection: ConnectionFlags,

    /// Check only these namespaces: names, or patterns such as team-*; may be repeated
    #[arg(short, long, value_name = "NAMESPACE,…")]
    namespace: Vec<String>,

    /// Check all namespaces; this is the default
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Check only pods with these labels, such as app=cart,tier!=web,cores>2
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,

    /// Check the pods in a file written by `kubectl get pods -A -o json` or -o yaml; - is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,

    /// The time for which to check the pods of a file, such as 2026-03-01T12:00:00Z; now by default
    #[arg(long, value_name = "TIME", requires = "filename", value_parser = time)]
    at: Option<Timestamp>,

    /// Exit 2 if there were no pods to check
    #[arg(long)]
    fail_on_empty: bool,

    /// The output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,

    #[command(flatten)]
    thresholds: ThresholdFlags,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table
    #[default]
    Table,
    /// A table with all columns
    Wide,
    /// JSON with the incidents and pods of an Orchestr object's status
    Json,
    /// The same as YAML
    Yaml,
}

/// The same as `spec.thresholds` of an object, with the same defaults.
#[derive(Debug, Args)]
#[command(next_help_heading = "How long a state may last before it is a problem")]
struct ThresholdFlags {
    /// A pod that is not scheduled, or whose containers are being created; 1m by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pending: Option<Duration>,

    /// A pod whose init container is still running; 5m by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    initializing: Option<Duration>,

    /// A pod that is running but not ready; 2m by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    not_ready: Option<Duration>,

    /// A pod that is still being deleted after its grace period; 1m by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    terminating: Option<Duration>,

    /// How long to report a container after it restarts; 10m by default
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

/// The output of `-o json` and `-o yaml`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScanOutput {
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
    let collector = match &flags.filename {
        Some(path) => scan_file(path, &flags, Filter { namespaces, selector })?,
        None => scan_cluster(&flags, namespaces).await?,
    };
    report_skipped(&collector);
    match flags.output {
        Output::Table => print_table(&collector, false)?,
        Output::Wide => print_table(&collector, true)?,
        Output::Json => print_output(&collector, |output| {
            serde_json::to_string_pretty(output).map(|text| text + "\n").map_err(Failure::new)
        })?,
        Output::Yaml => {
            print_output(&collector, |output| serde_yaml::to_string(output).map_err(Failure::new))?;
        }
    }
    Ok(match collector {
        Collector { problems, .. } if !problems.is_empty() => ExitCode::from(PROBLEMS),
        Collector { pods: 0, .. } if flags.fail_on_empty => {
            note("there were no pods to check (--fail-on-empty)");
            ExitCode::from(INCOMPLETE)
        }
        Collector { undecodable: 0, .. } => ExitCode::SUCCESS,
        _ => ExitCode::from(INCOMPLETE),
    })
}

async fn scan_cluster(flags: &ScanFlags, namespaces: Namespaces) -> Result<Collector, Failure> {
    let mut cluster = connect(&flags.connection, Retries::InTheClient).await?;
    let clock = ClusterClock::default();
    cluster.client = clock.wrap_client(cluster.client, |_, _, _| {});
    // The API server evaluates the label selector.
    let filter = Filter { namespaces, selector: LabelSelector::default() };
    let mut collector = Collector::new(flags.thresholds.thresholds(), clock.now(), filter);
    let mut progress = Progress::new();
    let selector = flags.selector.as_deref();
    cluster::read(&cluster, selector, &clock, &mut collector, &mut |pods| progress.update(pods)).await?;
    let unread = cluster::read_jobs(&cluster, &mut collector).await;
    let unexplained = cluster::read_events(&cluster, &mut collector).await;
    collector.explain_problems();
    drop(progress);
    if unread > 0 {
        let jobs = counted(unread as u64, "Job");
        note(&format!("cannot read {jobs}: the failed pods are reported even if a retry has completed the Job"));
    }
    if unexplained > 0 {
        let pods = counted(unexplained as u64, "pod");
        note(&format!("cannot read the events of {pods}: causes that only events prove are missing"));
    }
    Ok(collector)
}

fn scan_file(path: &Path, flags: &ScanFlags, filter: Filter) -> Result<Collector, Failure> {
    let now = flags.at.unwrap_or_else(Timestamp::now);
    let mut collector = Collector::new(flags.thresholds.thresholds(), now, filter);
    let mut progress = Progress::new();
    let is_stdin = path == Path::new("-");
    let result = if is_stdin {
        file::read(io::stdin().lock(), &mut collector, &mut |pods| progress.update(pods))
    } else {
        File::open(path).map_err(Into::into).and_then(|file| {
            file::read(BufReader::with_capacity(BUFFER_SIZE, file), &mut collector, &mut |pods| progress.update(pods))
        })
    };
    drop(progress);
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    result.map_err(|error| Failure::new(format!("cannot read pods from {name}: {error}")))?;
    if let Some(wanted) = collector.namespaces().unmatched().next() {
        return Err(Failure::new(format!("{name} contains no pods of namespace {:?}", wanted.text())));
    }
    collector.apply_jobs();
    collector.explain_problems();
    Ok(collector)
}

/// Prints which objects were not checked.
fn report_skipped(collector: &Collector) {
    if collector.undecodable > 0 {
        let names = collector.undecodable_names.join(", ");
        let more = if collector.undecodable > collector.undecodable_names.len() as u64 { ", …" } else { "" };
        note(&format!("cannot decode {}: {names}{more}", counted(collector.undecodable, "pod")));
    }
    if let Some(kind) = collector.other_kind.as_ref().filter(|kind| *kind != "Job" && *kind != "Event") {
        note(&format!("skipped {} of another kind, such as a {kind}", counted(collector.other_objects, "object")));
    }
}

/// Such as `1 pod` or `2,000 pods`.
fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(count), if count == 1 { "" } else { "s" })
}

fn print_table(collector: &Collector, wide: bool) -> Result<(), Failure> {
    let layout = Layout {
        namespaces: collector.namespaces().single().is_none(),
        wide,
        // A wrapped line cannot be read as a row. `-o wide` shows the whole text.
        width: terminal_size::terminal_size_of(io::stdout()).filter(|_| !wide).map(|(width, _)| width.0.into()),
    };
    if !collector.problems.is_empty() {
        let mut out = anstream::AutoStream::auto(io::stdout().lock());
        let table = table::write(&mut out, &collector.problems, layout, collector.now());
        ignore_broken_pipe(table.and_then(|()| out.flush()))?;
    }
    let place = collector.namespaces().place();
    let pods = thousands(collector.pods);
    print_to_stderr(&match (collector.pods, collector.problems.len()) {
        (0, _) => format!("No pods found{place}."),
        (_, 0) => format!("No problems{place}: {}.", counted(collector.pods, "pod")),
        (_, 1) => format!("1 of {pods} pods{place} has a problem."),
        (_, problems) => format!("{} of {pods} pods{place} have problems.", thousands(problems as u64)),
    });
    Ok(())
}

fn print_output(collector: &Collector, text: impl Fn(&ScanOutput) -> Result<String, Failure>) -> Result<(), Failure> {
    let problems: Vec<_> = collector.problems.iter().map(|(pod, finding)| PodFinding { pod, finding }).collect();
    let (incidents, problematic_pods) = in_full(&problems);
    let text = text(&ScanOutput {
        watched_pods: collector.pods,
        problematic_pod_count: problematic_pods.len(),
        unreadable_pods: collector.undecodable,
        incidents,
        problematic_pods,
    })?;
    let mut out = io::stdout().lock();
    ignore_broken_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints a note to standard error in the form of a failure.
fn note(message: &str) {
    print_to_stderr(&format!("orchestr: {}", Failure::new(message)));
}

fn print_to_stderr(line: &str) {
    // If standard error is closed, the output and the exit code remain.
    let _ = writeln!(io::stderr(), "{line}");
}
