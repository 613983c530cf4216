//! Measures what the operator costs: runs the release binary in its own process against a real API server with many
//! pods.
//!
//! ```sh
//! cargo bench --bench scale                             # the budgets, at 10,000 and 50,000 pods
//! cargo bench --bench scale -- --pods 150000
//! cargo bench --bench scale -- --quick                  # a minute, to see that it works
//! ```
//!
//! Figures are written to `target/scale/MODE.jsonl`, one JSON object per line.
#![allow(missing_docs, reason = "a bench is not a library")]

mod attacks;
mod budgets;
mod churn;
mod cluster;
mod curves;
mod draw;
mod events;
mod figures;
mod observer;
mod process;
mod rollout;
mod startup;
mod synthetic;
mod tenants;

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
    /// 1,000 Orchestr objects over the same 500 failing pods
    SamePods,
    /// 200 Orchestr objects as large as the API server accepts
    LargeObjects,
    /// From 1 failing pod to 5,000
    Failures,
    /// From no Warning events an hour to 100,000
    Events,
    /// 1,000,000 pods, from an API server of the bench's own
    Million,
    /// Many objects that select the pods of a rollout
    Rollout,
    /// Logs of one line of 3 MB
    LongLogs,
    /// Pods as large as a tenant can make them
    LargePods,
    /// A kubelet that hangs
    Hang,
    /// A tenant who attacks the operator: another object's latency, memory and restarts, for each attack and all together
    Attacks,
    /// The time from exec to the first status, and the memory, in an empty cluster
    Startup,
    /// Nothing: keeps a cluster with the first number of `--pods` running for `--window` seconds, for a profiler
    Hold,
    /// Draws the measured curves into docs/performance/
    Draw,
}

#[derive(Debug, Parser)]
pub struct Flags {
    #[arg(value_enum, default_value = "budgets")]
    mode: Mode,

    /// Sizes of the cluster
    #[arg(long, value_delimiter = ',', default_value = "10000,50000")]
    pub pods: Vec<usize>,

    /// The largest value of a curve's variable, such as its number of objects
    #[arg(long)]
    pub most: Option<usize>,

    /// The smallest number of failing pods
    #[arg(long, default_value_t = 1)]
    pub least: usize,

    /// Orchestr objects, for a rollout
    #[arg(long, default_value_t = 300)]
    pub objects: usize,

    /// Starts for each size
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,

    /// How long to measure each rate of changes, and the idle operator
    #[arg(long, default_value = "60", value_parser = seconds, value_name = "SECONDS")]
    pub window: Duration,

    /// Measure only starts
    #[arg(long)]
    pub no_churn: bool,

    /// Only these attacks, of those in `attacks`; `none` and `all` are names too
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,

    /// The memory at which an operator under attack is killed and started again, in MiB, as by the limit of its Deployment
    #[arg(long, default_value_t = 128)]
    pub memory_limit: u32,

    /// A short run with 2,000 pods
    #[arg(long)]
    pub quick: bool,

    /// Another build of the operator
    #[arg(long, default_value = env!("CARGO_BIN_EXE_orchestr"), hide_default_value = true)]
    pub binary: PathBuf,

    /// The file for the operator's own log
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
        Mode::SamePods => tenants::same_pods(flags).await,
        Mode::LargeObjects => tenants::large_objects(flags).await,
        Mode::Failures => curves::failures(flags).await,
        Mode::Events => events::run(flags).await,
        Mode::Million => synthetic::run(flags).await,
        Mode::Rollout => rollout::run(flags).await,
        Mode::LongLogs => curves::long_logs(flags).await,
        Mode::LargePods => curves::large_pods(flags).await,
        Mode::Hang => curves::hang(flags).await,
        Mode::Attacks => attacks::run(flags).await,
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
                // Dropping the future on Ctrl-C ends all processes that it has started.
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
