//! Checks that each threat in SECURITY.md, and each promise in docs/reliability.md, names tests that exist.

use std::{fs, path::Path};

use regex::Regex;

/// The rows of all tables in the part of SECURITY.md about threats, without their headings.
fn threats(document: &str) -> Vec<&str> {
    let threats = document.split_once("## Threats").unwrap().1.split_once("## Known limits").unwrap().0;
    let is_heading = |row: &&str| row.starts_with("| An attacker |") || row.starts_with("|---");
    threats.lines().filter(|line| line.starts_with('|') && !is_heading(line)).collect()
}

/// The rows of the table of promises, without its heading.
fn promises(document: &str) -> Vec<&str> {
    let promises = document.split_once("## Promises").unwrap().1.split_once("## Limits").unwrap().0;
    promises.lines().filter(|line| line.starts_with('|')).skip(2).collect()
}

/// Fails if the last column of a row names anything but tests.
fn assert_names_tests(row: &str) {
    let tests = row.trim_end_matches([' ', '|']).rsplit_once('|').unwrap().1;
    let citations: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
    assert!(!citations.is_empty(), "no test: {row}");
    let wrong: Vec<_> = citations.into_iter().filter(|citation| !is_test(citation)).collect();
    assert!(wrong.is_empty(), "{wrong:?} are no tests: {row}");
}

/// Whether `FILE::NAME` is a test.
fn is_test(citation: &str) -> bool {
    let Some((path, name)) = citation.split_once("::") else { return false };
    let Ok(text) = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)) else { return false };
    let test =
        format!(r"#\[(?:tokio::)?test[^\n]*\]\n(?:\s*(?:#|//)[^\n]*\n)*\s*(?:async )?fn {}\(", regex::escape(name));
    Regex::new(&test).unwrap().is_match(&text)
}

#[test]
fn each_threat_names_tests_that_exist() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("SECURITY.md");
    let document = fs::read_to_string(document).unwrap();
    let rows = threats(&document);
    assert!(rows.len() > 20, "{rows:#?}");
    rows.into_iter().for_each(assert_names_tests);
}

#[test]
fn each_promise_names_tests_that_exist() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reliability.md");
    let document = fs::read_to_string(document).unwrap();
    let rows = promises(&document);
    assert!(rows.len() > 10, "{rows:#?}");
    rows.into_iter().for_each(assert_names_tests);
}

#[test]
fn a_citation_of_anything_but_a_test_is_noticed() {
    assert!(is_test("tests/it/threats.rs::each_threat_names_tests_that_exist"));
    assert!(is_test("tests/it/install.rs::grants_the_operator_exactly_its_rights"));
    for wrong in [
        "tests/it/threats.rs",
        "tests/it/threats.rs::is_test",
        "tests/it/threats.rs::no_such_test",
        "tests/none.rs::is_test",
    ] {
        assert!(!is_test(wrong), "{wrong}");
    }
}
