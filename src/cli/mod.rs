//! The `orchestr` command: the flags and the code of each subcommand.

mod api_error;
mod complete;
mod connect;
mod explain;
mod flags;
mod kind;
mod live;
mod mcp;
mod near;
mod process;
mod run;
mod scan;
mod show;
mod wait;
mod webhook;
mod workload;
mod yaml;

#[cfg(fuzzing)]
pub use scan::{scan_bytes, scan_protobuf};

use std::{
    env,
    ffi::{OsStr, OsString},
    path::Path,
    process::ExitCode,
};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

pub use process::Failure;

use crate::version::version_and_revision;
use process::{print, runtime};

/// Shows which pods of a Kubernetes cluster are broken, and why
#[derive(Debug, Parser)]
#[command(name = "orchestr", version = version_and_revision(), disable_help_subcommand = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator, which keeps the status of each Orchestr object up to date
    Run(run::RunFlags),
    /// Check the pods once and print those with a problem; exits 1 if there are any
    Scan(scan::ScanFlags),
    /// Print the status of an Orchestr object: incidents, causes, pods and logs; exits 1 if pods have problems
    Show(show::ShowFlags),
    /// Wait until workloads are rolled out and healthy; exits 1 at the first trouble that cannot mend itself, 3 if the
    /// time is over
    Wait(wait::WaitFlags),
    /// Print everything that is known about a pod or a workload: causes, containers, events, logs and what it refers
    /// to; exits 1 if it has a problem
    Explain(explain::ExplainFlags),
    /// Answer the questions of an AI agent over the Model Context Protocol, on standard input and output; read-only
    Mcp(mcp::McpFlags),
    /// Test the webhooks of an Orchestr object, or print what they send
    #[command(subcommand)]
    Webhook(webhook::WebhookCommand),
    /// Print the CustomResourceDefinition, for `kubectl apply --server-side -f -`
    Crd,
    /// Print the completion script for a shell
    Completions { shell: Shell },
    /// Complete these words.
    #[command(skip)]
    Complete(Vec<String>),
}

impl Cli {
    /// Parses the command line of this process. Usage errors, `--help` and `--version` are printed, and end the process.
    #[must_use]
    pub fn from_command_line() -> Self {
        let args: Vec<OsString> = env::args_os().collect();
        if args.get(1).is_some_and(|first| first == complete::SUBCOMMAND) {
            let words = args.iter().skip(2).map(|word| word.to_string_lossy().into_owned()).collect();
            return Self { command: Command::Complete(words) };
        }
        let matches = named_as_called(Self::command(), args.first()).get_matches_from(args);
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Runs the subcommand and returns its exit code.
    ///
    /// # Errors
    /// With the message to print, when the subcommand could not do its work.
    pub fn run(self) -> Result<ExitCode, Failure> {
        // rustls panics if several providers are compiled in and none is installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        match self.command {
            Command::Run(flags) => runtime()?.block_on(run::run(flags)),
            Command::Scan(flags) => {
                let runtime = runtime()?;
                let result = runtime.block_on(scan::scan(flags));
                // Threads that wait for a cluster that was given up end with the process.
                runtime.shutdown_background();
                result
            }
            Command::Show(flags) => runtime()?.block_on(show::show(flags)),
            Command::Wait(flags) => runtime()?.block_on(wait::wait(flags)),
            Command::Explain(flags) => runtime()?.block_on(explain::explain(flags)),
            Command::Mcp(flags) => {
                let runtime = runtime()?;
                let result = runtime.block_on(mcp::mcp(flags));
                // Standard input may still be read, and calls may be under way.
                runtime.shutdown_background();
                result
            }
            Command::Webhook(command) => runtime()?.block_on(webhook::run(command)),
            Command::Crd => print(crate::api::crd::yaml().map_err(Failure::new)?.as_bytes()),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Self::command(), "orchestr", &mut script);
                print(&script)
            }
            Command::Complete(words) => print(complete::complete(&mut Self::command(), &words).as_bytes()),
        }
    }
}

/// Shows `kubectl orchestr` in help and usage errors if the program was called as the kubectl plugin, whose file is named
/// `kubectl-orchestr`.
fn named_as_called(command: clap::Command, program: Option<&OsString>) -> clap::Command {
    let name = program.and_then(|program| Path::new(program).file_stem());
    if name == Some(OsStr::new("kubectl-orchestr")) { command.bin_name("kubectl orchestr") } else { command }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_accepts_the_flag_definitions() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_of_run_has_an_environment_variable() {
        let command = Cli::command();
        let run = command.find_subcommand("run").unwrap();
        let mut flags = 0;
        for flag in run.get_arguments().filter(|flag| flag.get_id() != "help") {
            let expected = format!("ORCHESTR_{}", flag.get_long().unwrap().to_uppercase().replace('-', "_"));
            assert_eq!(flag.get_env().and_then(|name| name.to_str()), Some(expected.as_str()));
            flags += 1;
        }
        assert!(flags > 3, "only {flags} flags found");
    }
}
