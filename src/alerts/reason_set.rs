//! A list of kinds and reasons in a spec, prepared so that a match takes the same time however long the list is.

use std::collections::HashSet;

use crate::api::{ProblemKind, reason_names};

#[derive(Clone, Debug, Default)]
pub(super) struct ReasonSet(HashSet<Box<str>>);

impl ReasonSet {
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().map(String::into_boxed_str).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the list contains the kind or the reason of a problem, or a synonym of the reason.
    pub fn contains(&self, kind: ProblemKind, reason: &str) -> bool {
        reason_names(kind, reason).any(|name| self.0.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::matches_reason;

    #[test]
    fn contains_what_one_of_its_names_matches() {
        let names =
            ["Error", "CrashLoopBackOff", "ErrImagePull", "ImagePullBackOff", "OOMKilled", "Crash", "Image", ""];
        for (name, other) in names.iter().flat_map(|name| names.map(|other| (name, other))) {
            let set = ReasonSet::new([(*name).to_owned(), other.to_owned()]);
            for reason in names {
                for kind in [ProblemKind::Crash, ProblemKind::Image, ProblemKind::NotReady] {
                    let expected = matches_reason(name, kind, reason) || matches_reason(other, kind, reason);
                    assert_eq!(set.contains(kind, reason), expected, "{name}, {other}: {kind} {reason}");
                }
            }
        }
        assert!(ReasonSet::default().is_empty());
    }
}
