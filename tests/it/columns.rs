//! STATUS, READY and RESTARTS of recorded and constructed pods. The tests of `kubectl_status` compare them with a real API
//! server.

use jiff::Timestamp;
use orchestr::diagnosis::{kubectl_status, ready_counts, restarts};
use orchestr_testbed::fixtures;

use crate::{
    arbitrary::real,
    cases::{Case, at, made},
};

#[test]
fn columns_of_real_pods_match_recorded_kubectl_output() {
    for (case, printed) in real().into_iter().zip(fixtures::real_statuses()) {
        let [ready, status, restarts] = columns(&case, Timestamp::now());
        assert_eq!((case.name(), status.as_str()), (printed.name, printed.status));
        assert_eq!(ready, printed.ready, "{}", printed.name);
        assert_eq!(restarts.split(' ').next(), Some(printed.restarts), "{}", printed.name);
    }
}

fn columns(case: &Case, now: Timestamp) -> [String; 3] {
    let pod = case.decode();
    let (ready, total) = ready_counts(&pod);
    [format!("{ready}/{total}"), kubectl_status(&pod), restarts(&pod, now)]
}

#[test]
fn columns_of_constructed_pods() {
    let rows: Vec<_> = made().iter().map(|case| (case.name().to_owned(), columns(case, at(61)))).collect();
    let rows: Vec<_> =
        rows.iter().map(|(name, [ready, status, restarts])| (&**name, &**ready, &**status, &**restarts)).collect();
    assert_eq!(rows, COLUMNS);
}

/// NAME, READY, STATUS and RESTARTS, 61 s after the creation of the pods.
const COLUMNS: [(&str, &str, &str, &str); 97] = [
    ("crash-loop-oom", "0/1", "CrashLoopBackOff", "7 (11s ago)"),
    ("crash-loop-error", "0/1", "CrashLoopBackOff", "7 (11s ago)"),
    ("crash-loop-completed", "0/1", "CrashLoopBackOff", "7 (11s ago)"),
    ("crash-loop-no-reason", "0/1", "CrashLoopBackOff", "7 (11s ago)"),
    ("crash-loop-cannot-run", "0/1", "CrashLoopBackOff", "2 (11s ago)"),
    ("crash-loop-no-last", "0/1", "CrashLoopBackOff", "0"),
    ("err-image-pull", "0/1", "ErrImagePull", "0"),
    ("image-pull-back-off", "0/1", "ImagePullBackOff", "0"),
    ("second-container-waits", "1/2", "CreateContainerError", "0"),
    ("run-container-error", "0/1", "RunContainerError", "4 (11s ago)"),
    ("init-crash-loop", "0/1", "Init:CrashLoopBackOff", "3 (11s ago)"),
    ("init-image-pull-back-off", "0/1", "Init:ImagePullBackOff", "0"),
    ("sidecar-crash-loop", "1/2", "Init:CrashLoopBackOff", "3 (11s ago)"),
    ("terminated-error", "0/1", "Error", "0"),
    ("terminated-oom", "0/1", "OOMKilled", "0"),
    ("terminated-exit-code", "0/1", "ExitCode:3", "0"),
    ("terminated-signal", "0/1", "Signal:9", "0"),
    ("terminated-start-error", "0/1", "StartError", "0"),
    ("terminated-never-again", "1/2", "Error", "0"),
    ("status-unknown", "0/1", "ContainerStatusUnknown", "0"),
    ("init-error", "0/1", "Init:Error", "0"),
    ("init-exit-code", "0/1", "Init:ExitCode:4", "0"),
    ("init-signal", "0/1", "Init:Signal:9", "0"),
    ("sidecar-error", "1/2", "Init:Error", "0"),
    ("evicted", "0/0", "Evicted", "0"),
    ("evicted-killed", "0/1", "Error", "0"),
    ("deadline-exceeded", "0/0", "DeadlineExceeded", "0"),
    ("node-lost-failed", "0/0", "NodeLost", "0"),
    ("preempted", "0/0", "Preempting", "0"),
    ("rejected", "0/1", "UnexpectedAdmissionError", "0"),
    ("job-failed", "0/1", "Error", "0"),
    ("failed-oom", "0/1", "OOMKilled", "0"),
    ("failed-silently", "0/1", "Failed", "0"),
    ("init-failed", "0/1", "Init:Error", "0"),
    ("restarted", "1/1", "Running", "4 (11s ago)"),
    ("restarted-oom", "1/1", "Running", "1 (11s ago)"),
    ("restarted-sidecar", "2/2", "Running", "1 (11s ago)"),
    ("restarted-init", "0/1", "Init:0/1", "1 (11s ago)"),
    ("restarting", "0/1", "ContainerCreating", "1 (11s ago)"),
    ("not-ready", "0/1", "Running", "0"),
    ("not-ready-one-of-two", "1/2", "Running", "0"),
    ("not-ready-sidecar", "1/2", "Running", "0"),
    ("not-ready-unstarted", "0/1", "Running", "0"),
    ("not-ready-completed", "1/2", "NotReady", "0"),
    ("readiness-gate", "1/1", "Running", "0"),
    ("node-silent", "1/1", "Running", "0"),
    ("no-ready-condition", "1/1", "Running", "0"),
    ("unschedulable", "0/1", "Pending", "0"),
    ("gated", "0/1", "SchedulingGated", "0"),
    ("pending", "0/1", "Pending", "0"),
    ("scheduler-error", "0/1", "Pending", "0"),
    ("creating", "0/1", "ContainerCreating", "0"),
    ("creating-image", "1/2", "ContainerCreating", "0"),
    ("creating-init", "0/1", "Init:0/1", "0"),
    ("creating-after-init", "0/1", "PodInitializing", "0"),
    ("creating-no-reason", "0/1", "Pending", "0"),
    ("creating-no-state", "0/1", "Pending", "0"),
    ("not-reported", "0/1", "Pending", "0"),
    ("initializing", "0/1", "Init:0/1", "0"),
    ("initializing-second", "0/1", "Init:1/2", "0"),
    ("initializing-after-sidecar", "1/2", "Init:1/2", "0"),
    ("sidecar-unstarted", "0/2", "Init:0/1", "0"),
    ("initialized-sidecar-unstarted", "1/2", "Init:0/1", "0"),
    ("terminating", "1/1", "Terminating", "0"),
    ("terminating-killed", "0/1", "Terminating", "0"),
    ("terminating-finalizer", "0/1", "Error", "0"),
    ("terminating-finalizers", "1/1", "Terminating", "0"),
    ("terminating-node-lost", "1/1", "Unknown", "0"),
    ("terminating-node-tainted", "1/1", "Terminating", "0"),
    ("terminating-orphan", "0/0", "Failed", "0"),
    ("terminating-pending", "0/1", "Terminating", "0"),
    ("terminating-gated", "0/1", "Terminating", "0"),
    ("terminating-succeeded", "0/1", "Completed", "0"),
    ("unknown", "1/1", "Unknown", "0"),
    ("unknown-lost", "1/1", "NodeLost", "0"),
    ("succeeded", "0/1", "Completed", "0"),
    ("succeeded-sidecar-killed", "0/2", "Completed", "0"),
    ("finishing-sidecar-killed", "0/2", "Completed", "0"),
    ("ignored", "0/1", "CrashLoopBackOff", "7 (11s ago)"),
    ("job-complete", "0/1", "Error", "0"),
    ("healthy", "1/1", "Running", "0"),
    ("healthy-sidecar", "2/2", "Running", "0"),
    ("healthy-after-init", "1/1", "Running", "0"),
    ("healthy-after-failed-init", "1/1", "Running", "0"),
    ("completed-but-ready", "1/2", "Running", "0"),
    ("completed-beside-error", "0/2", "ExitCode:9", "0"),
    ("no-containers", "0/0", "Running", "0"),
    ("no-status", "0/1", "", "0"),
    ("null-lists", "0/1", "Pending", "0"),
    ("unknown-containers", "1/1", "Error", "0"),
    ("many-containers", "50/60", "CrashLoopBackOff", "545 (11s ago)"),
    ("restarts-of-all-kinds", "2/2", "Running", "5 (21s ago)"),
    ("restarts-while-initializing", "1/2", "Init:2/3", "10 (21s ago)"),
    ("terminated-without-restart", "1/1", "Running", "0"),
    ("weird-phase", "0/1", "Weird", "0"),
    ("all-states-at-once", "0/1", "Odd", "0"),
    ("running-again-pending", "1/1", "Pending", "0"),
];
