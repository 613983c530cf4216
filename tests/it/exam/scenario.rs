//! The scenarios of `tests/fixtures/exam`.

use std::{fs, path::Path};

use jiff::{SignedDuration, Timestamp};
use orchestr::api::{Cause, Owner, ProblemKind};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::test_env::watch_with;

/// The present, as the fixtures have it.
pub const WRITTEN_AT: &str = "2026-11-20T12:00:00Z";

/// A trouble, in a namespace of its own that has its name.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    #[serde(skip)]
    pub group: String,
    pub name: String,
    /// What happened.
    pub truth: String,
    pub expect: Expectation,
    /// Whether it is also part of the exam in which the events precede the start of the operator.
    #[serde(default)]
    pub events_before_start: bool,
    /// Those that differ from the defaults, so that a state that is no problem does not become one during the exam.
    #[serde(default)]
    pub thresholds: Value,
    /// Pods, their controllers, claims, volumes and nodes, with their statuses.
    #[serde(default)]
    pub objects: Vec<Value>,
    #[serde(default)]
    pub events: Vec<Value>,
}

/// What the operator must report.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Whether there is no problem.
    #[serde(default)]
    pub healthy: bool,
    #[serde(default)]
    pub kind: ProblemKind,
    #[serde(default)]
    pub cause: Cause,
    /// Other causes that are true as well, though they explain less or cannot be proved.
    #[serde(default)]
    pub accept: Vec<Cause>,
    pub container: Option<String>,
    pub owner: Option<Owner>,
    /// What the sentences must contain, in any case.
    #[serde(default)]
    pub words: Vec<String>,
    /// What they must not contain.
    #[serde(default, rename = "not")]
    pub forbidden: Vec<String>,
}

/// All scenarios, with their times moved so that they happen now.
pub fn scenarios(now: Timestamp) -> Vec<Scenario> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/exam");
    let shift = now.duration_since(WRITTEN_AT.parse().unwrap());
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut scenarios = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        for document in text.split("\n---\n").skip(1) {
            let mut scenario: Scenario =
                serde_yaml::from_str(document).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            path.file_stem().unwrap().to_str().unwrap().clone_into(&mut scenario.group);
            scenario.objects.iter_mut().chain(&mut scenario.events).for_each(|object| move_times(object, shift));
            scenarios.push(scenario);
        }
    }
    scenarios
}

impl Scenario {
    /// The spec of an object that watches this scenario only.
    pub fn spec(&self) -> Value {
        let mut spec = watch_with(json!({"pods": {"namespaces": [self.name]}, "logs": {"enabled": false}}));
        if !self.thresholds.is_null() {
            spec["thresholds"] = self.thresholds.clone();
        }
        spec
    }
}

pub fn move_times(value: &mut Value, shift: SignedDuration) {
    match value {
        Value::String(text) => {
            let Ok(time) = text.parse::<Timestamp>() else { return };
            // The kubelet writes the epoch as the start of an instance that never ran.
            if time != Timestamp::UNIX_EPOCH {
                // The API server requires six digits in the times of type MicroTime, and allows none in the others.
                let format = if text.contains('.') { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
                *text = (time + shift).strftime(format).to_string();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| move_times(value, shift)),
        Value::Object(values) => values.values_mut().for_each(|value| move_times(value, shift)),
        _ => {}
    }
}

#[test]
fn every_cause_that_a_pod_or_controller_can_prove_is_examined() {
    let scenarios = scenarios(WRITTEN_AT.parse().unwrap());
    assert!(scenarios.len() >= 60, "{}", scenarios.len());
    // A running pod that serves as before is no problem, whatever became of its resize.
    for &cause in Cause::ALL.iter().filter(|cause| **cause != Cause::ResizeInfeasible) {
        assert!(scenarios.iter().any(|scenario| scenario.expect.cause == cause), "{cause}");
    }
}
