//! Whether every pod that an object selects is healthy: the condition PodsHealthy. Pure.

use crate::api::reason;

use super::text;

/// The condition PodsHealthy, but for its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// What the condition depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen<'a> {
    /// What the problems are, if there are any.
    pub(super) problems: Option<&'a str>,
    /// How many pods are selected.
    pub(super) watched: u64,
    /// How many pods could not be decoded, and one of them.
    pub(super) unreadable: Option<&'a (u64, String)>,
    /// Why selected namespaces are not watched, if there are any.
    pub(super) outside: Option<&'a str>,
}

/// True only if there are pods, all of them were seen, and none has a problem.
pub(super) fn pods_healthy(seen: Seen<'_>) -> Verdict {
    let unknown = |reason, message| Verdict { status: "Unknown", reason, message };
    match seen {
        Seen { problems: Some(problems), .. } => {
            Verdict { status: "False", reason: reason::PODS_UNHEALTHY, message: problems.to_owned() }
        }
        Seen { outside: Some(outside), .. } => unknown(reason::OUTSIDE_NAMESPACES, outside.to_owned()),
        Seen { unreadable: Some((count, pod)), .. } if *count > 0 => {
            unknown(reason::PODS_UNREADABLE, text::unreadable(*count, pod))
        }
        Seen { watched: 0, .. } => unknown(reason::NO_PODS_SELECTED, "spec.pods selects no pod that exists".to_owned()),
        Seen { watched, .. } => {
            Verdict { status: "True", reason: reason::PODS_HEALTHY, message: text::healthy(watched) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_seen_completely_is_healthy() {
        let bad = (1, "shop/bad (no JSON)".to_owned());
        let none = (0, String::new());
        let healthy = Seen { watched: 3, ..Seen::default() };
        for (seen, status, reason, message) in [
            (healthy, "True", "PodsHealthy", "all 3 pods are healthy"),
            (Seen { unreadable: Some(&none), ..healthy }, "True", "PodsHealthy", "all 3 pods are healthy"),
            (Seen { watched: 0, ..healthy }, "Unknown", "NoPodsSelected", "spec.pods selects no pod that exists"),
            (
                Seen { unreadable: Some(&bad), ..healthy },
                "Unknown",
                "PodsUnreadable",
                "1 pod could not be read: shop/bad (no JSON)",
            ),
            (
                Seen { unreadable: Some(&bad), watched: 0, ..healthy },
                "Unknown",
                "PodsUnreadable",
                "1 pod could not be read: shop/bad (no JSON)",
            ),
            (Seen { outside: Some("ml"), ..healthy }, "Unknown", "OutsideNamespaces", "ml"),
            (Seen { outside: Some("ml"), watched: 0, ..healthy }, "Unknown", "OutsideNamespaces", "ml"),
            (
                Seen { problems: Some("1 of 3"), unreadable: Some(&bad), outside: Some("ml"), ..healthy },
                "False",
                "PodsUnhealthy",
                "1 of 3",
            ),
        ] {
            assert_eq!(pods_healthy(seen), Verdict { status, reason, message: message.to_owned() }, "{seen:?}");
        }
    }
}
