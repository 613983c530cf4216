//! Tests that no input makes a status too large, unreadable, or wrong in its counts.

use std::sync::Arc;

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::{
    diagnosis::{ChangeDetail, TemplateChange, TemplateChanges},
    logs::clean_text,
    report::{
        fair,
        fit::{LOG_ROOM, MAX_INCIDENTS, budget},
        incidents, json_size, problem,
        truncate::{self, CONDITION_MESSAGE_LIMIT},
        wire::wire_time,
    },
};

/// Checks the invariants of a status.
fn check(scenario: &Scenario, status: &OrchestrStatus) {
    let written = serde_json::to_string(status).unwrap();
    assert!(written.len() <= budget(false), "{} bytes", written.len());
    assert!(json_size::size(status) <= budget(false), "{} bytes as Go writes them", json_size::size(status));
    assert_eq!(serde_json::from_str::<OrchestrStatus>(&written).unwrap(), *status);

    let total = i64::try_from(scenario.pods.len()).unwrap();
    assert_eq!(status.problematic_pod_count, total);
    assert_eq!(i64::try_from(status.problematic_pods.len()).unwrap() + status.omitted_pods, total);
    assert!(status.problematic_pods.len() <= scenario.max_pods);
    if status.omitted_incidents == 0 {
        assert_eq!(status.incidents.iter().map(|incident| incident.pods).sum::<i64>(), total);
    }
    assert!(status.incidents.len() <= MAX_INCIDENTS);
    check_messages(status);

    for shown in &status.problematic_pods {
        let is_shown =
            |pod: &Pod| shown.name == truncate::name(&pod.name) && shown.namespace == truncate::name(&pod.namespace);
        let (pod, finding) = scenario.pods.iter().find(|(pod, _)| is_shown(pod)).unwrap();
        let omitted = finding.containers.len() - shown.container_issues.len();
        assert_eq!(shown.message.ends_with("left out to fit the status"), omitted > 0);
        assert!(omitted == 0 || shown.message.contains(&omitted.to_string()), "{}", shown.message);
        for (issue, container) in shown.container_issues.iter().zip(&finding.containers) {
            let whole = clean_text(&container.message, None, usize::MAX);
            assert!(is_beginning(&issue.message, &whole));
            match scenario.tails.get(&(pod.uid, container.name.to_string())) {
                None => assert_eq!((issue.log_source, &*issue.logs, &*issue.log_note), (None, "", "")),
                Some(tail) => check_log(issue, tail),
            }
        }
    }
}

fn check_messages(status: &OrchestrStatus) {
    assert!(status.conditions.iter().all(|condition| condition.message.len() <= CONDITION_MESSAGE_LIMIT));
}

fn check_log(issue: &crate::api::ContainerIssue, tail: &Tail) {
    assert_eq!(issue.log_source, Some(tail.source));
    assert!(tail.text.ends_with(&issue.logs), "a log keeps its end");
    let note = match issue.logs.len() {
        whole if whole == tail.text.len() => tail.note.clone(),
        0 => format!("{}; left out to fit the status", tail.note),
        bytes => format!("{}; shortened to {bytes} bytes to fit the status", tail.note),
    };
    assert_eq!(issue.log_note, note.trim_start_matches("; "));
}

fn is_beginning(shown: &str, whole: &str) -> bool {
    shown == whole || shown.strip_suffix('…').is_some_and(|shown| whole.starts_with(shown))
}

/// The row of a pod without any limits except those on names.
fn whole(problem: &problem::Problem<'_>, scenario: &Scenario) -> crate::api::PodProblem {
    let mut shown = problem.show(&problem::Detail::FULL);
    for issue in &mut shown.container_issues {
        if let Some(tail) = scenario.tails.get(&(problem.pod.uid, issue.name.clone())) {
            issue.logs = tail.text.to_string();
            issue.log_source = Some(tail.source);
            issue.log_note.clone_from(&tail.note);
        }
    }
    shown
}

/// A text of up to `limit` bytes: plain lines, or characters that take the most room or break easily.
fn text(limit: usize) -> impl Strategy<Value = String> {
    let unit =
        select(vec!["a", "one line of a log\n", "\u{1}", "é", "💥", "\"\\", "<&>", "\n", "\u{2028}", "a\u{202e}"]);
    let length = prop_oneof![4 => 0..limit.min(200), 1 => 0..=limit];
    (unit, length).prop_map(|(unit, length)| unit.repeat(length / unit.len()))
}

prop_compose! {
    fn a_container()(message in text(4096), last in text(4096), reason in text(300), log in prop::option::of((text(65_536), text(40))))
        -> (ContainerFinding, Option<Tail>)
    {
        let mut container = container("");
        container.message = message.into();
        container.reason = reason.into();
        container.last_termination = Some(Terminated { message: last.into(), ..Terminated::default() });
        let tail = log.map(|(text, note)| Tail {
            source: LogSource::Current,
            note: note.replace(';', ""),
            telling_line: text.chars().take(160).collect::<String>().into(),
            ..tail(&text)
        });
        (container, tail)
    }
}

prop_compose! {
    fn a_pod()(
        namespace in select(vec!["shop", "ml", "\u{1}"]),
        owner in text(300),
        reason in prop_oneof![select(vec!["Error", "OOMKilled"]).prop_map(str::to_owned), text(4096)],
        owned in any::<bool>(),
        since in -5i64..2000,
        nanoseconds in 0i32..1_000_000_000,
        message in text(4096),
        containers in vec(a_container(), 0..5),
    ) -> (Pod, Finding, Vec<Option<Tail>>) {
        let (pod, mut finding) = crashing(namespace, &owner, &reason, 0);
        finding.since = Timestamp::new(since, if since < 0 { -nanoseconds } else { nanoseconds }).unwrap();
        finding.message = message.into();
        finding.owner = finding.owner.filter(|_| owned);
        let (found, tails) = containers.into_iter().unzip();
        finding.containers = found;
        (pod, finding, tails)
    }
}

prop_compose! {
    fn a_scenario()(pods in vec(a_pod(), 0..40), copies in 1usize..5, max_pods in select(vec![1, 10, 50, 500])) -> Scenario {
        let mut scenario = Scenario { max_pods, ..Scenario::default() };
        for (pod, finding, tails) in (0..copies).flat_map(|_| pods.iter().cloned()) {
            let index = scenario.pods.len();
            let uid = Uid::from(index as u128);
            let pod = Pod { uid, name: format!("pod-{index}").into(), ..pod };
            let mut finding = finding;
            for (index, (container, tail)) in finding.containers.iter_mut().zip(tails).enumerate() {
                container.name = format!("c{index}").into();
                if let Some(tail) = tail {
                    scenario.tails.insert((uid, container.name.to_string()), tail);
                }
            }
            scenario.pods.push((pod, finding));
        }
        scenario
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_input_gives_a_valid_reproducible_status(scenario in a_scenario(), order in any::<u64>()) {
        let status = scenario.status(None);
        check(&scenario, &status);

        let written = serde_json::to_string(&status).unwrap();
        let read: OrchestrStatus = serde_json::from_str(&written).unwrap();
        let mut later = Scenario { now: at(5000), ..scenario };
        let again = later.status(Some(&read));
        prop_assert_eq!(&again.incidents, &read.incidents);
        prop_assert_eq!(&again.problematic_pods, &read.problematic_pods);
        prop_assert_eq!(differs(Some(&read), &again), Change::None);

        let middle = later.pods.len().min(usize::try_from(order % 64).unwrap());
        later.pods.rotate_left(middle);
        later.pods.reverse();
        let mut again = later.status(Some(&read));
        prop_assert_eq!(again.last_check_time.take(), Some(wire_time(later.now)));
        again.last_check_time = read.last_check_time;
        prop_assert_eq!(serde_json::to_string(&again).unwrap(), written);

        let denied = not_watching(&NotWatching::PodAccessDenied { message: "x".repeat(9000) }, 3, Some(&status), at(6000));
        check_messages(&denied);
        prop_assert!(json_size::size(&denied) <= budget(false));
        prop_assert_eq!(denied.problematic_pods.len() as i64 + denied.omitted_pods, denied.problematic_pod_count);
    }

    /// Nothing is cut while it fits.
    #[test]
    fn cuts_only_what_does_not_fit(scenario in a_scenario()) {
        let status = scenario.status(None);
        let mut uncut = status.clone();
        uncut.problematic_pods = scenario.with_input(None, |input| {
            let problems = problem::ordered(&input.findings, input.masking);
            let lookup = incidents::Lookup { workload: input.find_workload, ownership: input.find_ownership };
            let incidents = incidents::ordered(&problems, &[], input.tracker, lookup);
            let mut picked = fair::pick(&problems, &incidents, scenario.max_pods);
            picked.sort_by_key(|problem| problem.order());
            picked.into_iter().map(|problem| whole(problem, &scenario)).collect()
        });
        let whole = status.problematic_pods == uncut.problematic_pods;
        prop_assert!(!whole || json_size::size(&uncut) <= budget(false));
        // A comma and some digits may be counted too many, and for each log the room that is kept for it.
        let containers: usize = uncut.problematic_pods.iter().map(|pod| pod.container_issues.len()).sum();
        prop_assert!(whole || json_size::size(&uncut) + 32 + containers * LOG_ROOM > budget(false));
    }
}

#[test]
fn shows_fifty_ordinary_pods_in_full() {
    let mut scenario = Scenario::of((0..50).map(|n| crashing("shop", &format!("deployment-{n}"), "OOMKilled", n)));
    let log = "2026-01-01T00:00:00Z INFO handled a request in 12 ms\n".repeat(65);
    for (pod, _) in &scenario.pods {
        scenario.tails.insert((pod.uid, "app".to_owned()), tail(&log));
    }
    let status = scenario.status(None);
    check(&scenario, &status);
    assert!(status.problematic_pods.iter().all(|pod| pod.container_issues[0].logs == log));
    assert_eq!((status.omitted_pods, status.omitted_incidents), (0, 0));
}

#[test]
fn shortens_logs_first_and_evenly() {
    let mut scenario = Scenario::of((0..200).map(|n| crashing("shop", "cart", "OOMKilled", n)));
    scenario.max_pods = 200;
    for (index, (pod, _)) in scenario.pods.iter().enumerate() {
        let lines = if index % 2 == 0 { "short\n".to_owned() } else { "a line of a log\n".repeat(256) };
        scenario.tails.insert((pod.uid, "app".to_owned()), tail(&lines));
    }
    let status = scenario.status(None);
    check(&scenario, &status);
    assert_eq!(status.omitted_pods, 0);
    let issues = || status.problematic_pods.iter().map(|pod| &pod.container_issues[0]);
    assert!(issues().all(|issue| issue.message == container("app").message), "details are not cut");
    assert!(issues().step_by(2).all(|issue| issue.logs.len() > 400), "the long ones");
    assert!(issues().skip(1).step_by(2).all(|issue| issue.logs == "short\n"));
    let lengths: std::collections::HashSet<_> = issues().map(|issue| issue.logs.len()).collect();
    assert_eq!(lengths.len(), 2, "evenly: {lengths:?}");
}

#[test]
fn logs_of_different_lengths_use_the_room_that_there_is() {
    let mut scenario = Scenario::of((0..100).map(|n| crashing("shop", "cart", "OOMKilled", n)));
    scenario.max_pods = 100;
    let sizes = [5, 1_000, 2_000, 40_000];
    for ((pod, _), size) in scenario.pods.iter().zip(sizes.into_iter().cycle()) {
        scenario.tails.insert((pod.uid, "app".to_owned()), tail(&"x".repeat(size)));
    }
    let status = scenario.status(None);
    check(&scenario, &status);
    let mut lengths: Vec<_> = status.problematic_pods.iter().map(|pod| pod.container_issues[0].logs.len()).collect();
    lengths.sort_unstable();
    assert_eq!((lengths[0], lengths[25], lengths[50]), (5, 1_000, 2_000), "short logs are whole");
    assert_eq!((lengths[75], lengths[99]), (lengths[75], lengths[75]), "long logs are cut evenly");
    assert!(lengths[75] > 2_000);
    let unused = budget(false) - json_size::size(&status);
    assert!(unused < 25 * 32, "{unused} bytes are unused: no more than the digits of the notes");
}

/// The counts have more digits when a status is written than when its lists are empty.
#[test]
fn a_status_may_fill_its_budget_to_the_last_byte() {
    let mut scenario = Scenario::of((0..1_000).map(|n| crashing("shop", "cart", "OOMKilled", n)));
    scenario.max_pods = 1;
    let uid = scenario.pods[999].0.uid;
    let mut with_log = |length: usize| {
        scenario.tails.insert((uid, "app".to_owned()), tail(&"x".repeat(length)));
        let status = scenario.status(None);
        assert!(json_size::size(&status) <= budget(false), "{length} bytes");
        (status.problematic_pods[0].container_issues[0].logs.len() == length, json_size::size(&status))
    };
    let (whole, size) = with_log(200_000);
    assert!(whole);
    let largest = 200_000 + budget(false) - size;
    let fits: Vec<bool> = (largest - 2..=largest + 1).map(|length| with_log(length).0).collect();
    assert!(fits[0] && !fits[3], "{fits:?}");
}

/// Only the logs of listed containers are read. If they displaced a container, it would appear and disappear.
#[test]
fn shows_the_same_pods_before_and_after_logs_are_read() {
    for count in (100..400).step_by(20) {
        let mut scenario = Scenario::of((0..count).map(|n| crashing("shop", "cart", "OOMKilled", n)));
        scenario.max_pods = 500;
        let shown = |scenario: &Scenario| {
            let pods = scenario.status(None).problematic_pods;
            (pods.len(), pods.iter().map(|pod| pod.container_issues.len()).sum::<usize>())
        };
        let unread = shown(&scenario);
        for (index, (pod, _)) in scenario.pods.iter().enumerate() {
            let note = "the node's kubelet can't be reached: connection refused".to_owned();
            let read = if index % 2 == 0 { tail(&"a line\n".repeat(600)) } else { Tail { note, ..tail("a line\n") } };
            scenario.tails.insert((pod.uid, "app".to_owned()), read);
        }
        assert_eq!(shown(&scenario), unread, "{count} pods");
    }
}

#[test]
fn reserves_room_only_for_logs_that_are_shown() {
    let mut scenario = Scenario::of((0..340).map(|n| crashing("shop", "cart", "OOMKilled", n)));
    scenario.max_pods = 340;
    let containers = |scenario: &Scenario| scenario.status(None).problematic_pods[0].container_issues.len();
    assert_eq!(containers(&scenario), 0);
    scenario.logs = false;
    assert_eq!(containers(&scenario), 1);
    scenario.logs = true;
    for (_, finding) in &mut scenario.pods {
        finding.containers[0].log = crate::diagnosis::LogChoice::NeverStarted;
    }
    assert_eq!(containers(&scenario), 1);
}

#[test]
fn reduces_details_before_it_omits_pods() {
    let mut scenario = Scenario::of((0..200).map(|n| crashing("shop", "cart", "OOMKilled", n)));
    scenario.max_pods = 200;
    for (_, finding) in &mut scenario.pods {
        finding.containers = (0..9).map(|n| container(&format!("c{n}"))).collect();
    }
    let status = scenario.status(None);
    check(&scenario, &status);
    assert_eq!(status.omitted_pods, 0);
    for pod in &status.problematic_pods {
        assert_eq!(pod.container_issues.len(), 1);
        assert!(pod.message.ends_with("limit 512Mi; 8 more troubled containers left out to fit the status"));
    }
}

#[test]
fn shortens_messages_before_it_omits_containers() {
    let shown = |pods: usize| {
        let mut world =
            Scenario::of((0..pods).map(|n| crashing("shop", "cart", "OOMKilled", i64::try_from(n).unwrap())));
        world.max_pods = pods;
        for (_, finding) in &mut world.pods {
            finding.containers = (0..5).map(|n| container(&format!("c{n}"))).collect();
            finding.containers.iter_mut().for_each(|container| container.message = "m".repeat(1024).into());
        }
        let status = world.status(None);
        assert_eq!(status.omitted_pods, 0, "{pods} pods");
        let containers = &status.problematic_pods[0].container_issues;
        (containers.len(), containers.first().map_or(0, |container| container.message.len()))
    };
    assert_eq!([30, 54, 90, 117, 252, 300].map(shown), [(5, 1024), (5, 256), (3, 256), (3, 64), (1, 64), (0, 0)]);
}

#[test]
fn the_largest_input_fits() {
    let hostile = "\u{1}".repeat(4096);
    let mut finding = crashing("shop", &hostile, &hostile, 50).1;
    finding.message = hostile.as_str().into();
    finding.containers = (0..60)
        .map(|n| {
            let mut container = container(&format!("c{n}{hostile}"));
            container.message = hostile.as_str().into();
            container.reason = hostile.as_str().into();
            container.last_termination = Some(Terminated {
                message: hostile.clone().into(),
                reason: hostile.clone().into(),
                finished: Some(Timestamp::MIN),
                ..Terminated::default()
            });
            container
        })
        .collect();
    let pods: Vec<_> = (0..5000)
        .map(|n| {
            let name = format!("{n:04}{}", "\u{1}".repeat(240));
            Pod {
                uid: Uid::from(n),
                namespace: "\u{1}".repeat(253).into(),
                name: name.into(),
                node: hostile.clone().into(),
                ..Pod::default()
            }
        })
        .collect();
    let text = tail(&"\u{1}".repeat(65_536));
    let tracker = Tracker::default();
    let detail = ChangeDetail::Values { before: hostile.clone(), after: "x".repeat(2048) };
    let change = TemplateChange { subject: hostile.clone(), detail };
    let changes =
        Arc::new(TemplateChanges { changes: vec![change; 500], more: usize::MAX, ..TemplateChanges::default() });
    let input = Input {
        generation: i64::MAX,
        max_pods: 500,
        watched_pods: u64::MAX,
        missing: &[],
        findings: pods.iter().map(|pod| PodFinding { pod, finding: &finding }).collect(),
        find_workload: &|_, _| Workload {
            of: u64::MAX,
            revision: Some(FailingRevision {
                name: hostile.clone(),
                healthy_before: u64::MAX,
                comparison: Comparison::Compared(changes.clone()),
            }),
        },
        find_ownership: &|_| None,
        unread_jobs: u64::MAX,
        unreadable: Some((u64::MAX, hostile.clone())),
        outside: Some(hostile.clone()),
        denied: Some(hostile.clone()),
        logs: true,
        masking: None,
        pods_on_node: &|_| 0,
        tracker: &tracker,
        ignored_pods: u64::MAX,
        wrong: None,
        warnings: vec![hostile.clone()],
        has_webhooks: false,
        previous: None,
        now: Timestamp::MAX,
    };
    let status = watching(&input, &|_, _| Some(text.clone())).status;
    let room_for_times_and_history = (2 + 24) * 1024;
    assert!(serde_json::to_string(&status).unwrap().len() <= 256 * 1024 - room_for_times_and_history);
    assert_eq!(budget(false), 256 * 1024 - room_for_times_and_history);
    check_messages(&status);
    assert_eq!(status.problematic_pods.len() as i64 + status.omitted_pods, 5000);
    assert!(status.problematic_pods.len() >= 20, "{} pods", status.problematic_pods.len());
    assert_eq!(status.incidents[0].pods, 5000);
    assert_eq!(status.watched_pods, i64::MAX);
}

#[test]
fn incidents_leave_room_for_pods() {
    let large = |n| {
        let (pod, mut finding) = crashing(&"n".repeat(63), &format!("{n:03}{}", "\u{1}".repeat(240)), "E", n);
        finding.explanation.message = "<".repeat(512).into();
        (pod, finding)
    };
    let mut scenario = Scenario::of((0..300).map(large));
    scenario.max_pods = 500;
    let status = scenario.status(None);
    check(&scenario, &status);
    assert!(status.incidents.len() < MAX_INCIDENTS);
    assert_eq!(status.incidents.len() as i64 + status.omitted_incidents, 300);
    assert!(status.problematic_pods.len() > 20, "{} pods", status.problematic_pods.len());
}

#[test]
fn large_incidents_leave_room_for_those_of_other_namespaces() {
    let mut ownership = Ownership::default();
    for name in ["kopf.dev/runbook", "kopf.dev/dashboard"] {
        ownership.set(name, Some(&format!("https://r.example/{}", "r".repeat(490))));
    }
    let hostile = "<".repeat(512);
    let of_evil = |n: i64| {
        let (mut pod, mut finding) = crashing("evil", &format!("{n}{hostile}"), "Error", 600 + n);
        pod.ownership = ownership.clone().non_empty();
        finding.owner = Some(PodOwner { kind: hostile.as_str().into(), name: format!("{n}{hostile}").into() });
        finding.explanation.message = hostile.as_str().into();
        (pod, finding)
    };
    let of_shop = (0..60).map(|n| crashing("shop", &format!("d{n:02}"), "Error", n));
    let scenario = Scenario::of((0..100).map(of_evil).chain(of_shop));
    let status = scenario.status(None);
    check(&scenario, &status);
    let of = |namespace: &str| status.incidents.iter().filter(|own| own.namespace == namespace).count();
    assert_eq!(of("shop"), 60);
    assert!(of("evil") >= 10, "{}", of("evil"));
    assert_eq!(status.omitted_incidents, 160 - status.incidents.len() as i64);
    assert!(status.incidents.is_sorted_by(|one, other| one.since >= other.since));
}
