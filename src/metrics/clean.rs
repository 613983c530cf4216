//! Label values from names in the cluster, which anyone may choose.

/// The longest label value, in bytes: as long as the name of an object may be.
const LIMIT: usize = 253;

/// Cuts a value, and replaces control characters and those that change the direction of text.
pub(super) fn label_value(value: &str) -> String {
    let is_odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let mut cleaned: String = value.chars().map(|c| if is_odd(c) { char::REPLACEMENT_CHARACTER } else { c }).collect();
    cleaned.truncate(cleaned.floor_char_boundary(LIMIT));
    cleaned
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
}
