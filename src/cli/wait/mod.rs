//! `orchestr wait`: waits until workloads are rolled out and healthy, and ends early at the first trouble that cannot mend
//! itself.
//!
//! [`decide`](decide::decide) is pure: the objects, the pods, the events and the time in, a decision out. `watches` keeps
//! what the API server has shown, and `waiter` decides again after each change.

mod decide;
mod evidence;
mod facts;
mod newest;
mod observed;
mod outlook;
mod progress;
mod target;
mod waiter;
mod watches;

use std::{process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};
use tokio::time::Instant;

use crate::render::{
    Format,
    document::{Document, End},
};

use super::{
    Failure,
    connect::{Cluster, Retries},
    flags::{ConnectedNamespace, ObjectFlags, duration},
    process::print_document,
    workload,
};
use outlook::Limits;
use target::{Argument, Target, argument};
use waiter::Waiter;

/// The exit code when a target has failed.
const FAILED: u8 = 1;
/// The exit code when the time is over.
const TIMED_OUT: u8 = 3;
/// Each target needs up to three connections.
const MOST_TARGETS: usize = 50;

/// What the exit codes mean, for the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  everything is rolled out and healthy
  1  something has failed
  2  it could not be checked
  3  the time is over";

/// The flags of `orchestr wait`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct WaitFlags {
    /// What to wait for: deployment, statefulset, daemonset, job or pod, or a short name as of kubectl, such as deploy/cart
    #[arg(value_name = "KIND/NAME", value_parser = argument, required_unless_present = "selector")]
    targets: Vec<Argument>,

    /// Wait for the pods with these labels, such as app=cart,tier!=web
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,

    /// How long to wait, such as 90s or 10m; with 0, everything is checked once
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10m")]
    timeout: Duration,

    /// How long new pods must have been ready without a restart; the minReadySeconds of the workload if they are longer
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    stable: Duration,

    /// How long a ConfigMap, a Secret, credentials or a quota may be missing, because somebody may be creating them
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    grace: Duration,

    /// How long after its first start a container may crash, for example until its database is up
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2m")]
    crash_grace: Duration,

    /// After how many restarts a container that is not running crashes in a loop
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..=1000), default_value_t = 3)]
    restarts: i32,

    /// The output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,

    #[command(flatten)]
    objects: ObjectFlags,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text
    #[default]
    Text,
    /// A JUnit report with a test case for each target
    Junit,
    /// Annotations of GitHub Actions
    Github,
}

impl WaitFlags {
    /// The targets, each once.
    fn targets(&self) -> Result<Vec<Target>, Failure> {
        let mut targets: Vec<Target> = Vec::new();
        let mut add = |target: Target| {
            if !targets.contains(&target) {
                targets.push(target);
            }
        };
        for argument in &self.targets {
            match (argument, &self.selector) {
                (Argument::Named(kind, name), _) => add(Target::Named(*kind, name.clone())),
                (Argument::Word(_), Some(_)) => {}
                (Argument::Word(_), None) => {
                    return Err(Failure::new("pods: name a pod as pod/NAME, or select pods with --selector"));
                }
            }
        }
        if let Some(selector) = &self.selector {
            super::scan::check_selector(selector).map_err(|error| Failure::new(format!("--selector: {error}")))?;
            if selector.trim().is_empty() {
                return Err(Failure::new("--selector: it is empty; wait for all pods with a label that they have"));
            }
            add(Target::Selected(selector.clone()));
        }
        if targets.len() > MOST_TARGETS {
            return Err(Failure::new(format!(
                "{} objects are too many to wait for: at most {MOST_TARGETS} can be named",
                targets.len()
            )));
        }
        Ok(targets)
    }
}

pub(super) async fn wait(flags: WaitFlags) -> Result<ExitCode, Failure> {
    let format = match flags.output {
        Output::Text => Format::Text { log_lines: usize::MAX },
        Output::Junit => Format::Junit,
        Output::Github => Format::Github,
    };
    let document = document(&flags).await?;
    print_document(&document, format)?;
    let any = |is_so: fn(&End) -> bool| document.outcomes.iter().any(|outcome| is_so(&outcome.end));
    Ok(match () {
        () if any(|end| matches!(end, End::Failed(_))) => ExitCode::from(FAILED),
        () if any(|end| *end == End::TimedOut) => ExitCode::from(TIMED_OUT),
        () => ExitCode::SUCCESS,
    })
}

/// How the wait for each target has ended.
pub(super) async fn document(flags: &WaitFlags) -> Result<Document, Failure> {
    let begun = Instant::now();
    let targets = flags.targets()?;
    let ConnectedNamespace { cluster, clock, namespace } = flags.objects.connect(Retries::AtTheCaller).await?;
    let WaitFlags { grace, crash_grace, restarts, stable, .. } = *flags;
    let limits = Limits { grace, crash_grace, restarts, stable };
    let log_policy = flags.objects.log_policy();
    let waiter = Waiter { cluster: &cluster, namespace: &namespace, clock, limits, begun, log_policy };
    let outcomes = waiter.wait_for(targets, flags.timeout).await?;
    Ok(Document { subject: namespace, outcomes, ..Document::default() })
}
