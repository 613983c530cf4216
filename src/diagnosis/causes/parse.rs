//! Reads texts that Kubernetes composes, by patterns that look like them.
//!
//! In a pattern, `{}` stands for any text up to the next occurrence of what follows, `{w}` for one without spaces, and `{q}` for
//! the content of one that is quoted as Go's `%q` does it. A pattern describes the whole text: `failed quota: {}: must specify
//! {}`.

/// The parts of a text for which the placeholders of a pattern stand.
pub(super) fn parts<'a, const N: usize>(pattern: &str, text: &'a str) -> Option<[&'a str; N]> {
    all_parts(pattern, text)?.try_into().ok()
}

/// Whether a text has a pattern.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    all_parts(pattern, text).is_some()
}

/// As [`parts`], for a pattern with any number of placeholders.
pub(super) fn all_parts<'a>(pattern: &str, text: &'a str) -> Option<Vec<&'a str>> {
    let mut pieces = pattern.split('{');
    let mut rest = text.strip_prefix(pieces.next()?)?;
    let mut parts = Vec::new();
    let mut pieces = pieces.filter_map(|piece| piece.split_once('}')).peekable();
    while let Some((placeholder, literal)) = pieces.next() {
        let part;
        (part, rest) = match placeholder {
            "q" => {
                let (part, rest) = quoted(rest)?;
                (part, rest.strip_prefix(literal)?)
            }
            _ if pieces.peek().is_none() => (rest.strip_suffix(literal)?, ""),
            _ => rest.split_once(literal)?,
        };
        if placeholder == "w" && part.contains(' ') {
            return None;
        }
        parts.push(part);
    }
    rest.is_empty().then_some(parts)
}

/// A sentence with these parts in place of `{0}`, `{1}` and so on.
pub(super) fn filled(sentence: &str, parts: &[&str]) -> String {
    let mut pieces = sentence.split('{');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for (number, literal) in pieces.filter_map(|piece| piece.split_once('}')) {
        filled.push_str(number.parse().ok().and_then(|number: usize| parts.get(number)).copied().unwrap_or_default());
        filled.push_str(literal);
    }
    filled
}

/// The content of a quoted text at the beginning, as Go's `%q` writes it, and the rest. Escapes remain as they are.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut escaped = false;
    let end = inner.find(|char| {
        let ends = char == '"' && !escaped;
        escaped = char == '\\' && !escaped;
        ends
    })?;
    Some((&inner[..end], &inner[end + 1..]))
}

/// A runtime's or driver's error without the words of gRPC.
pub(super) fn without_grpc(error: &str) -> &str {
    let description = error.strip_prefix("rpc error: code = ").and_then(|rest| rest.split_once(" desc = "));
    description.map_or(error, |(_, description)| description)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_parts_of_a_text() {
        for (pattern, text, expected) in [
            ("no placeholder", "no placeholder", Some(&[][..])),
            ("no placeholder", "no placeholder.", None),
            ("a {} c", "a b c", Some(&["b"])),
            ("a {} c", "a b c d", None),
            ("a {} c", "a b c c", Some(&["b c"])),
            ("a {} c{}", "a b c c", Some(&["b", " c"])),
            ("{}: {}", "one: two: three", Some(&["one", "two: three"])),
            ("{}c {} {}", "a b c d e", Some(&["a b ", "d", "e"])),
            ("{w} is {}", "it is", None),
            ("{w} is {}", "it is so", Some(&["it", "so"])),
            ("{w} is {}", "that it is so", None),
            ("{q} is forbidden", r#""app" is forbidden"#, Some(&["app"])),
            ("{q}{}", r#""a\"b\\" rest"#, Some(&[r#"a\"b\\"#, " rest"])),
            ("{q}", r#""é"#, None),
            ("{q}", "app", None),
            ("{}", "", Some(&[""])),
        ] {
            assert_eq!(all_parts(pattern, text).as_deref(), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn parts_are_not_taken_for_placeholders() {
        assert_eq!(filled("the {1} of {0}: {2}", &["{1}", "b{0}"]), "the b{0} of {1}: ");
    }
}
