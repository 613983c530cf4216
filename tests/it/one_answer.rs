//! One answer: for the same pods, settings and time, the operator and every command give the same verdict, kind, reason,
//! cause and sentence.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
    time::Duration,
};

use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use kube::{Api, api::ListParams};
use orchestr::api::{Orchestr, OrchestrStatus};
use orchestr_testbed::{Options, eventually};
use serde_json::{Value, json};

use crate::{
    command::{ends, orchestr},
    exam::{
        cluster::{create_events, present, set_up, until_watching},
        scenario::{Scenario, move_times, scenarios},
    },
    pod_statuses::{api_version, container, controlled_by, crash_looping, merged, restarted, status, terminated},
    replay::recorded,
    running_command::RunningCommand,
    test_env::{TestEnv, watch_with},
};

/// What is said about a pod, by its namespace and name.
type Answers = BTreeMap<(String, String), Answer>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    status: String,
    kind: String,
    reason: String,
    cause: String,
    message: String,
    since: String,
    /// Whether it may have begun before `since`. Only the operator remembers the beginning of what lasts.
    since_at_latest: bool,
    /// The sentence about the incident, if it has one pod only.
    sentence: Option<String>,
}

impl Answer {
    fn of(pod: &Value) -> Self {
        let [status, kind, reason, cause, message, since] = ["status", "kind", "reason", "cause", "message", "since"]
            .map(|field| pod[field].as_str().unwrap_or_default().to_owned());
        let since_at_latest = pod["sinceAtLatest"] == true;
        Self { status, kind, reason, cause, message, since, since_at_latest, sentence: None }
    }

    /// Whether a command says the same as the operator: that the problem began at the same time, or at the latest at a later one.
    fn agrees(operator: Option<&Self>, command: Option<&Self>) -> bool {
        let (Some(operator), Some(command)) = (operator, command) else { return operator == command };
        let is_since = match command.since_at_latest {
            true => operator.since <= command.since,
            false => operator.since == command.since,
        };
        let same_since = Self { since: operator.since.clone(), since_at_latest: false, ..command.clone() };
        is_since && *operator == same_since
    }

    /// The sentence; its beginning if a status cuts it.
    fn sentence(&self) -> &str {
        self.sentence.as_deref().unwrap_or_default().trim_end_matches('…')
    }

    /// The cause, or the reason if it is not known.
    fn code(&self) -> &str {
        if self.cause == "Unknown" { &self.reason } else { &self.cause }
    }
}

/// How long the operator may take until it has seen all events. Later, some of them would be too old to prove a cause.
const AGREED: Duration = Duration::from_secs(60);
/// The objects of the file that is scanned.
const OF_FILE: &str = "pods,jobs,cronjobs,deployments,statefulsets,daemonsets,replicasets,controllerrevisions,nodes,events,persistentvolumeclaims,persistentvolumes,storageclasses";
/// Commands at a time. They wait for the logs of nodes that do not exist.
const CONCURRENT: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_and_all_commands_give_one_answer() {
    let states = states(present());
    let env = TestEnv::with_own_plane("one-answer", Options::default()).await;
    set_up(&env, &states).await;
    // The watch of the operator does not show events of type Normal.
    create_events(&env, &states, |event| event["type"] == "Normal").await;
    let operator = env.operator().whole_cluster().start();
    until_watching(&env, &states).await;
    create_events(&env, &states, |event| event["type"] != "Normal").await;

    let agrees = async |name: &str, answers: &dyn Fn() -> Answers| {
        eventually(&format!("the operator and {name} agree"), AGREED, async || {
            let (operator, command) = (reported(&env, &states).await, answers());
            same(name, &operator, &command)
        })
        .await
        .unwrap();
    };
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    agrees("scan", &|| scanned(&["--kubeconfig", kubeconfig])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.json");
    let objects =
        env.plane.kubectl(&["get", OF_FILE, "-A", "-o", "json", "--show-managed-fields"], None).await.unwrap();
    fs::write(&file, objects.stdout).unwrap();
    agrees("scan -f", &|| scanned(&["-f", file.to_str().unwrap()])).await;

    let operator_says = reported(&env, &states).await;
    let watch = RunningCommand::start(orchestr(&["scan", "--watch", "--kubeconfig", kubeconfig]));
    for ((namespace, pod), answer) in &operator_says {
        let code = Some(answer.code()).filter(|code| *code != answer.status);
        let code = code.map(|code| format!(" {code}")).unwrap_or_default();
        watch.prints(&format!(" {namespace}/{pod} {}{code}: {}", answer.status, answer.sentence())).await;
    }
    let (_, lines, _) = watch.interrupt().await;
    assert_eq!(troubled(&lines), operator_says.keys().cloned().collect(), "scan --watch");

    let wrong = differences(&env, &states, &operator_says).await;
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    operator.stop().await;
}

/// A container crashes for the second time in view of the operator. The pod shows that there was an earlier run, but not how it
/// ended.
#[tokio::test(flavor = "multi_thread")]
async fn what_only_the_operator_saw_begin_lasts_at_least() {
    let env = TestEnv::new("one-since").await;
    let namespace = env.namespace.as_str();
    env.pod("first", restarted(300)).await;
    env.pod("loop", restarted(300)).await;
    env.object("mine", watch_with(json!({"pods": {"namespaces": [namespace]}}))).await;
    let _operator = env.operator().start();
    let reported = |status: OrchestrStatus| answers(&json!(status));
    let name = |pod: &str| (namespace.to_owned(), pod.to_owned());
    let before = reported(env.wait_for_status("mine", "both crash", |status| status.incidents.len() == 2).await);
    env.set_status("loop", crash_looping(2)).await;
    let waits = |status: &OrchestrStatus| status.problematic_pods.iter().any(|pod| pod.status == "CrashLoopBackOff");
    let after = reported(env.wait_for_status("mine", "it crashes again", waits).await);
    assert_eq!(after[&name("loop")].since, before[&name("loop")].since, "it never moves forward");

    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let flags = ["--kubeconfig", kubeconfig, "-n", namespace];
    let scanned = scanned(&flags);
    same("scan", &after, &scanned).unwrap();
    let seen = ["first", "loop"].map(|pod| scanned[&name(pod)].since_at_latest);
    assert_eq!(seen, [false, true]);
    assert!(scanned[&name("loop")].since > after[&name("loop")].since, "{scanned:?}");
    for (pod, is_exact) in [("first", true), ("loop", false)] {
        let said = |args: &[&str]| ends(&mut orchestr(&[args, &flags].concat())).1;
        let explained: Value = serde_json::from_str(&said(&["explain", pod, "-o", "json"])).unwrap();
        let explained = &explained["pods"][0];
        let answer = Answer { sentence: None, ..scanned[&name(pod)].clone() };
        assert_eq!(Answer::of(&explained["problem"]), answer, "explain");
        assert_eq!(explained["sinceAtLatest"] == true, !is_exact, "{pod}");
        assert_eq!(said(&["explain", pod]).contains(" for at least "), !is_exact, "{pod}");
    }
    for (output, expected) in [
        ("html", "at least "),
        ("markdown", "| at least "),
        ("junit", "1 pod for at least "),
        ("github", "1 pod for at least "),
    ] {
        let (_, out, err) = ends(&mut orchestr(&[&["scan", "-o", output], &flags[..]].concat()));
        assert!(out.contains(expected), "{output}: {out}{err}");
    }
    let (_, out, err) = ends(&mut orchestr(&[&["scan", "--by", "owner"], &flags[..]].concat()));
    assert_eq!(out.matches("s+ ").count(), 1, "{out}{err}");
}

/// What the status of each namespace's object says.
async fn reported(env: &TestEnv, states: &[Scenario]) -> Answers {
    let objects: Api<Orchestr> = Api::all(env.client.clone());
    let objects = objects.list(&ListParams::default()).await.unwrap();
    assert_eq!(objects.items.len(), states.len());
    objects.items.into_iter().flat_map(|object| answers(&json!(object.status))).collect()
}

fn scanned(flags: &[&str]) -> Answers {
    let (code, out, err) = ends(&mut orchestr(&[&["scan", "-o", "json"], flags].concat()));
    assert_eq!(code, 1, "{err}");
    answers(&serde_json::from_str(&out).unwrap())
}

/// The problems of a status or of the output of a scan.
fn answers(document: &Value) -> Answers {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let sentences: BTreeMap<_, _> = list(&document["incidents"])
        .filter(|incident| incident["pods"] == 1)
        .map(|own| ((text(&own["namespace"]), text(&own["examplePods"][0])), text(&own["message"])))
        .collect();
    list(&document["problematicPods"])
        .map(|pod| {
            let name = (text(&pod["namespace"]), text(&pod["name"]));
            let sentence = sentences.get(&name).cloned();
            (name, Answer { sentence, ..Answer::of(pod) })
        })
        .collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn same(name: &str, operator: &Answers, command: &Answers) -> Result<(), String> {
    let pods: BTreeSet<_> = operator.keys().chain(command.keys()).collect();
    let differ = pods.into_iter().filter(|pod| !Answer::agrees(operator.get(*pod), command.get(*pod)));
    let lines: Vec<_> = differ
        .map(|pod| {
            format!("{}/{}:\n  operator: {:?}\n  {name}: {:?}", pod.0, pod.1, operator.get(pod), command.get(pod))
        })
        .collect();
    if lines.is_empty() { Ok(()) } else { Err(format!("{} differ:\n{}", lines.len(), lines.join("\n"))) }
}

/// The pods that the lines of `scan --watch` leave in trouble.
fn troubled(lines: &str) -> BTreeSet<(String, String)> {
    let mut pods = BTreeSet::new();
    for line in lines.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(sign), Some((namespace, name))) = (words.next(), words.next().and_then(|name| name.split_once('/')))
        else {
            continue;
        };
        let pod = (namespace.to_owned(), name.to_owned());
        if sign == "-" {
            pods.remove(&pod)
        } else {
            pods.insert(pod)
        };
    }
    pods
}

/// How `explain` and `wait` differ from the operator, for each pod.
async fn differences(env: &TestEnv, states: &[Scenario], operator: &Answers) -> Vec<String> {
    let pods = states.iter().flat_map(|state| state.objects.iter()).filter(|object| object["kind"] == "Pod");
    let tasks = pods.map(|pod| async move {
        let name = |field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
        let pod = (name("namespace"), name("name"));
        let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap().to_owned();
        let answer = operator.get(&pod).cloned();
        let run = tokio::task::spawn_blocking(move || {
            let command = |args: &[&str]| -> Command {
                orchestr(&[args, &["--kubeconfig", &kubeconfig, "-n", &pod.0, "--log-lines", "1"]].concat())
            };
            let explained = ends(&mut command(&["explain", &pod.1, "-o", "json"]));
            let waited = ends(&mut command(&["wait", &format!("pod/{}", pod.1), "--timeout", "0"]));
            [explain_differs(&pod, answer.as_ref(), &explained.1), wait_differs(&pod, answer.as_ref(), &waited)]
        });
        run.await.unwrap()
    });
    let results: Vec<_> = stream::iter(tasks).buffer_unordered(CONCURRENT).collect().await;
    results.into_iter().flatten().flatten().collect()
}

fn explain_differs(pod: &(String, String), operator: Option<&Answer>, out: &str) -> Option<String> {
    let explanation: Value = serde_json::from_str(out).unwrap_or_default();
    let explained = &explanation["pods"][0];
    let answer = explained["problem"].is_object().then(|| {
        let sentence = operator.and_then(|answer| answer.sentence.as_ref());
        let sentence = sentence.and(explained["explanation"].as_str()).map(str::to_owned);
        Answer { sentence, ..Answer::of(&explained["problem"]) }
    });
    let differs = !Answer::agrees(operator, answer.as_ref());
    differs.then(|| format!("{}/{}:\n  operator: {operator:?}\n  explain: {answer:?}", pod.0, pod.1))
}

/// Of a pod that the operator reports, `wait` must say the same. It also shows what the operator's thresholds still tolerate.
fn wait_differs(
    pod: &(String, String),
    operator: Option<&Answer>,
    (code, out, err): &(i32, String, String),
) -> Option<String> {
    let is_same = match operator {
        // A pod that is being deleted ends the wait.
        Some(answer) if answer.kind == "Terminating" => out.contains("it is being deleted"),
        Some(answer) => {
            // A wait for one pod does not watch those of the revision before.
            let sentence = answer.sentence().split("; the limit was ").next().unwrap_or_default();
            out.contains(answer.code()) && out.contains(sentence)
        }
        None => true,
    };
    (!is_same).then(|| format!("{}/{}:\n  operator: {operator:?}\n  wait: {code}\n{out}{err}", pod.0, pod.1))
}

/// The exam, the recorded pods, and those whose verdict depends on other objects.
fn states(now: Timestamp) -> Vec<Scenario> {
    let mut states = scenarios(now);
    // Pods that do not exist are reported about their controllers; other thresholds are those of another object.
    let has_pods = |state: &Scenario| state.objects.iter().any(|object| object["kind"] == "Pod");
    states.retain(|state| state.thresholds.is_null() && has_pods(state));
    states.extend(recorded_states(now));
    states.extend([replaced(now), superseded(now), broken_owners(now)]);
    // Only an attempt of the last minutes proves what a volume lacks. These are in the near future, so that they still prove it
    // when the last command runs.
    let events = states.iter_mut().flat_map(|state| &mut state.events);
    let about_volumes = ["FailedMount", "FailedAttachVolume", "FailedMapVolume"];
    for event in events.filter(|event| about_volumes.iter().any(|reason| event["reason"] == *reason)) {
        move_times(event, SignedDuration::from_mins(9));
    }
    states
}

fn state(name: &str, objects: Vec<Value>, events: Vec<Value>) -> Scenario {
    let state = json!({"name": name, "truth": "", "expect": {}, "objects": objects, "events": events});
    serde_json::from_value(state).unwrap()
}

/// The last version of each pod that a real kubelet wrote.
fn recorded_states(now: Timestamp) -> Vec<Scenario> {
    let state = |(name, steps): (String, Vec<crate::replay::Step>)| {
        let mut pod = steps.into_iter().next_back().unwrap().pod;
        let namespace = format!("recorded-{name}");
        let created: Timestamp = pod["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
        move_times(&mut pod, now.duration_since(created) - SignedDuration::from_mins(15));
        pod["metadata"]["namespace"] = json!(namespace);
        (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
        state(&namespace, vec![pod], Vec::new())
    };
    recorded().into_iter().map(state).collect()
}

fn time(now: Timestamp, minutes_ago: i64) -> String {
    (now - SignedDuration::from_mins(minutes_ago)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// An object with a controller, created a while ago.
fn object(kind: &str, namespace: &str, name: &str, created: String, owner: [&str; 3]) -> Value {
    let [owner_kind, owner_name, owner_uid] = owner;
    let uid = format!("{:08x}-0000-4000-8000-{:012x}", hash(namespace), hash(&format!("{kind}/{name}")));
    let mut object = json!({
        "apiVersion": api_version(kind), "kind": kind,
        "metadata": {"namespace": namespace, "name": name, "uid": uid, "creationTimestamp": created},
    });
    if !owner_kind.is_empty() {
        object["metadata"]["ownerReferences"] = controlled_by(owner_kind, owner_name, owner_uid);
    }
    object
}

fn hash(text: &str) -> u32 {
    text.bytes().fold(5381, |hash: u32, byte| hash.wrapping_mul(33) ^ u32::from(byte))
}

fn pod(namespace: &str, name: &str, created: String, owner: [&str; 3], status: Value) -> Value {
    let probe = json!({"httpGet": {"path": "/", "port": 80}});
    let app = json!({"name": "app", "image": "registry.example/app:1", "readinessProbe": probe});
    let spec = json!({"nodeName": "node-1", "automountServiceAccountToken": false, "containers": [app]});
    merged(object("Pod", namespace, name, created, owner), &json!({"spec": spec, "status": status}))
}

fn running(now: Timestamp, minutes: i64, is_ready: bool) -> Value {
    let since = time(now, minutes);
    let app = json!({"ready": is_ready, "started": true, "state": {"running": {"startedAt": since}}});
    status("Running", is_ready, &since, [container("app", app)])
}

/// A Failed pod that its ReplicaSet replaced days ago.
pub fn replaced(now: Timestamp) -> Scenario {
    let owner = ["ReplicaSet", "cart-5d9f7c8b6d", "5f0c2a91-0000-4000-8000-000000000001"];
    let labelled = |mut pod: Value| {
        pod["metadata"]["labels"] = json!({"app": "cart", "pod-template-hash": "5d9f7c8b6d"});
        pod
    };
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.",
        "startTime": time(now, 4000)});
    state(
        "replaced",
        vec![
            labelled(pod("replaced", "cart-5d9f7c8b6d-old", time(now, 4000), owner, evicted)),
            labelled(pod("replaced", "cart-5d9f7c8b6d-new", time(now, 3000), owner, running(now, 3000, true))),
        ],
        Vec::new(),
    )
}

/// A run of a CronJob that failed, before a later one succeeded.
pub fn superseded(now: Timestamp) -> Scenario {
    let namespace = "superseded";
    let mut cron_job = object("CronJob", namespace, "nightly", time(now, 9000), ["", "", ""]);
    let template =
        json!({"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": "a"}]}});
    cron_job["spec"] = json!({"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}});
    cron_job["status"] = json!({"lastScheduleTime": time(now, 60), "lastSuccessfulTime": time(now, 59)});
    let uid = cron_job["metadata"]["uid"].as_str().unwrap().to_owned();
    let mut job = object("Job", namespace, "nightly-1", time(now, 1500), ["CronJob", "nightly", &uid]);
    job["spec"] = json!({"backoffLimit": 0, "template": template});
    job["status"] = json!({"failed": 1, "startTime": time(now, 1500), "conditions": [
        {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "lastProbeTime": time(now, 1499),
            "lastTransitionTime": time(now, 1499)},
        {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "lastProbeTime": time(now, 1499),
            "lastTransitionTime": time(now, 1499)}]});
    let uid = job["metadata"]["uid"].as_str().unwrap().to_owned();
    let app = container("app", json!({"state": terminated(3, &time(now, 1500), &time(now, 1499))}));
    let failed = json!({"phase": "Failed", "startTime": time(now, 1500), "containerStatuses": [app]});
    let pod = pod(namespace, "nightly-1-x", time(now, 1500), ["Job", "nightly-1", &uid], failed);
    state(namespace, vec![cron_job, job, pod], Vec::new())
}

/// Thirty owners with a pod each whose readiness probe fails. Only events show why.
fn broken_owners(now: Timestamp) -> Scenario {
    let namespace = "broken-owners";
    let (mut pods, mut events) = (Vec::new(), Vec::new());
    for number in 0..30 {
        let (owner, name) = (format!("web-{number}"), format!("web-{number}-0"));
        let uid = format!("5f0c2a91-0000-4000-9000-{number:012}");
        let pod = pod(namespace, &name, time(now, 90), ["StatefulSet", &owner, &uid], running(now, 90, false));
        let uid = pod["metadata"]["uid"].clone();
        events.push(json!({
            "involvedObject": {"kind": "Pod", "namespace": namespace, "name": name, "uid": uid, "apiVersion": "v1",
                "fieldPath": "spec.containers{app}"},
            "type": "Warning", "reason": "Unhealthy", "count": 41, "source": {"component": "kubelet", "host": "node-1"},
            "message": format!("Readiness probe failed: HTTP probe failed with statuscode: 5{number:02}"),
            "firstTimestamp": time(now, 89), "lastTimestamp": time(now, 0),
        }));
        pods.push(pod);
    }
    state(namespace, pods, events)
}
