//! Builds an object's status, and the incidents for its alerts, from the findings about its pods. Pure: the same input
//! always gives the same bytes.
//!
//! [`watching()`] and [`not_watching()`] build a whole status without the fields that belong to the alerts' writer.
//! [`differs`] decides whether a status needs to be written, and [`transitions`] lists the incidents that began and
//! ended between two statuses.

mod alert_incidents;
mod change;
mod common_causes;
mod conditions;
mod fair;
mod fit;
mod history;
mod identity;
mod incident;
mod incidents;
mod input;
mod json_size;
mod known_status;
mod not_watching;
mod problem;
mod quote;
mod revision;
mod summary;
mod tracker;
mod truncate;
mod watching;
mod wire;

pub use change::{Change, OmittedIncidents, Transitions, differs, transitions};
pub use incident::{CommonCause, Incident, Member, MissingPods, Texts};
pub use incidents::{FindOwnership, FindWorkload, Workload};
pub use input::{Input, Report};
pub use problem::{FindTail, PodFinding};
pub use revision::{Comparison, FailingRevision};
pub use tracker::{SharedProblems, Tracker, UpdateContext};
pub use watching::watching;

pub(crate) use alert_incidents::of_spec;
pub(crate) use change::is_own;
pub(crate) use fit::{end_within, even_share};
pub(crate) use history::{Gap, RESTART, Step, is_watching};
pub(crate) use identity::key_of_missing;
pub(crate) use json_size::size as json_size;
pub(crate) use known_status::KnownStatus;
pub(crate) use not_watching::{NotWatching, keep_lists, not_watching};
pub(crate) use quote::{log_line, may_quote, with_hint, with_log_line};
pub(crate) use watching::{in_full, overview};

#[cfg(test)]
mod tests;
