//! Labels of series, and their bounds: anyone may choose the names of objects in the cluster, and the reasons of pods.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

/// The names and values of labels.
pub(super) type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// The longest label value, in bytes: as long as the name of an object may be.
const LIMIT: usize = 253;

/// Cuts a value, and replaces control characters and those that change the direction of text.
pub(super) fn label_value(value: &str) -> Cow<'static, str> {
    let is_odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let mut cleaned: String = value.chars().map(|c| if is_odd(c) { char::REPLACEMENT_CHARACTER } else { c }).collect();
    cleaned.truncate(cleaned.floor_char_boundary(LIMIT));
    cleaned.into()
}

/// The most namespaces with series of container terminations, and the most reasons of each.
const NAMESPACES: usize = 250;
const REASONS: usize = 8;
/// The value of a label that stands for all further ones. No name of a namespace contains an underscore.
pub(super) const OTHER: &str = "_other";

/// The series of container terminations: their reasons by namespace.
#[derive(Debug, Default)]
pub(super) struct Terminations(HashMap<Cow<'static, str>, HashSet<Cow<'static, str>>>);

impl Terminations {
    /// The labels of the series that counts a termination.
    pub(super) fn labels(&mut self, namespace: &str, reason: &str) -> Labels<2> {
        let (mut namespace, mut reason) = (label_value(namespace), label_value(reason));
        if self.0.len() < NAMESPACES || self.0.contains_key(&namespace) {
            let reasons = self.0.entry(namespace.clone()).or_default();
            if reasons.len() < REASONS || reasons.contains(&reason) {
                reasons.insert(reason.clone());
            } else {
                reason = OTHER.into();
            }
        } else {
            (namespace, reason) = (OTHER.into(), OTHER.into());
        }
        [("namespace", namespace), ("reason", reason)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_values_and_replaces_control_characters() {
        for (value, expected) in [
            ("cart", "cart"),
            ("", ""),
            ("a\nb\r\u{0}\u{1b}[31m", "a\u{fffd}b\u{fffd}\u{fffd}\u{fffd}[31m"),
            ("a\u{202e}b\u{2028}", "a\u{fffd}b\u{fffd}"),
            (r#"a"b\c{d="e"}"#, r#"a"b\c{d="e"}"#),
        ] {
            assert_eq!(label_value(value), expected);
        }
        assert_eq!(label_value(&"ä".repeat(200)), "ä".repeat(126));
        assert_eq!(label_value(&"\n".repeat(200)).len(), 252);
    }

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
        for (namespace, reason, expected) in [
            ("ns-0", "Reason99", ["ns-0", OTHER]),
            ("ns-999", "Reason1", [OTHER; 2]),
            ("ns-0", "Reason1", ["ns-0", "Reason1"]),
        ] {
            assert_eq!(terminations.labels(namespace, reason).map(|(_, value)| value), expected);
        }
    }
}
