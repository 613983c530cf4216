//! Cleans text from the cluster before it is sent or stored: removes control and direction characters, and
//! truncates.
//!
//! Limits are in UTF-16 code units, because some receivers count them; a count of characters is never larger.
//! Formats whose receivers count bytes check the size of the whole message.

/// Replaces line breaks and other control characters by single spaces, and truncates.
#[must_use]
pub(crate) fn single_line(text: &str, limit: usize) -> String {
    let mut out = String::new();
    for c in text.chars().filter(|&c| !is_invisible(c)) {
        let c = if c.is_control() || is_line_separator(c) { ' ' } else { c };
        if c != ' ' || !(out.is_empty() || out.ends_with(' ')) {
            out.push(c);
        }
    }
    out.truncate(out.trim_end().len());
    truncate(&out, limit)
}

/// Keeps the end of a text of several lines, starting at a line break if that costs less than half of the limit.
#[must_use]
pub(crate) fn tail(text: &str, limit: usize) -> String {
    const CUT: &str = "…\n";
    let mut end: Vec<char> = Vec::new();
    let mut used = 0;
    for c in text.trim_end().chars().rev().filter(|&c| !is_invisible(c) && c != '\r') {
        let c = if is_line_separator(c) { '\n' } else { c };
        end.push(if c.is_control() && c != '\n' { ' ' } else { c });
        used += c.len_utf16();
        if used > limit {
            break;
        }
    }
    end.reverse();
    let whole: String = end.iter().collect();
    if used <= limit {
        return whole.trim_start_matches('\n').to_owned();
    }
    let Some(room) = limit.checked_sub(utf16_len(CUT)) else { return String::new() };
    let mut start = whole.len();
    let mut used = 0;
    for (index, c) in whole.char_indices().rev() {
        used += c.len_utf16();
        if used > room {
            break;
        }
        start = index;
    }
    let (before, mut end) = whole.split_at(start);
    if !before.ends_with('\n')
        && let Some((partial, rest)) = end.split_once('\n')
        && utf16_len(partial) * 2 < room
    {
        end = rest;
    }
    format!("{CUT}{end}")
}

/// Keeps the beginning of a text, with an ellipsis if something was cut.
#[must_use]
pub(crate) fn truncate(text: &str, limit: usize) -> String {
    if utf16_len(text) <= limit {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.len_utf16();
        if used > limit {
            break;
        }
        out.push(c);
    }
    if limit > 0 {
        out.push('…');
    }
    out
}

/// The length of a text in UTF-16 code units.
#[must_use]
pub(crate) fn utf16_len(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// Characters that have no width or change the direction of text.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

fn is_line_separator(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn single_line_removes_breaks_controls_and_direction_marks() {
        assert_eq!(single_line("  a\r\n\tb\u{202e}c\u{1b}[31m\u{2028}d\u{0}", 99), "a bc [31m d");
        assert_eq!(single_line("abcdef", 4), "abc…");
        assert_eq!(single_line("a😀😀", 3), "a…", "a surrogate pair isn't split");
        assert_eq!(single_line("abc", 0), "");
    }

    #[test]
    fn tail_starts_at_a_line_break() {
        assert_eq!(tail("one\ntwo\r\nthree\n", 99), "one\ntwo\nthree");
        assert_eq!(tail("one\ntwo\nthree", 11), "…\ntwo\nthree");
        assert_eq!(tail("one\ntwo\nthree", 9), "…\nthree");
        assert_eq!(tail("abcdefghij", 6), "…\nghij", "cuts inside a line that is too long");
        assert_eq!(tail("abc", 1), "");
        assert_eq!(tail("a\u{202e}b\u{1b}[31mc\u{2028}d\te", 99), "ab [31mc\nd e");
        // The beginning of the first line is cut. The rest is dropped if it is shorter than half of the space.
        assert_eq!(tail("abcdef\nxyz", 8), "…\nxyz");
        assert_eq!(tail("abcdef\nxy", 8), "…\ndef\nxy");
        assert_eq!(tail("abcdef\nx", 8), "abcdef\nx");
        assert_eq!(tail("abcdefg\nx", 8), "…\ndefg\nx");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn results_stay_within_the_limit(text in "\\PC*|[\\x00-\\x7f😀\n]{0,60}", limit in 0_usize..40) {
            for result in [single_line(&text, limit), tail(&text, limit), truncate(&text, limit)] {
                prop_assert!(utf16_len(&result) <= limit, "{result:?}");
            }
            prop_assert!(!single_line(&text, limit).contains(char::is_control));
        }
    }
}
