//! Words of lines without a level: those that report a failure, and those that only say that the program ends.

/// The ends of lines with which shells and programs report an error of the system.
const OF_SHELL: [&str; 9] = [
    "command not found",
    ": not found",
    ": permission denied",
    ": no such file or directory",
    "exec format error",
    ": operation not permitted",
    "connection refused",
    "address already in use",
    "no space left on device",
];

/// Words that report a failure, in lower case.
const FAILURES: [&str; 47] = [
    "command not found",
    " not found",
    "permission denied",
    "no such file or directory",
    "bad address",
    "bad directive",
    "bad file format",
    "exec format error",
    "already in use",
    "connection refused",
    "connection reset",
    "operation not permitted",
    "name or service not known",
    "no space left",
    "read-only file system",
    "access denied",
    "accessdenied",
    "cannot ",
    "can't ",
    "could not ",
    "couldn't ",
    "unable to ",
    "failed",
    "invalid ",
    "missing ",
    " not set",
    "does not exist",
    "unauthorized",
    "forbidden",
    "out of memory",
    "unrecognized ",
    "unknown option",
    "unknown flag",
    "timed out",
    "deadline exceeded",
    "error: ",
    "error while ",
    "error loading ",
    "error occurred",
    "unexpected error",
    "fatal: ",
    "fatal error",
    "exception: ",
    "core dumped",
    "segmentation fault",
    "double free",
    "corrupted",
];

/// The word after `Error` at the beginning of a line, such as in `Error from server (Forbidden)`.
const AFTER_ERROR: [&str; 12] = [
    "from",
    "in",
    "while",
    "when",
    "during",
    "connecting",
    "reading",
    "opening",
    "parsing",
    "starting",
    "creating",
    "initializing",
];

/// What only says that the program ends, or where to read more. It follows the line that says why.
const FAREWELLS: [&str; 13] = [
    "exit status ",
    "exiting jvm",
    "worker failed to boot",
    "worker (pid",
    "shutting down",
    "did not exit normally",
    "for more details",
    "a complete log of this run",
    "emitted 'error' event",
    "compilation aborted",
    "execution halted",
    "note: ",
    "exception in worker process",
];

/// Whether a line ends as shells and programs report an error of the system, such as `sh: gunicorn: not found`.
pub(super) fn is_of_shell(line: &str) -> bool {
    let line = line.trim_end().to_ascii_lowercase();
    !is_request(&line) && OF_SHELL.iter().any(|end| line.ends_with(end))
}

/// Whether the words of a line report a failure.
pub(super) fn report_failure(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    if is_request(&line) {
        return false;
    }
    let mut words = line.split_whitespace();
    let begins = words.next() == Some("error") && words.next().is_some_and(|next| AFTER_ERROR.contains(&next));
    begins || FAILURES.iter().any(|words| line.match_indices(words).any(|(at, words)| !is_counted(&line, at, words)))
}

/// Whether a number or a negation makes words harmless, such as in `0 failed` or `failed=0`.
fn is_counted(line: &str, at: usize, words: &str) -> bool {
    let before = line.get(..at).unwrap_or_default().trim_end();
    let after = line.get(at + words.len()..).unwrap_or_default();
    let is_none = ["0", "no", "not", "without", "never"].iter().any(|none| {
        before.strip_suffix(none).is_some_and(|rest| !rest.ends_with(|own: char| own.is_alphanumeric() || own == '.'))
    });
    is_none || ["=0", ": 0", "=false"].iter().any(|none| after.starts_with(none))
}

/// A line about a request to a server, whose path may contain any word. In lower case.
fn is_request(line: &str) -> bool {
    line.contains(" http/1.") || line.contains(" http/2")
}

/// Whether a line only says that the program ends, or where to read more.
pub(super) fn is_farewell(line: &str) -> bool {
    const WHOLE: [&str; 4] = ["aborting", "exiting", "exit", "failed"];
    let line = line.trim().to_ascii_lowercase();
    let last = line.rsplit([']', ':', ' ']).next().unwrap_or_default().trim_end_matches('.');
    // `[ERROR] [MY-010119] [Server] Aborting`: no words of its own before it.
    let is_only_word = WHOLE.contains(&last)
        && line
            .get(..line.len() - last.len())
            .is_some_and(|head| head.trim_end_matches(['.', ' ']).ends_with([']', ':']))
        || WHOLE.contains(&&*line)
        || line.ends_with("[error] aborting");
    is_only_word || FAREWELLS.iter().any(|words| line.contains(words) && !line.starts_with('{'))
}
