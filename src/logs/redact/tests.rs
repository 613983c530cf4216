pub(super) mod corpus;
mod cuts;

use std::time::{Duration, Instant};

use super::{MASK, Mask};

fn redact(text: &str) -> String {
    Mask { credentials: true, patterns: &[], cut: false }.apply(text, 0)
}

/// Texts with credentials between « and », and others without. `␤` is a line break.
const EXACT: &str = include_str!("../../../tests/fixtures/redaction/exact.txt");

fn marked(line: &str) -> (String, String) {
    let mut plain = String::new();
    let mut masked = String::new();
    for (at, part) in line.split(['«', '»']).enumerate() {
        plain.push_str(part);
        masked.push_str(if at % 2 == 1 { MASK } else { part });
    }
    (plain, masked)
}

#[test]
fn redacts_credentials_and_nothing_else() {
    let wrong: Vec<_> = EXACT
        .lines()
        .map(|line| marked(&line.replace('␤', "\n")))
        .map(|(plain, masked)| (redact(&plain), masked, plain))
        .filter(|(got, want, _)| got != want)
        .map(|(got, want, plain)| format!("{plain}\n  got  {got}\n  want {want}"))
        .collect();
    assert!(wrong.is_empty() && EXACT.lines().count() > 140, "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// A log has at most 1,000 lines.
#[test]
fn examines_each_line_of_a_log_with_short_lines() {
    for line in ["token expired", "password: wrong", "key=1", "auth: ok", "pass: 3"] {
        let log = format!("{line}\n").repeat(1000);
        assert_eq!(redact(&log), log);
    }
}

#[test]
fn masks_the_rest_of_a_line_that_has_too_many_keys_phrases_or_commands() {
    for part in ["pass: is wrong ", "key=x ", "password of a ", "az <", "x@tcp("] {
        let shown = redact(&format!("{}\nthe end\n", part.repeat(8192)));
        let (line, end) = shown.split_once('\n').unwrap();
        assert!(line.ends_with(MASK) && line.len() < 4096 * part.len(), "{part}: {}", line.len());
        assert_eq!(end, "the end\n");
    }
}

/// Zeros in base64 are a long run of one letter that begins a token: at each byte, a kilobyte was read.
#[test]
fn a_long_run_of_a_letter_takes_one_pass() {
    let (text, start) = ("A".repeat(128 * 1024), Instant::now());
    assert_eq!(redact(&text), text);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
}
