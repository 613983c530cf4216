//! The name of an object on the command line.

use crate::api::NamespacedName;

/// Parses `NAMESPACE/NAME`.
pub(super) fn object_name(text: &str) -> Result<NamespacedName, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(NamespacedName { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("must be NAMESPACE/NAME".to_owned()),
    }
}
