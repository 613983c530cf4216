//! `orchestr scan --by` and `-o markdown|junit|github`.

use orchestr_testbed::fixtures::real_pods;
use serde_json::{Value, json};

use crate::{
    command::{assert_fails, assert_usage_error, fed, list, orchestr},
    pod_statuses::{container, pod, terminated},
};

fn scan(more: &[&str]) -> (i32, String, String) {
    fed(&[&["scan", "-f", "-"], more].concat(), &list(&real_pods()))
}

#[test]
fn groups_count_each_pod_once() {
    for by in ["owner", "reason", "cause", "node", "namespace"] {
        let (code, out, err) = scan(&["--by", by]);
        assert_eq!((code, err.as_str()), (1, "19 of 27 pods have problems.\n"));
        assert!(out.starts_with(&format!("{} ", by.to_uppercase())), "{out}");
        assert!(out.lines().all(|line| line.chars().count() <= 200), "{out}");

        let (code, out, err) = scan(&["--by", by, "-o", "json"]);
        assert_eq!((code, err.as_str()), (1, ""));
        let output: Value = serde_json::from_str(&out).unwrap();
        let counts: Vec<_> = output["groups"].as_array().unwrap().iter().map(|group| group["pods"].as_u64()).collect();
        assert_eq!(counts.iter().map(|count| count.unwrap()).sum::<u64>(), 19, "{out}");
        assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
        assert_eq!((&output["groupedBy"], &output["problematicPodCount"]), (&json!(by), &json!(19)));
        assert_eq!(serde_yaml::from_str::<Value>(&scan(&["--by", by, "-o", "yaml"]).1).unwrap(), output);
    }
    assert!(!scan(&["-o", "json"]).1.contains("group"));
    assert_fails(&mut orchestr(&["scan", "--by", "node", "-o", "junit"]), "--by is for tables, -o json and -o yaml");
    assert_usage_error(&mut orchestr(&["scan", "--by", "node", "--logs"]), &["cannot be used with"]);
}

#[test]
fn each_incident_is_in_each_output() {
    let (_, json, _) = scan(&["-o", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let incidents = json["incidents"].as_array().unwrap();
    assert!(incidents.len() > 10, "{}", incidents.len());

    let (code, markdown, err) = scan(&["-o", "markdown"]);
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(markdown.starts_with("## 19 of 27 pods have problems\n\n| Incident |"), "{markdown}");
    assert_eq!(markdown.matches("\n| <code>").count(), incidents.len());

    let (code, junit, err) = scan(&["-o", "junit"]);
    assert_eq!((code, err.as_str()), (1, ""));
    let head = format!("<testsuite name=\"pods\" tests=\"{0}\" failures=\"{0}\" errors=\"0\"", incidents.len());
    assert!(
        junit.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites ") && junit.contains(&head),
        "{junit}"
    );
    assert_eq!(junit.matches("<failure ").count(), incidents.len());

    let (code, github, err) = scan(&["-o", "github"]);
    assert_eq!((code, err.as_str()), (1, ""));
    let lines: Vec<_> = github.lines().collect();
    assert_eq!(lines.len(), 11, "{github}");
    assert!(lines[..10].iter().all(|line| line.starts_with("::error title=")), "{github}");
    assert_eq!(lines[10], format!("::notice title=Orchestr::and {} more incidents", incidents.len() - 10));
}

#[test]
fn a_healthy_cluster_is_a_passed_test_and_no_annotation() {
    let pod = json!({"kind": "Pod", "metadata": {"name": "a", "namespace": "shop"}, "status": {"phase": "Succeeded"}});
    let scan = |output| fed(&["scan", "-f", "-", "-o", output], &pod.to_string());
    assert_eq!(scan("markdown"), (0, "## No problems: 1 pod\n".to_owned(), String::new()));
    assert_eq!(scan("github"), (0, String::new(), String::new()));
    let (code, junit, _) = scan("junit");
    assert_eq!(code, 0);
    assert!(junit.contains("tests=\"1\" failures=\"0\" errors=\"0\""), "{junit}");
}

#[test]
fn a_pod_that_cannot_be_decoded_is_an_error() {
    let pod =
        json!({"kind": "Pod", "metadata": {"name": "bad", "namespace": "shop"}, "status": {"phase": ["hunter2"]}});
    let (code, junit, err) = fed(&["scan", "-f", "-", "-o", "junit"], &pod.to_string());
    assert_eq!((code, err.as_str()), (2, "orchestr: cannot decode 1 pod: shop/bad\n"));
    assert!(junit.contains("<error type=\"Undecodable\" message=\"1 pod cannot be decoded\">"), "{junit}");
}

#[test]
fn since_leaves_out_older_problems_but_never_hides_them() {
    let failed = |name: &str, time: &str| {
        let app = container("app", json!({"state": terminated(1, time, time)}));
        pod("shop", name, json!({"status": {"phase": "Failed", "containerStatuses": [app]}}))
    };
    let (new, old) = (failed("new", "2026-03-01T11:55:00Z"), failed("old", "2026-03-01T09:00:00Z"));
    let scan = |pods: &[Value], output: &str| {
        let flags = ["scan", "-f", "-", "--at", "2026-03-01T12:00:00Z", "--since", "10m", "-o", output];
        fed(&flags, &list(pods))
    };
    let both = [new, old.clone()];
    let (code, out, err) = scan(&both, "table");
    let older = "1 pod has an older problem, which --since leaves out";
    assert_eq!((code, err), (1, format!("1 of 2 pods has a problem that began in the last 10m; {older}.\n")));
    assert!(out.contains("new") && !out.contains("old"), "{out}");

    // Only what is shown decides about the exit code, and nothing calls the pod healthy.
    let only = [old];
    for (output, part) in [
        ("markdown", format!("## No problems that began in the last 10m: 1 pod; {older}\n")),
        ("github", format!("::notice title=Orchestr::{older}\n")),
        ("junit", format!("<skipped message=\"{older}\"/>")),
        ("html", older.to_owned()),
        ("html", "No recent problems found, but older ones".to_owned()),
        ("json", "\"olderProblematicPods\": 1".to_owned()),
        ("yaml", "olderProblematicPods: 1".to_owned()),
    ] {
        let (code, out, err) = scan(&only, output);
        assert_eq!((code, err.as_str()), (0, ""), "{output}");
        assert!(out.contains(&part), "{part:?} is missing: {out}");
        // The style sheet of the page has names as well.
        assert!(!out.contains("without a problem") && (output == "html" || !out.contains("healthy")), "{out}");
    }
    assert_eq!(
        scan(&only, "table"),
        (0, String::new(), format!("No problems that began in the last 10m: 1 pod; {older}.\n"))
    );
    assert!(!fed(&["scan", "-f", "-", "-o", "json"], &list(&only)).1.contains("older"));
}

/// The runner of GitHub Actions reads commands from whatever a step prints.
#[test]
fn a_table_contains_no_workflow_commands() {
    let status = json!({"phase": "Failed", "reason": "##[add-mask]b", "message": "##[group]c"});
    let pod = pod("shop", "::error::a", json!({"status": status}));
    let (code, out, _) = fed(&["scan", "-f", "-", "-n", "shop"], &list(&[pod]));
    assert_eq!(code, 1);
    assert!(out.contains("[group]c") && !out.contains("##["), "{out}");
    assert!(out.lines().all(|line| !line.trim_start().starts_with("::")), "{out}");
}
