//! From a pod to what is wrong with it. Pure: values and the time in, a verdict out.

mod clock;
mod container;
mod facts;
mod finding;
mod judge;
mod kubectl_columns;
mod node;
mod overdue;
mod owner;
mod reasons;
mod text;
mod thresholds;
mod words;

pub use facts::{Facts, JobFacts};
pub use finding::{Cause, ContainerFinding, Finding, Health, LogChoice, Verdict};
pub use judge::{is_plain, judge};
pub use kubectl_columns::{human_duration, kubectl_status, ready_counts, restarts};
pub use owner::{needs_job, owner, owner_names};
pub use reasons::{is_known_reason, telling};
pub use thresholds::Thresholds;
