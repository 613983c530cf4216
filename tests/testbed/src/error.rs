//! The errors of this crate.

use std::{path::PathBuf, time::Duration};

/// Why a control plane cannot be built, started or used. Each message is a sentence, with a remedy if there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `KUBEBUILDER_ASSETS` names a folder that lacks a program.
    #[error(
        "KUBEBUILDER_ASSETS is {}, which has no {missing}: point it at a folder that has it, or unset it and the programs are built with Go",
        .dir.display()
    )]
    Assets { dir: PathBuf, missing: String },
    /// `ORCHESTR_TEST_KUBERNETES` names a version that cannot be built here.
    #[error("ORCHESTR_TEST_KUBERNETES is {version}: leave it unset, or set it to one of {}", .known.join(", "))]
    Version { version: String, known: Vec<&'static str> },
    /// Go is not installed, so the programs cannot be built.
    #[error("there is no `go` to build {names} with: install Go {version} or later (https://go.dev/dl/){instead}")]
    NoGo { names: &'static str, version: String, instead: &'static str },
    /// Go could not build the programs.
    #[error(
        "`go build` of {names} failed: it {status}; Go {version} or later and the Go module proxy are needed{instead}:\n{log}"
    )]
    Build { names: &'static str, version: String, instead: &'static str, status: String, log: String },
    /// A program ended by itself, or never became ready.
    #[error("{program} {what}; the end of its log:\n{log}")]
    Program { program: String, what: String, log: String },
    /// The API server is not in the required state: it is stopped, or already running.
    #[error("the API server is {0}")]
    ApiServer(&'static str),
    /// A condition did not come true in time.
    #[error("{what} did not happen within {after:?}: {last}")]
    Timeout { what: String, after: Duration, last: String },
    /// An operation failed in the operating system.
    #[error("cannot {doing}: {source}")]
    Io { doing: String, source: std::io::Error },
    /// A request to the API server failed.
    #[error("the API server: {0}")]
    Kube(#[source] Box<kube::Error>),
    /// A certificate or key could not be created or used.
    #[error("certificates: {0}")]
    Certificate(String),
    /// A request to etcd failed.
    #[error("etcd: {0}")]
    Etcd(String),
    /// A text is not the expected JSON.
    #[error("not the JSON that was expected: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

impl From<rcgen::Error> for Error {
    fn from(error: rcgen::Error) -> Self {
        Self::Certificate(error.to_string())
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds the name of the failed operation to an I/O error.
pub(crate) trait Doing<T> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { doing: doing(), source })
    }
}
