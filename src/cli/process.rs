//! What the subcommands need of the process: a runtime, standard input and output, and the error that ends a command.

use std::{
    fmt::Display,
    fs::File,
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
};

use crate::render::{self, Format, document::Document, safe::without_commands, text::plain};

/// The exit code of a command that could not do its work; 1 means that `scan` found problems.
const FAILED: u8 = 2;

/// Why a command could not do its work, as one line for the user. It never contains the contents of a Secret, a log or
/// a response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    /// Line breaks and control characters, which come from names and from other errors, become spaces.
    pub fn new(message: impl Display) -> Self {
        let line = message.to_string();
        let words = line.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
        Self(words.collect::<Vec<_>>().join(" "))
    }

    /// Prints the failure to standard error.
    #[must_use]
    pub fn report(&self) -> ExitCode {
        // If standard error is closed too, the exit code is all that remains.
        let _ = writeln!(io::stderr(), "orchestr: {self}");
        ExitCode::from(FAILED)
    }
}

/// A runtime of one thread: waking a second thread for each watch event costs more than handling the event.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start: {error}")))
}

/// A file as messages name it; `-` is standard input.
pub(super) fn file_name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// Reads a file of at most `limit` bytes.
pub(super) fn read_text(path: &Path, limit: u64) -> Result<String, Failure> {
    let input: io::Result<Box<dyn Read>> = match path == Path::new("-") {
        true => Ok(Box::new(io::stdin().lock())),
        false => File::open(path).map(|file| Box::new(file) as Box<dyn Read>),
    };
    let mut text = String::new();
    let size = input
        .and_then(|input| input.take(limit + 1).read_to_string(&mut text))
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", file_name(path))))?;
    if size as u64 > limit {
        return Err(Failure::new(format!("{} has more than {} MiB", file_name(path), limit >> 20)));
    }
    Ok(text)
}

pub(super) fn print(bytes: &[u8]) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    ignore_broken_pipe(out.write_all(bytes).and_then(|()| out.flush()))?;
    Ok(ExitCode::SUCCESS)
}

/// A line on standard error that is drawn again in its place, and cleared when the value is dropped.
#[derive(Default)]
pub(super) struct StatusLine {
    is_drawn: bool,
}

impl StatusLine {
    const CLEAR: &str = "\r\x1b[K";

    /// If standard error is closed, the command continues without the line.
    pub(super) fn draw(&mut self, line: &str) {
        self.is_drawn = true;
        let _ = write!(io::stderr(), "{}{line}", Self::CLEAR);
    }

    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(io::stderr(), "{}", Self::CLEAR);
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Prints a document.
pub(super) fn print_document(document: &Document, format: Format) -> Result<(), Failure> {
    let text = render::write(document, format).map_err(Failure::new)?;
    match format {
        Format::Text { .. } => print_text(&text),
        _ => print(text.as_bytes()).map(drop),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_one_line_without_control_characters() {
        assert_eq!(Failure::new("a\n  b\u{1b}[31m\tc ").to_string(), "a b [31m c");
    }
}
