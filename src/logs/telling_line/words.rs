//! Words of lines without a level: those that report a failure, and those that only say that the program ends. In the lists,
//! `|` is between them.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Match};

/// The ends of lines with which shells and programs report an error of the system.
const OF_SHELL: &str = "\
    command not found|: not found|: permission denied|: no such file or directory|exec format error|\
    : operation not permitted|connection refused|address already in use|no space left on device";

/// Words that report a failure, in lower case.
const FAILURES: &str = "\
    command not found| not found|no such |no main manifest| unbound variable|permission denied|bad address|\
    bad directive|bad file|exec format error|already in use|already exists|already running|connection reset|\
    operation not permitted|not known|no space left|no route to host|network is unreachable|temporary failure|\
    temporarily unavailable|too many open files|read-only file system|access denied|accessdenied|cannot |can't |\
    could not |couldn't |unable to |failed|failure:|invalid |is invalid|illegal |malformed |missing | is missing| are missing| not set|\
    not defined|not specified|not provided|not valid|not writable|not readable|not installed|not initialized|\
    not allowed|not permitted|not authorized|not recognized|not a directory|not enough |insufficient |\
    does not exist|doesn't exist|does not match|doesn't match|does not appear|did not |***: terminated|\
    unauthorized|forbidden|has expired|have expired|is expired|certificate expired|token expired|license expired|\
    mismatch|incompatible|rejected| refused|refusing to |refuses to |exceeded|exhausted|is too low|is too small|\
    is too large|is too old|is too long|giving up|gave up|out of memory|unrecognized |unexpected |undefined |\
    unknown |no module named|must be |must have |must install |you must |is required|are required|timed out|\
    i/o timeout|timeout after|timeout exceeded|timeout expired|timeout occurred|timeout waiting|syntax error|\
    parse error|error: |error while |error loading |error occurred|error reading|error parsing|\
    configuration error|unavailable|no servers available|fatal: |fatal error|exception: |core dumped|\
    segmentation fault|segfault|sigsegv|econnrefused|econnreset|enotfound|eaddrinuse|eacces|double free|corrupt|\
    assertion |aborted";

/// None if the words cannot be indexed. They are constant, so this happens never or always.
static FAILURE_INDEX: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(FAILURES.split('|')).ok());

/// The word after `Error` at the beginning of a line, such as in `Error from server (Forbidden)`, if it is no verb.
const AFTER_ERROR: &str = "from|in|while|when|during|occurred";

/// What only says that the program ends, or where to read more. It follows the line that says why.
const FAREWELLS: &str = "\
    exit status |exiting jvm|worker failed to boot|worker (pid|shutting down|did not exit normally|for more details|\
    for more information|a complete log of this run|emitted 'error' event|compilation aborted|execution halted|\
    exception in worker process|program will exit|due to fatal error|application startup failed. exiting|\
    could not create the java virtual machine|command failed with exit code|(see previous errors)|\
    ihost instance is stopping|kernel pid terminated|error is not recoverable|aborted (core dumped)|failed at the |\
    make: *** |lifecycle script |error: command failed|elifecycle|errors found in configuration|total time: ";

/// How a line begins that advises what to do. It follows the line that says why.
const ADVICE: &str = "\
    run |re-run |try |to see |see |use |visit |http://|https://|please |did you mean|hint|note: |usage: ";

/// Words of a line that says that the program goes on.
const HANDLED: &str = "using default|defaulting to|falling back|ignoring|ignored|skipping|deprecat";

/// How a line begins whose words are of a person, such as the subject of a commit.
const OF_PEOPLE: &str = "head is now at |cloning into ";

fn any_of(list: &str, test: impl FnMut(&str) -> bool) -> bool {
    list.split('|').any(test)
}

/// Whether a line ends as shells and programs report an error of the system, such as `sh: gunicorn: not found`, or begins as
/// a shell reports an error of a script: `/run.sh: line 4: HOST: unbound variable`.
pub(super) fn is_of_shell(line: &str) -> bool {
    let line = line.trim_end().to_ascii_lowercase();
    !is_harmless(&line) && (any_of(OF_SHELL, |end| line.ends_with(end)) || is_of_script(&line))
}

fn is_of_script(line: &str) -> bool {
    let Some((script, rest)) = line.split_once(": ") else { return false };
    let Some((number, message)) = rest.split_once(": ") else { return false };
    // Only bash writes the word. Below a syntax error, it quotes the line of the script.
    let number = number.strip_prefix("line ").unwrap_or(number);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number && !script.contains([' ', '{', '"']) && !message.starts_with('`')
}

/// Whether the words of a line report a failure.
pub(super) fn report_failure(line: &str) -> bool {
    let line = line.trim_end().to_ascii_lowercase();
    if is_harmless(&line) {
        return false;
    }
    let mut words = line.trim_start_matches(is_of_time).split_whitespace();
    let is_verb = |next: &str| next.ends_with("ing") || any_of(AFTER_ERROR, |word| word == next);
    let begins = words.next() == Some("error") && words.next().is_some_and(is_verb);
    let reports = |found: Match| {
        let words = line.get(found.range()).unwrap_or_default();
        !is_part(&line, found.start(), words) && !is_counted(&line, found.start(), words)
    };
    begins || is_of_perl(&line) || FAILURE_INDEX.iter().any(|index| index.find_overlapping_iter(&line).any(reports))
}

/// How Perl ends: `no configuration at /app/import.pl line 12.`
fn is_of_perl(line: &str) -> bool {
    let Some((before, number)) = line.strip_suffix('.').and_then(|line| line.rsplit_once(" line ")) else {
        return false;
    };
    number.bytes().all(|byte| byte.is_ascii_digit()) && before.contains(" at ")
}

/// Whether words are a part of a name or a path, such as `failed_jobs` or `failed/orders.csv`.
fn is_part(line: &str, at: usize, words: &str) -> bool {
    let is_of_name = |letter: char| letter.is_alphanumeric() || "_/-".contains(letter);
    let before = line.get(..at).unwrap_or_default();
    let mut after = line.get(at + words.len()..).unwrap_or_default().chars();
    let begins_word = words.starts_with(|letter: char| letter.is_ascii_alphabetic());
    let ends_word = words.ends_with(|letter: char| letter.is_ascii_alphabetic());
    let mut is_continued = || match after.next() {
        Some('.' | '=') => after.next().is_some_and(is_of_name),
        next => next.is_some_and(|next| "_/-".contains(next)),
    };
    begins_word && before.ends_with(|letter: char| is_of_name(letter) || letter == '.') || ends_word && is_continued()
}

/// Whether a number or a negation makes words harmless, such as in `0 failed` or `failed=0`.
fn is_counted(line: &str, at: usize, words: &str) -> bool {
    let before = line.get(..at).unwrap_or_default().trim_end();
    let after = line.get(at + words.len()..).unwrap_or_default();
    let is_none = any_of("0|no|not|without|never", |none| {
        before
            .strip_suffix(none)
            .is_some_and(|rest| !rest.ends_with(|letter: char| letter.is_alphanumeric() || letter == '.'))
    });
    // Such as in `0 tests failed` and `no failed tasks or missing files`.
    let is_zero = before.rsplit(' ').nth(1) == Some("0") || before.rsplit(' ').take(4).any(|word| word == "no");
    is_none || is_zero || any_of("=0|: 0|=[]|: []|=false", |none| after.starts_with(none))
}

/// Whether the words of a line say nothing about a failure of the program. In lower case.
fn is_harmless(line: &str) -> bool {
    is_request(line)
        || is_passed_test(line)
        || line.rsplit_once(':').is_some_and(|(_, number)| number.split_whitespace().next() == Some("0"))
        || any_of(" ok| done| passed", |end| line.ends_with(end))
        || any_of(HANDLED, |words| line.contains(words))
        || any_of(OF_PEOPLE, |begins| line.starts_with(begins))
}

/// A line about a request to a server, whose path may contain any word. In lower case.
fn is_request(line: &str) -> bool {
    line.contains(" http/1.") || line.contains(" http/2")
}

/// Whether a letter may be a part of the time before a message.
pub(super) fn is_of_time(letter: char) -> bool {
    letter.is_ascii_digit() || "-/:.,+TtZz ".contains(letter)
}

/// Such as `ok 14 - refuses an invalid token`, of TAP.
fn is_passed_test(line: &str) -> bool {
    line.strip_prefix("ok ").is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
}

/// Whether a line only says that the program ends, or where to read more.
pub(super) fn is_farewell(line: &str) -> bool {
    let is_word = |text: &str| any_of("aborting|aborted|exiting|exit|failed", |word| word == text);
    let line = line.trim().to_ascii_lowercase();
    let last = line.rsplit([']', ':', ' ']).next().unwrap_or_default().trim_end_matches('.');
    // `[ERROR] [MY-010119] [Server] Aborting`: no words of its own before it.
    let is_only_word = is_word(last)
        && line
            .get(..line.len() - last.len())
            .is_some_and(|head| head.trim_end_matches(['.', ' ']).ends_with([']', ':']))
        || is_word(&line)
        || line.ends_with("[error] aborting");
    let message = line.strip_prefix('[').and_then(|line| line.split_once("] ")).map_or(&*line, |(_, message)| message);
    let is_json = line.starts_with('{') && line.ends_with('}') && !line.starts_with("{\"kernel pid");
    // `BuildMaster startup failed`, and `Command [check] FAILED !`, which does not say why.
    let failed = line.trim_end_matches(['.', '!', ' ']).strip_suffix(" failed");
    let is_only_failed = failed.is_some_and(|what| {
        let own = what.rsplit(']').next().unwrap_or_default().trim_start_matches(':');
        own.split_whitespace().count() <= 2 || what.starts_with("command ")
    });
    is_only_word
        || is_only_failed
        || line.trim_end_matches('.').ends_with(" initialization failed")
        || any_of(ADVICE, |begins| message.starts_with(begins))
        || any_of(FAREWELLS, |words| line.contains(words) && !is_json)
}
