//! Limits the texts that a status copies from objects in the cluster.

use std::borrow::Cow;

use arcstr::ArcStr;

use crate::api::Owner;

use super::json_size;

/// The longest message of a condition, in bytes.
pub(super) const CONDITION_MESSAGE_LIMIT: usize = 1024;
/// The longest name, in bytes of JSON. Kubernetes limits names to 253 bytes, and JSON escapes none of their characters;
/// kubelets and owner references may hold longer ones, and characters that take six bytes.
pub(super) const NAME_LIMIT: usize = 253;

/// The beginning of a name, reason or other identifier, without an ellipsis.
pub(super) fn name(name: &str) -> &str {
    // No character takes more than six times its bytes.
    if name.len() <= NAME_LIMIT / 6 {
        return name;
    }
    let mut left = NAME_LIMIT;
    let end = name.char_indices().find(|(_, character)| match left.checked_sub(json_size::escaped(*character)) {
        Some(rest) => {
            left = rest;
            false
        }
        None => true,
    });
    end.map_or(name, |(end, _)| &name[..end])
}

/// The same of a name that is shared.
pub(super) fn shared_name(text: &ArcStr) -> ArcStr {
    let shown = name(text);
    if shown.len() == text.len() { text.clone() } else { shown.into() }
}

/// The beginning of a name that may contain anything, such as that of an owner: characters that hide or reorder others, and
/// control characters, are shown as U+FFFD.
pub(super) fn shown_name(text: &str) -> String {
    let shown: String = text
        .chars()
        .map(|own| if is_deceptive(own) { char::REPLACEMENT_CHARACTER } else { own })
        .take(NAME_LIMIT)
        .collect();
    name(&shown).to_owned()
}

/// An owner with [shown names](shown_name).
pub(super) fn shown_owner(kind: &str, name: &str) -> Owner {
    Owner { kind: shown_name(kind), name: shown_name(name) }
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

fn is_deceptive(character: char) -> bool {
    character.is_control()
        || is_bidi_control(character)
        || matches!(character, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
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

    #[test]
    fn cuts_names_to_their_bytes_in_json() {
        let valid = "a-b.c".repeat(50) + "abc";
        assert_eq!(name(&valid), valid);
        for (hostile, characters) in [("<", 42), ("&", 42), ("\u{1}", 42), ("\"", 126), ("\u{2028}", 42), ("💥", 63)]
        {
            let cut = name(&hostile.repeat(253)).to_owned();
            assert_eq!(cut.chars().count(), characters, "{hostile:?}");
            assert!(json_size::size(&cut) <= NAME_LIMIT + 2, "{hostile:?}");
            let owner = shown_owner(&hostile.repeat(4096), &hostile.repeat(4096));
            assert!(
                [owner.kind, owner.name].iter().all(|shown| json_size::size(shown) <= NAME_LIMIT + 2),
                "{hostile:?}"
            );
        }
    }

    #[test]
    fn names_show_no_character_that_hides_or_reorders_others() {
        assert_eq!(shown_name("cart-5d9f"), "cart-5d9f");
        assert_eq!(
            shown_name("a\u{1b}[31m\u{202e}b\u{200b}\u{2028}\0c"),
            "a\u{fffd}[31m\u{fffd}b\u{fffd}\u{fffd}\u{fffd}c"
        );
        assert_eq!(shown_name(&"\u{202e}".repeat(4096)).len(), 252);
    }
}
