//! What the operator reports about itself.

pub mod logging;
