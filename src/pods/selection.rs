//! Selects pods by namespace and label.

use kube::core::Expression;

use crate::glob::{Glob, Name};

/// How many names in a selection are compared with the watched namespaces. Patterns may expand to thousands.
const NAMES: usize = 256;

/// The pods that an `Orchestr` object selects.
#[derive(Clone, Debug)]
pub struct PodSelection {
    /// Empty: all namespaces.
    pub namespaces: Vec<Glob>,
    pub exclude_namespaces: Vec<Glob>,
    /// A pod must match every expression.
    pub labels: Vec<Expression>,
}

impl PodSelection {
    /// Whether a pod of this namespace with these labels is selected.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn selects(&self, namespace: &str, labels: &(impl Labels + ?Sized)) -> bool {
        self.selects_namespace(namespace) && self.selects_labels(labels)
    }

    /// Whether a pod with these labels is selected, if its namespace is.
    #[must_use]
    pub(crate) fn selects_labels(&self, labels: &(impl Labels + ?Sized)) -> bool {
        self.labels.iter().all(|expression| matches(expression, labels))
    }

    /// Whether the selection includes namespaces that are not watched: it selects none of those that are, or one of the
    /// first [`NAMES`] names in it is another one. A pattern with a wildcard is taken to mean the watched namespaces
    /// only. Returns a message.
    #[must_use]
    pub(crate) fn outside(&self, watched: &[&str]) -> Option<String> {
        if !watched.iter().any(|namespace| self.selects_namespace(namespace)) {
            return Some(format!(
                "spec.pods selects no namespace that is watched: --namespaces is {}",
                watched.join(",")
            ));
        }
        let mut names = self.namespaces.iter().flat_map(Glob::names).take(NAMES);
        let outside = names.find(|name| self.selects_namespace(name) && !watched.contains(&name.as_str()))?;
        Some(format!("the namespace {outside} is not watched: --namespaces is {}", watched.join(",")))
    }

    /// Whether pods of this namespace can be selected.
    #[must_use]
    pub(crate) fn selects_namespace(&self, namespace: &str) -> bool {
        let Some(name) = Name::new(namespace) else { return false };
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(&name));
        (self.namespaces.is_empty() || any(&self.namespaces)) && !any(&self.exclude_namespaces)
    }
}

/// The labels of a pod, in whatever form they are kept.
pub(crate) trait Labels {
    /// Whether there is a label with this key.
    fn has(&self, key: &str) -> bool;

    /// Whether there is a label with this key and value.
    fn is(&self, key: &str, value: &str) -> bool;
}

impl<T: PartialEq<str>> Labels for [(T, T)] {
    fn has(&self, key: &str) -> bool {
        self.iter().any(|(own, _)| own == key)
    }

    fn is(&self, key: &str, value: &str) -> bool {
        self.iter().any(|(own, own_value)| own == key && own_value == value)
    }
}

impl<T: PartialEq<str>> Labels for Vec<(T, T)> {
    fn has(&self, key: &str) -> bool {
        self.as_slice().has(key)
    }

    fn is(&self, key: &str, value: &str) -> bool {
        self.as_slice().is(key, value)
    }
}

/// Like [`SelectorExt`](kube::core::SelectorExt), but does not need a map of the labels.
pub(crate) fn matches(expression: &Expression, labels: &(impl Labels + ?Sized)) -> bool {
    match expression {
        Expression::In(key, values) => values.iter().any(|value| labels.is(key, value)),
        Expression::NotIn(key, values) => !values.iter().any(|value| labels.is(key, value)),
        Expression::Equal(key, value) => labels.is(key, value),
        Expression::NotEqual(key, value) => !labels.is(key, value),
        Expression::Exists(key) => labels.has(key),
        Expression::DoesNotExist(key) => !labels.has(key),
    }
}
