//! Checks that each bound in `docs/limits.md` has the value of the constant that its row names.

use std::fs;

use regex::Regex;

use super::pages::{Page, assert_is, root};

/// A bound as the page prints it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Count,
    Bytes,
    Time,
}

/// The unit of a printed bound.
fn unit(printed: &str) -> Unit {
    match printed.split_once(' ').map(|(_, unit)| unit) {
        None => Unit::Count,
        Some("MiB" | "KiB" | "bytes") => Unit::Bytes,
        Some("s" | "min" | "h") => Unit::Time,
        Some(other) => panic!("{other:?} is no unit"),
    }
}

/// The value of a constant: a number, a product, a shift, or a duration in seconds.
fn value(path: &str, name: &str) -> u64 {
    let source = fs::read_to_string(root().join("src").join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let definition = Regex::new(&format!(r"(?m)^\s*(?:pub(?:\([a-z]+\))? )?const {name}: \w+ =\s*([^;]+);")).unwrap();
    let expression = &definition.captures(&source).unwrap_or_else(|| panic!("src/{path} does not define {name}"))[1];
    let expression = expression.trim_start_matches("Duration::from_secs(").trim_end_matches(')').replace('_', "");
    let number = |text: &str| text.trim().parse::<u64>().unwrap_or_else(|_| panic!("{name} is {expression:?}"));
    match expression.split_once("<<") {
        Some((base, shift)) => number(base) << number(shift),
        None => expression.split('*').map(number).product(),
    }
}

fn printed(value: u64, unit: Unit) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    match unit {
        Unit::Count => value.to_string(),
        Unit::Bytes if value.is_multiple_of(MIB / 2) => format!("{} MiB", value as f64 / MIB as f64),
        Unit::Bytes if value.is_multiple_of(KIB) => format!("{} KiB", value / KIB),
        Unit::Bytes => format!("{value} bytes"),
        Unit::Time if value.is_multiple_of(3600) => format!("{} h", value / 3600),
        Unit::Time if value.is_multiple_of(60) => format!("{} min", value / 60),
        Unit::Time => format!("{value} s"),
    }
}

#[test]
fn the_bounds_are_those_of_the_code() {
    let page = Page::read("docs/limits.md");
    let row = Regex::new(r"(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| `([\w/]+\.rs)::(\w+)` \|$").unwrap();
    assert!(row.captures_iter(&page.text).count() > 20);
    let expected = row.replace_all(&page.text, |found: &regex::Captures<'_>| {
        let (_, [what, bound, beyond, path, name]) = found.extract();
        format!("| {what} | {} | {beyond} | `{path}::{name}` |", printed(value(path, name), unit(bound)))
    });
    assert_is(&page.path, &expected);
}

#[test]
fn bounds_are_printed_in_their_units() {
    for (value, expected) in [
        (100, "100"),
        (256 << 10, "256 KiB"),
        (3 << 19, "1.5 MiB"),
        (1_000_000, "1000000 bytes"),
        (15, "15 s"),
        (300, "5 min"),
        (3600, "1 h"),
    ] {
        assert_eq!(printed(value, unit(expected)), expected);
    }
}
