//! The `orchestr` command.

use std::process::ExitCode;

use orchestr::cli;

fn main() -> ExitCode {
    match cli::parse().and_then(cli::Cli::run) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
