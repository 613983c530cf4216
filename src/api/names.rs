//! Names of objects and of the controllers that pods belong to.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Identifies an object of a namespaced kind, but not across deletion: another object may get the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    pub namespace: String,
    pub name: String,
}

impl NamespacedName {
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// `namespace/name`, as in kubectl's output.
impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Owner {
    /// The kind, such as Deployment.
    pub kind: String,
    /// The name, in the pod's namespace.
    pub name: String,
}

/// Kubernetes limits names to this many bytes.
const NAME_LIMIT: usize = 253;

/// Whether a name that comes from an event, an owner reference, a status or the command line can be that of an object. Names become parts of URLs, so others must not be requested.
pub(crate) fn is_object_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let ends_well = !name.starts_with(['.', '-']) && !name.ends_with(['.', '-']);
    !name.is_empty() && name.len() <= NAME_LIMIT && name.bytes().all(is_allowed) && ends_well && !name.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_names_of_objects_and_no_parts_of_urls() {
        for name in ["api", "api-5d9f", "a.b-c.d", "0", &"a".repeat(253)] {
            assert!(is_object_name(name), "{name}");
        }
        let refused =
            ["", ".", "..", "a..b", "../secrets/x", "a/b", "a?b", "a#b", "a%2fb", "A", "-a", "a.", "é", "a b"];
        for name in refused.into_iter().chain([&*"a".repeat(254)]) {
            assert!(!is_object_name(name), "{name}");
        }
    }
}
