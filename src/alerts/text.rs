//! Text that came from a cluster, made fit to be shown: without what controls a terminal or reorders a
//! line, and no longer than it may be.
//!
//! Lengths are counted in UTF-16 code units. A receiver that counts characters or bytes-as-characters
//! counts no more of them than that, except in bytes, which the formats bound on their own.

/// One line: line breaks and other control characters become a space.
#[must_use]
pub fn line(text: &str, limit: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars().filter(|&c| !is_invisible(c)) {
        let c = if c.is_control() || is_line_separator(c) { ' ' } else { c };
        if c != ' ' || !(out.is_empty() || out.ends_with(' ')) {
            out.push(c);
            used += c.len_utf16();
        }
        // A space at the end may still go; with two units more there is something to cut.
        if used > limit.saturating_add(2) {
            break;
        }
    }
    out.truncate(out.trim_end().len());
    clip(&out, limit)
}

/// The end of a text of several lines, from the beginning of a line where one is near enough.
#[must_use]
pub fn tail(text: &str, limit: usize) -> String {
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
    let Some(room) = limit.checked_sub(units(CUT)) else { return String::new() };
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
        && units(partial) * 2 < room
    {
        end = rest;
    }
    format!("{CUT}{end}")
}

/// The beginning of a text, with an ellipsis where something was cut.
#[must_use]
pub fn clip(text: &str, limit: usize) -> String {
    if units(text) <= limit {
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
pub fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// Characters without a width, or that change the direction of others.
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
    fn a_line_has_no_breaks_controls_or_direction_marks() {
        assert_eq!(line("  a\r\n\tb\u{202e}c\u{1b}[31m\u{2028}d\u{0}", 99), "a bc [31m d");
        assert_eq!(line("abcdef", 4), "abc…");
        assert_eq!(line("a😀😀", 3), "a…", "a surrogate pair isn't split");
        assert_eq!(line("abc", 0), "");
    }

    #[test]
    fn a_tail_is_the_end_from_a_lines_beginning() {
        assert_eq!(tail("one\ntwo\r\nthree\n", 99), "one\ntwo\nthree");
        assert_eq!(tail("one\ntwo\nthree", 11), "…\ntwo\nthree");
        assert_eq!(tail("one\ntwo\nthree", 9), "…\nthree");
        assert_eq!(tail("abcdefghij", 6), "…\nghij", "a line that is too long is cut");
        assert_eq!(tail("abc", 1), "");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_is_longer_than_its_limit(text in "\\PC*|[\\x00-\\x7f😀\n]{0,60}", limit in 0_usize..40) {
            for made in [line(&text, limit), tail(&text, limit), clip(&text, limit)] {
                prop_assert!(units(&made) <= limit, "{made:?}");
            }
            prop_assert!(!line(&text, limit).contains(char::is_control));
        }
    }
}
