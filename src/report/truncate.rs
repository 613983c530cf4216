//! Limits the texts that a status copies from objects in the cluster.

use std::borrow::Cow;

/// The longest message of a condition, in bytes.
pub(super) const CONDITION_MESSAGE_LIMIT: usize = 1024;
/// The longest name in bytes. Kubernetes limits names to 253; kubelets and owner references may hold longer ones.
const NAME_LIMIT: usize = 253;

/// The beginning of a name, reason or other identifier, without an ellipsis.
pub(super) fn name(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_LIMIT)]
}

/// The beginning of a text, with an ellipsis if something was cut: at most `limit` bytes, which must be 3 or more.
pub(super) fn with_ellipsis(text: &str, limit: usize) -> Cow<'_, str> {
    const ELLIPSIS: &str = "…";
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(limit.saturating_sub(ELLIPSIS.len()));
    Cow::Owned(format!("{}{ELLIPSIS}", &text[..end]))
}

/// A condition's message: one line of at most [`CONDITION_MESSAGE_LIMIT`] bytes, without characters that hide or
/// reorder others.
pub(super) fn condition_message(text: &str) -> String {
    with_ellipsis(text, CONDITION_MESSAGE_LIMIT)
        .chars()
        .filter(|character| !is_bidi_control(*character))
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect()
}

fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_between_characters() {
        assert_eq!(with_ellipsis("ééé", 6), "ééé");
        assert_eq!(with_ellipsis("ééé", 5), "é…");
        assert_eq!(with_ellipsis("ééé", 3), "…");
        assert_eq!(name(&"é".repeat(200)).len(), 252);
    }
}
