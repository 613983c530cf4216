//! How long a state may last.

use std::time::Duration;

/// How long a state may last before it is a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Not scheduled, or its containers are being created.
    pub pending: Duration,
    /// An init container is still running.
    pub initializing: Duration,
    /// Running, but not Ready.
    pub not_ready: Duration,
    /// Being deleted, beyond its own grace period.
    pub terminating: Duration,
    /// How long a container must run without failing before its trouble is over.
    pub restarted: Duration,
    /// How long a Failed pod that its controller has replaced stays reported.
    pub failed: Duration,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            pending: Duration::from_secs(60),
            initializing: Duration::from_secs(5 * 60),
            not_ready: Duration::from_secs(2 * 60),
            terminating: Duration::from_secs(60),
            restarted: Duration::from_secs(10 * 60),
            failed: Duration::from_secs(60 * 60),
        }
    }
}
