//! Finds the passwords that statements insert into tables.

use std::ops::Range;

use super::{bytes::rest_of_line, found::Found, keys::is_credential};

/// `INSERT INTO users (name, password) VALUES ('ann', '…')`: the value in the place of the column
pub(super) fn find(found: &Found<'_>, _: &mut usize) -> Option<Range<usize>> {
    let (text, needle) = (found.text, &found.needle);
    let line = rest_of_line(text, needle.end, 1024);
    let open = line.find('(')?;
    let close = open + line.get(open..)?.find(')')?;
    let columns = line.get(open + 1..close)?;
    let place =
        columns.split(',').position(|column| is_credential(column.trim_matches([' ', '"', '`', '\'', '[', ']'])))?;
    let rest = line.get(close + 1..)?;
    let values =
        rest.find('(').filter(|&at| rest.get(..at).is_some_and(|word| word.trim().eq_ignore_ascii_case("values")))?;
    let mut values = rest.get(values + 1..)?;
    for _ in 0..place {
        let value = values.trim_start();
        let length = match value.strip_prefix('\'') {
            Some(inner) => inner.find('\'')? + 2,
            None => value.find([',', ')'])?,
        };
        values = value.get(length..)?.trim_start().strip_prefix(',')?;
    }
    let value = values.trim_start().strip_prefix('\'')?;
    let start = needle.end + line.len() - value.len();
    Some(start..start + value.find('\'').unwrap_or(value.len()))
}
