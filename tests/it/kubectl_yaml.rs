//! The commands understand the YAML that kubectl writes, also where it writes text without quotes.

use std::iter::repeat_with;

use serde_json::{Value, json};

use crate::{
    command::fed,
    test_env::{Plane, shared_with_crd},
};

/// What random texts are made of. kubectl writes some of them without quotes although they look like numbers, and others in
/// several lines.
const CHARACTERS: &str = "0123456789eE+-._:#'\"\\ \n\tynoasfulNIx~=<>|&*!%@`,[]{}é\u{feff}";
/// A number that large does not exist, so it is text: for instance a part of a hash.
const TEXT: &str = "1234e567890123456";

/// The object as kubectl writes it.
async fn yaml(object: &Value) -> String {
    let args = ["annotate", "--local", "--overwrite", "-f", "-", "example.com/a=b", "-o", "yaml"];
    let output = Plane::Shared(shared_with_crd().await).kubectl(&args, Some(&object.to_string())).await.unwrap();
    assert!(output.status.success(), "{}", output.stderr);
    output.stdout
}

#[tokio::test]
async fn show_reads_from_yaml_what_it_reads_from_json() {
    let characters: Vec<char> = CHARACTERS.chars().collect();
    // The same texts in each run, so that one that fails by chance stops no unrelated change.
    fastrand::seed(1);
    let text =
        || -> String { repeat_with(|| fastrand::choice(&characters)).take(fastrand::usize(1..12)).flatten().collect() };
    let digit = || fastrand::choice(b"0123456789e.+-").map(|digit| char::from(*digit));
    let number = || -> String { repeat_with(digit).take(fastrand::usize(1..9)).flatten().collect() };
    let mut texts: Vec<String> = repeat_with(text).take(500).chain(repeat_with(number).take(1_500)).collect();
    texts[0] = TEXT.to_owned();
    let incidents: Vec<_> = texts
        .iter()
        .map(|text| {
            json!({
                "key": text, "namespace": "shop", "owner": {"kind": "Job", "name": text}, "reason": text, "message": text,
                "pods": 1, "since": "2026-11-22T10:00:00Z",
            })
        })
        .collect();
    let object = json!({
        "apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"namespace": "ops", "name": "cluster"},
        "status": {
            "lastCheckTime": "2026-11-22T10:05:00Z", "problematicPodCount": texts.len(), "incidents": incidents,
            "conditions": [{
                "type": "PodsHealthy", "status": "False", "reason": "PodsUnhealthy", "message": "",
                "lastTransitionTime": "2026-11-22T10:00:00Z",
            }],
        },
    });
    let yaml = yaml(&object).await;
    assert!(yaml.contains(&format!("key: {TEXT}\n")), "kubectl writes it without quotes");
    let show = |input: &str, more: &[&str]| fed(&[&["show", "ops/cluster", "-f", "-"], more].concat(), input);
    let (code, out, err) = show(&yaml, &[]);
    assert_eq!((code, err.as_str()), (1, ""));
    let (_, expected, _) = show(&object.to_string(), &[]);
    let differs = out.lines().zip(expected.lines()).find(|(own, other)| own != other);
    assert!(out == expected, "{differs:?}");
    assert!(show(&yaml, &[TEXT]).1.contains(TEXT), "it is found by its key");
}

/// In the YAML of kubectl, which is of version 1.1, these end a line.
#[tokio::test]
async fn a_text_with_a_line_separator_swallows_no_field() {
    for separator in ["\u{85}", "\u{2028}", "\u{2029}"] {
        for message in [format!("one\ntwo{separator}"), format!("one{separator}two\n"), format!("one{separator}two")] {
            let object = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": "shop", "name": "cart", "annotations": {"last": message}, "labels": {"app": "cart"}},
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
                "status": {"message": message, "phase": "Failed", "reason": "Evicted"},
            });
            let (code, out, err) = fed(&["scan", "-f", "-", "-l", "app=cart"], &yaml(&object).await);
            assert_eq!((code, err.as_str()), (1, "1 of 1 pods has a problem.\n"), "{message:?}");
            assert!(out.contains("Evicted"), "{out}");
        }
    }
}

#[tokio::test]
async fn scan_finds_labels_that_look_like_numbers() {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": "cart", "labels": {"commit": TEXT}},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
        "status": {"phase": "Failed", "reason": "Evicted"},
    });
    let yaml = yaml(&object).await;
    assert!(yaml.contains(&format!("commit: {TEXT}\n")), "kubectl writes it without quotes");
    let scan = |selector: &str| fed(&["scan", "-f", "-", "-l", selector], &yaml);
    assert_eq!(scan(&format!("commit={TEXT}")).0, 1);
    assert_eq!(scan(&format!("commit!={TEXT}")).2, "No pods found.\n");
}
