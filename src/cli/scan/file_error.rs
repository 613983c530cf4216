//! Why a file cannot be read as pods.

use std::io;

/// No message contains text of the file, because pods contain secrets.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it is empty")]
    Empty,
    #[error("it is UTF-16: save it as UTF-8")]
    Utf16,
    #[error("it ends in the middle of line {0}: was the command that wrote it interrupted?")]
    Truncated(u64),
    #[error("line {0} is not {1}")]
    Syntax(u64, &'static str),
    #[error("it contains {0} instead of pods: create it with `kubectl get pods -A -o json`")]
    NotPods(String),
}
