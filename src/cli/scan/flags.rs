//! How long a state may last before it is a problem, and other values of flags.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use crate::{cli::duration::duration, diagnosis::Thresholds};

/// The same as `spec.thresholds` of an object, with the same defaults.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "How long a state may last before it is a problem")]
pub(super) struct ThresholdFlags {
    /// A pod that is not scheduled, or whose containers are being created; 1m by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pending: Option<Duration>,

    /// A pod whose init container is still running; 5m by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    initializing: Option<Duration>,

    /// A pod that is running but not ready; 2m by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    not_ready: Option<Duration>,

    /// A pod that is still being deleted after its grace period; 1m by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    terminating: Option<Duration>,

    /// How long to report a container after it restarts; 10m by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    restarted: Option<Duration>,
}

pub(super) fn time(text: &str) -> Result<Timestamp, &'static str> {
    text.parse().map_err(|_| "is not a time such as 2026-03-01T12:00:00Z or 2026-03-01T13:00:00+01:00")
}

impl ThresholdFlags {
    pub(super) fn thresholds(&self) -> Thresholds {
        let defaults = Thresholds::default();
        Thresholds {
            pending: self.pending.unwrap_or(defaults.pending),
            initializing: self.initializing.unwrap_or(defaults.initializing),
            not_ready: self.not_ready.unwrap_or(defaults.not_ready),
            terminating: self.terminating.unwrap_or(defaults.terminating),
            restarted: self.restarted.unwrap_or(defaults.restarted),
            failed: defaults.failed,
        }
    }
}
