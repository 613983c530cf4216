//! The operator's own log.

pub mod logging;
