//! The lines of logs that incidents quote.

use super::*;
use crate::{
    api::{Cause, Incident},
    report::{Change, differs, with_log_line},
};

const LINE: &str = "panic: no such table: orders";

/// A crash with this cause, whose log has a telling line.
fn quoting(cause: Cause) -> Scenario {
    let (pod, mut finding) = crashing("shop", "cart", "Error", 50);
    finding.explanation.cause = cause;
    finding.explanation.message = "app exited with code 2".into();
    let mut scenario = Scenario { webhooks: true, ..Scenario::of([(pod, finding)]) };
    let read = Tail { telling_line: LINE.into(), ..tail("starting\npanic: no such table: orders\n") };
    scenario.tails.insert((Uid::from(0), "app".to_owned()), read);
    scenario
}

fn incident(scenario: &Scenario) -> Incident {
    scenario.status(None).incidents.remove(0)
}

#[test]
fn quotes_the_log_where_only_the_exit_is_proven() {
    for (cause, is_quoted) in [
        (Cause::ExitCode, true),
        (Cause::Signal, true),
        (Cause::Unknown, true),
        (Cause::OutOfMemory, false),
        (Cause::LivenessProbe, false),
        (Cause::CommandNotFound, false),
        (Cause::PermissionDenied, false),
        (Cause::Completed, false),
    ] {
        let scenario = quoting(cause);
        let found = incident(&scenario);
        assert_eq!(found.log_line, if is_quoted { LINE } else { "" }, "{cause}");
        assert_eq!(found.message, "app exited with code 2", "the sentence itself stays");
        let alert = scenario.alert_incidents().remove(0);
        assert_eq!(alert.texts.message, with_log_line("app exited with code 2", &found.log_line), "{cause}");
    }
    let mut waiting = quoting(Cause::Unknown);
    waiting.pods[0].1.kind = ProblemKind::NotReady;
    assert_eq!(incident(&waiting).log_line, "", "it has not ended");
}

#[test]
fn quotes_nothing_if_logs_are_disabled() {
    let scenario = Scenario { logs: false, ..quoting(Cause::ExitCode) };
    assert_eq!(incident(&scenario).log_line, "");
    assert_eq!(scenario.alert_incidents()[0].texts.message, "app exited with code 2");
}

#[test]
fn quotes_only_the_container_that_fails() {
    let mut scenario = quoting(Cause::ExitCode);
    scenario.pods[0].1.containers.insert(0, container("proxy"));
    let other = Tail { telling_line: "error of another container".into(), ..tail("") };
    scenario.tails.insert((Uid::from(0), "proxy".to_owned()), other);
    assert_eq!(incident(&scenario).log_line, LINE);
    scenario.pods[0].1.container = "".into();
    assert_eq!(incident(&scenario).log_line, "", "the problem is not of one container");
}

#[test]
fn a_quotation_changes_nothing_but_itself() {
    let scenario = quoting(Cause::ExitCode);
    let mut without = quoting(Cause::ExitCode);
    without.tails.clear();
    let (quoted, plain) = (incident(&scenario), incident(&without));
    assert_eq!(Incident { log_line: String::new(), ..quoted }, plain);
    let (quoted, plain) = (scenario.alert_incidents().remove(0), without.alert_incidents().remove(0));
    assert_eq!(crate::report::Incident { texts: plain.texts.clone(), ..quoted }, plain);
    let status = scenario.status(None);
    let later = Scenario { now: at(900), ..scenario }.status(Some(&status));
    assert_eq!(differs(Some(&status), &later), Change::None, "the same log needs no write");
    let unread = without.status(None);
    assert_eq!(differs(Some(&unread), &status), Change::Substantial, "a log that was read is shown");
    let mut unquoted = status.clone();
    unquoted.incidents[0].log_line = String::new();
    assert_eq!(differs(Some(&unquoted), &status), Change::None, "a line alone needs no write");
}

#[test]
fn lists_the_same_incidents_before_and_after_logs_are_read() {
    let hostile = "<&>\u{2028}".repeat(40);
    for count in [20, 100, 140] {
        let owner = |n: i64| format!("{}-{n:03}", "<".repeat(60));
        let mut scenario = Scenario::of((0..count).map(|n| crashing("shop", &owner(n), "Error", n)));
        scenario.webhooks = true;
        let shown = |scenario: &Scenario| {
            let status = scenario.status(None);
            let size = serde_json::to_vec(&status).unwrap().len();
            assert!(size <= crate::report::fit::budget(true), "{size} bytes");
            let pods = status.problematic_pods.iter().map(|pod| pod.container_issues.len());
            (status.incidents.len(), pods.collect::<Vec<_>>())
        };
        let unread = shown(&scenario);
        for (pod, _) in &scenario.pods {
            let read = Tail { telling_line: hostile.as_str().into(), ..tail("a line\n") };
            scenario.tails.insert((pod.uid, "app".to_owned()), read);
        }
        assert_eq!(shown(&scenario), unread, "{count} incidents");
        assert!(scenario.status(None).incidents.iter().all(|incident| !incident.log_line.is_empty()));
    }
}
