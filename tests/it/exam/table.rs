//! The table of results in `docs/causes.md`.

use std::{fmt::Write, fs, path::Path};

use super::grade::{Grade, Result};

const BEGIN: &str = "<!-- exam: begin -->\n";
const END: &str = "<!-- exam: end -->";

/// Compares the table of the documentation with the results. `UPDATE_SNAPSHOTS=1` writes it.
pub fn assert_documented(results: &[Result]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/causes.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("docs/causes.md has the beginning of the table");
    let (table, after) = rest.split_once(END).expect("docs/causes.md has the end of the table");
    let expected = markdown(results);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(table, expected, "UPDATE_SNAPSHOTS=1 updates the table of docs/causes.md");
}

fn markdown(results: &[Result]) -> String {
    let count = |grade| results.iter().filter(|result| result.grade == grade).count();
    let exact = results.iter().filter(|result| result.is_exact()).count();
    let mut text = format!(
        "\n{} scenarios: {} right ({exact} the expected cause, {} another that is true as well), {} Unknown although the API \
         proves the cause, {} wrong.\n",
        results.len(),
        count(Grade::Right),
        count(Grade::Right) - exact,
        count(Grade::Unknown),
        count(Grade::Wrong),
    );
    let mut group = "";
    for Result { scenario, answer, .. } in results {
        if scenario.group != group {
            group = &scenario.group;
            let _ = write!(text, "\n### {}\n\n", title(group));
            text.push_str("| what happened | expected | got | sentence |\n|---|---|---|---|\n");
        }
        let expected = if scenario.expect.healthy { "no problem" } else { scenario.expect.cause.as_str() };
        let (cause, sentence) = match answer {
            Some(answer) => (answer.cause.as_str(), cell(&answer.sentence)),
            None => ("no problem", String::new()),
        };
        let _ = writeln!(text, "| {} | {expected} | {cause} | {sentence} |", cell(&scenario.truth));
    }
    text.push('\n');
    text
}

fn title(group: &str) -> &'static str {
    match group {
        "crashes" => "Exam: containers that end",
        "failed" => "Exam: pods that end, or cannot end",
        "fine" => "Exam: no problem",
        "images" => "Exam: images",
        "missing" => "Exam: pods that do not exist",
        "not-ready" => "Exam: readiness",
        "scheduling" => "Exam: scheduling",
        "starts" => "Exam: containers that cannot start",
        other => panic!("{other} has no title"),
    }
}

/// Text in a cell must not end it or become markup.
fn cell(text: &str) -> String {
    let mut cell = String::new();
    for character in text.chars() {
        if "|\\`*_<>[]".contains(character) {
            cell.push('\\');
        }
        cell.push(character);
    }
    cell
}
