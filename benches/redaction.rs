//! How long it takes to clean and redact 64 KiB of a log, as a share of the budget of 2 ms, for ordinary texts and for texts
//! that are made to be slow.
//!
//! `cargo bench --bench redaction` takes some seconds.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench is not a library, and panics if it fails")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use orchestr::logs::{LogPolicy, clean};

const LENGTH: usize = 64 * 1024;
const BUDGET: Duration = Duration::from_millis(2);
const ROUNDS: usize = 40;

/// Texts that are repeated.
const TEXTS: &[(&str, &str)] = &[
    (
        "log with a URL",
        "2025-11-03T08:40:44Z ERROR cannot connect url=postgres://app:hunter2hunter2@db:5432/app retry=3\n",
    ),
    ("access log", "10.0.0.1 - - [01/Mar/2026:10:00:00 +0000] \"GET /api/v1/items/4711?page=2 HTTP/1.1\" 200 512\n"),
    (
        "JSON log",
        "{\"level\":\"info\",\"msg\":\"login\",\"user\":\"bob\",\"token\":null,\"duration\":12,\"id\":\"4711\"}\n",
    ),
    ("stack trace", "\tat com.example.auth.TokenFilter.doFilter(TokenFilter.java:55) ~[app.jar:1.2.3]\n"),
    ("one letter", "a"),
    ("base64", "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQg "),
    ("each word a key", "password=x "),
    ("each word a key with a remark", "password: is "),
    ("short keys", "pass:"),
    ("keys of data", "key= "),
    ("words about tokens", "token for a "),
    ("words about passwords", "password of a "),
    ("words that contain parts of keys", "author path=x "),
    ("keys of code", "password = config.get(x) "),
    ("tags", "<add key=\"password\" "),
    ("names of programs", "mysql -x a b c "),
    ("URLs without users", "://"),
    ("URLs with users", "a://b:c@"),
    ("prefixes of tokens", "sk-ant-"),
    ("JSON web keys", "\"kty\":\"d\",\"d\":\"\""),
    ("ends of private keys", "abcdabcdabcdabcdabcdabcdabcdabcd\n-----END PRIVATE KEY-----\n"),
];

fn repeated(text: &str, length: usize) -> String {
    let mut repeated = text.repeat(length / text.len() + 1);
    repeated.truncate(repeated.floor_char_boundary(length));
    repeated
}

/// The shortest time of several rounds. Others are disturbed by other processes.
fn measure(text: &str) -> Duration {
    let policy = LogPolicy { tail_lines: 1000, max_bytes: 64 * 1024, redact: true, redact_patterns: vec![] };
    let rounds = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        black_box(clean(black_box(text.as_bytes()), false, &policy));
        start.elapsed()
    });
    rounds.min().unwrap()
}

fn main() {
    // All lines of the corpus, each of which is about a credential.
    let corpus = [
        include_str!("../tests/fixtures/redaction/secrets.tsv"),
        include_str!("../tests/fixtures/redaction/innocent.tsv"),
    ];
    let corpus: String = corpus
        .iter()
        .flat_map(|file| file.lines())
        .filter_map(|line| line.split_once('\t'))
        .map(|(_, line)| format!("{}\n", line.replace(['«', '»'], "").replace('␤', "\n")))
        .collect();
    let texts = [("corpus", corpus.as_str())].into_iter().chain(TEXTS.iter().copied());
    println!("| 64 KiB of | ms | of the budget | twice as long |\n|---|---:|---:|---:|");
    for (name, text) in texts {
        let once = measure(&repeated(text, LENGTH));
        let twice = measure(&repeated(text, 2 * LENGTH));
        println!(
            "| {name} | {:.2} | {:.2} | {:.1} × |",
            once.as_secs_f64() * 1e3,
            once.as_secs_f64() / BUDGET.as_secs_f64(),
            twice.as_secs_f64() / once.as_secs_f64()
        );
    }
}
