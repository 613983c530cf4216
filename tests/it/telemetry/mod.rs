//! Metrics, probes and the heartbeat.

mod dashboard;
mod documents;
mod flags;
mod heartbeat;
mod rules;
mod support;
mod values;

pub use support::Page;
