//! The level of a line in a log, as the loggers of common languages and programs write it, and the fields of a line in JSON
//! or logfmt.

use std::{borrow::Cow, collections::HashMap};

use serde_json::value::RawValue;

use super::words::is_of_time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Error, fatal, panic or critical.
    Error,
    /// Warning, information and less.
    Lower,
}

/// The keys of the level in JSON and logfmt; the first one that a line has counts.
const KEYS: [&str; 10] =
    ["level", "severity", "log.level", "lvl", "levelname", "level_name", "loglevel", "severitytext", "@l", "s"];
/// How far into a line its level may be, in bytes.
const HEAD: usize = 160;

/// The level, and where the level, with its bracket, begins.
pub(super) fn level(line: &str) -> Option<(Level, usize)> {
    let bare = line.trim_start();
    if bare.starts_with('{')
        && let Some(fields) = json_fields(bare)
    {
        let value = KEYS.iter().find_map(|key| fields.get(*key))?;
        return Some((of_value(value.get().trim_matches('"'))?, 0));
    }
    if let Some(level) = of_klog(line).or_else(|| of_letter(line)) {
        return Some((level, 0));
    }
    // `s` is too short to be a key of logfmt.
    let logfmt = KEYS.iter().take(KEYS.len() - 1).find_map(|key| field(line, key));
    if let Some(level) = logfmt.and_then(of_value) {
        return Some((level, 0));
    }
    let npm = line.starts_with("npm ");
    if npm { None } else { of_head(line) }
}

/// `E0102 15:04:05.678901       1 main.go:71] …` of klog.
pub(super) fn of_klog(line: &str) -> Option<Level> {
    let (letter, digits) = (line.get(..1)?, line.get(1..5)?);
    let is_klog = digits.bytes().all(|byte| byte.is_ascii_digit()) && line.get(5..6)? == " " && line.contains("] ");
    match letter {
        _ if !is_klog => None,
        "E" | "F" => Some(Level::Error),
        "I" | "W" => Some(Level::Lower),
        _ => None,
    }
}

/// `[E 2026-11-23 10:11:12.123 ServerApp] …` of Jupyter and Tornado, `E: …` of Debian's tools, and
/// `2026-11-23 10:11:12.123456: E core/server.cc:74] …` of TensorFlow.
fn of_letter(line: &str) -> Option<Level> {
    if let Some((time, rest)) = line.split_once(": ")
        && time.len() > 8
        && time.chars().all(is_of_time)
        && rest.get(1..2) == Some(" ")
        && let Some(level) = of_name(rest.get(..1)?)
    {
        return Some(level);
    }
    let (letter, after) = match line.strip_prefix('[') {
        Some(rest) => (rest.get(..1)?, rest.get(1..)?),
        None => (line.get(..1)?, line.get(1..)?),
    };
    let is_time = line.starts_with('[') && after.strip_prefix(' ')?.starts_with(|letter: char| letter.is_ascii_digit());
    if !(is_time || line.starts_with(letter) && after.starts_with(": ")) {
        return None;
    }
    match letter {
        "E" | "F" | "C" => Some(Level::Error),
        "I" | "W" | "D" => Some(Level::Lower),
        _ => None,
    }
}

/// The value of a key. Pino writes numbers: 50 is an error.
fn of_value(value: &str) -> Option<Level> {
    match value.parse::<u16>() {
        Ok(50..=70) => Some(Level::Error),
        Ok(10..50) => Some(Level::Lower),
        Ok(_) => None,
        Err(_) => of_name(value),
    }
}

fn of_name(name: &str) -> Option<Level> {
    const ERRORS: &str = "error err eror abort fatal ftl panic pnc critical crit emerg emergency alert severe fail e f \
                          dpanic errored failure";
    const LOWER: &str = "info inf information warn warning wrn debug dbg dbug trace trc trce notice note system log hint \
                         detail statement i w d verbose";
    let is = |names: &str| names.split_whitespace().any(|known| known.eq_ignore_ascii_case(name));
    if is(ERRORS) {
        Some(Level::Error)
    } else if is(LOWER) {
        Some(Level::Lower)
    } else {
        None
    }
}

/// The first word at the head of a line that is a level, by its case and by what surrounds it: `ERROR`, `[error]`, `<Error>`,
/// `app.CRITICAL:`, and `error:` at the beginning of a line or after the name of a program.
fn of_head(line: &str) -> Option<(Level, usize)> {
    let head = line.get(..line.floor_char_boundary(HEAD)).unwrap_or_default();
    let is_letter = |letter: char| letter.is_ascii_alphabetic();
    let mut from = 0;
    while let Some(start) = head.get(from..)?.find(is_letter).map(|at| from + at) {
        let word = head.get(start..)?.split(|letter| !is_letter(letter)).next()?;
        let end = start + word.len();
        from = end;
        let (before, after) = (head.get(..start)?, line.get(end..)?);
        // Other single letters are too common.
        if (word.len() > 1 || before.ends_with('[') && after.starts_with(']') && "EFWID".contains(word))
            && let Some(level) = of_name(word)
            && let Some(begins) = delimited(word, before, after)
        {
            return Some((level, begins));
        }
    }
    None
}

/// Where a word begins with its bracket, if what surrounds it says that it is a level.
fn delimited(word: &str, before: &str, after: &str) -> Option<usize> {
    let inner = before.trim_end_matches(' ');
    let is_bracketed = inner.ends_with(['[', '<']) && after.trim_start_matches(' ').starts_with([']', '>']);
    if is_bracketed {
        return Some(inner.len() - 1);
    }
    let is_between_tabs = before.ends_with('\t') && after.starts_with('\t');
    let is_first = before.trim_start_matches(|letter| letter == '│' || is_of_time(letter)).is_empty();
    let is_before_colon = (is_first || before.ends_with(": ")) && after.trim_start_matches(' ').starts_with(':');
    if is_between_tabs || is_before_colon {
        return Some(before.len());
    }
    let is_upper = word.bytes().all(|byte| byte.is_ascii_uppercase());
    let begins = before.is_empty() || before.ends_with([' ', '\t', '[', '<', '(', '|', ':', '/']);
    let ends = after.is_empty() || after.starts_with([' ', '\t', ']', '>', ')', '|', ':', '/', ',']);
    // Nothing follows the value of a field: `Severity: ERROR`.
    let ends = ends && !(after.trim().is_empty() && before.trim_end().ends_with(':'));
    let is_of_channel = before.ends_with('.') && after.starts_with(':');
    if is_upper && (begins && ends || is_of_channel) {
        return Some(before.len() - usize::from(before.ends_with(['[', '<'])));
    }
    None
}

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
            let end = quoted.find(|letter| {
                let ends = letter == '"' && !is_escaped;
                is_escaped = letter == '\\' && !is_escaped;
                ends
            });
            return quoted.get(..end.unwrap_or(quoted.len()));
        }
        rest = after;
    }
}
