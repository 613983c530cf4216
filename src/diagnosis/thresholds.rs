//! How long states may last before they are problems.

use std::time::Duration;

/// `spec.thresholds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Not scheduled, or containers being created.
    pub pending: Duration,
    /// An init container running.
    pub initializing: Duration,
    /// Running, but not Ready.
    pub not_ready: Duration,
    /// Being deleted, after the end of the grace period.
    pub terminating: Duration,
    /// How long a restarted container must run without failing before its problem is over.
    pub restarted: Duration,
    /// How long a Failed pod is reported after its controller has replaced it.
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
