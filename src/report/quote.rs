//! The line of a log that an incident quotes.
//!
//! A quotation is in the container's own words, so it proves nothing: it is shown beside the sentence, and never decides about
//! a cause, an identity, a severity or an alert.

use crate::{
    api::{Cause, ProblemKind},
    logs::Tail,
};

use super::{json_size, truncate};

/// The most bytes of JSON that the field of a quotation takes in a status. The list of incidents must not depend on which logs
/// have been read, so they are reserved before.
pub(super) const ROOM: usize = FIELD + truncate::NAME_LIMIT;
const FIELD: usize = r#""logLine":"","#.len();

/// The bytes of JSON that a line takes in the list of incidents.
pub(super) fn size(line: &str) -> usize {
    // The quotes around it are a part of the field.
    if line.is_empty() { 0 } else { FIELD + json_size::size(&line) - r#""""#.len() }
}

/// Whether an incident may quote a log: only if the API proves no more than how the program ended.
pub(crate) fn may_quote(kind: ProblemKind, cause: Cause) -> bool {
    match cause {
        Cause::ExitCode | Cause::Signal => true,
        Cause::Unknown => kind == ProblemKind::Crash,
        _ => false,
    }
}

/// The line of this log to quote; may be empty.
pub(crate) fn log_line(tail: &Tail) -> String {
    truncate::name(&tail.telling_line).to_owned()
}

/// A sentence with what exists in the place of the object that it says is missing.
pub(crate) fn with_hint(sentence: &str, hint: &str) -> String {
    if hint.is_empty() { sentence.to_owned() } else { format!("{sentence}; {hint}") }
}

/// A sentence with the line of the log, marked as the container's words.
pub(crate) fn with_log_line(sentence: &str, line: &str) -> String {
    match (sentence, line) {
        (sentence, "") => sentence.to_owned(),
        ("", line) => format!("its log says: \"{line}\""),
        (sentence, line) => format!("{sentence}; its log says: \"{line}\""),
    }
}
