//! What the subcommands need of the process: a runtime and standard output.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use super::Failure;
use crate::render::{safe::without_commands, text::plain};

/// A runtime of one thread: waking a second thread for each watch event costs more than handling the event.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start: {error}")))
}

pub(super) fn print(bytes: &[u8]) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    ignore_broken_pipe(out.write_all(bytes).and_then(|()| out.flush()))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints text with colours, which are removed if standard output is not a terminal. The runner of GitHub Actions reads no
/// command from it.
pub(super) fn print_text(text: &str) -> Result<(), Failure> {
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    // A command may follow the code of a colour, so these are removed first.
    let text = match out.current_choice() {
        anstream::ColorChoice::Never => plain(text),
        _ => text.to_owned(),
    };
    ignore_broken_pipe(out.write_all(without_commands(&text).as_bytes()).and_then(|()| out.flush()))
}

/// The result of writing output. A reader that closes the pipe early, such as `head`, is not an error.
pub(super) fn ignore_broken_pipe(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write the output: {error}")))
        }
        _ => Ok(()),
    }
}
