//! `orchestr show`: prints the status of an object as a person reads it.

mod file;
mod html;
mod notes;
mod read;
mod selection;
pub(super) mod text;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use crate::api::OrchestrStatus;

use super::{Failure, ignore_broken_pipe};
pub(super) use read::{ReadStatus, StatusFlags};
use selection::Selection;
use text::Layout;

/// The exit code when pods have problems, as of `scan`.
const PROBLEMS: u8 = 1;
/// The exit code when the status does not say whether the pods are healthy, as of `scan`.
const UNKNOWN: u8 = 2;
/// The lines of a log that are printed if nothing is selected.
const LOG_LINES: usize = 10;

/// What the exit codes mean, for the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  all pods are healthy
  1  pods have problems
  2  the status does not say, or contains nothing of the given name";

/// The flags of `orchestr show`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct ShowFlags {
    #[command(flatten)]
    source: StatusFlags,

    /// Print only this pod, owner, or incident by its key
    #[arg(value_name = "POD|OWNER|INCIDENT")]
    selected: Option<String>,

    /// How many lines of each log to print, the last ones; 10 by default, or all if a pod, owner or incident is given
    #[arg(long, value_name = "COUNT")]
    log_lines: Option<usize>,

    /// The output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text
    #[default]
    Text,
    /// A page for a browser, in one file, with all of each log that the status has
    Html,
}

pub(super) async fn show(flags: ShowFlags) -> Result<ExitCode, Failure> {
    let ReadStatus { status, generation, now } = flags.source.read().await?;
    let object = &flags.source.object;
    let selection = match &flags.selected {
        None => Selection::all(&status),
        Some(selected) => Selection::find(&status, selected)
            .ok_or_else(|| Failure::new(selection::not_found(object, &status, selected)))?,
    };
    match flags.output {
        Output::Text => print_text(&flags, &status, generation, &selection, now)?,
        Output::Html => {
            let page = html::page(object, &status, generation, &selection, now);
            let mut out = io::stdout().lock();
            ignore_broken_pipe(out.write_all(page.as_bytes()).and_then(|()| out.flush()))?;
        }
    }
    Ok(match text::health(&status) {
        text::Health::Healthy => ExitCode::SUCCESS,
        text::Health::Unhealthy => ExitCode::from(PROBLEMS),
        text::Health::Unknown => ExitCode::from(UNKNOWN),
    })
}

fn print_text(
    flags: &ShowFlags,
    status: &OrchestrStatus,
    generation: Option<i64>,
    selection: &Selection<'_>,
    now: Timestamp,
) -> Result<(), Failure> {
    let layout = Layout::of_terminal(flags.log_lines.unwrap_or(match flags.selected {
        Some(_) => usize::MAX,
        None => LOG_LINES,
    }));
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    let text = text::write(&mut out, &flags.source.object, status, generation, selection, layout, now);
    ignore_broken_pipe(text.and_then(|()| out.flush()))
}
