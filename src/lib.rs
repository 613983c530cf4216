//! Which pods of a cluster are broken, and why.
//!
//! The modules stand in the order in which the data flows: [`pods`] are watched and kept slim,
//! [`diagnosis`] judges them, [`logs`] explains them, [`report`] makes a status of what was found, and
//! [`controller`] writes it. [`alerts`] decides who is told.

pub mod alerts;
pub mod api;
pub mod app;
mod backoff;
pub mod cli;
pub mod clock;
pub mod config;
mod controller;
pub mod diagnosis;
pub mod glob;
mod hex;
pub mod index;
pub mod logs;
pub mod pods;
pub mod report;
pub mod settings;
pub mod spec_error;
mod status_apply;
pub mod telemetry;
pub mod watch;
