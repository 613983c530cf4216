//! The table of values in the chart's README, which is made of the comments in `values.yaml`.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::Value;

use super::repository;

const MARKS: [&str; 2] = ["<!-- values: begin -->\n", "<!-- values: end -->"];

fn read(file: &str) -> String {
    std::fs::read_to_string(repository(&format!("deploy/chart/{file}"))).unwrap()
}

/// The values in the order of `values.yaml`, with the comment before each.
fn described(yaml: &str) -> Vec<(String, String)> {
    let key = Regex::new(r"^( *)([A-Za-z]+):").unwrap();
    let (mut path, mut comment, mut values) = (Vec::<(usize, String)>::new(), Vec::new(), Vec::new());
    for line in yaml.lines() {
        if let Some(text) = line.trim_start().strip_prefix("# ") {
            comment.push(text);
        } else if let Some(found) = key.captures(line) {
            let (_, [indent, name]) = found.extract();
            path.retain(|(outer, _)| *outer < indent.len());
            path.push((indent.len(), name.to_owned()));
            let names: Vec<&str> = path.iter().map(|(_, name)| name.as_str()).collect();
            values.push((names.join("."), comment.join(" ")));
            comment.clear();
        }
    }
    values
}

/// The values of a schema that contain no other values.
fn leaves(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    match schema["properties"].as_object() {
        Some(properties) => {
            for (name, schema) in properties {
                leaves(schema, &if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, found);
            }
        }
        None => drop(found.insert(path.to_owned())),
    }
}

/// The paths of all values.
pub(super) fn leaves_of_schema() -> BTreeSet<String> {
    Values::read().leaves
}

struct Values {
    described: Vec<(String, String)>,
    leaves: BTreeSet<String>,
    defaults: Value,
}

impl Values {
    fn read() -> Self {
        let (text, mut schema) =
            (read("values.yaml"), serde_json::from_str::<Value>(&read("values.schema.json")).unwrap());
        // Helm sets it, for charts that contain others.
        schema["properties"].as_object_mut().unwrap().remove("global");
        let mut found = BTreeSet::new();
        leaves(&schema, "", &mut found);
        let mut described = described(&text);
        described.retain(|(path, _)| found.contains(path));
        Self { described, leaves: found, defaults: serde_yaml::from_str(&text).unwrap() }
    }

    fn default(&self, path: &str) -> &Value {
        self.defaults
            .pointer(&format!("/{}", path.replace('.', "/")))
            .unwrap_or_else(|| panic!("{path} has no default"))
    }

    fn table(&self) -> String {
        let row = |(path, text): &(String, String)| {
            format!("| `{path}` | `{}` | {} |\n", self.default(path), text.replace('|', "\\|"))
        };
        format!(
            "| value | default | description |\n|---|---|---|\n{}",
            self.described.iter().map(row).collect::<String>()
        )
    }
}

#[test]
fn each_value_of_the_schema_has_a_default_and_a_description() {
    let values = Values::read();
    let described: BTreeMap<_, _> = values.described.iter().cloned().collect();
    assert_eq!(described.len(), values.described.len(), "no value occurs twice");
    assert_eq!(described.keys().collect::<Vec<_>>(), values.leaves.iter().collect::<Vec<_>>());
    assert!(described.len() > 40, "{described:#?}");
    for (path, text) in &described {
        assert!(text.ends_with('.'), "{path} has no description in a sentence: {text:?}");
        values.default(path);
    }
}

/// `UPDATE_SNAPSHOTS=1` writes the table.
#[test]
fn the_readme_lists_all_values() {
    let document = read("README.md");
    let (before, rest) = document.split_once(MARKS[0]).unwrap();
    let (_, after) = rest.split_once(MARKS[1]).unwrap();
    let expected = format!("{before}{}{}{}{after}", MARKS[0], Values::read().table(), MARKS[1]);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(repository("deploy/chart/README.md"), expected).unwrap();
    } else {
        assert_eq!(document, expected, "UPDATE_SNAPSHOTS=1 updates the table of deploy/chart/README.md");
    }
}
