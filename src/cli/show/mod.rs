//! `orchestr show`: prints the status of an object as a person reads it, or its history.

mod read;
mod section;

use std::{process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};
use jiff::SignedDuration;

use crate::render::{
    Timeline,
    document::{Document, Verdict},
    html,
    json::json,
    table::{self, terminal_width},
    text::{self, Layout},
};

use super::{
    Failure,
    duration::duration,
    process::{print, print_text},
};
use read::{ReadStatus, StatusFlags};
use section::{Selection, not_found};

/// The exit code when pods have problems, as of `scan`.
const PROBLEMS: u8 = 1;
/// The exit code when the status does not say whether the pods are healthy, as of `scan`.
const UNKNOWN: u8 = 2;
/// The lines of a log that are printed if nothing is selected.
const LOG_LINES: usize = 10;

/// What the exit codes mean, for the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  all pods are healthy, or the history was printed
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

    /// Print when incidents began and ended, and when the pods were not watched; as text, a table with times in UTC
    #[arg(long, conflicts_with_all = ["selected", "log_lines"])]
    history: bool,

    /// Of the history, print only what lasted or ended in the time before now, such as 24h; by default all that the status
    /// contains
    #[arg(long, value_name = "DURATION", requires = "history", value_parser = duration)]
    since: Option<Duration>,

    /// The output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text
    #[default]
    Text,
    /// JSON, of the history only
    Json,
    /// A page for a browser, in one file, with all of each log that the status has
    Html,
}

pub(super) async fn show(flags: ShowFlags) -> Result<ExitCode, Failure> {
    if flags.output == Output::Json && !flags.history {
        return Err(Failure::new("-o json is for --history: `kubectl get orchestr -o json` prints the status"));
    }
    let read = flags.source.read().await?;
    if flags.history {
        print_history(&flags, &read)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (object, status) = (&flags.source.object, &read.status);
    let selection = match &flags.selected {
        None => Selection::all(status),
        Some(selected) => {
            Selection::find(status, selected).ok_or_else(|| Failure::new(not_found(object, status, selected)))?
        }
    };
    let section = section::of(object, &read, &selection);
    let verdict = section.verdict;
    let all_or_few = if flags.selected.is_some() { usize::MAX } else { LOG_LINES };
    let layout = Layout::of_terminal(flags.log_lines.unwrap_or(all_or_few));
    match flags.output {
        Output::Text => print_text(&text::status(&section, layout))?,
        // JSON was refused above.
        Output::Html | Output::Json => _ = print(html::page(&Document::of(section, String::new())).as_bytes())?,
    }
    Ok(match verdict {
        Verdict::Healthy => ExitCode::SUCCESS,
        Verdict::Unhealthy => ExitCode::from(PROBLEMS),
        Verdict::Unknown => ExitCode::from(UNKNOWN),
    })
}

fn print_history(flags: &ShowFlags, read: &ReadStatus) -> Result<(), Failure> {
    let object = &flags.source.object;
    // A duration of more than the 292 years that Go's can hold is not accepted.
    let within = flags.since.map(|since| SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX));
    let timeline = Timeline::of(object, &read.status, within, read.now);
    match flags.output {
        Output::Text => print_text(&table::history(&timeline, terminal_width())),
        Output::Json => print(json(&timeline).map_err(Failure::new)?.as_bytes()).map(drop),
        Output::Html => {
            let section = section::of_history(object, &read.status, timeline);
            print(html::page(&Document::of(section, String::new())).as_bytes()).map(drop)
        }
    }
}
