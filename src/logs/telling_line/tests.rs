use proptest::prelude::*;

use super::{find, shown::MOST, telling_line};
use crate::logs::{LogPolicy, clean};

/// The ends of logs as real programs print them. `▶` marks the line that a person would quote.
const CORPUS: &str = include_str!("../../../tests/fixtures/last-words/corpus.txt");
/// Written before the rules were run on it. The rules are not changed to fit it: whoever changes them for one of its logs moves all
/// of them into the corpus, and writes others.
const HELD_OUT: &str = include_str!("../../../tests/fixtures/last-words/held-out.txt");

/// How many of the logs have the marked line, and how many lines are quoted of logs in which no line tells.
struct Score {
    telling: usize,
    right: usize,
    quiet: usize,
    wrongly_quoted: usize,
    misses: Vec<String>,
}

fn score(corpus: &str) -> Score {
    let mut score = Score { telling: 0, right: 0, quiet: 0, wrongly_quoted: 0, misses: Vec::new() };
    let logs = corpus.strip_prefix("=== ").unwrap_or(corpus).split("\n=== ");
    for (name, text) in logs.filter_map(|log| log.split_once('\n')) {
        let wanted = text.lines().find_map(|line| line.strip_prefix('▶'));
        let log = text.replace('▶', "");
        let cleaned =
            clean(log.as_bytes(), false, &LogPolicy { tail_lines: 1000, max_bytes: 65_536, ..LogPolicy::default() });
        let found = find(&cleaned.text);
        let is_right = match (found, wanted) {
            (Some(found), Some(wanted)) => found.trim() == clean_line(wanted).trim(),
            (found, wanted) => found.is_none() && wanted.is_none(),
        };
        match wanted {
            Some(_) => (score.telling, score.right) = (score.telling + 1, score.right + usize::from(is_right)),
            None => {
                (score.quiet, score.wrongly_quoted) = (score.quiet + 1, score.wrongly_quoted + usize::from(!is_right))
            }
        }
        if !is_right {
            score.misses.push(format!("{name}: {found:?}"));
        }
    }
    score
}

fn clean_line(line: &str) -> String {
    clean(line.as_bytes(), false, &LogPolicy { max_bytes: 65_536, ..LogPolicy::default() }).text
}

#[test]
fn finds_the_line_that_a_person_would_quote() {
    let page = include_str!("../../../docs/causes.md").split_whitespace().collect::<Vec<_>>().join(" ");
    for (corpus, least) in [(CORPUS, 90), (HELD_OUT, 85)] {
        let Score { telling, right, quiet, wrongly_quoted, misses } = score(corpus);
        println!("{right} of {telling} found; {wrongly_quoted} of {quiet} quiet logs quoted; misses: {misses:#?}");
        assert!(100 * right >= least * telling, "{right} of {telling}: {misses:#?}");
        let figures =
            format!("{right} of {telling} ({} %), and quote {wrongly_quoted} of {quiet}", 100 * right / telling);
        assert!(page.contains(&figures), "docs/causes.md does not say {figures}");
        assert!(25 * wrongly_quoted <= quiet, "{misses:#?}");
    }
}

#[test]
fn shows_the_message_and_the_error() {
    for (line, shown) in [
        (
            r#"{"level":"fatal","ts":1.5,"msg":"cannot start","error":"dial tcp: refused","stacktrace":"main.main\n"}"#,
            "cannot start: dial tcp: refused",
        ),
        (
            r#"{"level":50,"err":{"type":"Error","message":"no store","stack":"Error: no store\n"},"msg":"failed"}"#,
            "failed: no store",
        ),
        (r#"{"level":"error","message":"two\nlines"}"#, "two lines"),
        (r#"time=1 level=ERROR msg="cannot bind" err="listen tcp :80: denied""#, "cannot bind: listen tcp :80: denied"),
        ("2026-11-23 10:11:12.130 UTC [1] FATAL:  no such role", "FATAL:  no such role"),
        ("2026/11/23 10:11:12 [emerg] 1#1: host not found", "[emerg] 1#1: host not found"),
        ("nginx: [emerg] host not found", "nginx: [emerg] host not found"),
        ("F1123 10:11:12.130000       1 main.go:71] cannot load it", "cannot load it"),
        ("2026/11/23 10:11:15 dial tcp: connection refused", "dial tcp: connection refused"),
        ("│ Error: no bucket", "Error: no bucket"),
        ("sh: x: not found", "sh: x: not found"),
        ("ERROR\ta\tb", "ERROR a b"),
    ] {
        assert_eq!(telling_line(line), shown, "{line}");
    }
}

#[test]
fn a_quotation_is_cut_between_characters() {
    let line = format!("panic: {}", "é".repeat(500));
    let quoted = telling_line(&line);
    assert_eq!((quoted.chars().count(), quoted.ends_with("é…")), (MOST, true));
}

/// Words of logs, so that random texts reach the rules.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        prop::sample::select(vec![
            "panic: ",
            "ERROR ",
            "[error] ",
            "level=fatal ",
            "msg=\"",
            "{\"level\":\"error\",\"msg\":\"",
            "\"}",
            "\n",
            "\n  at ",
            "\nCaused by:\n",
            "Traceback (most recent call last)\n",
            "E1123 ",
            "] ",
            ": not found",
            "\u{1b}[31m",
            "│",
            "\"",
            "thread 'main' panicked at a:1:\n",
            "\\",
            "é",
            "\u{202e}",
            "2026-11-23 10:11:12 ",
        ])
        .prop_map(|word| word.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

proptest! {
    /// Whatever a container prints, the quotation is one short line of what the log shows.
    #[test]
    fn quotes_a_bounded_part_of_what_is_shown(raw in words(), tail_lines in 1..50_u32, max_bytes in 256..5_000_u32) {
        let policy = LogPolicy { tail_lines, max_bytes, ..LogPolicy::default() };
        let text = clean(&raw, false, &policy).text;
        let quoted = telling_line(&text);
        prop_assert!(quoted.chars().count() <= MOST);
        prop_assert!(!quoted.chars().any(char::is_control));
        let flat = |text: &str| text.replace("\\n", " ").replace("\\t", " ").replace(char::is_control, " ");
        let log = flat(&text);
        let quoted = flat(quoted.strip_suffix('…').unwrap_or(&quoted));
        // The message and the error of a structured line are joined by a colon.
        let is_joined = || quoted.match_indices(": ").any(|(at, _)| log.contains(&quoted[..at]) && log.contains(&quoted[at + 2..]));
        prop_assert!(log.contains(&quoted) || is_joined(), "{:?} of {:?}", quoted, log);
    }
}
