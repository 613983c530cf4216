//! Cuts messages before they are masked, and marks messages that were cut elsewhere.
//!
//! What is left of a credential at a cut may be too little to be recognized. So `…` replaces the last word of a message that
//! lost its end, and begins a message that lost its head: masking removes the first line of such a message.

/// Begins or ends a text that is not whole.
pub(crate) const CUT: char = '…';

/// The most bytes of a termination message that the kubelet reads from a file, and from the log. It keeps the last ones.
const SHARE_OF_FILE: usize = 4096;
const SHARE_OF_LOG: usize = 2048;
/// What the kubelet divides between the containers of a pod. It keeps the first bytes of each message.
const SHARE_OF_POD: usize = 12 * 1024;
/// How many ephemeral containers a pod may have, which count as well but are not decoded.
const EPHEMERAL: usize = 8;

/// A message of at most `limit` bytes, without its end or, if its head is missing, with less of its head.
pub(crate) fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    if !text.starts_with(CUT) {
        return cut_end(text, limit);
    }
    let from = text.ceil_char_boundary(text.len() - limit.saturating_sub(CUT.len_utf8()).min(text.len()));
    format!("{CUT}{}", text.get(from..).unwrap_or_default())
}

/// A message of at most `limit` bytes that is known to have lost its end, also if it is not longer.
pub(crate) fn cut_end(text: &str, limit: usize) -> String {
    let room = limit.saturating_sub(CUT.len_utf8()).min(text.len());
    let head = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
    let words = head.trim_end_matches(|char: char| !char.is_whitespace()).trim_end();
    if words.is_empty() { CUT.to_string() } else { format!("{words} {CUT}") }
}

/// A termination message with marks where the kubelet may have cut it; absent if it is whole. It is recognized by its
/// length. `containers` are those of the pod, with init containers. A message that the runtime wrote has not lost its head.
pub(crate) fn marked(message: &str, containers: usize, is_by_runtime: bool) -> Option<String> {
    let fewest = containers.max(1);
    let mut shares = (fewest..=fewest + EPHEMERAL).map(|containers| SHARE_OF_POD / containers);
    // Of a message from a file, at most 4096 bytes are left to divide.
    let lost_end = shares.any(|share| share < SHARE_OF_FILE && has_length(message, share));
    let lost_head =
        !is_by_runtime && (lost_end || [SHARE_OF_FILE, SHARE_OF_LOG].iter().any(|share| has_length(message, *share)));
    // A character that the cut splits becomes U+FFFD, which is longer than its rest.
    let lost_end = lost_end || has_length(message, SHARE_OF_FILE) && message.contains(char::REPLACEMENT_CHARACTER);
    let end = lost_end.then(|| cut_end(message, message.len() + CUT.len_utf8()));
    match (lost_head, end) {
        (true, end) => Some(format!("{CUT}{}", end.as_deref().unwrap_or(message))),
        (false, end) => end,
    }
}

/// Whether the message had this length before characters that were split at its ends became U+FFFD.
fn has_length(message: &str, length: usize) -> bool {
    let is_split = |char: &char| *char == char::REPLACEMENT_CHARACTER;
    let split = message.chars().take(3).take_while(is_split).count()
        + message.chars().rev().take(3).take_while(is_split).count();
    (length..=length + 2 * split).contains(&message.len())
        || length == SHARE_OF_FILE && split > 0 && (length - 3..length).contains(&message.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_the_end_before_a_word() {
        assert_eq!(cut("some words", 10), "some words");
        assert_eq!(cut("some more words", 13), "some more …");
        assert_eq!(cut("some\nwörds", 9), "some …", "before a character that does not fit");
        assert_eq!(cut(&"é".repeat(50), 11), "…");
        assert_eq!(cut("word", 0), "…");
    }

    #[test]
    fn cuts_more_of_the_head_if_that_is_missing() {
        assert_eq!(cut("…lost its head", 9), "…s head");
        assert_eq!(cut("…é é é é…", 12), "… é é…");
        assert_eq!(cut("…word", 2), "…");
    }

    #[test]
    fn recognizes_the_cuts_of_the_kubelet() {
        let message = |length: usize| format!("{} end", "w ".repeat(length / 2))[..length].to_owned();
        let lost = |length: usize, containers: usize| {
            let marked = marked(&message(length), containers, false);
            marked.map_or((false, false), |text| (text.starts_with(CUT), text.ends_with(CUT)))
        };
        for (containers, length, expected) in [
            (1, 4096, (true, false)),
            (3, 4096, (true, false)),
            (1, 2048, (true, true)), // May also have five ephemeral containers.
            (1, 4095, (false, false)),
            (4, 3072, (true, true)),
            (7, 1755, (true, true)),
            (11, 1117, (true, true)),
            (12, 1024, (true, true)),
            (13, 945, (true, true)),
            (13, 946, (false, false)),
            (100, 122, (true, true)),
            (5, 12 * 1024 / 8, (true, true)),
            (1, 1024, (false, false)),
        ] {
            assert_eq!(lost(length, containers), expected, "{length} bytes of {containers} containers");
        }
        let split = "\u{fffd}".to_owned() + &message(942) + "\u{fffd}";
        assert!(marked(&split, 13, false).is_some_and(|text| text.starts_with(CUT) && text.ends_with(CUT)));
        assert_eq!(marked("could not start it", 12 * 1024 / 18, true).as_deref(), Some("could not start …"));
    }
}
