//! The `orchestr` command.

use std::process::ExitCode;

use orchestr::cli::Cli;

fn main() -> ExitCode {
    // Usage errors are clap's to print; they exit with 2, as every other failure does.
    Cli::from_command_line().run().unwrap_or_else(|failure| failure.report())
}
