//! `orchestr history`: prints the incidents of an object in the order of time.

mod json;
mod table;

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, ValueEnum};
use jiff::SignedDuration;

use super::{
    Failure,
    duration::duration,
    html, ignore_broken_pipe,
    show::{ReadStatus, StatusFlags},
    timeline::Timeline,
};

/// The flags of `orchestr history`.
#[derive(Debug, Args)]
pub(super) struct HistoryFlags {
    #[command(flatten)]
    source: StatusFlags,

    /// Print only what lasted or ended in the time before now, such as 24h; by default all that the status contains
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,

    /// The output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table; its times are in UTC
    #[default]
    Table,
    /// JSON
    Json,
    /// A page for a browser, in one file
    Html,
}

pub(super) async fn history(flags: HistoryFlags) -> Result<ExitCode, Failure> {
    let ReadStatus { status, now, .. } = flags.source.read().await?;
    let object = &flags.source.object;
    // A duration of more than the 292 years that Go's can hold is not accepted.
    let within = flags.since.map(|since| SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX));
    let timeline = Timeline::of(&status, within, now);
    let written = match flags.output {
        Output::Table => {
            let width = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
            let mut out = anstream::AutoStream::auto(io::stdout().lock());
            table::write(&mut out, object, &timeline, width).and_then(|()| out.flush())
        }
        Output::Json => {
            let text = json::document(object, &timeline).map_err(Failure::new)?;
            print(&text)
        }
        Output::Html => print(&html::render_history(object, &status, &timeline)),
    };
    ignore_broken_pipe(written)?;
    Ok(ExitCode::SUCCESS)
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}
