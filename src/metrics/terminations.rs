//! Bounds the series of container terminations, and remembers which terminations were counted.

use std::collections::{HashMap, HashSet};

use super::{clean::label_value, instruments::ContainerLabels};

/// The most namespaces with series of their own, and the most reasons of each.
const NAMESPACES: usize = 250;
const REASONS: usize = 8;
/// The value of a label that stands for all further ones. No name of a namespace contains an underscore.
pub(super) const OTHER: &str = "_other";

#[derive(Debug, Default)]
pub(super) struct Terminations {
    reasons: HashMap<String, HashSet<String>>,
}

impl Terminations {
    /// The labels of the series that counts a termination.
    pub(super) fn labels(&mut self, namespace: &str, reason: &str) -> ContainerLabels {
        let (namespace, reason) = (label_value(namespace), label_value(reason));
        let others = || ContainerLabels { namespace: OTHER.to_owned(), reason: OTHER.to_owned() };
        let count = self.reasons.len();
        let reasons = match self.reasons.get_mut(&namespace) {
            Some(reasons) => reasons,
            None if count < NAMESPACES => self.reasons.entry(namespace.clone()).or_default(),
            None => return others(),
        };
        if reasons.contains(&reason) || reasons.len() < REASONS {
            reasons.insert(reason.clone());
            ContainerLabels { namespace, reason }
        } else {
            ContainerLabels { namespace, reason: OTHER.to_owned() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_further_namespaces_and_reasons_together() {
        let mut terminations = Terminations::default();
        let mut series = HashSet::new();
        for namespace in 0..2 * NAMESPACES {
            for reason in 0..2 * REASONS {
                series.insert(terminations.labels(&format!("ns-{namespace}"), &format!("Reason{reason}")));
            }
        }
        assert_eq!(series.len(), NAMESPACES * (REASONS + 1) + 1);
        let labels = terminations.labels("ns-0", "Reason99");
        assert_eq!((labels.namespace.as_str(), labels.reason.as_str()), ("ns-0", OTHER));
        let labels = terminations.labels("ns-999", "Reason1");
        assert_eq!((labels.namespace.as_str(), labels.reason.as_str()), (OTHER, OTHER));
        let labels = terminations.labels("ns-0", "Reason1");
        assert_eq!((labels.namespace.as_str(), labels.reason.as_str()), ("ns-0", "Reason1"));
    }
}
