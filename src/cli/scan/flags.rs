//! The flags of `orchestr scan`, and its exit codes.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use crate::{
    cli::{
        Failure,
        connect::{ConnectionFlags, contexts},
        flags::duration,
    },
    diagnosis::Thresholds,
    render::document::By,
};

/// How long a request to one of several clusters may take by default: those that hang must not delay the others.
const TIMEOUT: Duration = Duration::from_secs(4);
/// The same for the only cluster.
const TIMEOUT_OF_ONE: Duration = Duration::from_secs(60);

/// The exit code when pods have problems.
pub(super) const PROBLEMS: u8 = 1;
/// The exit code when no problem was found, but not every pod could be checked, and when a cluster could not be checked.
pub(super) const INCOMPLETE: u8 = 2;

/// What the exit codes mean, for the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  no pod has a problem
  1  pods have problems
  2  not all pods could be checked, or with --fail-on-empty there were none";

/// The flags of `orchestr scan`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(in crate::cli) struct ScanFlags {
    #[command(flatten)]
    pub(super) clusters: ClusterFlags,

    /// Check only these namespaces: names, or patterns such as team-*; may be repeated
    #[arg(short, long, value_name = "NAMESPACE,…")]
    pub(super) namespace: Vec<String>,

    /// Check all namespaces; this is the default
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(super) all_namespaces: bool,

    /// Check only pods with these labels, such as app=cart,tier!=web,cores>2
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(super) selector: Option<String>,

    /// Check the pods in a file written by `kubectl get pods -A -o json` or -o yaml; - is standard input
    #[arg(short, long, value_name = "FILE")]
    pub(super) filename: Option<PathBuf>,

    /// The time for which to check the pods of a file, such as 2026-03-01T12:00:00Z; now by default
    #[arg(long, value_name = "TIME", requires = "filename", value_parser = time)]
    pub(super) at: Option<Timestamp>,

    /// Also print the containers of these pods and the logs that explain their problems, with credentials masked
    #[arg(long, conflicts_with = "filename")]
    pub(super) logs: bool,

    /// How long to read logs; 20s by default
    #[arg(long, value_name = "DURATION", requires = "logs", value_parser = duration)]
    pub(super) log_timeout: Option<Duration>,

    /// Print groups of pods with their counts, the largest first
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with = "logs")]
    pub(super) by: Option<By>,

    /// Report only problems that began within this time, such as 10m; older ones are counted. A container that crashes again
    /// and again counts if its last crash is within that time, however old the loop is
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) since: Option<Duration>,

    /// Keep watching: on a terminal the table is drawn again, otherwise each change is printed as a line
    #[arg(short, long, conflicts_with_all = ["filename", "all_contexts", "logs", "by", "since", "fail_on_empty"])]
    pub(super) watch: bool,

    /// Exit 2 if there were no pods to check
    #[arg(long)]
    pub(super) fail_on_empty: bool,

    /// The output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(super) output: Output,

    #[command(flatten)]
    pub(super) thresholds: ThresholdFlags,
}

/// Which clusters to scan.
#[derive(Clone, Debug, Args)]
pub(super) struct ClusterFlags {
    /// The kubeconfig file; by default $KUBECONFIG, ~/.kube/config, or the pod's own service account
    #[arg(long, env = "ORCHESTR_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// A context in the kubeconfig, its current context by default; may be repeated to check several clusters
    #[arg(long, env = "ORCHESTR_CONTEXT", value_name = "NAME")]
    context: Vec<String>,

    /// Check the clusters of all contexts in the kubeconfig
    #[arg(long, conflicts_with = "filename")]
    all_contexts: bool,

    /// How long a cluster may take to answer a request; 60s by default, or 4s if there are several clusters
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    request_timeout: Option<Duration>,
}

impl ClusterFlags {
    /// The contexts to scan. Absent if there is only one cluster, which results do not name.
    pub(super) fn contexts(&self) -> Result<Option<Vec<String>>, Failure> {
        let mut names = self.context.clone();
        if self.all_contexts {
            names.extend(contexts(self.kubeconfig.as_deref())?);
        } else if names.len() < 2 {
            return Ok(None);
        }
        let mut unique: Vec<String> = Vec::new();
        for name in names {
            if !unique.contains(&name) {
                unique.push(name);
            }
        }
        Ok(Some(unique))
    }

    /// The connection to a context, or to the only cluster.
    pub(super) fn connection(&self, context: Option<&str>) -> ConnectionFlags {
        let context = context.map(str::to_owned).or_else(|| self.context.first().cloned());
        ConnectionFlags { kubeconfig: self.kubeconfig.clone(), context }
    }

    pub(super) fn timeout(&self, is_one_of_several: bool) -> Duration {
        self.request_timeout.unwrap_or(if is_one_of_several { TIMEOUT } else { TIMEOUT_OF_ONE })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// A table
    #[default]
    Table,
    /// A table with all columns
    Wide,
    /// JSON with the incidents and pods of an Orchestr object's status
    Json,
    /// The same as YAML
    Yaml,
    /// A page for a browser, in one file
    Html,
    /// A summary in Markdown, such as for $GITHUB_STEP_SUMMARY; at most 1 MB
    Markdown,
    /// A JUnit test report with one failed test for each incident
    Junit,
    /// Annotations of a GitHub Actions job, one for each of the ten largest incidents
    Github,
}

impl Output {
    /// Whether `--by` has a meaning.
    pub(super) fn has_groups(self) -> bool {
        matches!(self, Self::Table | Self::Wide | Self::Json | Self::Yaml)
    }
}

/// The same as `spec.thresholds` of an object, with the same defaults.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "How long a state may last before it is a problem")]
pub(super) struct ThresholdFlags {
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
    pub(super) fn thresholds(&self) -> Thresholds {
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
