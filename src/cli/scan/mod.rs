//! `orchestr scan`: checks the pods of clusters or of a file once.

mod cluster;
mod clusters;
mod collector;
mod document;
mod file;
mod logs;
mod namespaces;
mod output;
mod progress;
mod scanned;
mod selector;
mod watch;

use std::{fmt::Display, path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use jiff::Timestamp;

use crate::{
    diagnosis::Thresholds,
    render::{document::counted_in_groups as counted, groups::By},
};

use super::{Failure, duration::duration};
use cluster::scan_cluster;
use clusters::{ClusterFlags, scan_clusters};
use collector::Filter;
use file::scan_file;
use namespaces::Namespaces;
use output::Output;
use progress::Progress;
use scanned::Results;
use selector::LabelSelector;

/// Checks the syntax of a label selector.
pub(super) fn check_selector(text: &str) -> Result<(), impl Display + use<>> {
    LabelSelector::new(text).map(drop)
}

/// The exit code when pods have problems.
const PROBLEMS: u8 = 1;
/// The exit code when no problem was found, but not every pod could be checked, and when a cluster could not be checked.
const INCOMPLETE: u8 = 2;

/// What the exit codes mean, for the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  no pod has a problem
  1  pods have problems
  2  not all pods could be checked, or with --fail-on-empty there were none";

/// The flags of `orchestr scan`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct ScanFlags {
    #[command(flatten)]
    clusters: ClusterFlags,

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

    /// Also print the containers of these pods and the logs that explain their problems, with credentials masked
    #[arg(long, conflicts_with = "filename")]
    logs: bool,

    /// How long to read logs; 20s by default
    #[arg(long, value_name = "DURATION", requires = "logs", value_parser = duration)]
    log_timeout: Option<Duration>,

    /// Print groups of pods with their counts, the largest first
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with = "logs")]
    by: Option<By>,

    /// Report only problems that began within this time, such as 10m; older ones are counted. A container that crashes again
    /// and again counts if its last crash is within that time, however old the loop is
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,

    /// Keep watching: on a terminal the table is drawn again, otherwise each change is printed as a line
    #[arg(short, long, conflicts_with_all = ["filename", "all_contexts", "logs", "by", "since", "fail_on_empty"])]
    watch: bool,

    /// Exit 2 if there were no pods to check
    #[arg(long)]
    fail_on_empty: bool,

    /// The output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,

    #[command(flatten)]
    thresholds: ThresholdFlags,
}

pub(super) async fn scan(flags: ScanFlags) -> Result<ExitCode, Failure> {
    let selector = LabelSelector::new(flags.selector.as_deref().unwrap_or_default());
    let selector = selector.map_err(|error| Failure::new(format!("--selector: {error}")))?;
    let namespaces = Namespaces::new(&flags.namespace).map_err(Failure::new)?;
    if flags.by.is_some() && !flags.output.has_groups() {
        return Err(Failure::new("--by is for tables, -o json and -o yaml"));
    }
    if flags.watch {
        return watch::watch(&flags, Filter { namespaces, selector }).await;
    }
    let results = match &flags.filename {
        Some(path) => Results::one(scan_file(path, &flags, Filter { namespaces, selector })?),
        None => match flags.clusters.contexts()? {
            Some(contexts) => scan_clusters(contexts, &flags, &namespaces).await,
            None => {
                let mut progress = Progress::new();
                let scan = scan_cluster(&flags, None, namespaces, || {}, &mut |pods| progress.update(pods)).await;
                drop(progress);
                Results::one(scan?)
            }
        },
    };
    output::print_notes(&results);
    output::print(&results, &flags)?;
    let is_complete = results.unscanned().next().is_none();
    Ok(match (results.problems(), results.pods(), results.undecodable()) {
        _ if !is_complete => ExitCode::from(INCOMPLETE),
        (1.., _, _) => ExitCode::from(PROBLEMS),
        (_, 0, _) if flags.fail_on_empty => {
            output::note("there were no pods to check (--fail-on-empty)");
            ExitCode::from(INCOMPLETE)
        }
        (_, _, 0) => ExitCode::SUCCESS,
        _ => ExitCode::from(INCOMPLETE),
    })
}

/// The same as `spec.thresholds` of an object, with the same defaults.
#[derive(Clone, Debug, Args)]
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
