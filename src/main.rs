//! The `orchestr` command.

use std::process::ExitCode;

use orchestr::cli::Cli;

/// The allocator of musl takes a third of the time of a list of pods; this one takes no more memory. See docs/performance.md.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    // Usage errors are clap's to print; they exit with 2, as every other failure does.
    Cli::from_command_line().run().unwrap_or_else(|failure| failure.report())
}
