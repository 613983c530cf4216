//! The constructed pods.

use serde_json::json;

use super::*;

const BACK_OFF: &str = "back-off 5m0s restarting failed container";

/// All constructed pods. Each is named after its case.
pub fn made() -> Vec<Case> {
    let crash =
        |reason: &str, code| after(termination(code, reason, 50), 7, waiting("app", "CrashLoopBackOff", BACK_OFF));
    let done = || ended("prep", termination(0, "Completed", 20));
    let sandbox = |status| condition("PodReadyToStartContainers", status, "", "", 5);
    vec![
        // A container waits for a reason other than ContainerCreating, PodInitializing.
        case("crash-loop-oom").app_with_limit("512Mi", crash("OOMKilled", 137)).not_ready("app", 50),
        case("crash-loop-error").app(crash("Error", 1)).not_ready("app", 50),
        case("crash-loop-completed").app(crash("Completed", 0)).not_ready("app", 50),
        case("crash-loop-no-reason").app(crash("", 139)).not_ready("app", 50),
        case("crash-loop-cannot-run")
            .app(after(
                failed_start("ContainerCannotRun", "OCI runtime create failed", 50),
                2,
                waiting("app", "CrashLoopBackOff", BACK_OFF),
            ))
            .not_ready("app", 0),
        case("crash-loop-no-last").app(waiting("app", "CrashLoopBackOff", BACK_OFF)).not_ready("app", 0),
        case("err-image-pull").phase("Pending").app(waiting("app", "ErrImagePull", "not found")).not_ready("app", 0),
        case("image-pull-back-off")
            .phase("Pending")
            .app(waiting("app", "ImagePullBackOff", "Back-off pulling image \"example/app:1\""))
            .not_ready("app", 0),
        case("second-container-waits")
            .phase("Pending")
            .app(running("app", 5))
            .app(waiting("proxy", "CreateContainerError", "context deadline exceeded"))
            .not_ready("proxy", 0),
        case("run-container-error")
            .app(after(
                failed_start("StartError", "exec: \"/no\": no such file", 50),
                4,
                waiting("app", "RunContainerError", "exec: \"/no\": no such file"),
            ))
            .not_ready("app", 0),
        case("init-crash-loop")
            .uninitialized("prep")
            .init(after(termination(4, "Error", 50), 3, waiting("prep", "CrashLoopBackOff", BACK_OFF)))
            .app(waiting("app", "PodInitializing", ""))
            .not_ready("app", 0),
        case("init-image-pull-back-off")
            .uninitialized("prep")
            .init(waiting("prep", "ImagePullBackOff", "Back-off pulling image"))
            .app(waiting("app", "PodInitializing", ""))
            .not_ready("app", 0),
        case("sidecar-crash-loop")
            .sidecar(after(termination(2, "Error", 50), 3, waiting("mesh", "CrashLoopBackOff", BACK_OFF)))
            .app(running("app", 5))
            .not_ready("mesh", 50),
        // A container terminated with a non-zero exit or a signal.
        case("terminated-error").app(ended("app", termination(3, "Error", 50))).not_ready("app", 50),
        case("terminated-oom")
            .app_with_limit("64Mi", ended("app", termination(137, "OOMKilled", 50)))
            .not_ready("app", 50),
        case("terminated-exit-code").app(ended("app", termination(3, "", 50))).not_ready("app", 50),
        case("terminated-signal")
            .app(ended("app", termination(0, "", 50)))
            .not_ready("app", 50)
            .with(|pod| pod["status"]["containerStatuses"][0]["state"]["terminated"]["signal"] = 9.into()),
        case("terminated-start-error")
            .app(ended("app", failed_start("StartError", "exec: no", 50)))
            .not_ready("app", 50),
        case("terminated-never-again").once().app(ended("app", termination(1, "Error", 50))).app(running("proxy", 5)),
        case("status-unknown")
            .app(ended(
                "app",
                json!({"exitCode": 137, "reason": "ContainerStatusUnknown",
                "message": "The container could not be located when the pod was terminated"}),
            ))
            .not_ready("app", 50),
        case("init-error").uninitialized("prep").init(ended("prep", termination(4, "Error", 50))).app(waiting(
            "app",
            "PodInitializing",
            "",
        )),
        case("init-exit-code").uninitialized("prep").init(ended("prep", termination(4, "", 50))).app(waiting(
            "app",
            "PodInitializing",
            "",
        )),
        case("init-signal")
            .uninitialized("prep")
            .init(ended("prep", termination(137, "", 50)))
            .app(waiting("app", "PodInitializing", ""))
            .with(|pod| pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["signal"] = 9.into()),
        case("sidecar-error")
            .sidecar(ended("mesh", termination(2, "Error", 50)))
            .app(running("app", 5))
            .not_ready("mesh", 50),
        // Phase Failed.
        case("evicted").phase("Failed").because("Evicted", "The node was low on resource: memory."),
        case("evicted-killed")
            .phase("Failed")
            .because("Evicted", "The node was low on resource: memory.")
            .app(ended("app", termination(137, "Error", 50))),
        case("deadline-exceeded").phase("Failed").because("DeadlineExceeded", "Pod was active on the node too long"),
        case("node-lost-failed")
            .phase("Failed")
            .because("NodeLost", "Node node-7 which was running pod is unresponsive"),
        case("preempted").phase("Failed").because("Preempting", "Preempted in order to admit critical pod"),
        case("rejected")
            .phase("Failed")
            .because("UnexpectedAdmissionError", "Allocate failed")
            .unreported("containers", "app"),
        case("job-failed")
            .phase("Failed")
            .once()
            .owned_by("Job", "sums")
            .app(ended("app", termination(11, "Error", 50))),
        case("failed-oom")
            .phase("Failed")
            .once()
            .app_with_limit("1Gi", ended("app", termination(137, "OOMKilled", 50))),
        case("failed-silently").phase("Failed").unreported("containers", "app"),
        case("init-failed")
            .phase("Failed")
            .once()
            .uninitialized("prep")
            .phase("Failed")
            .init(ended("prep", termination(1, "Error", 50)))
            .app(waiting("app", "PodInitializing", "")),
        // A container failed and was restarted.
        case("restarted").app(after(termination(1, "Error", 50), 4, running("app", 60))).ready(60),
        case("restarted-oom")
            .app_with_limit("512Mi", after(termination(137, "OOMKilled", 50), 1, running("app", 60)))
            .ready(60),
        case("restarted-sidecar")
            .sidecar(after(termination(1, "Error", 50), 1, running("mesh", 60)))
            .app(running("app", 5))
            .ready(60),
        case("restarted-init")
            .uninitialized("prep")
            .init(after(termination(1, "Error", 50), 1, running("prep", 60)))
            .app(waiting("app", "PodInitializing", "")),
        case("restarting")
            .app(after(termination(255, "Unknown", 50), 1, waiting("app", "ContainerCreating", "")))
            .not_ready("app", 50),
        // Running, Ready is not True.
        case("not-ready").app(unready("app", 5)).not_ready("app", 0),
        case("not-ready-one-of-two").app(running("app", 5)).app(unready("proxy", 5)).not_ready("proxy", 0),
        case("not-ready-sidecar").sidecar(unready("mesh", 5)).app(running("app", 6)).not_ready("mesh", 0),
        case("not-ready-unstarted").app(unstarted("app", 5)).not_ready("app", 0),
        case("not-ready-completed")
            .once()
            .app(ended("app", termination(0, "Completed", 50)))
            .app(running("proxy", 5))
            .not_ready("app", 50),
        case("readiness-gate").app(running("app", 5)).ready(10).condition(condition(
            "Ready",
            "False",
            "ReadinessGatesNotReady",
            "corresponding condition of pod readiness gate \"lb\" does not exist.",
            0,
        )),
        case("node-silent").app(running("app", 5)).ready(10).condition(condition("Ready", "False", "", "", 100)),
        case("no-ready-condition").app(running("app", 5)),
        // Not scheduled.
        case("unschedulable")
            .unscheduled("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
            .unreported("containers", "app"),
        case("gated")
            .unscheduled("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
            .unreported("containers", "app"),
        case("pending")
            .unscheduled("", "")
            .unreported("containers", "app")
            .with(|pod| pod["status"]["conditions"] = json!([])),
        case("scheduler-error").unscheduled("SchedulerError", "binding rejected").unreported("containers", "app"),
        // Scheduled, containers are being created.
        case("creating")
            .phase("Pending")
            .condition(sandbox("False"))
            .app(waiting("app", "ContainerCreating", ""))
            .not_ready("app", 0),
        case("creating-image")
            .phase("Pending")
            .condition(sandbox("True"))
            .app(running("app", 5))
            .app(waiting("proxy", "ContainerCreating", ""))
            .not_ready("proxy", 0),
        case("creating-init").uninitialized("prep").init(waiting("prep", "PodInitializing", "")).app(waiting(
            "app",
            "PodInitializing",
            "",
        )),
        case("creating-after-init").phase("Pending").init(done()).app(waiting("app", "PodInitializing", "")),
        case("creating-no-reason").phase("Pending").app(waiting("app", "", "")),
        case("creating-no-state").phase("Pending").app(status("app", json!({}))),
        case("not-reported").phase("Pending").unreported("containers", "app"),
        // An init container keeps running.
        case("initializing")
            .uninitialized("prep")
            .init(unready("prep", 5))
            .app(waiting("app", "PodInitializing", ""))
            .not_ready("app", 0),
        case("initializing-second").uninitialized("more").init(done()).init(unready("more", 25)).app(waiting(
            "app",
            "PodInitializing",
            "",
        )),
        case("initializing-after-sidecar")
            .uninitialized("prep")
            .sidecar(running("mesh", 5))
            .init(unready("prep", 25))
            .app(waiting("app", "PodInitializing", "")),
        case("sidecar-unstarted").uninitialized("mesh").sidecar(unstarted("mesh", 5)).app(waiting(
            "app",
            "PodInitializing",
            "",
        )),
        case("initialized-sidecar-unstarted")
            .sidecar(unstarted("mesh", 50))
            .app(running("app", 5))
            .not_ready("mesh", 50),
        // deletionTimestamp has passed.
        case("terminating").app(running("app", 5)).ready(10).deleted(30, &[]),
        case("terminating-killed")
            .app(ended("app", termination(137, "Error", 40)))
            .not_ready("app", 40)
            .deleted(30, &[]),
        case("terminating-finalizer")
            .phase("Failed")
            .app(ended("app", termination(137, "Error", 40)))
            .deleted(30, &["example.com/hold"]),
        case("terminating-finalizers")
            .app(running("app", 5))
            .ready(10)
            .deleted(30, &["example.com/hold", "example.com/keep"]),
        case("terminating-node-lost")
            .because("NodeLost", "Node node-7 is unresponsive")
            .app(running("app", 5))
            .ready(10)
            .deleted(30, &[]),
        case("terminating-node-tainted").app(running("app", 5)).ready(10).deleted(30, &[]).condition(condition(
            "DisruptionTarget",
            "True",
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
            0,
        )),
        case("terminating-orphan").phase("Failed").deleted(30, &["example.com/hold"]).condition(condition(
            "DisruptionTarget",
            "True",
            "DeletionByPodGC",
            "PodGC: node no longer exists",
            0,
        )),
        case("terminating-pending")
            .unscheduled("Unschedulable", "no")
            .unreported("containers", "app")
            .deleted(30, &["example.com/hold"]),
        case("terminating-gated")
            .unscheduled("SchedulingGated", "no")
            .unreported("containers", "app")
            .deleted(30, &["example.com/hold"]),
        case("terminating-succeeded")
            .phase("Succeeded")
            .once()
            .app(ended("app", termination(0, "Completed", 20)))
            .deleted(30, &["example.com/hold"]),
        // Phase Unknown.
        case("unknown").phase("Unknown").app(running("app", 5)).not_ready("app", 50),
        case("unknown-lost").phase("Unknown").because("NodeLost", "Node node-7 is unresponsive").app(running("app", 5)),
        // Never a problem.
        case("succeeded").phase("Succeeded").once().app(ended("app", termination(0, "Completed", 50))),
        case("succeeded-sidecar-killed")
            .phase("Succeeded")
            .once()
            .sidecar(ended("mesh", termination(137, "Error", 60)))
            .app(ended("app", termination(0, "Completed", 50))),
        case("finishing-sidecar-killed")
            .once()
            .sidecar(ended("mesh", termination(137, "Error", 60)))
            .app(ended("app", termination(0, "Completed", 50)))
            .not_ready("mesh app", 60),
        case("ignored")
            .app(crash("OOMKilled", 137))
            .with(|pod| pod["metadata"]["annotations"] = json!({"kopf.dev/ignore": "true"})),
        case("job-complete")
            .phase("Failed")
            .once()
            .owned_by("Job", "sums")
            .app(ended("app", termination(1, "Error", 50))),
        // Healthy.
        case("healthy").app(running("app", 5)).ready(6),
        case("healthy-sidecar").sidecar(running("mesh", 3)).app(running("app", 5)).ready(6),
        case("healthy-after-init").init(done()).app(running("app", 25)).ready(26),
        case("healthy-after-failed-init")
            .init(after(termination(1, "Error", 10), 1, done()))
            .app(running("app", 25))
            .ready(26),
        case("completed-but-ready").app(running("app", 5)).app(ended("once", termination(0, "Completed", 50))).ready(6),
        // Unusual pods.
        case("completed-beside-error")
            .once()
            .app(ended("app", termination(0, "Completed", 50)))
            .app(ended("proxy", termination(9, "", 50))),
        case("no-containers").with(|pod| pod["status"] = json!({"phase": "Running"})),
        case("no-status").with(|pod| pod["status"] = json!({})).unreported("containers", "app"),
        case("null-lists")
            .with(|pod| pod["status"] = json!({"phase": "Pending", "conditions": null, "containerStatuses": null}))
            .unreported("containers", "app"),
        case("unknown-containers").app(running("app", 5)).ready(6).with(|pod| {
            pod["status"]["containerStatuses"]
                .as_array_mut()
                .unwrap()
                .push(ended("ghost", termination(7, "Error", 50)));
            pod["status"]["initContainerStatuses"] = json!([running("spirit", 5)]);
        }),
        case("many-containers")
            .with(|pod| {
                for index in 0..60 {
                    let name = format!("app-{index}");
                    pod["spec"]["containers"]
                        .as_array_mut()
                        .unwrap()
                        .push(json!({"name": name, "image": "example/app:1"}));
                    let status = if index < 50 {
                        running(&name, 5)
                    } else {
                        after(termination(1, "Error", 50), index, waiting(&name, "CrashLoopBackOff", BACK_OFF))
                    };
                    pod["status"]["containerStatuses"].as_array_mut().unwrap().push(status);
                }
            })
            .not_ready("app-50", 50),
        case("restarts-of-all-kinds")
            .init(after(termination(1, "Error", 10), 5, done()))
            .sidecar(after(termination(1, "Error", 30), 3, running("mesh", 31)))
            .app(after(termination(1, "Error", 40), 2, running("app", 45)))
            .ready(46),
        case("restarts-while-initializing")
            .uninitialized("more")
            .init(after(termination(1, "Error", 10), 5, done()))
            .sidecar(after(termination(1, "Error", 30), 3, running("mesh", 31)))
            .init(after(termination(1, "Error", 40), 2, unready("more", 45)))
            .app(waiting("app", "PodInitializing", "")),
        case("terminated-without-restart").app(after(termination(1, "Error", 50), 0, running("app", 60))).ready(60),
        case("weird-phase").phase("Weird").app(unready("app", 5)),
        case("all-states-at-once").app(running("app", 5)).not_ready("app", 50).with(|pod| {
            pod["status"]["containerStatuses"][0]["state"] = json!({
                "running": {"startedAt": t(5)}, "terminated": termination(3, "Error", 50), "waiting": {"reason": "Odd"},
            });
        }),
        case("running-again-pending").phase("Pending").app(running("app", 5)).not_ready("app", 0),
    ]
}

/// The constructed pod with this name.
pub fn named(name: &str) -> Case {
    made().into_iter().find(|case| case.name() == name).unwrap_or_else(|| panic!("there is no case {name}"))
}
