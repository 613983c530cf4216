//! Names of objects that come from events, owner references, statuses or the command line.

/// Kubernetes limits names to this many bytes.
const LIMIT: usize = 253;

/// Whether a name can be that of an object. Names become parts of URLs, so others must not be requested.
pub(crate) fn is_object_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let ends_well = !name.starts_with(['.', '-']) && !name.ends_with(['.', '-']);
    !name.is_empty() && name.len() <= LIMIT && name.bytes().all(is_allowed) && ends_well && !name.contains("..")
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
