//! The command: raw flags, and what each subcommand does with them.

mod account;
mod api_error;
mod client;
mod connect;
mod failure;
mod preflight;
mod proxy;
mod run;
mod scan;
mod usage;
mod webhook;
mod webhook_flags;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

pub use failure::Failure;
pub use preflight::preflight;
pub use usage::parse;

/// Tells which pods of a Kubernetes cluster are broken, and why.
#[derive(Debug, Parser)]
#[command(name = "orchestr", version, disable_help_subcommand = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator: watch the pods, and keep the status of each Orchestr object
    Run(run::RunFlags),
    /// Look at the pods once, and print those with a problem; exits 1 where there are any
    Scan(scan::ScanFlags),
    /// Try out the webhooks of an Orchestr object
    #[command(subcommand)]
    Webhook(webhook::WebhookCommand),
    /// Print the definition of the Orchestr objects, for `kubectl apply --server-side -f -`
    Crd,
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

impl Cli {
    /// Does what the command line asks for.
    ///
    /// # Errors
    /// When it can't be done, with the sentence to print.
    pub fn run(self) -> Result<ExitCode, Failure> {
        // Two crates below us could each bring a provider of their own: this process has one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        match self.command {
            Command::Run(flags) => runtime()?.block_on(run::run(flags)),
            Command::Scan(flags) => runtime()?.block_on(scan::scan(flags)),
            Command::Webhook(command) => runtime()?.block_on(webhook::run(command)),
            Command::Crd => print(crate::api::crd::yaml().map_err(Failure::new)?.as_bytes()),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Self::command(), "orchestr", &mut script);
                print(&script)
            }
        }
    }
}

/// A single thread: a second one would be woken for every event, which costs more than reading it.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start: {error}")))
}

fn print(bytes: &[u8]) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    ignore_broken_pipe(out.write_all(bytes).and_then(|()| out.flush()))?;
    Ok(ExitCode::SUCCESS)
}

/// What became of output: a reader who has seen enough, such as `head`, is no failure.
fn ignore_broken_pipe(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write the output: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_of_run_has_its_variable() {
        let command = Cli::command();
        let run = command.find_subcommand("run").unwrap();
        let mut flags = 0;
        for flag in run.get_arguments().filter(|flag| flag.get_id() != "help") {
            let expected = format!("ORCHESTR_{}", flag.get_long().unwrap().to_uppercase().replace('-', "_"));
            assert_eq!(flag.get_env().and_then(|name| name.to_str()), Some(expected.as_str()));
            flags += 1;
        }
        assert!(flags > 3, "{flags} flags seen");
    }
}
