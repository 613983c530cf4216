//! Removes terminal control sequences, and characters that hide or reorder others.

use std::str::Chars;

/// The longest parameters of a control sequence that are recognized, in bytes.
const MAX_PARAMETERS: usize = 64;

/// Removes escape sequences, control characters, and characters that reorder or hide others. Line breaks and tabs stay,
/// and so do carriage returns within a line: the caller applies them. Also returns the new position
/// of the byte at `mark`.
pub(crate) fn remove_escapes(text: &str, mark: usize) -> (String, usize) {
    let mut shown = String::with_capacity(text.len());
    let mut shown_mark = None;
    let mut rest = text.chars();
    // No control string that starts before this position is terminated. Avoids searching again for each.
    let mut unterminated = 0;
    loop {
        let at = text.len() - rest.as_str().len();
        if at >= mark && shown_mark.is_none() {
            shown_mark = Some(shown.len());
        }
        // Nearly all characters of a log are printable ASCII characters, so runs of them are copied as a whole.
        let plain = plain_length(rest.as_str());
        if let Some((run, behind)) = rest.as_str().split_at_checked(plain).filter(|_| plain > 0) {
            if mark < at + plain && shown_mark.is_none() {
                shown_mark = Some(shown.len() + (mark - at));
            }
            shown.push_str(run);
            rest = behind.chars();
            continue;
        }
        let Some(letter) = rest.next() else { break };
        match letter {
            '\r' => {
                let after = rest.as_str().trim_start_matches('\r');
                if !after.starts_with('\n') {
                    shown.push('\r');
                }
                rest = after.chars();
            }
            '\u{1b}' => rest = after_escape(rest, text.len(), &mut unterminated),
            '\u{9b}' => rest = after_control(rest.as_str()).chars(),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => {
                rest = after_string(rest.as_str(), text.len(), &mut unterminated)
            }
            '\u{2028}' | '\u{2029}' => shown.push(' '),
            _ if letter.is_control() || is_format(letter) => {}
            _ => shown.push(letter),
        }
    }
    let shown_mark = shown_mark.unwrap_or(shown.len());
    (shown, shown_mark)
}

/// The bytes of printable ASCII characters, line breaks and tabs with which a text begins.
fn plain_length(text: &str) -> usize {
    text.bytes().take_while(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')).count()
}

/// Skips the sequence that an ESC introduces (ECMA-48, 5.3 to 5.6).
fn after_escape<'a>(rest: Chars<'a>, length: usize, unterminated: &mut usize) -> Chars<'a> {
    let text = rest.as_str();
    let Some(&kind) = text.as_bytes().first() else { return rest };
    let behind = text.get(1..).unwrap_or_default();
    match kind {
        b'[' => after_control(behind).chars(),
        b']' | b'P' | b'X' | b'^' | b'_' => after_string(behind, length, unterminated),
        b' '..=b'/' => {
            let intermediate = text.bytes().take(MAX_PARAMETERS).take_while(|byte| matches!(byte, b' '..=b'/')).count();
            let behind = text.get(intermediate..).unwrap_or_default();
            behind.strip_prefix(|letter: char| matches!(letter, '0'..='~')).unwrap_or(behind).chars()
        }
        b'0'..=b'~' => behind.chars(),
        _ => rest,
    }
}

/// Skips the parameters and the final byte of a control sequence. Without a final byte, the parameters are text.
fn after_control(text: &str) -> &str {
    let parameters = text.bytes().take(MAX_PARAMETERS).take_while(|byte| matches!(byte, b' '..=b'?')).count();
    match text.as_bytes().get(parameters) {
        Some(b'@'..=b'~') => text.get(parameters + 1..).unwrap_or_default(),
        _ => text,
    }
}

/// Skips a control string, such as a window title or a link. A string that is not terminated on its line is text.
fn after_string<'a>(text: &'a str, length: usize, unterminated: &mut usize) -> Chars<'a> {
    let at = length - text.len();
    if at < *unterminated {
        return text.chars();
    }
    let ends = |letter: char| matches!(letter, '\u{7}' | '\u{9c}' | '\u{1b}' | '\n');
    match text.char_indices().find(|&(_, letter)| ends(letter)) {
        Some((end, '\u{1b}')) => {
            let behind = text.get(end..).unwrap_or_default();
            behind.strip_prefix("\u{1b}\\").unwrap_or(behind).chars()
        }
        Some((end, letter)) if letter != '\n' => text.get(end + letter.len_utf8()..).unwrap_or_default().chars(),
        found => {
            *unterminated = found.map_or(length, |(end, _)| at + end);
            text.chars()
        }
    }
}

/// Invisible characters that reorder or separate others: bidirectional controls, joiners, tags.
fn is_format(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn moves_the_mark_with_the_text(
            head in prop::collection::vec("[a-z \t\n]{0,8}|[é\u{7f}\u{200b}\u{0}]", 0..8),
            tail in prop::collection::vec("[a-z \t\n]{0,8}|[é\u{7f}\u{200b}\u{0}]", 0..8),
        ) {
            let kept = |text: &str| text.replace(['\u{7f}', '\u{200b}', '\0'], "");
            let (head, tail) = (head.concat(), tail.concat());
            let shown = remove_escapes(&format!("{head}{tail}"), head.len());
            prop_assert_eq!(shown, (kept(&head) + &kept(&tail), kept(&head).len()));
        }
    }
}
