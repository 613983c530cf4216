//! What the operator tells of itself.

pub mod logging;
