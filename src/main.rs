//! The `orchestr` command.

use std::process::ExitCode;

use clap::Parser;
use orchestr::cli::Cli;

fn main() -> ExitCode {
    // Usage errors are clap's to print; they exit with 2, as every other failure does.
    Cli::parse().run().unwrap_or_else(|failure| failure.report())
}
