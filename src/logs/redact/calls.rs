//! Finds credentials among the arguments of calls and statements that do not name them: `connect("host", "user", "…")`,
//! `INSERT INTO users (password) VALUES ('…')`.

use std::ops::Range;

use super::{bytes::rest_of_line, cursor::Cursor, keys::is_credential, looks::is_secret_like};

/// `new PDO('mysql:host=db', 'user', '…')`: the third argument, if all are quoted
pub(super) fn third_argument(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    argument(text, needle.end, 2)
}

/// `sp_addlogin 'user', '…'`
pub(super) fn second_argument(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    argument(text, needle.end, 1)
}

/// `ConvertTo-SecureString '…'`
pub(super) fn quoted(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    argument(text, needle.end, 0)
}

/// `Credentials("user", "…")`
pub(super) fn second_secret(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    argument(text, needle.end, 1).filter(|value| text.get(value.clone()).is_some_and(is_secret_like))
}

/// `connect("host", "user", "…")`
pub(super) fn third_secret(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    argument(text, needle.end, 2).filter(|value| text.get(value.clone()).is_some_and(is_secret_like))
}

/// `jwt.sign(payload, '…')`: the last quoted argument
pub(super) fn last_secret(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    let call = rest_of_line(text, needle.end, 256).split(')').next()?;
    let end = call.rfind(['"', '\''])?;
    let start = call.get(..end)?.rfind(['"', '\''])? + 1;
    let value = call.get(start..end)?;
    (is_secret_like(value) && !value.contains(' ')).then(|| needle.end + start..needle.end + end)
}

/// The argument at a place, if it and those before it are quoted.
fn argument(text: &str, at: usize, wanted: usize) -> Option<Range<usize>> {
    let mut cursor = Cursor::new(text, at);
    for place in 0..=wanted {
        cursor.blanks();
        if place > 0 {
            if !cursor.eat(",") {
                return None;
            }
            cursor.blanks();
        }
        let quote = cursor.peek().filter(|byte| matches!(byte, b'"' | b'\''))?;
        let value = cursor.value();
        if cursor.peek() != Some(quote) {
            return None;
        }
        cursor.at += 1;
        if place == wanted {
            return Some(value).filter(|value| !value.is_empty());
        }
    }
    None
}

/// `INSERT INTO users (name, password) VALUES ('ann', '…')`: the value in the place of the column
pub(super) fn inserted(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    let line = rest_of_line(text, needle.end, 1024);
    let open = line.find('(')?;
    let close = open + line.get(open..)?.find(')')?;
    let columns = line.get(open + 1..close)?;
    let place =
        columns.split(',').position(|column| is_credential(column.trim_matches([' ', '"', '`', '\'', '[', ']'])))?;
    let rest = line.get(close + 1..)?;
    let values =
        rest.find('(').filter(|&at| rest.get(..at).is_some_and(|word| word.trim().eq_ignore_ascii_case("values")))?;
    let mut cursor = Cursor::new(text, needle.end + close + 1 + values + 1);
    for index in 0..=place {
        cursor.blanks();
        let quoted = cursor.peek() == Some(b'\'');
        let value = if quoted { cursor.value() } else { cursor.until(256, |byte| matches!(byte, b',' | b')')) };
        cursor.at += usize::from(quoted);
        cursor.blanks();
        if index == place {
            return (quoted && !value.is_empty()).then_some(value);
        }
        if !cursor.eat(",") {
            return None;
        }
    }
    None
}
