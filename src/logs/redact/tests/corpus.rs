//! Measures redaction on a corpus of log lines: how many secrets are masked (recall), and how many lines without a secret
//! stay whole (precision).
//!
//! A line of the corpus is a class, a tab and a text. Secrets are between « and ». `␤` is a line break. Values such as
//! `{x36}` are made when the test runs, so that the files contain nothing that looks like a live credential.

use std::{collections::BTreeMap, fmt::Write as _, fs, ops::Range, path::Path, sync::LazyLock};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use regex::{Captures, Regex};

use crate::logs::redact::Mask;

pub(in crate::logs::redact) const SECRETS: &str = include_str!("../../../../tests/fixtures/redaction/secrets.tsv");
pub(in crate::logs::redact) const INNOCENT: &str = include_str!("../../../../tests/fixtures/redaction/innocent.tsv");
const HELD_OUT: &str = include_str!("../../../../tests/fixtures/redaction/held-out.tsv");

static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{([dhHaAxub])(\d+)\}|\{base64:((?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*)\}").unwrap()
});

#[derive(Default)]
struct Score {
    secrets: usize,
    masked: usize,
    innocent: usize,
    kept: usize,
}

impl Score {
    fn add(&mut self, other: &Self) {
        self.secrets += other.secrets;
        self.masked += other.masked;
        self.innocent += other.innocent;
        self.kept += other.kept;
    }
}

/// A line's text, and the ranges of its secrets.
pub(super) fn parse(line: &str, seed: usize) -> (String, Vec<Range<usize>>) {
    let (mut text, mut secrets) = (String::new(), Vec::new());
    for (at, part) in expand(line, seed).split(['«', '»']).enumerate() {
        let start = text.len();
        text.push_str(part);
        if at % 2 == 1 {
            secrets.push(start..text.len());
        }
    }
    (text, secrets)
}

/// Replaces the placeholders of a line by values that look random, but are the same in every run.
fn expand(line: &str, seed: usize) -> String {
    let mut state = seed as u64 + 1;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let replaced = PLACEHOLDER.replace_all(line, |found: &Captures<'_>| {
        if let Some(plain) = found.get(3) {
            return STANDARD.encode(plain.as_str());
        }
        let letters: &[u8] = match &found[1] {
            "d" => b"0123456789",
            "h" => b"0123456789abcdef",
            "H" => b"0123456789ABCDEF",
            "a" => b"abcdefghijklmnopqrstuvwxyz0123456789",
            "A" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
            "x" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
            "u" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
            _ => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        };
        let length: usize = found[2].parse().unwrap();
        // The ends are letters or digits, as in nearly every token.
        let plain = &letters[..letters.len().min(62)];
        (0..length)
            .map(|at| if at == 0 || at + 1 == length { plain } else { letters })
            .map(|letters| char::from(letters[next() % letters.len()]))
            .collect()
    });
    replaced.replace('␤', "\n")
}

/// The scores by class, and what is wrong.
fn measure(files: &[&str]) -> (BTreeMap<String, Score>, Vec<String>) {
    let (mut scores, mut wrong) = (BTreeMap::<String, Score>::new(), Vec::new());
    let lines = files.iter().flat_map(|file| file.lines());
    for (number, line) in lines.enumerate() {
        let (class, line) = line.split_once('\t').expect("a class and a tab");
        let (text, secrets) = parse(line, number);
        let masked = Mask { credentials: true, patterns: &[], cut: false }.ranges(&text);
        let score = scores.entry(class.to_owned()).or_default();
        let shown = || Mask { credentials: true, patterns: &[], cut: false }.apply(&text, 0);
        if secrets.is_empty() {
            score.innocent += 1;
            // A mask that is masked again is unchanged.
            let whole = shown() == text;
            score.kept += usize::from(whole);
            if !whole {
                wrong.push(format!("harmed [{class}] {text}\n    {}", shown()));
            }
        }
        for secret in secrets {
            let covered = masked.iter().any(|range| range.start <= secret.start && secret.end <= range.end);
            score.secrets += 1;
            score.masked += usize::from(covered);
            if !covered {
                wrong.push(format!("escaped [{class}] {text}\n    {}", shown()));
            }
        }
    }
    (scores, wrong)
}

fn total(scores: &BTreeMap<String, Score>) -> Score {
    let mut total = Score::default();
    scores.values().for_each(|score| total.add(score));
    total
}

fn share(part: usize, whole: usize) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    // Rounded down, so that 100 % means all.
    format!("{part} of {whole} ({} %)", part * 100 / whole)
}

fn row(table: &mut String, class: &str, score: &Score) {
    let recall = share(score.masked, score.secrets);
    writeln!(table, "| {class} | {recall} | {} |", share(score.kept, score.innocent)).unwrap();
}

fn table() -> (String, Vec<String>) {
    let (scores, wrong) = measure(&[SECRETS, INNOCENT]);
    let mut table = "| class | secrets masked | other lines kept whole |\n|---|---|---|\n".to_owned();
    for (class, score) in &scores {
        row(&mut table, class, score);
    }
    row(&mut table, "**all**", &total(&scores));
    let (held_out, _) = measure(&[HELD_OUT]);
    for (class, score) in &held_out {
        row(&mut table, &format!("held out: {class}"), score);
    }
    row(&mut table, "**held out, all**", &total(&held_out));
    (table, wrong)
}

/// The least share of secrets masked, and of other lines kept whole, of each class.
const LEAST: usize = 97;

#[test]
fn masks_secrets_and_keeps_other_lines_in_every_class() {
    let (scores, wrong) = measure(&[SECRETS, INNOCENT]);
    for (class, score) in &scores {
        let fits = |part: usize, whole: usize| part * 100 >= whole * LEAST;
        assert!(
            fits(score.masked, score.secrets) && fits(score.kept, score.innocent),
            "{class}:\n{}",
            wrong.join("\n")
        );
    }
    let all = total(&scores);
    assert!(all.secrets >= 500 && all.innocent >= 500, "the corpus has {} secrets", all.secrets);
}

/// `UPDATE_SNAPSHOTS=1` writes the table of the documentation.
#[test]
fn the_documentation_gives_the_measured_shares() {
    let (table, wrong) = table();
    println!("{table}\n{}", wrong.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/redaction.md");
    let document = fs::read_to_string(&path).unwrap();
    let (head, rest) = document.split_once("<!-- table -->\n").expect("the start of the table");
    let (_, tail) = rest.split_once("<!-- end of the table -->").expect("the end of the table");
    let expected = format!("{head}<!-- table -->\n{table}<!-- end of the table -->{tail}");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, expected).unwrap();
    } else {
        assert_eq!(document, expected, "UPDATE_SNAPSHOTS=1 updates the table of docs/redaction.md");
    }
}
