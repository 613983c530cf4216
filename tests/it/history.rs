//! `orchestr show --history`, on files.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::command::{assert_fails, assert_usage_error, fed, orchestr};

const NAME: &str = "orchestr-system/cluster";

fn fixture() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/history.json")).unwrap()
}

/// The code blocks of docs/history.md in this language.
fn blocks(language: &str) -> Vec<String> {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/history.md");
    let document = fs::read_to_string(document).unwrap();
    let fence = format!("```{language}\n");
    let blocks = document.split(&fence).skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// The status contains an entry and a cause of a newer version.
#[test]
fn prints_the_table_of_the_documentation() {
    let (code, out, err) = fed(&["show", NAME, "--history", "-f", "-"], &fixture());
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<_> = out.lines().map(str::trim_end).collect();
    let documented = blocks("text").concat();
    let documented: Vec<_> = documented.lines().collect();
    assert_eq!(lines, documented);
}

#[test]
fn accepts_the_commands_of_the_documentation() {
    let commands = blocks("sh").concat();
    let commands: Vec<_> = commands.lines().filter(|line| line.starts_with("orchestr ")).collect();
    assert_eq!(commands.len(), 5);
    for command in commands {
        let words = command.split(['#', '>']).next().unwrap().split_whitespace().skip(1);
        let mut args: Vec<&str> = words.collect();
        if let Some(file) = args.iter_mut().find(|arg| **arg == "objects.json") {
            *file = "-";
        } else {
            args.extend(["-f", "-"]);
        }
        let (code, out, err) = fed(&args, &fixture());
        assert_eq!((code, err.as_str()), (0, ""), "{command}");
        assert!(out.contains("cart"), "{command}: {out}");
    }
}

#[test]
fn writes_json_and_a_page() {
    let (code, out, _) = fed(&["show", NAME, "--history", "-f", "-", "-o", "json", "--since", "3h"], &fixture());
    let document: Value = serde_json::from_str(&out).unwrap();
    let owners: Vec<_> =
        document["incidents"].as_array().unwrap().iter().filter_map(|own| own["owner"]["name"].as_str()).collect();
    assert_eq!((code, owners), (0, vec!["cart", "checkout"]));
    assert_eq!((&document["since"], &document["unwatched"]), (&json!("2026-03-01T09:00:00Z"), &json!([])));

    let (code, page, _) = fed(&["show", NAME, "--history", "-f", "-", "-o", "html"], &fixture());
    assert!(code == 0 && page.starts_with("<!DOCTYPE html>") && page.contains("<svg class=\"timeline\""), "{page}");
    let (code, page, _) = fed(&["show", NAME, "-f", "-", "-o", "html"], &fixture());
    assert!(code == 1 && page.contains("<h2>History</h2>"), "{page}");
    let (_, text, _) = fed(&["show", NAME, "-f", "-"], &fixture());
    assert!(
        text.contains("\nEnded recently\n  shop/checkout (Deployment)  CrashLoopBackOff  ExitCode  3 pods  lasted 34m"),
        "{text}"
    );
}

#[test]
fn rejects_what_is_no_object_and_no_duration() {
    let absent = "orchestr: standard input does not contain the Orchestr object shop/cart\n";
    assert_eq!(fed(&["show", "shop/cart", "--history", "-f", "-"], &fixture()), (2, String::new(), absent.to_owned()));
    let bare =
        json!({"apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"namespace": "shop", "name": "cart"}})
            .to_string();
    let err = "orchestr: shop/cart has no status yet: is the operator running?\n";
    assert_eq!(fed(&["show", "shop/cart", "--history", "-f", "-"], &bare), (2, String::new(), err.to_owned()));
    assert_fails(
        &mut orchestr(&["show", "shop/cart", "--history", "-f", "/no/such"]),
        "cannot read /no/such: No such file or directory (os error 2)",
    );
    assert_usage_error(
        &mut orchestr(&["show", "shop/cart", "--history", "--since", "yesterday"]),
        &["--since", "is not a duration"],
    );
    assert_usage_error(&mut orchestr(&["show", "cart", "--history"]), &["NAMESPACE/NAME"]);
    assert_usage_error(&mut orchestr(&["show", "shop/cart", "--since", "24h"]), &["--history"]);
    assert_usage_error(&mut orchestr(&["show", "shop/cart", "cart-5d9f-a", "--history"]), &["--history"]);
    assert_fails(
        &mut orchestr(&["show", "shop/cart", "-o", "json"]),
        "-o json is for --history: `kubectl get orchestr -o json` prints the status",
    );
}
