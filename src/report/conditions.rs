//! Builds conditions, and decides PodsHealthy. A condition keeps its transition time while its status stays the same.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::{OrchestrStatus, reason};

use super::{summary, truncate, wire::wire_time};

/// The values that all conditions of one status share.
pub(super) struct Conditions<'a> {
    pub(super) generation: i64,
    pub(super) previous: Option<&'a OrchestrStatus>,
    pub(super) now: Timestamp,
}

impl Conditions<'_> {
    pub(super) fn condition(&self, kind: &str, status: &str, reason: &str, message: &str) -> Condition {
        let unchanged = self
            .previous
            .and_then(|previous| previous.conditions.iter().find(|old| old.type_ == kind))
            .filter(|old| old.status == status);
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: truncate::condition_message(message),
            observed_generation: Some(self.generation),
            last_transition_time: wire_time(unchanged.map_or(self.now, |old| old.last_transition_time.0)),
        }
    }
}

/// The condition PodsHealthy without its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodsHealthy {
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The inputs of the decision.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence<'a> {
    /// A summary of the problems, if pods have any.
    pub(super) problems: Option<&'a str>,
    /// How many pods are selected.
    pub(super) watched: u64,
    /// How many pods could not be decoded, and one of them.
    pub(super) unreadable: Option<&'a (u64, String)>,
    /// How many failed pods are left out, because their Jobs were not read yet.
    pub(super) unread_jobs: u64,
    /// Which selected namespaces are not watched and why, if any.
    pub(super) outside: Option<&'a str>,
    /// Which selected namespaces may not be read and why, if any.
    pub(super) denied: Option<&'a str>,
}

/// True only if the object selects pods, all of them could be read, and none has a problem.
pub(super) fn pods_healthy(evidence: Evidence<'_>) -> PodsHealthy {
    let unknown = |reason, message| PodsHealthy { status: "Unknown", reason, message };
    match evidence {
        Evidence { problems: Some(problems), .. } => {
            PodsHealthy { status: "False", reason: reason::PODS_UNHEALTHY, message: problems.to_owned() }
        }
        Evidence { outside: Some(outside), .. } => unknown(reason::OUTSIDE_NAMESPACES, outside.to_owned()),
        Evidence { denied: Some(denied), .. } => unknown(reason::POD_ACCESS_DENIED, denied.to_owned()),
        Evidence { unreadable: Some((count, pod)), .. } if *count > 0 => {
            unknown(reason::PODS_UNREADABLE, summary::unreadable(*count, pod))
        }
        Evidence { unread_jobs: count @ 1.., .. } => unknown(reason::PODS_UNREADABLE, summary::unread_jobs(count)),
        Evidence { watched: 0, .. } => {
            unknown(reason::NO_PODS_SELECTED, "spec.pods selects no pod that exists".to_owned())
        }
        Evidence { watched, .. } => {
            PodsHealthy { status: "True", reason: reason::PODS_HEALTHY, message: summary::healthy(watched) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn true_only_if_every_selected_pod_was_read_and_is_healthy() {
        let bad = (1, "shop/bad (no JSON)".to_owned());
        let none = (0, String::new());
        let healthy = Evidence { watched: 3, ..Evidence::default() };
        for (evidence, status, reason, message) in [
            (healthy, "True", "PodsHealthy", "all 3 pods are healthy"),
            (Evidence { unreadable: Some(&none), ..healthy }, "True", "PodsHealthy", "all 3 pods are healthy"),
            (Evidence { watched: 0, ..healthy }, "Unknown", "NoPodsSelected", "spec.pods selects no pod that exists"),
            (
                Evidence { unreadable: Some(&bad), ..healthy },
                "Unknown",
                "PodsUnreadable",
                "1 pod could not be read: shop/bad (no JSON)",
            ),
            (
                Evidence { unreadable: Some(&bad), watched: 0, ..healthy },
                "Unknown",
                "PodsUnreadable",
                "1 pod could not be read: shop/bad (no JSON)",
            ),
            (
                Evidence { unread_jobs: 2, ..healthy },
                "Unknown",
                "PodsUnreadable",
                "the Jobs of 2 failed pods were not read yet",
            ),
            (Evidence { outside: Some("ml"), ..healthy }, "Unknown", "OutsideNamespaces", "ml"),
            (Evidence { denied: Some("ml is gone"), ..healthy }, "Unknown", "PodAccessDenied", "ml is gone"),
            (Evidence { outside: Some("ml"), watched: 0, ..healthy }, "Unknown", "OutsideNamespaces", "ml"),
            (
                Evidence { problems: Some("1 of 3"), unreadable: Some(&bad), outside: Some("ml"), ..healthy },
                "False",
                "PodsUnhealthy",
                "1 of 3",
            ),
        ] {
            assert_eq!(
                pods_healthy(evidence),
                PodsHealthy { status, reason, message: message.to_owned() },
                "{evidence:?}"
            );
        }
    }
}
