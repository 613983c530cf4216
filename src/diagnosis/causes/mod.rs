//! Finds the cause of a problem in the pod itself and in events about it. Pure.

#[allow(dead_code, reason = "the report of missing pods will use it")]
mod admission;
mod parse;

use jiff::Timestamp;

use crate::pods::Pod;

use super::{facts::Facts, finding::Finding};

#[allow(unused_imports, reason = "the report of missing pods will use them")]
pub(crate) use admission::{classify_failed_create, refusing_quota};

/// Fills in the explanations of a finding about a pod.
pub fn explain(_pod: &Pod, finding: &mut Finding, _facts: &Facts, _now: Timestamp) {
    finding.explanation.message.clone_from(&finding.message);
    for other in &mut finding.others {
        other.explanation.message.clone_from(&other.message);
    }
}
