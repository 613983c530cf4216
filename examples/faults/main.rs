//! Runs three replicas of the operator while pods fail and recover and everything around them breaks, and compares what the
//! receivers got with the truth:
//!
//! ```sh
//! cargo run --release --example faults -- --seconds 600 --seed 7
//! ```
//!
//! The seed decides which faults happen, and when. `--skip N` leaves out the first N faults, and `--shrink` looks for the
//! shortest end of the faults that still fails. `--earlier` makes the replicas alternate between this version and
//! an earlier one, which it builds first. docs/reliability.md describes the rules.

#![allow(clippy::print_stdout, reason = "a driver prints")]

mod cluster;
mod replicas;
mod run;
mod schedule;
mod verdict;

use std::{error::Error, path::PathBuf, process::ExitCode, time::Duration};

use orchestr::cli::Cli;
use orchestr_testbed::{book::Findings, earlier_version};

use self::{run::Run, schedule::Fault};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

struct Flags {
    seconds: u64,
    seed: u64,
    skip: usize,
    shrink: bool,
    earlier: Option<PathBuf>,
}

async fn flags() -> Result<Flags> {
    let mut flags = Flags { seconds: 60, seed: fastrand::u64(..1_000_000), skip: 0, shrink: false, earlier: None };
    let mut earlier = false;
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{flag} lacks its value"));
        match flag.as_str() {
            "--seconds" => flags.seconds = value()?.parse()?,
            "--seed" => flags.seed = value()?.parse()?,
            "--skip" => flags.skip = value()?.parse()?,
            "--shrink" => flags.shrink = true,
            "--earlier" => earlier = true,
            _ => return Err(format!("unknown flag {flag}").into()),
        }
    }
    if earlier {
        flags.earlier = Some(earlier_version().await?);
    }
    Ok(flags)
}

fn main() -> ExitCode {
    // The replicas are this program, with the arguments of the operator.
    if std::env::args().nth(1).is_some_and(|command| command == "run" || command == "scan") {
        return Cli::from_command_line().run().unwrap_or_else(|failure| failure.report());
    }
    let passed = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| runtime.block_on(drive()));
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("faults: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the book is right in the end.
async fn drive() -> Result<bool> {
    let flags = flags().await?;
    let faults = schedule::faults(flags.seed, Duration::from_secs(flags.seconds));
    let passed = passes(&flags, &faults, flags.skip).await?;
    if !passed && flags.shrink {
        // Halves the number of faults as long as a run with the rest still fails.
        let (mut failing, mut passing) = (flags.skip, faults.len());
        while passing - failing > 1 {
            let middle = failing.midpoint(passing);
            let bound = if passes(&flags, &faults, middle).await? { &mut passing } else { &mut failing };
            *bound = middle;
        }
        println!("The shortest end of the faults that fails: --seed {} --skip {failing}", flags.seed);
        faults[failing..].iter().for_each(|fault| println!("{fault}"));
    }
    Ok(passed)
}

async fn passes(flags: &Flags, faults: &[Fault], skip: usize) -> Result<bool> {
    let Flags { seed, seconds, .. } = flags;
    println!("=== --seconds {seconds} --seed {seed} --skip {skip}: {} faults", faults.len() - skip);
    let logs = tempfile::Builder::new().prefix("orchestr-faults-").tempdir()?;
    let program = std::env::current_exe()?;
    let versions = [program.clone()].into_iter().chain(flags.earlier.clone()).collect();
    let mut run = Run::start(versions, logs.path()).await?;
    run.play(&schedule::steps(*seed, Duration::from_secs(*seconds), &faults[skip..])).await?;
    let Findings { wrong, missing, accepted, repeated } =
        verdict::verdict(&mut run, &program, flags.earlier.is_none()).await?;
    println!(
        "{accepted} messages accepted, {repeated} of them again; replicas ended by themselves: {}",
        run.replicas.ended
    );
    if wrong.is_empty() && missing.is_empty() {
        println!("=== passed: --seconds {seconds} --seed {seed}");
        return Ok(true);
    }
    wrong.iter().chain(&missing).for_each(|what| println!("WRONG {what}"));
    let kept = logs.keep();
    let book: String = run.book().iter().map(|(at, event)| format!("{:8.2} {event:?}\n", at.as_secs_f64())).collect();
    std::fs::write(kept.join("book.txt"), book)?;
    std::fs::write(kept.join("status.json"), serde_json::to_string_pretty(&run.cluster.status().await)?)?;
    println!("=== failed: --seconds {seconds} --seed {seed} --skip {skip}; logs and book in {}", kept.display());
    Ok(false)
}
