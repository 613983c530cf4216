//! What can go wrong with a control plane of our own, in sentences.

use std::{path::PathBuf, time::Duration};

/// What can go wrong with a control plane of our own, in sentences that say what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `KUBEBUILDER_ASSETS` names a folder that lacks a program.
    #[error(
        "KUBEBUILDER_ASSETS is {}, which has no {missing}: point it at a folder that has it, or unset it and the programs are built with Go",
        .dir.display()
    )]
    Assets {
        /// The folder that the variable names.
        dir: PathBuf,
        /// The programs that it lacks.
        missing: String,
    },
    /// `ORCHESTR_TEST_KUBERNETES` names a version that can't be built here.
    #[error("ORCHESTR_TEST_KUBERNETES is {version}: leave it unset, or set it to {known}")]
    Version {
        /// What it names.
        version: String,
        /// What it may name.
        known: &'static str,
    },
    /// There is no Go to build the programs with.
    #[error("there is no `go` to build {names} with: install Go {version} or later (https://go.dev/dl/){instead}")]
    NoGo {
        /// The programs.
        names: &'static str,
        /// The version that the tools' go.mod asks for.
        version: String,
        /// What else can be done, if anything.
        instead: &'static str,
    },
    /// Go could not build the programs.
    #[error(
        "`go build` of {names} failed: it {status}; Go {version} or later and the Go module proxy are needed{instead}:\n{log}"
    )]
    Build {
        /// The programs.
        names: &'static str,
        /// The version that the tools' go.mod asks for.
        version: String,
        /// What else can be done, if anything.
        instead: &'static str,
        /// How the build ended.
        status: String,
        /// The end of what it printed.
        log: String,
    },
    /// A program ended by itself, or never became ready.
    #[error("{program} {what}; the end of its log:\n{log}")]
    Program {
        /// Which one.
        program: String,
        /// What it did.
        what: String,
        /// The end of what it printed.
        log: String,
    },
    /// The API server was asked for while it is stopped, or to start while it runs.
    #[error("the API server is {0}")]
    ApiServer(&'static str),
    /// A condition did not come true in time.
    #[error("{what} did not happen within {after:?}: {last}")]
    Timeout {
        /// What was awaited.
        what: String,
        /// How long.
        after: Duration,
        /// Why it had not happened at the last look.
        last: String,
    },
    /// The operating system refused something.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The API server refused something.
    #[error("the API server: {0}")]
    Kube(#[source] Box<kube::Error>),
    /// A certificate or key could not be made or used.
    #[error("certificates: {0}")]
    Certificate(String),
    /// etcd refused something.
    #[error("etcd: {0}")]
    Etcd(String),
    /// Something was not the JSON it should have been.
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

/// Says what was being done when the operating system refused it.
pub(crate) trait Doing<T> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { doing: doing(), source })
    }
}
