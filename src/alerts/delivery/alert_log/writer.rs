//! Writes lines to a file or to standard output, on a thread of its own: a full disk or a slow reader makes nothing else wait.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Standard output instead of a file.
pub(super) const STDOUT: &str = "-";
/// Only the operator's own user reads the file: it names workloads of all namespaces.
const MODE: u32 = 0o600;

pub(super) struct LineWriter {
    output: Output,
    /// The last line was not written completely.
    is_torn: bool,
}

enum Output {
    Stdout,
    File { path: PathBuf, file: File },
}

impl LineWriter {
    /// Lines are added to the end of the file.
    ///
    /// # Errors
    /// If it is no regular file, or cannot be opened. Opening a named pipe would wait for its reader.
    pub(super) fn open(target: &Path) -> io::Result<Self> {
        let output = if target == Path::new(STDOUT) {
            Output::Stdout
        } else {
            Output::File { path: target.to_owned(), file: open(target)? }
        };
        Ok(Self { output, is_torn: false })
    }

    /// Writes a line, which ends with a line break.
    ///
    /// # Errors
    /// If it was not written, or not completely. Then the next one begins on a line of its own.
    pub(super) fn write(&mut self, line: &str) -> io::Result<()> {
        let Self { output, is_torn } = self;
        match output {
            Output::Stdout => write_line(&mut io::stdout().lock(), line, is_torn),
            Output::File { path, file } => {
                reopen_if_moved(path, file)?;
                write_line(file, line, is_torn)
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    if path.metadata().is_ok_and(|own| !own.is_file()) {
        return Err(io::Error::other("it is no regular file"));
    }
    OpenOptions::new().append(true).create(true).mode(MODE).open(path)
}

/// Opens the file again if another one, or none, has its name now: tools that rotate logs rename them.
fn reopen_if_moved(path: &Path, file: &mut File) -> io::Result<()> {
    let identity = |own: Metadata| (own.dev(), own.ino());
    let opened = identity(file.metadata()?);
    if path.metadata().map(identity).ok() != Some(opened) {
        *file = open(path)?;
    }
    Ok(())
}

/// Writes a line. `is_torn` is whether the line before was not written completely, and then whether this one was not.
pub(super) fn write_line(output: &mut impl Write, line: &str, is_torn: &mut bool) -> io::Result<()> {
    let line = if *is_torn { format!("\n{line}") } else { line.to_owned() };
    let mut left = line.as_bytes();
    while !left.is_empty() {
        match output.write(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                left = left.get(written..).unwrap_or_default();
                *is_torn = !left.is_empty();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    output.flush()
}
