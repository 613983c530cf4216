use jiff::SignedDuration;
use orchestr_testbed::objects;
use serde_json::{Value, json};

use super::*;
use crate::{diagnosis::Facts, events::InvolvedObject};

const LIMITS: Limits = Limits {
    grace: Duration::from_secs(30),
    crash_grace: Duration::from_secs(120),
    restarts: 3,
    stable: Duration::from_secs(10),
};

/// A wait that began at this time.
fn check(begun: Timestamp) -> Check {
    Check { limits: LIMITS, begun, is_single: false, now: now() }
}

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

/// A pod whose only container has this status, and which started this many seconds ago.
fn pod(age: i64, container: Value) -> Pod {
    pod_with(age, container, json!({}))
}

fn pod_with(age: i64, container: Value, changes: Value) -> Pod {
    let app = json!({"name": "app", "image": "registry.example/cart:9"});
    let base = json!({
        "metadata": {"creationTimestamp": ago(age)}, "spec": {"nodeName": "n", "containers": [app]},
        "status": objects::status("Pending", false, &ago(age), [objects::container("app", container)]),
    });
    let mut pod = objects::pod("shop", "cart-a", base);
    for (field, value) in changes.as_object().unwrap() {
        *pod.pointer_mut(field).unwrap() = value.clone();
    }
    crate::pods::from_json(&pod.to_string()).unwrap()
}

fn waits(reason: &str, message: &str) -> Value {
    json!({"state": {"waiting": {"reason": reason, "message": message}}})
}

fn crashed(restarts: i32, ran: i64, exit_code: i32) -> Value {
    json!({
        "restartCount": restarts, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "lastState": {"terminated": {"exitCode": exit_code, "reason": "Error", "startedAt": ago(5 + ran), "finishedAt": ago(5)}},
    })
}

fn event(reason: &str, message: &str, last: i64) -> Event {
    let involved = InvolvedObject { kind: "Pod".to_owned(), ..InvolvedObject::default() };
    let last = Some(now() - SignedDuration::from_secs(last));
    Event {
        involved,
        related: None,
        reason: reason.to_owned(),
        message: message.to_owned(),
        count: 3,
        first: last,
        last,
    }
}

/// The pod as it is seen now, of which an earlier version was seen when it started.
fn observed(pod: &Pod) -> Observed {
    let started = pod.started.unwrap_or(now());
    let mut before = Pod { init_statuses: Vec::new(), statuses: Vec::new(), ..pod.clone() };
    before.phase = "Pending".into();
    let before = Observed::new(before, None, started);
    let first = Observed::new(pod.clone(), Some(&before), started);
    Observed::new(pod.clone(), Some(&first), now())
}

fn known(events: &[Event]) -> Facts {
    Facts { events: events.into(), ..Facts::default() }
}

fn outlook_of(pod: &Pod, events: &[Event], fate: Fate) -> Outlook {
    assessed(&observed(pod), events, fate)
}

fn assessed(observed: &Observed, events: &[Event], fate: Fate) -> Outlook {
    let assessment = assess(observed, &known(events), fate, check(Timestamp::UNIX_EPOCH));
    let outlook = assessment.trouble.as_ref().expect("a trouble").outlook;
    if let Outlook::HopelessAt(time) = outlook {
        assert!(time > now() && assessment.recheck.is_some_and(|recheck| recheck <= time), "{assessment:?}");
    }
    outlook
}

fn outlook(pod: &Pod) -> Outlook {
    outlook_of(pod, &[], Fate::Replaced)
}

fn at(seconds: i64) -> Outlook {
    Outlook::HopelessAt(now() + SignedDuration::from_secs(seconds))
}

#[test]
fn an_image_that_does_not_exist_is_hopeless() {
    let not_found = "failed to pull and unpack image \"registry.example/cart:9\": failed to resolve reference \
         \"registry.example/cart:9\": registry.example/cart:9: not found";
    let back_off = format!("Back-off pulling image \"registry.example/cart:9\": ErrImagePull: {not_found}");
    for (reason, message) in [
        ("ErrImagePull", not_found),
        ("ImagePullBackOff", &back_off),
        ("InvalidImageName", "couldn't parse image name"),
        ("ErrImagePull", "no match for platform in manifest: not found"),
    ] {
        assert_eq!(outlook(&pod(3, waits(reason, message))), Outlook::Hopeless, "{reason}: {message}");
    }
    for message in [
        "dial tcp: lookup registry.example: no such host",
        "toomanyrequests: You have reached your pull rate limit",
        "write /var/lib/containerd: no space left on device",
        "",
    ] {
        assert_eq!(outlook(&pod(3600, waits("ErrImagePull", message))), Outlook::MayMend, "{message}");
    }
}

#[test]
fn refused_access_to_an_image_is_hopeless_after_the_grace() {
    let refused = "failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized";
    let docker_hub = "pull access denied, repository does not exist or may require authorization: server message: \
         insufficient_scope: authorization failed";
    for (reason, message) in [
        ("ErrImagePull", refused),
        ("ErrImagePull", docker_hub),
        ("ErrImageNeverPull", "Container image \"a\" is not present with pull policy of Never"),
    ] {
        assert_eq!(outlook(&pod(3, waits(reason, message))), at(57), "{message}");
        assert_eq!(outlook(&pod(61, waits(reason, message))), Outlook::Hopeless, "{message}");
        let pod = pod(40, waits(reason, message));
        let attempt = |last| event("Failed", "Failed to pull image \"a\": no", last);
        assert_eq!(outlook_of(&pod, &[attempt(15)], Fate::Replaced), at(20), "an attempt within the grace");
        assert_eq!(outlook_of(&pod, &[attempt(9)], Fate::Replaced), Outlook::Hopeless, "an attempt after it");
    }
}

#[test]
fn a_missing_config_map_is_hopeless_after_the_grace() {
    for message in ["configmap \"app\" not found", "secret \"db\" not found", "couldn't find key URL in Secret shop/db"]
    {
        let waits = || waits("CreateContainerConfigError", message);
        assert_eq!(outlook(&pod(3, waits())), at(57), "{message}");
        assert_eq!(outlook(&pod(40, waits())), at(20), "{message}");
        assert_eq!(outlook(&pod(60, waits())), Outlook::Hopeless, "{message}");
        let failed = |last| event("Failed", &format!("Error: {message}"), last);
        assert_eq!(outlook_of(&pod(40, waits()), &[failed(2)], Fate::Replaced), Outlook::Hopeless);
        assert_eq!(outlook_of(&pod(40, waits()), &[failed(20)], Fate::Replaced), at(20));
        // Events about images are repeated without another attempt.
        let other = event("Failed", "Error: ImagePullBackOff", 2);
        assert_eq!(outlook_of(&pod(40, waits()), &[other], Fate::Replaced), at(20));
    }
    // It was waiting for something else before.
    let waits = || waits("CreateContainerConfigError", "configmap \"app\" not found");
    let before = Observed::new(pod(300, json!({"state": {"waiting": {"reason": "PodInitializing"}}})), None, now());
    let seen = Observed::new(pod(300, waits()), Some(&before), now() - SignedDuration::from_secs(10));
    assert_eq!(assessed(&seen, &[], Fate::Replaced), at(50));
    // It has lasted for longer than the wait, and only an event shows since when.
    let seen = Observed::new(pod(300, waits()), None, now());
    assert_eq!(assessed(&seen, &[], Fate::Replaced), at(60));
    let mut failed = event("Failed", "Error: configmap \"app\" not found", 2);
    failed.first = Some(now() - SignedDuration::from_secs(50));
    assert_eq!(assessed(&seen, &[failed], Fate::Replaced), Outlook::Hopeless);
    assert_eq!(
        outlook(&pod(
            3600,
            json!({"state": {"waiting": {"reason": "CreateContainerConfigError", "message": "failed to sync configmap cache"}}})
        )),
        Outlook::MayMend
    );
}

#[test]
fn a_missing_config_map_is_hopeless_after_another_attempt() {
    let creating = |age| pod(age, waits("ContainerCreating", ""));
    let mount = |last| {
        event("FailedMount", "MountVolume.SetUp failed for volume \"config\" : configmap \"app\" not found", last)
    };
    assert_eq!(outlook(&creating(3600)), Outlook::MayMend, "no event says why");
    assert_eq!(outlook_of(&creating(20), &[mount(4)], Fate::Replaced), at(40));
    assert_eq!(
        outlook_of(&creating(45), &[mount(20)], Fate::Replaced),
        at(15),
        "the ConfigMap may have been created since"
    );
    assert_eq!(outlook_of(&creating(45), &[mount(5)], Fate::Replaced), Outlook::Hopeless);
}

#[test]
fn a_command_that_cannot_be_run_is_hopeless() {
    for error in [
        "exec: \"/no/such\": stat /no/such: no such file or directory: unknown",
        "exec: \"/app/run.sh\": permission denied: unknown",
    ] {
        let message =
            format!("failed to create containerd task: runc create failed: unable to start container process: {error}");
        for fate in [Fate::Replaced, Fate::Retried, Fate::Final] {
            assert_eq!(
                outlook_of(&pod(3, waits("RunContainerError", &message)), &[], fate),
                Outlook::Hopeless,
                "{error}"
            );
        }
        let ended = json!({"state": {"terminated": {"exitCode": 128, "reason": "StartError", "message": message,
            "startedAt": "1970-01-01T00:00:00Z", "finishedAt": ago(1)}}});
        let failed = pod_with(3, ended, json!({"/status/phase": "Failed"}));
        assert_eq!(outlook_of(&failed, &[], Fate::Retried), Outlook::Hopeless, "each retry of the Job fails alike");
    }
    let other = waits("RunContainerError", "failed to create shim task: context deadline exceeded");
    assert_eq!(outlook(&pod(3600, other)), Outlook::MayMend);
}

#[test]
fn a_crash_loop_is_hopeless_after_restarts_and_time() {
    assert_eq!(outlook(&pod(600, crashed(2, 200, 1))), Outlook::MayMend, "two restarts");
    assert_eq!(outlook(&pod(600, crashed(3, 200, 1))), Outlook::Hopeless);
    assert_eq!(outlook(&pod(600, crashed(9, 200, 0))), Outlook::Hopeless, "exit code 0 again and again");
    assert_eq!(outlook(&pod(600, crashed(3, 45, 1))), at(70), "its database may still be starting");
    assert_eq!(outlook(&pod(4000, crashed(3, 3000, 1))), Outlook::MayMend, "it ran for 50 minutes");
    let mut running = crashed(5, 200, 1);
    running["state"] = json!({"running": {"startedAt": ago(4)}});
    assert_eq!(outlook(&pod(600, running)), Outlook::MayMend, "it runs again");
    assert_eq!(
        outlook_of(&pod(600, crashed(9, 200, 1)), &[], Fate::Retried),
        Outlook::MayMend,
        "its Job counts restarts"
    );
    // An earlier instance was seen.
    let first = Observed::new(pod(600, crashed(0, 100, 1)), None, now());
    let later = Observed::new(pod(600, crashed(3, 60, 1)), Some(&first), now());
    assert_eq!(assessed(&later, &[], Fate::Replaced), at(15));
    let never_started = json!({
        "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "lastState": {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such device",
            "startedAt": "1970-01-01T00:00:00Z", "finishedAt": ago(130)}},
    });
    assert_eq!(outlook(&pod(600, never_started)), Outlook::Hopeless);
}

#[test]
fn a_container_that_its_probe_kills_may_only_be_slow() {
    for code in [137, 143] {
        let mut slow = pod(600, crashed(9, 200, code));
        slow.containers[0].startup_probe = Some(Box::default());
        assert_eq!(outlook(&slow), Outlook::MayMend, "{code}");
    }
    assert_eq!(outlook(&pod(600, crashed(9, 200, 137))), Outlook::Hopeless, "it has no probe");
}

#[test]
fn a_failed_pod_is_hopeless_if_nothing_replaces_it() {
    let ended =
        json!({"state": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": ago(9), "finishedAt": ago(5)}}});
    for status in [
        json!({"/status/phase": "Failed"}),
        json!({"/status/phase": "Failed", "/status": {"phase": "Failed", "reason": "Evicted"}}),
    ] {
        let failed = pod_with(20, ended.clone(), status);
        assert_eq!(outlook_of(&failed, &[], Fate::Final), Outlook::Hopeless);
        assert_eq!(outlook_of(&failed, &[], Fate::Replaced), Outlook::MayMend);
        assert_eq!(outlook_of(&failed, &[], Fate::Retried), Outlook::MayMend);
    }
}

#[test]
fn whatever_is_only_slow_may_mend() {
    let running = json!({"state": {"running": {"startedAt": ago(3000)}}});
    let unschedulable = json!({"/spec/nodeName": "", "/status/conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu."}]});
    for pod in [
        pod(3600, waits("ContainerCreating", "")),
        pod(3600, waits("PodInitializing", "")),
        pod_with(3600, running, json!({"/status/phase": "Running"})),
        pod_with(3600, json!({}), unschedulable),
        pod(3600, waits("CreateContainerError", "context deadline exceeded")),
    ] {
        for fate in [Fate::Replaced, Fate::Retried, Fate::Final] {
            assert_eq!(outlook_of(&pod, &[], fate), Outlook::MayMend, "{pod:?}");
        }
    }
}

#[test]
fn the_worst_container_decides() {
    let mut two = pod(600, crashed(1, 3, 1));
    let mut other = two.statuses[0].clone();
    other.name = "proxy".into();
    other.state.waiting = Some(crate::pods::Waiting { reason: "InvalidImageName".into(), message: "no".into() });
    other.last = None;
    two.statuses.push(other);
    let assessment = assess(&observed(&two), &known(&[]), Fate::Replaced, check(Timestamp::UNIX_EPOCH));
    let trouble = assessment.trouble.unwrap();
    assert_eq!((trouble.outlook, trouble.finding.container.as_str()), (Outlook::Hopeless, "proxy"));
}

#[test]
fn a_container_that_failed_must_outlive_its_longest_run() {
    // It failed after this many seconds, and has been running again for so many.
    let status = |failed_after: i64, seconds: i64| {
        json!({
            "ready": true, "started": true, "restartCount": 2, "state": {"running": {"startedAt": ago(seconds)}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled",
                "startedAt": ago(seconds + failed_after), "finishedAt": ago(seconds)}},
        })
    };
    let ready = |status: Value| {
        let ready = json!([{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]);
        pod_with(4000, status, json!({"/status/phase": "Running", "/status/conditions": ready}))
    };
    let assessed = |observed: &Observed| assess(observed, &known(&[]), Fate::Replaced, check(Timestamp::UNIX_EPOCH));
    for (failed_after, outlived) in [(0, 10), (5, 15), (60, 70), (300, 310), (599, 609), (600, 10), (3600, 10)] {
        let after = |seconds| assessed(&observed(&ready(status(failed_after, seconds))));
        let mended = after(outlived);
        // The operator reports it until it has run for ten minutes.
        let is_reported = outlived < 600;
        assert_eq!(mended.trouble.map(|own| own.outlook), is_reported.then_some(Outlook::Mended), "{failed_after}");
        let until = is_reported.then(|| now() + SignedDuration::from_secs(600 - outlived));
        assert_eq!(mended.recheck, until, "{failed_after}");
        let Assessment { trouble: Some(trouble), recheck } = after(outlived - 6) else { panic!("{failed_after}") };
        assert_eq!((trouble.outlook, recheck), (Outlook::MayMend, Some(now() + SignedDuration::from_secs(6))));
    }
    // Each container must outlive its own runs only.
    let mut two = ready(status(2, 20));
    let mut other = ready(status(540, 560)).statuses.remove(0);
    other.name = "proxy".into();
    two.statuses.push(other);
    assert_eq!(assessed(&observed(&two)).trouble.map(|own| own.outlook), Some(Outlook::Mended));
    // The pod shows the last run only. A longer one was seen before.
    let long = Observed::new(ready(status(90, 30)), None, now());
    let outlook = |seconds| {
        let observed = Observed::new(ready(status(5, seconds)), Some(&long), now());
        assessed(&observed).trouble.map(|trouble| trouble.outlook)
    };
    assert_eq!((outlook(99), outlook(100)), (Some(Outlook::MayMend), Some(Outlook::Mended)));
}

/// What an old pod needs may have been repaired just before the wait, while it is in a back-off.
#[test]
fn what_failed_before_the_wait_must_fail_again() {
    let decided = |observed: &Observed, events: &[Event], check: Check| {
        let assessment = assess(observed, &known(events), Fate::Replaced, check);
        assessment.trouble.expect("a trouble").outlook
    };
    let old = |status: Value| Observed::new(pod(600, status), None, now());
    let begun = |seconds: i64| check(now() - SignedDuration::from_secs(seconds));
    let once = Check { is_single: true, ..begun(0) };

    // It crashed 5 s ago.
    let crashing = old(crashed(9, 200, 1));
    assert_eq!(decided(&crashing, &[], begun(3)), Outlook::MayMend);
    assert_eq!(decided(&crashing, &[], begun(8)), Outlook::Hopeless, "it has crashed again since");
    assert_eq!(decided(&crashing, &[], begun(590)), Outlook::Hopeless, "the pod was created about when the wait began");
    assert_eq!(decided(&crashing, &[], once), Outlook::Hopeless, "nothing follows");

    let pull = |last| event("Failed", "Failed to pull image \"a\": no", last);
    let no_image = || waits("ImagePullBackOff", "Back-off pulling image \"a\": ErrImagePull: a: not found");
    assert_eq!(decided(&old(no_image()), &[pull(40)], begun(30)), Outlook::MayMend);
    assert_eq!(decided(&old(no_image()), &[pull(20)], begun(30)), Outlook::Hopeless);
    assert_eq!(decided(&old(no_image()), &[], once), Outlook::Hopeless);
    // Without events, the status shows another attempt as well.
    let again = pod(600, waits("ErrImagePull", "a: not found"));
    let again = Observed::new(again, Some(&old(no_image())), now());
    assert_eq!(decided(&again, &[], begun(30)), Outlook::Hopeless);
    assert_eq!(decided(&old(waits("InvalidImageName", "no")), &[], begun(30)), Outlook::Hopeless);

    let missing = || old(waits("CreateContainerConfigError", "configmap \"app\" not found"));
    let young =
        |age| Observed::new(pod(age, waits("CreateContainerConfigError", "secret \"db\" not found")), None, now());
    assert_eq!(decided(&missing(), &[], once), Outlook::Hopeless, "the pod shows how long it has lasted");
    assert_eq!(decided(&young(29), &[], once), at(1), "within the grace");
    assert_eq!(decided(&young(30), &[], once), Outlook::Hopeless, "a single check sees no other attempt");
    // It has crashed three times; its last run began 65 s ago.
    let crashing = |age| Observed::new(pod(age, crashed(3, 60, 137)), None, now());
    assert_eq!(decided(&crashing(110), &[], once), at(10));
    assert_eq!(decided(&crashing(130), &[], once), Outlook::Hopeless);
    let failed = |last| {
        let mut event = event("Failed", "Error: configmap \"app\" not found", last);
        event.first = Some(now() - SignedDuration::from_secs(590));
        event
    };
    assert_eq!(decided(&missing(), &[failed(45)], begun(40)), at(320), "no attempt since the wait began");
    assert_eq!(decided(&missing(), &[failed(15)], begun(40)), at(320), "an attempt within the grace");
    assert_eq!(decided(&missing(), &[failed(5)], begun(40)), Outlook::Hopeless, "an attempt after it");
    assert_eq!(decided(&missing(), &[failed(5)], once), Outlook::Hopeless);
    // An old pod that was not scheduled before.
    let waiting = waits("CreateContainerConfigError", "configmap \"app\" not found");
    let during = Observed::new(pod(600, waiting), Some(&old(json!({}))), now() - SignedDuration::from_secs(10));
    assert_eq!(decided(&during, &[], begun(40)), at(50), "it began during the wait");
}

/// A dependency that restarts makes a container crash that has run for days, and was restarted before.
#[test]
fn restarts_before_a_long_run_do_not_count() {
    let day = 86_400;
    let running = json!({"restartCount": 7, "state": {"running": {"startedAt": ago(day)}}});
    let first = Observed::new(pod(2 * day, running), None, now() - SignedDuration::from_secs(60));
    let crashed = |restarts: i32, from: i64, to: i64| {
        let ended =
            json!({"terminated": {"exitCode": 1, "reason": "Error", "startedAt": ago(from), "finishedAt": ago(to)}});
        json!({"restartCount": restarts, "lastState": ended,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}})
    };
    let next = |restarts, from, to, before: &Observed| {
        Observed::new(pod(2 * day, crashed(restarts, from, to)), Some(before), now())
    };
    let long = next(7, day, 50, &first);
    assert_eq!(assessed(&long, &[], Fate::Replaced), Outlook::MayMend);
    let short = next(8, 40, 39, &long);
    assert_eq!(assessed(&short, &[], Fate::Replaced), Outlook::MayMend, "one restart");
    // The end of the long run was missed.
    assert_eq!(assessed(&next(9, 20, 19, &first), &[], Fate::Replaced), Outlook::MayMend);
    let third = next(10, 25, 24, &short);
    assert_eq!(assessed(&third, &[], Fate::Replaced), at(80), "three restarts within two minutes");
    let late = next(10, 25, 24, &next(8, 140, 139, &next(7, day, 150, &first)));
    assert_eq!(assessed(&late, &[], Fate::Replaced), Outlook::Hopeless);
}
