//! The fields of a line in JSON or logfmt.

use std::{borrow::Cow, collections::HashMap};

use serde_json::value::RawValue;

/// The fields of a JSON object, by their keys in lower case.
pub(super) fn json_fields(line: &str) -> Option<HashMap<Cow<'_, str>, &RawValue>> {
    let fields: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_str(line.trim_end()).ok()?;
    Some(fields.into_iter().map(|(key, value)| (Cow::Owned(key.to_ascii_lowercase()), value)).collect())
}

/// The value of a key in logfmt: `key=value` or `key="a value"`.
pub(super) fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let mut rest = line;
    loop {
        let at = rest.find(key)?;
        let (before, after) = (rest.get(..at)?, rest.get(at + key.len()..)?);
        let begins = before.is_empty() && rest.len() == line.len() || before.ends_with([' ', '\t']);
        if begins && let Some(value) = after.strip_prefix('=') {
            let Some(quoted) = value.strip_prefix('"') else { return value.split_whitespace().next() };
            let mut is_escaped = false;
            let end = quoted.find(|own| {
                let ends = own == '"' && !is_escaped;
                is_escaped = own == '\\' && !is_escaped;
                ends
            });
            return quoted.get(..end.unwrap_or(quoted.len()));
        }
        rest = after;
    }
}
