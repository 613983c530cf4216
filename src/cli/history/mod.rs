//! `orchestr history`: prints the incidents of an object in the order of time.

mod json;
mod table;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{Args, ValueEnum};
use jiff::SignedDuration;

use crate::api::{GoDuration, NamespacedName, ParseDurationError};

use super::{
    Failure,
    connect::ConnectionFlags,
    html, ignore_broken_pipe,
    object_name::object_name,
    show::{ReadStatus, read_status},
    timeline::Timeline,
};

/// The flags of `orchestr history`.
#[derive(Debug, Args)]
pub(super) struct HistoryFlags {
    /// The Orchestr object
    #[arg(value_name = "NAMESPACE/NAME", value_parser = object_name)]
    object: NamespacedName,

    /// Print only what lasted or ended in the time before now, such as 24h; by default all that the status contains
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,

    /// Read the object from a file written by `kubectl get orchestr -A -o json` or -o yaml; - is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,

    /// The output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,

    #[command(flatten)]
    connection: ConnectionFlags,
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

fn duration(text: &str) -> Result<Duration, ParseDurationError> {
    GoDuration::from(text).parse()
}

pub(super) async fn history(flags: HistoryFlags) -> Result<ExitCode, Failure> {
    let ReadStatus { status, now, .. } =
        read_status(&flags.object, flags.filename.as_deref(), &flags.connection).await?;
    // A duration of more than the 292 years that Go's can hold is not accepted.
    let within = flags.since.map(|since| SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX));
    let timeline = Timeline::of(&status, within, now);
    let written = match flags.output {
        Output::Table => {
            let width = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
            let mut out = anstream::AutoStream::auto(io::stdout().lock());
            table::write(&mut out, &flags.object, &timeline, width).and_then(|()| out.flush())
        }
        Output::Json => {
            let text = json::document(&flags.object, &timeline).map_err(Failure::new)?;
            print(&text)
        }
        Output::Html => print(&html::render_history(&flags.object, &status, &timeline)),
    };
    ignore_broken_pipe(written)?;
    Ok(ExitCode::SUCCESS)
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}
