//! Command lines that can't be understood.

use std::{env, ffi::OsString};

use clap::{CommandFactory, Parser, error::ErrorKind};

use super::{Cli, Failure};

/// Reads the command line. Where it asks for help or the version, that is printed and the process ends.
///
/// # Errors
/// When the command line can't be understood, with the sentence to print.
pub fn parse() -> Result<Cli, Failure> {
    let line: Vec<_> = env::args_os().collect();
    Cli::try_parse_from(&line).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            error.exit()
        }
        _ => one_line(&error, &line),
    })
}

/// Clap's message without its layout: what is wrong, its tips, and where there is help.
fn one_line(error: &clap::Error, line: &[OsString]) -> Failure {
    let text = error.render().to_string();
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.trim().trim_start_matches("error: "));
    let told: Vec<_> = paragraphs
        .filter(|paragraph| !paragraph.is_empty())
        .filter(|paragraph| !paragraph.starts_with("Usage:") && !paragraph.starts_with("For more information"))
        .collect();
    let command = Cli::command();
    let subcommand = line.get(1).and_then(|name| command.find_subcommand(name));
    let subcommand = subcommand.map(|found| format!(" {}", found.get_name())).unwrap_or_default();
    Failure::new(format!("{}; see `orchestr{subcommand} --help`", told.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_one_line_that_names_the_help() {
        for (line, told) in [
            (
                "orchestr rum",
                "unrecognized subcommand 'rum'; tip: a similar subcommand exists: 'run'; see `orchestr --help`",
            ),
            (
                "orchestr run --namespace a",
                "unexpected argument '--namespace' found; tip: a similar argument exists: '--namespaces'; \
                 see `orchestr run --help`",
            ),
            (
                "orchestr run --streaming-lists maybe",
                "invalid value 'maybe' for '--streaming-lists <WHEN>' [possible values: auto, always, never]; \
                 see `orchestr run --help`",
            ),
            (
                "orchestr run --pod-log-reads 0",
                "invalid value '0' for '--pod-log-reads <COUNT>': 0 is not in 1..=256; \
                 see `orchestr run --help`",
            ),
            (
                "orchestr completions",
                "the following required arguments were not provided: <SHELL>; see `orchestr completions --help`",
            ),
        ] {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            let error = Cli::try_parse_from(&words).unwrap_err();
            assert_eq!(one_line(&error, &words).to_string(), told, "{line}");
        }
    }
}
