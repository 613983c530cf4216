//! Selects pods by namespace and label.

use kube::core::Expression;

use crate::glob::Glob;

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
    #[must_use]
    pub(crate) fn selects(&self, namespace: &str, labels: &[(String, String)]) -> bool {
        self.selects_namespace(namespace) && self.labels.iter().all(|expression| matches(expression, labels))
    }

    /// Whether the selection includes namespaces that are not watched: it selects none of those that are, or it names
    /// another one. A pattern with a wildcard is taken to mean the watched namespaces only. Returns a message.
    #[must_use]
    pub(crate) fn outside(&self, watched: &[&str]) -> Option<String> {
        if !watched.iter().any(|namespace| self.selects_namespace(namespace)) {
            return Some(format!(
                "spec.pods selects no namespace that is watched: --namespaces is {}",
                watched.join(",")
            ));
        }
        let mut names = self.namespaces.iter().flat_map(Glob::names);
        let outside = names.find(|name| self.selects_namespace(name) && !watched.contains(&name.as_str()))?;
        Some(format!("the namespace {outside} is not watched: --namespaces is {}", watched.join(",")))
    }

    /// Whether pods of this namespace can be selected.
    #[must_use]
    pub(crate) fn selects_namespace(&self, namespace: &str) -> bool {
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.is_match(namespace));
        (self.namespaces.is_empty() || any(&self.namespaces)) && !any(&self.exclude_namespaces)
    }
}

/// Like [`SelectorExt`](kube::core::SelectorExt), but does not need a map of the labels.
fn matches(expression: &Expression, labels: &[(String, String)]) -> bool {
    let value = |key: &String| labels.iter().find(|(own, _)| own == key).map(|(_, value)| value);
    match expression {
        Expression::In(key, values) => value(key).is_some_and(|value| values.contains(value)),
        Expression::NotIn(key, values) => value(key).is_none_or(|value| !values.contains(value)),
        Expression::Equal(key, wanted) => value(key) == Some(wanted),
        Expression::NotEqual(key, unwanted) => value(key) != Some(unwanted),
        Expression::Exists(key) => value(key).is_some(),
        Expression::DoesNotExist(key) => value(key).is_none(),
    }
}
