//! Helpers to read texts that Kubernetes composes.

/// The content of a quoted text at the beginning, as Go's `%q` writes it, and the rest. Escapes remain as they are.
pub(super) fn quoted(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut escaped = false;
    let end = inner.find(|char| {
        let ends = char == '"' && !escaped;
        escaped = char == '\\' && !escaped;
        ends
    })?;
    Some((&inner[..end], &inner[end + 1..]))
}

/// The text after all of these parts, each searched after the one before.
pub(super) fn after_all<'a>(text: &'a str, parts: &[&str]) -> Option<&'a str> {
    parts.iter().try_fold(text, |rest, part| rest.split_once(part).map(|(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_quoted_texts() {
        assert_eq!(quoted(r#""app" is forbidden"#), Some(("app", " is forbidden")));
        assert_eq!(quoted(r#""a\"b\\" rest"#), Some((r#"a\"b\\"#, " rest")));
        assert_eq!(quoted(r#""é"#), None);
        assert_eq!(quoted("app"), None);
    }

    #[test]
    fn finds_parts_in_order() {
        assert_eq!(after_all("a b c d", &["a ", "c "]), Some("d"));
        assert_eq!(after_all("c a", &["a", "c"]), None);
    }
}
