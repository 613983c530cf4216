//! Judges pods with each kind of problem, and pods in each state that is never a problem.

use std::{sync::Arc, time::Duration};

use orchestr::{
    api::{ContainerKind, ProblemKind},
    diagnosis::{
        Facts, Finding, Health, JobFacts, LogChoice, Thresholds, Verdict, assess, is_healthy_under_any_thresholds,
    },
    pods::Pod,
};

use serde_json::{Value, json};

use crate::cases::{
    Case, after, at, case, condition, ended, failed_start, named, running, t, termination, unready, unstarted, waiting,
};

/// The verdict this many seconds after the pod's creation, with the default thresholds.
fn verdict(case: &Case, seconds: i64) -> Verdict {
    assess(&case.decode(), &Facts::default(), &Thresholds::default(), at(seconds))
}

#[track_caller]
fn problem(case: &Case, seconds: i64) -> Finding {
    match verdict(case, seconds).health {
        Health::Problem(finding) => *finding,
        other => panic!("{} after {seconds} s: {other:?}", case.name()),
    }
}

#[track_caller]
fn is(name: &str, seconds: i64, reason: &str, container: &str, message: &str) -> Finding {
    let found = problem(&named(name), seconds);
    assert_eq!(
        (found.reason.as_str(), found.container.as_str(), found.message.as_str()),
        (reason, container, message),
        "{name}",
    );
    found
}

/// Asserts that the pod is settling until just before `until`, and then has a problem with this reason since `since`.
#[track_caller]
fn settles(name: &str, until: i64, since: i64, reason: &str, container: &str, message: &str) -> Finding {
    let case = named(name);
    assert_eq!(
        verdict(&case, until - 1),
        Verdict { health: Health::Settling, recheck: Some(at(until)), lacks_job: false },
        "{name} before",
    );
    assert_eq!(verdict(&case, until).recheck, None, "{name} after");
    let found = is(name, until, reason, container, message);
    assert_eq!(found.since, at(since), "{name}");
    assert_eq!(found.tolerated.as_secs(), u64::try_from(until - since).unwrap(), "{name}");
    found
}

#[track_caller]
fn healthy(case: &Case, seconds: i64) {
    assert_eq!(
        verdict(case, seconds),
        Verdict { health: Health::Healthy, recheck: None, lacks_job: false },
        "{}",
        case.name()
    );
}

/// Whether the index may drop the pod if all thresholds for restarts are at most ten minutes.
fn is_always_healthy(case: &Case, seconds: i64) -> bool {
    is_healthy_under_any_thresholds(&case.decode(), Duration::from_secs(600), at(seconds))
}

fn logs(found: &Finding) -> Vec<(&str, LogChoice)> {
    found.containers.iter().map(|container| (container.name.as_str(), container.log)).collect()
}

#[test]
fn judges_each_constructed_pod() {
    for row in include_str!("../fixtures/judgement.tsv").lines().filter(|row| !row.starts_with('#')) {
        let columns: Vec<_> = row.split('\t').collect();
        let [name, seconds, since, reason, container, log, state, message] = columns.try_into().unwrap();
        let container = if container == "-" { "" } else { container };
        let found = match seconds.strip_prefix('<') {
            Some(until) => settles(name, until.parse().unwrap(), since.parse().unwrap(), reason, container, message),
            None => is(name, seconds.parse().unwrap(), reason, container, message),
        };
        if seconds == "51" && (since != "-" || log != "-") {
            assert_eq!(verdict(&named(name), 51).recheck, None, "{name}");
        }
        if since != "-" {
            assert_eq!(found.since, at(since.parse().unwrap()), "{name}");
        }
        match log {
            "-" => {}
            "none" => assert_eq!(logs(&found), [], "{name}"),
            log => assert_eq!(format!("{:?}", logs(&found)), format!("[({container:?}, {log})]"), "{name}"),
        }
        if state != "-" {
            assert_eq!(format!("{:?}", found.containers[0].state), state, "{name}");
        }
    }
    assert_eq!(problem(&named("err-image-pull").not_ready("app", 7), 51).since, at(7), "unready since");
    let init = problem(&named("init-crash-loop"), 51);
    assert_eq!((init.status.as_str(), init.containers[0].kind), ("Init:CrashLoopBackOff", ContainerKind::Init));
    assert_eq!(problem(&named("sidecar-crash-loop"), 51).containers[0].kind, ContainerKind::Sidecar);
    assert_eq!(logs(&problem(&named("creating"), 60)), [("app", LogChoice::NeverStarted)]);
    assert_eq!(problem(&named("initializing"), 305).status, "Init:0/1");
    // A completed container keeps the pod from being ready, and kubectl prints NotReady.
    assert_eq!(problem(&named("not-ready-completed"), 170).status, "NotReady");
    assert_eq!(problem(&named("many-containers"), 51).containers.len(), 10);
}

#[test]
fn the_limit_explains_no_other_error_than_an_oom_kill() {
    let limited = case("limited").app_with_limit("1Gi", ended("app", termination(1, "Error", 50)));
    assert_eq!(problem(&limited, 51).message, "container app exited with code 1");
}

#[test]
fn a_lost_log_is_that_of_the_previous_instance() {
    let lost = case("lost")
        .app(after(termination(1, "Error", 40), 1, ended("app", termination(137, "Unknown", 50))))
        .with(|pod| pod["status"]["containerStatuses"][0]["state"]["terminated"]["containerID"] = "".into());
    assert_eq!(logs(&problem(&lost, 51)), [("app", LogChoice::Previous)]);
}

#[test]
fn a_failed_pod_is_explained_by_what_failed_it() {
    assert_eq!(problem(&named("job-failed"), 51).owner.unwrap().kind, "Job");
    assert_eq!(logs(&problem(&named("evicted-killed"), 51)), [("app", LogChoice::Current)]);
    // A container that was restarted before the failure is not its cause.
    let earlier = named("restarting").phase("Failed");
    let found = problem(&earlier, 51);
    assert_eq!((found.reason.as_str(), found.containers.len()), ("Failed", 0));
    assert_eq!(verdict(&earlier, 51).recheck, None);
}

/// A case whose pod belongs to a Job.
fn of_job(name: &str) -> Pod {
    named(name).owned_by("Job", "sums").decode()
}

#[test]
fn ignores_failed_pods_of_a_complete_job() {
    let job = JobFacts { complete: true, ..JobFacts::default() };
    let complete = Facts { job: Some(Arc::new(job)), ..Facts::default() };
    for name in ["job-complete", "evicted"] {
        let verdict = assess(&of_job(name), &complete, &Thresholds::default(), at(51));
        assert_eq!(verdict, Verdict { health: Health::Healthy, recheck: None, lacks_job: false }, "{name}");
    }
    is("job-complete", 51, "Error", "app", "container app exited with code 1");
    let superseded = JobFacts { superseded: true, cron_job: Some("nightly".into()), ..JobFacts::default() };
    let facts = Facts { job: Some(Arc::new(superseded)), ..Facts::default() };
    assert_eq!(assess(&of_job("job-failed"), &facts, &Thresholds::default(), at(51)).health, Health::Healthy);
    let attempts = |attempts| JobFacts { attempts, ..JobFacts::default() };
    for (job, suffix) in [
        (attempts(Some((2, 6))), "; its Job retries: 2 of at most 7 attempts failed"),
        (attempts(Some((1, 0))), "; its Job retries: 1 of at most 1 attempts failed"),
        (attempts(Some((0, 6))), ""),
        (attempts(None), ""),
        (JobFacts { failed: Some(at(50)), ..attempts(Some((7, 6))) }, ""),
    ] {
        for (name, message) in
            [("job-failed", "container app exited with code 11"), ("failed-silently", "the pod has failed")]
        {
            let facts = Facts { job: Some(Arc::new(job.clone())), ..Facts::default() };
            let verdict = assess(&of_job(name), &facts, &Thresholds::default(), at(51));
            let Health::Problem(found) = verdict.health else { panic!("{name} has failed") };
            assert_eq!(found.message, format!("{message}{suffix}"), "{job:?}");
        }
    }
    // A running pod is judged as usual even if its Job is complete.
    let verdict = assess(&of_job("crash-loop-oom"), &complete, &Thresholds::default(), at(51));
    assert!(matches!(verdict.health, Health::Problem(_)));
}

#[test]
fn a_replaced_failed_pod_clears_after_its_threshold() {
    for name in ["evicted-killed", "failed-oom"] {
        let judged = |replaced, seconds| {
            let facts = Facts { replaced, ..Facts::default() };
            assess(&named(name).decode(), &facts, &Thresholds::default(), at(seconds))
        };
        assert!(matches!(judged(false, 1_000_000).health, Health::Problem(_)), "{name}");
        let replaced = judged(true, 50 + 3599);
        assert!(matches!(replaced.health, Health::Problem(_)) && replaced.recheck == Some(at(50 + 3600)), "{name}");
        assert_eq!(judged(true, 50 + 3600).health, Health::Healthy, "{name}");
    }
}

#[test]
fn reports_containers_that_failed_and_were_restarted() {
    for (name, reason, container, message) in [
        ("restarted", "CrashLoopBackOff", "app", "container app exited with code 1, 4 restarts; it runs again"),
        (
            "restarted-oom",
            "OOMKilled",
            "app",
            "container app was OOM-killed (exit 137), 1 restart, limit 512Mi; it runs again",
        ),
        ("restarted-sidecar", "Error", "mesh", "sidecar mesh exited with code 1, 1 restart; it runs again"),
    ] {
        let case = named(name);
        let found = is(name, 659, reason, container, message);
        assert_eq!((found.since, found.status.as_str()), (at(50), "Running"), "{name}");
        assert_eq!((found.kind, logs(&found)), (ProblemKind::Crash, vec![(container, LogChoice::Previous)]), "{name}");
        assert_eq!(verdict(&case, 659).recheck, Some(at(660)), "{name}: it runs since 60");
        healthy(&case, 660);
    }
    // When it ends, the next problem is reported.
    is("restarted-init", 659, "Error", "prep", "init container prep exited with code 1, 1 restart; it runs again");
    is("restarted-init", 660, "Initializing", "prep", "init container prep is still running");
    let found = is(
        "restarting",
        100,
        "Unknown",
        "app",
        "container app ended with Unknown (exit 255), 1 restart; it is being started again",
    );
    assert_eq!(logs(&found), [("app", LogChoice::Previous)]);
    assert_eq!(problem(&named("restarting"), 100_000).kind, ProblemKind::Crash, "it does not run yet");
}

#[test]
fn a_crash_is_over_only_when_the_readiness_probe_passes() {
    let crashed = |status| case("probed").app(after(termination(1, "Error", 50), 1, status)).not_ready("app", 60);
    let probe = |case: Case| case.with(|pod| pod["spec"]["containers"][0]["readinessProbe"] = json!({}));
    let unready_without_probe = crashed(unready("app", 60));
    assert_eq!(problem(&unready_without_probe, 661).kind, ProblemKind::NotReady);
    let found = problem(&probe(unready_without_probe), 100_000);
    assert_eq!((found.kind, found.reason.as_str()), (ProblemKind::Crash, "Error"));
    healthy(&probe(crashed(running("app", 60))).ready(70), 660);
}

#[test]
fn a_running_loop_of_exit_code_0_is_a_crash() {
    // As recorded: ended at 2, held back for ten seconds, started at 14.
    let ended_at = |seconds| termination(0, "Completed", seconds);
    let held_back = case("silent").app(after(ended_at(2), 2, running("app", 14))).ready(14);
    let found = problem(&held_back, 20);
    assert_eq!((found.kind, found.reason.as_str(), found.since), (ProblemKind::Crash, "CrashLoopBackOff", at(2)));
    assert_eq!(found.message, "container app ended without an error (exit 0), 2 restarts; it runs again");
    healthy(&held_back, 14 + 600);
    let mut again = ended_at(15);
    again["startedAt"] = t(14).into();
    let between = case("silent").app(after(ended_at(2), 2, ended("app", again))).not_ready("app", 15);
    assert_eq!(problem(&between, 20).kind, ProblemKind::Crash);

    healthy(&case("prompt").app(after(ended_at(2), 2, running("app", 3))).ready(3), 20);
    healthy(&case("once").app(after(ended_at(2), 1, running("app", 14))).ready(14), 20);
    healthy(&case("long").app(after(with_start(ended_at(2000), 100), 2, running("app", 2014))).ready(2014), 2020);
    // A back-off takes at least ten seconds, and ends after an instance that ran for ten minutes.
    for (ran, paused, kind) in [(599, 9, Some(ProblemKind::Crash)), (599, 8, None), (600, 9, None)] {
        let last = with_start(ended_at(1_000), 1_000 - ran);
        let start = 1_000 + paused;
        let pod = case("edge").app(after(last, 2, running("app", start))).ready(start);
        let found = match verdict(&pod, start + 1).health {
            Health::Problem(found) => Some(found.kind),
            _ => None,
        };
        assert_eq!(found, kind, "ran for {ran} s, was started again after {paused} s");
    }
    let on_failure = case("job").app(after(ended_at(2), 2, ended("app", ended_at(15)))).with(|pod| {
        pod["spec"]["restartPolicy"] = "OnFailure".into();
    });
    assert_ne!(problem(&on_failure.not_ready("app", 15), 500).kind, ProblemKind::Crash, "it has done its work");
}

fn with_start(mut termination: Value, seconds: i64) -> Value {
    termination["startedAt"] = t(seconds).into();
    termination
}

#[test]
fn a_completed_container_is_healthy_if_it_stays_so() {
    let recovered = |policy: &str| {
        let case =
            case("worker").app(after(termination(1, "Error", 50), 3, ended("app", termination(0, "Completed", 70))));
        case.with(|pod| pod["spec"]["restartPolicy"] = policy.into()).not_ready("app", 70)
    };
    assert_eq!(problem(&recovered("Always"), 71).kind, ProblemKind::Crash);
    assert_eq!(verdict(&recovered("OnFailure"), 71).health, Health::Settling);
}

#[test]
fn ignores_restarts_by_the_restart_policy_rules() {
    let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
    let with_rules = |case: Case| {
        case.with(|pod| {
            pod["spec"]["restartPolicy"] = "Never".into();
            pod["spec"]["containers"][0]["restartPolicyRules"] = rules.clone();
        })
    };
    let restarted =
        |code| with_rules(case("ruled").app(after(termination(code, "Error", 50), 3, running("app", 51))).ready(51));
    healthy(&restarted(42), 60);
    assert_eq!(problem(&restarted(41), 60).kind, ProblemKind::Crash);
    let ended = |code| with_rules(case("ruled").app(ended("app", termination(code, "Error", 50))).not_ready("app", 50));
    assert_eq!(verdict(&ended(42), 51).health, Health::Settling);
    assert_eq!(problem(&ended(41), 51).kind, ProblemKind::Crash);

    let held_back = |code, reason| {
        let waits = waiting("app", reason, "");
        with_rules(case("ruled").app(after(termination(code, "Error", 50), 3, waits)).not_ready("app", 50))
    };
    assert_eq!(verdict(&held_back(42, "CrashLoopBackOff"), 60).health, Health::Settling);
    assert_eq!(problem(&held_back(41, "CrashLoopBackOff"), 60).kind, ProblemKind::Crash);
    assert_eq!(problem(&held_back(42, "ErrImagePull"), 60).kind, ProblemKind::Image, "no rule asks for that");
    let always = |code| {
        let pod = case("ruled").app(after(termination(code, "Error", 50), 3, running("app", 65))).ready(65);
        with_rules(pod).with(|pod| pod["spec"]["restartPolicy"] = "Always".into())
    };
    healthy(&always(42), 70);
    assert_eq!(problem(&always(0), 70).kind, ProblemKind::Crash, "it was held back for 15 s");
}

#[test]
fn a_container_that_never_started_has_a_start_problem() {
    for (reason, started, kind, log) in [
        ("StartError", None, ProblemKind::Start, LogChoice::NeverStarted),
        ("StartError", Some(45), ProblemKind::Start, LogChoice::Current),
        ("ContainerCannotRun", Some(45), ProblemKind::Start, LogChoice::Current),
        ("Error", None, ProblemKind::Start, LogChoice::NeverStarted),
        ("Error", Some(45), ProblemKind::Crash, LogChoice::Current),
    ] {
        let end = match started {
            Some(seconds) => with_start(termination(128, reason, 50), seconds),
            None => failed_start(reason, "", 50),
        };
        let found = problem(&case("start").app(ended("app", end)), 51);
        assert_eq!((found.kind, logs(&found)), (kind, vec![("app", log)]), "{reason} {started:?}");
        let message = match (kind, reason) {
            (ProblemKind::Start, "StartError" | "ContainerCannotRun") => {
                "container app could not be started (exit 128)"
            }
            _ => "container app exited with code 128",
        };
        assert_eq!(found.message, message, "{reason} {started:?}");
    }
}

#[test]
fn the_kind_of_a_waiting_container_follows_from_its_reason() {
    for (waits, kind) in [
        ("ErrImagePull", ProblemKind::Image),
        ("ErrImageNeverPull", ProblemKind::Image),
        ("RegistryUnavailable", ProblemKind::Image),
        ("CrashLoopBackOff", ProblemKind::Crash),
        ("PostStartHookError", ProblemKind::Crash),
        ("CreateContainerConfigError", ProblemKind::Start),
        ("RunContainerError", ProblemKind::Start),
        ("SomethingNew", ProblemKind::Start),
    ] {
        assert_eq!(problem(&case("waits").app(waiting("app", waits, "")), 51).kind, kind, "{waits}");
    }
}

#[test]
fn a_waiting_container_has_the_most_specific_reason() {
    for (last, waits, reason) in [
        ("StartError", "RunContainerError", "StartError"),
        ("StartError", "CreateContainerError", "StartError"),
        ("StartError", "CreateContainerConfigError", "CreateContainerConfigError"),
        ("RunContainerError", "RunContainerError", "RunContainerError"),
    ] {
        let pod = case("waits").app(after(failed_start(last, "", 50), 2, waiting("app", waits, "")));
        assert_eq!(problem(&pod, 51).reason, reason, "{waits} after {last}");
    }
}

#[test]
fn reads_the_previous_log_only_if_the_present_one_is_lost() {
    let with_id = |mut termination: Value, id: &str| {
        termination["containerID"] = id.into();
        termination
    };
    for (id, last, log) in [
        ("containerd://b", Some("containerd://a"), LogChoice::Current),
        ("containerd://b", Some(""), LogChoice::Current),
        ("containerd://b", None, LogChoice::Current),
        ("", Some("containerd://a"), LogChoice::Previous),
        ("", Some(""), LogChoice::Current),
        ("", None, LogChoice::Current),
    ] {
        let present = ended("app", with_id(termination(137, "Error", 50), id));
        let status = match last {
            Some(last) => after(with_id(termination(1, "Error", 30), last), 1, present),
            None => present,
        };
        assert_eq!(logs(&problem(&case("ended").app(status), 51)), [("app", log)], "{id:?} after {last:?}");
    }
}

#[test]
fn names_the_signals_that_ended_a_container() {
    for (number, name) in [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (5, "SIGTRAP"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (15, "SIGTERM"),
        (31, "SIGSYS"),
        (10, ""),
        (0, ""),
        (-1, ""),
    ] {
        let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
        let by_code = case("code").app(ended("app", termination(128 + number, "Error", 50)));
        let code = 128 + number;
        assert_eq!(problem(&by_code, 51).message, format!("container app exited with code {code}{name}"));
        let mut by_signal = termination(0, "Error", 50);
        by_signal["signal"] = number.into();
        if number != 0 {
            let found = problem(&case("signal").app(ended("app", by_signal)), 51);
            assert_eq!(found.message, format!("container app was killed by signal {number}{name}"));
        }
    }
}

#[test]
fn ignores_restarts_by_a_resize() {
    let policy = |case: Case| {
        case.with(|pod| {
            pod["spec"]["containers"][0]["resizePolicy"] =
                json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
        })
    };
    let resizing = |case: Case| case.condition(condition("PodResizeInProgress", "True", "", "", 40));
    let before = policy(resizing(case("resized").app(running("app", 5)).ready(5)));
    assert!(!is_always_healthy(&before, 45), "what follows is judged by it");
    let ended = policy(resizing(case("resized").app(ended("app", termination(137, "Error", 50))).not_ready("app", 50)));
    assert_eq!(verdict(&ended, 51).health, Health::Settling);
    let after = policy(case("resized").app(after(termination(137, "Error", 50), 1, running("app", 51))).ready(51));
    let mut pod = after.decode();
    pod.update_history(Some(&before.decode()), at(51));
    assert_eq!(assess(&pod, &Facts::default(), &Thresholds::default(), at(52)).health, Health::Healthy);
    assert_eq!(problem(&after, 52).kind, ProblemKind::Crash, "unless the resize was not observed");
}

#[test]
fn a_crash_is_over_only_when_the_startup_probe_has_passed() {
    let restarted = |status| case("slow").app(after(termination(137, "Error", 50), 1, status)).not_ready("app", 60);
    assert_eq!(problem(&restarted(unstarted("app", 60)), 100_000).kind, ProblemKind::Crash);
    assert_eq!(problem(&restarted(unready("app", 60)), 100_000).kind, ProblemKind::NotReady);
}

#[test]
fn ignores_a_recreated_mirror_pod() {
    // Its container failed a day ago and has run since.
    let day = 24 * 3600;
    healthy(&case("mirror").app(after(termination(1, "Error", -day), 3, running("app", 10 - day))).ready(0), 30);
}

#[test]
fn a_failed_pull_has_one_reason_before_and_during_back_off() {
    for (waits, reason) in [
        ("ErrImagePull", "ImagePullBackOff"),
        ("ImagePullBackOff", "ImagePullBackOff"),
        ("InvalidImageName", "InvalidImageName"),
        ("ErrImageNeverPull", "ErrImageNeverPull"),
    ] {
        let found = problem(&case("image").app(waiting("app", waits, "")), 100);
        assert_eq!((found.kind, found.reason.as_str()), (ProblemKind::Image, reason), "{waits}");
    }
}

#[test]
fn reports_the_first_failure_that_has_not_ended() {
    let two = case("two")
        .app(after(termination(1, "Error", 50), 1, running("app", 60)))
        .app(after(termination(137, "OOMKilled", 80), 1, running("proxy", 90)))
        .ready(90);
    let found = problem(&two, 100);
    assert_eq!((found.reason.as_str(), found.since), ("Error", at(50)));
    assert_eq!(logs(&found), [("app", LogChoice::Previous), ("proxy", LogChoice::Previous)]);
    assert_eq!(found.others.iter().map(|cause| &*cause.container).collect::<Vec<_>>(), ["proxy"]);
    assert_eq!(verdict(&two, 100).recheck, Some(at(660)), "app is over");
    assert_eq!(logs(&problem(&two, 660)), [("proxy", LogChoice::Previous)]);
    assert_eq!(verdict(&two, 660).recheck, Some(at(690)));
    healthy(&two, 690);

    let third = two.app(waiting("third", "ErrImagePull", "")).app(ended("last", termination(2, "Error", 95)));
    let mut found = problem(&third, 100);
    assert_eq!((found.kind, found.container.as_str()), (ProblemKind::Image, "third"));
    let names = |found: &Finding| found.containers.iter().map(|c| c.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&found), ["third", "last", "app", "proxy"]);
    found.promote(1);
    assert_eq!((found.kind, found.container.as_str()), (ProblemKind::Crash, "app"));
    assert_eq!(names(&found), ["app", "third", "last", "proxy"]);
}

#[test]
fn orders_containers_by_the_spec() {
    let found = problem(
        &case("sorted").app(ended("z", termination(1, "Error", 50))).app(ended("a", termination(1, "Error", 50))).with(
            |pod| {
                pod["status"]["containerStatuses"].as_array_mut().unwrap().reverse();
            },
        ),
        51,
    );
    assert_eq!(found.container, "z");
}

#[test]
fn reports_a_silent_node_only_without_another_cause() {
    let unexplained = named("node-silent").condition(condition("ContainersReady", "False", "", "", 100));
    assert_eq!(problem(&unexplained, 220).message, "not ready");
}

#[test]
fn a_waiting_init_container_is_not_reported_as_not_ready() {
    let case = case("in-place-restart").init(waiting("prep", "PodInitializing", "")).app(unready("app", 5));
    assert_eq!(problem(&case.not_ready("app", 5), 500).container, "app");
}

#[test]
fn a_gate_that_is_removed_starts_the_wait_again() {
    let mut pod = named("unschedulable").decode();
    pod.update_history(Some(&named("gated").decode()), at(500));
    let verdict = |seconds| assess(&pod, &Facts::default(), &Thresholds::default(), at(seconds));
    assert_eq!(verdict(501), Verdict { health: Health::Settling, recheck: Some(at(560)), lacks_job: false });
    let Health::Problem(found) = verdict(560).health else { panic!("{:?}", verdict(560)) };
    assert_eq!((found.reason.as_str(), found.since), ("Unschedulable", at(500)));
    let mut later = named("unschedulable").decode();
    later.update_history(Some(&pod), at(550));
    assert_eq!(later.history.gate_removed, Some(at(500)), "it is removed once");
}

#[test]
fn waits_for_containers_since_the_last_step() {
    let after_sidecar = case("after").phase("Pending").sidecar(running("mesh", 40)).app(waiting("app", "", ""));
    assert_eq!(verdict(&after_sidecar, 99).recheck, Some(at(100)), "since the sidecar runs");
    let ended_sidecar = case("after")
        .phase("Pending")
        .sidecar(ended("mesh", termination(0, "Completed", 40)))
        .app(waiting("app", "", ""));
    assert_eq!(verdict(&ended_sidecar, 59).recheck, Some(at(60)), "a sidecar that ended is started again");
    let late = named("creating").condition(condition("PodScheduled", "True", "", "", 30));
    for (late, recheck) in [(late.clone(), 90), (late.with(|pod| pod["status"]["startTime"] = t(40).into()), 90)] {
        assert_eq!(verdict(&late, 59).recheck, Some(at(recheck)), "since it was scheduled");
    }
    let partly = case("partly").phase("Pending").init(ended("prep", termination(0, "Completed", 20)));
    let found = problem(&partly.unreported("containers", "app"), 80);
    assert_eq!((found.reason.as_str(), found.container.as_str()), ("ContainerCreating", ""));
    assert_eq!(found.message, "node node-7 has not reported on it yet");
}

#[test]
fn a_node_is_gone_only_if_the_pod_shows_it() {
    let running = "container app was not stopped by node node-7";
    for (status, reason, message) in [
        ("True", "DeletionByPodGC", "node node-7 is gone (DeletionByPodGC)"),
        ("True", "DeletionByTaintManager", "node node-7 has a taint that evicts the pod (DeletionByTaintManager)"),
        ("True", "PreemptionByScheduler", running),
        ("False", "DeletionByPodGC", running),
    ] {
        let pod = named("terminating").condition(condition("DisruptionTarget", status, reason, "", 20));
        assert_eq!(problem(&pod, 90).message, message, "{status} {reason}");
    }
    for (ready, reason, containers_ready, message) in [
        ("False", "", "True", "not ready: node node-7 has stopped reporting"),
        ("Unknown", "", "True", "not ready"),
        ("False", "", "False", "not ready"),
        ("False", "ReadinessGatesNotReady", "True", "not ready: ReadinessGatesNotReady"),
    ] {
        let pod = named("node-silent").condition(condition("Ready", ready, reason, "", 100)).condition(condition(
            "ContainersReady",
            containers_ready,
            "",
            "",
            100,
        ));
        assert_eq!(problem(&pod, 220).message, message, "{ready} {reason} {containers_ready}");
    }
    let nowhere = named("unknown").with(|pod| pod["spec"]["nodeName"] = "".into());
    assert_eq!(problem(&nowhere, 51).message, "its node does not report the pod's state");
}

#[test]
fn ignores_succeeded_pods() {
    for name in ["succeeded", "succeeded-sidecar-killed"] {
        healthy(&named(name), 1_000_000);
        assert!(is_always_healthy(&named(name), 1_000_000), "{name}");
    }
}

#[test]
fn ignores_pods_within_their_grace_period() {
    let crashing = named("crash-loop-oom").deleted(30, &[]);
    let killed = named("terminating-killed");
    for (case, seconds) in [(&crashing, 0), (&crashing, 89), (&killed, 89)] {
        let settling = Verdict { health: Health::Settling, recheck: Some(at(90)), lacks_job: false };
        assert_eq!(verdict(case, seconds), settling, "{} {seconds}", case.name());
    }
}

#[test]
fn ignores_sidecars_of_a_finished_pod() {
    assert_eq!(verdict(&named("finishing-sidecar-killed"), 61).health, Health::Settling);
    // Of a pod whose app failed, the app is the cause.
    let failed = case("failed")
        .sidecar(ended("mesh", termination(137, "Error", 60)))
        .app(ended("app", termination(1, "Error", 50)))
        .phase("Failed");
    let found = problem(&failed, 61);
    assert_eq!((found.container.as_str(), found.containers.len()), ("app", 1));
    // A pod is not finished while the state of a container is unknown.
    let unreported = named("finishing-sidecar-killed").unreported("containers", "more");
    assert_eq!(problem(&unreported, 61).container, "mesh");
    // While the app is running, a failing sidecar is a problem.
    assert_eq!(problem(&named("sidecar-error"), 61).container, "mesh");
}

#[test]
fn judges_an_annotated_pod_so_that_it_can_be_counted() {
    assert_eq!(problem(&named("ignored"), 51).reason, "OOMKilled");
    assert!(named("ignored").decode().ignored && !is_always_healthy(&named("ignored"), 51));
    let no = named("ignored").with(|pod| pod["metadata"]["annotations"]["kopf.dev/ignore"] = "false".into());
    assert!(!no.decode().ignored);
}

#[test]
fn a_running_sidecar_does_not_count_as_initializing() {
    healthy(&named("healthy-sidecar"), 1000);
    let found = problem(&named("initializing-after-sidecar"), 1000);
    assert_eq!((found.status.as_str(), found.containers.len()), ("Init:1/2", 1));
}

#[test]
fn healthy_pods_are_healthy_under_any_thresholds() {
    for name in ["healthy", "healthy-sidecar", "healthy-after-init", "healthy-after-failed-init", "completed-but-ready"]
    {
        healthy(&named(name), 10);
        assert!(is_always_healthy(&named(name), 10), "{name}");
    }
    for name in
        ["restarted", "not-ready", "creating", "terminating", "unknown", "evicted", "crash-loop-oom", "no-status"]
    {
        assert!(!is_always_healthy(&named(name), 61), "{name}");
    }
    assert!(
        !is_always_healthy(&named("restarted"), 60 + 599) && is_always_healthy(&named("restarted"), 60 + 600),
        "no threshold reaches further back"
    );
}

#[test]
fn a_state_without_a_time_counts_as_overdue() {
    let timeless = named("unschedulable").with(|pod| {
        pod["metadata"].as_object_mut().unwrap().remove("creationTimestamp");
        pod["status"]["conditions"][0].as_object_mut().unwrap().remove("lastTransitionTime");
    });
    let found = problem(&timeless, 7);
    assert_eq!((found.reason.as_str(), found.since), ("Unschedulable", at(7)));

    let restarted = named("restarted").with(|pod| {
        let status = &mut pod["status"]["containerStatuses"][0];
        status["lastState"]["terminated"]["finishedAt"] = serde_json::Value::Null;
    });
    assert_eq!(problem(&restarted, 100).since, at(60), "when it was started again");
}

#[test]
fn ignores_times_in_the_future() {
    let hour_ahead = case("ahead").app(unready("app", 5)).condition(condition("Ready", "False", "", "", 3600));
    assert_eq!(problem(&hour_ahead, 125).since, at(5));
    assert_eq!(verdict(&hour_ahead, 125).recheck, Some(at(3600 - 600)), "when it can be believed");
    let skewed = case("skewed").app(unready("app", 5)).condition(condition("Ready", "False", "", "", 100));
    assert_eq!(verdict(&skewed, 90), Verdict { health: Health::Settling, recheck: Some(at(220)), lacks_job: false });
}

#[test]
fn messages_are_one_bounded_line() {
    let hostile = case("hostile").app(waiting("app", &"R\n\u{1b}[31m".repeat(99), &"m\u{202e}\n".repeat(999)));
    let found = problem(&hostile, 1);
    assert!(found.reason.starts_with("R \u{fffd}[31mR") && found.reason.len() <= 128, "{}", found.reason);
    assert!(found.message.starts_with("container app is waiting to start: m m") && found.message.len() <= 1024);
    assert!(found.message.ends_with('…') && found.status.len() <= 128);
    let blank = case("blank").app(waiting("app", "\n", "\t"));
    assert_eq!(problem(&blank, 1).reason, "Unknown");
    let blank = case("blank").phase("Failed").because("\u{2028}", "");
    assert_eq!(problem(&blank, 1).reason, "Failed");
}

#[test]
fn uses_the_given_thresholds() {
    let pod = named("not-ready").decode();
    let thresholds = Thresholds { not_ready: Duration::from_secs(7), ..Thresholds::default() };
    assert_eq!(assess(&pod, &Facts::default(), &thresholds, at(11)).recheck, Some(at(12)));
    assert!(matches!(assess(&pod, &Facts::default(), &thresholds, at(12)).health, Health::Problem(_)));
    let never = Thresholds { not_ready: Duration::MAX, ..Thresholds::default() };
    assert_eq!(assess(&pod, &Facts::default(), &never, at(12)).health, Health::Settling);
}
