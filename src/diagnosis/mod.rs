//! From a pod to what is wrong with it. Pure: values and the time in, a verdict out.

mod clock;
mod container;
mod finding;
mod judge;
mod lasting;
mod node;
mod owner;
mod printed;
mod text;
mod thresholds;
mod words;

pub use finding::{ContainerFinding, Finding, Health, LogChoice, Verdict};
pub use judge::{Facts, is_plain, judge};
pub use owner::{needs_job, owner};
pub use printed::{human_duration, printed_status, ready_counts, restarts};
pub use thresholds::Thresholds;
