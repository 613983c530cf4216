//! Which pods an `Orchestr` selects, by namespace and label.

use kube::core::Expression;

use crate::glob::Glob;

/// Which pods an object looks at.
#[derive(Clone, Debug)]
pub struct PodSelection {
    /// None: all.
    pub namespaces: Vec<Glob>,
    pub exclude_namespaces: Vec<Glob>,
    /// All of them must hold.
    pub labels: Vec<Expression>,
}

impl PodSelection {
    /// Whether pods of this namespace with these labels are looked at.
    #[must_use]
    pub fn selects(&self, namespace: &str, labels: &[(String, String)]) -> bool {
        self.selects_namespace(namespace) && self.labels.iter().all(|expression| holds(expression, labels))
    }

    /// Why some of what is selected is not watched, if only these namespaces are: none of them is selected, or another
    /// one is by its name. What a wildcard means is what is watched.
    #[must_use]
    pub fn outside(&self, watched: &[&str]) -> Option<String> {
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

    /// Whether any pods of this namespace are looked at.
    #[must_use]
    pub fn selects_namespace(&self, namespace: &str) -> bool {
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.is_match(namespace));
        (self.namespaces.is_empty() || any(&self.namespaces)) && !any(&self.exclude_namespaces)
    }
}

/// As [`SelectorExt`](kube::core::SelectorExt) has it, without a map made of the labels for each pod.
fn holds(expression: &Expression, labels: &[(String, String)]) -> bool {
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
