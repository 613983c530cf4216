//! Cuts the texts of the corpus at every byte. What is left of a secret must be masked, too.

use std::ops::Range;

use super::corpus::{INNOCENT, SECRETS, parse};
use crate::{
    logs::{
        LogPolicy,
        clean::{clean, without_last_word},
        clean_text,
        redact::Mask,
    },
    partial_text,
};

/// A part of a secret that is as long as this must not be shown.
const LEAK: usize = 8;

/// Secrets that are found by what follows them, perhaps several words later: the words of a wallet, `echo … | sudo -S`, a
/// value before its name.
const FOUND_BY_THEIR_END: &[&str] = &["wallet mnemonic: ", "seed phrase: ", "echo ", "{\"value\": ", "{'value': "];

/// A text of the corpus, and its secrets that are masked if it is whole.
struct Case {
    class: String,
    text: String,
    secrets: Vec<Range<usize>>,
}

fn cases() -> Vec<Case> {
    let lines = [SECRETS, INNOCENT].into_iter().flat_map(str::lines).enumerate();
    let cases = lines.map(|(number, line)| {
        let (class, line) = line.split_once('\t').unwrap();
        let (text, mut secrets) = parse(line, number);
        let masked = Mask { credentials: true, patterns: &[], cut: false }.ranges(&text);
        let covers =
            |range: &Range<usize>, secret: &Range<usize>| range.start <= secret.start && secret.end <= range.end;
        secrets.retain(|secret| secret.len() >= LEAK && masked.iter().any(|range| covers(range, secret)));
        Case { class: class.to_owned(), text, secrets }
    });
    // A value that is repeated is not recognized without its first occurrence. To cut long ones everywhere takes minutes.
    let is_left_out = |class: &str| matches!(class, "repeated values" | "values over 1 KiB");
    cases.filter(|case| !case.secrets.is_empty() && !is_left_out(&case.class)).collect()
}

/// Whether `shown` contains a part of a secret of which only `rest` is left. The lines that begin and end a private key are
/// no secret.
fn leak<'a>(case: &'a Case, rest: &Range<usize>, shown: &str) -> Option<&'a str> {
    let is_marker = |part: &str| part.bytes().all(|byte| byte.is_ascii_uppercase() || b"- \n\\n".contains(&byte));
    case.secrets.iter().find_map(|secret| {
        let (start, end) = (secret.start.max(rest.start), secret.end.min(rest.end));
        let parts = (start..end.saturating_sub(LEAK - 1)).filter_map(|at| case.text.get(at..at + LEAK));
        let mut parts = parts.filter(|part| !is_marker(part));
        parts.find(|part| shown.contains(part))
    })
}

#[test]
fn masks_a_secret_at_the_cut_end_of_a_text() {
    let policy = LogPolicy { tail_lines: 1000, max_bytes: 65536, redact: true, redact_patterns: Vec::new() };
    let mut leaks = Vec::new();
    for case in cases().into_iter().filter(|case| !FOUND_BY_THEIR_END.iter().any(|part| case.text.contains(part))) {
        let first = case.secrets[0].start + LEAK;
        let found = (first..case.text.len()).filter(|&cut| case.text.is_char_boundary(cut)).find_map(|cut| {
            let log = format!("a line whose head is missing\n{}", &case.text[..cut]);
            let rest = without_last_word(log.as_bytes());
            let shown = [clean(rest, false, &policy).text, clean(rest, true, &policy).text];
            shown.into_iter().find(|shown| leak(&case, &(0..cut), shown).is_some())
        });
        leaks.extend(found.map(|shown| format!("[{}] {}\n    {shown}", case.class, case.text)));
    }
    assert!(leaks.is_empty(), "{}:\n{}", leaks.len(), leaks.join("\n"));
}

#[test]
fn masks_a_secret_at_the_cut_head_of_a_text() {
    let policy = LogPolicy { tail_lines: 1000, max_bytes: 65536, redact: true, redact_patterns: Vec::new() };
    let mut leaks = Vec::new();
    for case in cases() {
        let log = format!("{}\nthe next line\n", case.text);
        let last = case.secrets.last().unwrap().end;
        let found = (1..last).find_map(|cut| {
            let shown = clean(&log.as_bytes()[cut..], true, &policy).text;
            leak(&case, &(cut..case.text.len()), &shown).map(|_| (cut, shown))
        });
        leaks.extend(found.map(|(cut, shown)| format!("[{}] {} {}\n    {shown}", case.class, cut, case.text)));
    }
    assert!(leaks.is_empty(), "{}:\n{}", leaks.len(), leaks.join("\n"));
}

/// The lengths to which a pod's messages are cut.
const LENGTHS: [usize; 3] = [128, 256, 1024];

#[test]
fn masks_a_secret_at_the_cut_end_of_a_message() {
    let mut leaks = Vec::new();
    for case in cases().into_iter().filter(|case| !FOUND_BY_THEIR_END.iter().any(|part| case.text.contains(part))) {
        let first = case.secrets[0].start + LEAK;
        let found = (first..case.text.len()).filter(|&cut| case.text.is_char_boundary(cut)).find_map(|cut| {
            let limit = *LENGTHS.iter().find(|limit| cut + 3 <= **limit)?;
            // We cut it.
            let line = format!("{}{}", "-\n".repeat((limit - 3 - cut) / 2), case.text);
            let by_us = partial_text::cut(&format!("{line} {}", "x".repeat(limit)), limit);
            // The kubelet cut it.
            let containers = 12 * 1024 / (cut + 2);
            let share = 12 * 1024 / containers;
            let message = format!("{}{}", "\n".repeat(share - cut), &case.text[..cut]);
            let by_kubelet = partial_text::marked(&message, containers, true).unwrap();
            let shown = [by_us, by_kubelet].map(|text| clean_text(&text, None, usize::MAX));
            shown.into_iter().find(|shown| leak(&case, &(0..cut), shown).is_some())
        });
        leaks.extend(found.map(|shown| format!("[{}] {}\n    {shown}", case.class, case.text)));
    }
    assert!(leaks.is_empty(), "{}:\n{}", leaks.len(), leaks.join("\n"));
}

#[test]
fn masks_a_secret_at_the_cut_head_of_a_message() {
    let mut leaks = Vec::new();
    for case in cases() {
        let message = format!("…{}\nthe next line\n", case.text);
        let last = case.secrets.last().unwrap().end;
        let found = (1..last).filter(|&cut| case.text.is_char_boundary(cut)).find_map(|cut| {
            // The shorter the message becomes, the more of its head is missing.
            let text = partial_text::cut(&message, message.len() - cut);
            let shown = clean_text(&text, None, usize::MAX);
            leak(&case, &(cut..case.text.len()), &shown).map(|_| (cut, shown))
        });
        leaks.extend(found.map(|(cut, shown)| format!("[{}] {} {}\n    {shown}", case.class, cut, case.text)));
    }
    assert!(leaks.is_empty(), "{}:\n{}", leaks.len(), leaks.join("\n"));
}
