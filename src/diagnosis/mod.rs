//! From a pod to what is wrong with it. Pure: values and the time in, a verdict out.

mod finding;
mod thresholds;

pub use finding::{ContainerFinding, Finding, Health, LogChoice, Verdict};
pub use thresholds::Thresholds;
