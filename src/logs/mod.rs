//! Logs: which one explains a failure, read in bounds, cleaned and masked before anyone else sees it.

mod tail;

pub use tail::{LogPolicy, Tail};
