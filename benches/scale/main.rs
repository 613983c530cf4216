//! What the operator costs: the release binary as its own process, against a real API server filled with pods.
//!
//! ```sh
//! cargo bench --bench scale                             # the budgets, at 10,000 and 50,000 pods
//! cargo bench --bench scale -- --pods 150000
//! cargo bench --bench scale -- --quick                  # a minute, to see that it works
//! ```
//!
//! Figures are kept under `target/scale/`, a JSON object a line.
#![allow(missing_docs, reason = "nobody uses a bench as a library")]

mod budgets;
mod churn;
mod cluster;
mod curves;
mod draw;
mod figures;
mod observer;
mod process;
mod rollout;
mod startup;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, ValueEnum};

pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type Outcome<T = ()> = Result<T, Error>;

pub fn trouble(text: String) -> Error {
    text.into()
}

/// What to measure.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Mode {
    /// Memory, the first status, processor time and latency, beside their budgets
    Budgets,
    /// The same without changes, from 1,000 pods to 150,000
    Pods,
    /// From 1 Orchestr object to 1,000
    Objects,
    /// From 1 failing pod to 5,000
    Failures,
    /// Objects that all see a rollout
    Rollout,
    /// Logs of one line of 3 MB
    LongLogs,
    /// A kubelet that hangs
    Hang,
    /// From exec to watching, in an empty cluster
    Startup,
    /// Nothing: a cluster of the first of `--pods`, for a profiler, as long as `--window` says
    Hold,
    /// Draws the curves that were measured, into docs/performance/
    Draw,
}

#[derive(Debug, Parser)]
pub struct Flags {
    #[arg(value_enum, default_value = "budgets")]
    mode: Mode,

    /// Sizes of the cluster
    #[arg(long, value_delimiter = ',', default_value = "10000,50000")]
    pub pods: Vec<usize>,

    /// Where a curve ends: a number of what it varies
    #[arg(long)]
    pub most: Option<usize>,

    /// Orchestr objects, for a rollout
    #[arg(long, default_value_t = 300)]
    pub objects: usize,

    /// Starts for each size
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,

    /// How long each rate of changes lasts, and idling
    #[arg(long, default_value = "60", value_parser = seconds, value_name = "SECONDS")]
    pub window: Duration,

    /// Only start-ups
    #[arg(long)]
    pub no_churn: bool,

    /// 2,000 pods, and everything short
    #[arg(long)]
    quick: bool,

    /// Another build of the operator
    #[arg(long, default_value = env!("CARGO_BIN_EXE_orchestr"), hide_default_value = true)]
    pub binary: PathBuf,

    /// Where the operator's own log goes
    #[arg(long)]
    pub log: Option<PathBuf>,

    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

async fn run(flags: &Flags) -> Outcome {
    match flags.mode {
        Mode::Budgets => budgets::run(flags).await,
        Mode::Pods => curves::pods(flags).await,
        Mode::Objects => curves::objects(flags).await,
        Mode::Failures => curves::failures(flags).await,
        Mode::Rollout => rollout::run(flags).await,
        Mode::LongLogs => curves::long_logs(flags).await,
        Mode::Hang => curves::hang(flags).await,
        Mode::Startup => startup::run(flags).await,
        Mode::Hold => budgets::hold(flags).await,
        Mode::Draw => draw::draw(),
    }
}

fn main() -> ExitCode {
    let mut flags = Flags::parse();
    if flags.quick {
        flags.pods = vec![2_000];
        flags.rounds = 1;
        flags.window = Duration::from_secs(5);
    }
    let outcome =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::from).and_then(|runtime| {
            runtime.block_on(async {
                // What was started ends when it is dropped.
                tokio::select! {
                    outcome = run(&flags) => outcome,
                    _ = tokio::signal::ctrl_c() => Err(trouble("interrupted".to_owned())),
                }
            })
        });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
