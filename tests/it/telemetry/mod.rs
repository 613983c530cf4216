//! Metrics, probes and the heartbeat.

mod dashboard;
mod documents;
mod flags;
mod heartbeat;
mod rules;
pub mod support;
mod values;

pub use support::{MetricsPage, Page};
