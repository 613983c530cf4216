//! Reads logs through a real API server from a scripted kubelet.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also while it is set up")]

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::PostParams};
use orchestr::{
    api::{ContainerKind, ContainerStateName, LogSource, NamespacedName},
    diagnosis::{ContainerFinding, LogChoice},
    logs::{
        Asker, ContainerInstance, InstanceId, LogPolicy, LogRead, LogReader, LogRequest, MASK, Need, ReadLimits,
        StoreLimits, Tail, TailStore,
    },
    pods::{Pod as SlimPod, Terminated, Uid},
};
use orchestr_testbed::{Answer, ControlPlane, Kubelet, shared};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(60);

/// A kubelet, and a namespace whose pods are all on the kubelet's node.
struct Place {
    plane: &'static ControlPlane,
    kubelet: Kubelet,
    namespace: String,
    node: String,
}

impl Place {
    async fn new(node: &str) -> Self {
        let plane = shared().await;
        let kubelet = Kubelet::start(plane, node).await.unwrap();
        let namespace = plane.namespace(node).await.unwrap();
        Self { plane, kubelet, namespace, node: node.to_owned() }
    }

    /// A client without retries, so that the API server's errors reach the reader.
    fn client(&self) -> Client {
        let mut config = self.plane.admin_config();
        config.default_retry = false;
        Client::try_from(config).unwrap()
    }

    fn reader(&self, limits: ReadLimits) -> LogReader {
        LogReader::new(self.client(), limits)
    }

    async fn pod(&self, name: &str, node: &str) {
        let pods = Api::<Pod>::namespaced(self.client(), &self.namespace);
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"nodeName": node, "containers": [{"name": "app", "image": "example/app:1"}]}
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    fn request(&self, pod: &str, previous: bool, message: &str) -> LogRequest {
        let (policy, container) = (policy(20, 4096), "app".into());
        let id = InstanceId::Ended("containerd://a".into());
        let read = LogRead {
            instance: ContainerInstance { uid: Uid::from(1), container, id },
            namespace: self.namespace.as_str().into(),
            pod: pod.into(),
            node: self.node.as_str().into(),
            previous,
            need: Need::of(&policy),
        };
        LogRequest { read, started_again: false, termination_message: message.into(), policy }
    }

    fn request_on(&self, node: &str, pod: &str) -> LogRequest {
        let request = self.request(pod, false, "");
        LogRequest { read: LogRead { node: node.into(), ..request.read }, ..request }
    }
}

fn policy(tail_lines: u32, max_bytes: u32) -> Arc<LogPolicy> {
    Arc::new(LogPolicy { tail_lines, max_bytes, redact: true, redact_patterns: Vec::new() })
}

/// What a request shows, and whether the read is retried.
struct Shown {
    tail: Tail,
    retry: Option<Duration>,
}

async fn read(reader: &LogReader, request: &LogRequest) -> Shown {
    let result = reader.read(&request.read).await;
    let mut tail = result.end.show(&request.policy, &request.termination_message);
    if tail.source == LogSource::Current && request.read.previous {
        tail.source = LogSource::Previous;
    }
    Shown { tail, retry: result.retry }
}

/// Limits with a timeout that no successful read reaches.
fn patient() -> ReadLimits {
    ReadLimits { timeout: LIMIT, ..ReadLimits::default() }
}

fn numbered(lines: std::ops::Range<usize>) -> String {
    lines.map(|line| format!("line {line}\n")).collect()
}

/// The kubelet's answer, the termination message in the pod's status, and the expected result: the source, the text,
/// the note, and whether the read is retried.
struct Case {
    answer: Answer,
    previous: bool,
    message: &'static str,
    source: LogSource,
    text: String,
    note: &'static str,
    retry: bool,
}

fn case(answer: Answer, source: LogSource, text: impl Into<String>, note: &'static str) -> Case {
    Case { answer, previous: false, message: "", source, text: text.into(), note, retry: false }
}

impl Case {
    fn previous(self) -> Self {
        Self { previous: true, ..self }
    }

    fn with_message(self, message: &'static str) -> Self {
        Self { message, ..self }
    }

    fn again(self) -> Self {
        Self { retry: true, ..self }
    }
}

fn cases() -> Vec<Case> {
    use LogSource::{Current, Previous, TerminationMessage, Unavailable};
    let long_line = format!("{}the end", "x".repeat(3_000_000));
    let end_of_long_line = format!("{}the end", "x".repeat(4096 - 7));
    let secrets = "password=hunter2\nAuthorization: Bearer abc.def\npostgres://u:p4ss@db/x\n\u{1b}[31mred\u{1b}[0m\n";
    let masked = format!("password={MASK}\nAuthorization: Bearer {MASK}\npostgres://u:{MASK}@db/x\nred");
    vec![
        case(Answer::text("one\ntwo\n"), Current, "one\ntwo", ""),
        case(Answer::text("one\ntwo\n"), Previous, "one\ntwo", "").previous(),
        case(Answer::text(numbered(0..1000)), Current, numbered(980..1000).trim_end(), "earlier lines left out"),
        case(Answer::text(secrets), Current, masked, ""),
        case(
            Answer::Text(b"\xff\xfe\x00 \xe2\x80\n".to_vec()),
            Current,
            "\u{fffd}\u{fffd} \u{fffd}",
            "invalid UTF-8 is shown as U+FFFD",
        ),
        case(Answer::text(long_line.clone()), Current, &end_of_long_line, "earlier lines left out"),
        case(Answer::text(long_line + "\n"), Current, end_of_long_line, "earlier lines left out"),
        case(
            Answer::Slow { text: b"a\nb\nc\n".to_vec(), chunk: 2, every: Duration::from_millis(20) },
            Current,
            "a\nb\nc",
            "",
        ),
        case(Answer::text(""), Unavailable, "", "the log is empty"),
        case(Answer::text("\n\u{1b}[0m\n"), Unavailable, "", "the log is empty"),
        case(Answer::text(""), TerminationMessage, "no disk", "the log is empty").with_message("no disk\n"),
        case(Answer::text(""), TerminationMessage, format!("a token={MASK}"), "the log is empty")
            .with_message("a token=abc123"),
        case(Answer::KubeletErrorText, Unavailable, "", "the runtime has no such container any more"),
        case(Answer::KubeletErrorText, TerminationMessage, "no disk", "the runtime has no such container any more")
            .with_message("no disk"),
        case(
            Answer::text(
                "failed to try resolving symlinks in path \"/var/log/pods/x/app/0.log\": lstat /var/log/pods/x/app/0.log: \
                 no such file or directory",
            ),
            Unavailable,
            "",
            "the log's file is gone",
        ),
        case(
            Answer::text("begun\nfailed to read log file \"/var/log/pods/x/app/0.log\": input/output error"),
            Current,
            "begun",
            "the kubelet can't read the log's file",
        ),
        case(
            Answer::waiting_to_start("pod", "app", "ImagePullBackOff"),
            Unavailable,
            "",
            "the container is waiting to start",
        ),
        case(Answer::no_previous("pod", "app"), Unavailable, "", "the kubelet has no log of the previous instance")
            .previous(),
        case(
            Answer::no_previous("pod", "app"),
            TerminationMessage,
            "no disk",
            "the kubelet has no log of the previous instance",
        )
        .previous()
        .with_message("no disk"),
        case(Answer::Status(400, "password=hunter2".into()), Unavailable, "", "the kubelet refused (HTTP 400)"),
        case(
            Answer::Status(403, "Forbidden".into()),
            Unavailable,
            "",
            "the kubelet doesn't allow the API server to read logs",
        )
        .again(),
        case(Answer::Status(404, "no pod".into()), Unavailable, "", "the kubelet doesn't know the pod").again(),
        case(Answer::Status(429, "slowly".into()), Unavailable, "", "the API server has too many requests").again(),
        case(Answer::Status(500, "password=hunter2".into()), Unavailable, "", "the kubelet failed (HTTP 500)").again(),
        case(Answer::Status(502, "bad".into()), TerminationMessage, "no disk", "the kubelet failed (HTTP 502)")
            .with_message("no disk")
            .again(),
        case(Answer::Status(503, "bad".into()), Unavailable, "", "the kubelet failed (HTTP 503)").again(),
        case(Answer::Status(504, "bad".into()), Unavailable, "", "the kubelet failed (HTTP 504)").again(),
        // The API server ends its own response normally.
        case(Answer::Broken(b"begun\n".to_vec()), Current, "begun", ""),
    ]
}

#[tokio::test]
async fn handles_every_answer_of_a_kubelet() {
    let place = Place::new("logs-answers").await;
    place.pod("pod", &place.node).await;
    let reader = place.reader(patient());
    let mut wrong = Vec::new();
    for case in cases() {
        place.kubelet.script(&place.namespace, "pod", "app", case.previous, case.answer.clone());
        let Shown { tail, retry } = read(&reader, &place.request("pod", case.previous, case.message)).await;
        let expected = (case.source, case.text.as_str(), case.note, case.retry);
        if (tail.source, tail.text.as_str(), tail.note.as_str(), retry.is_some()) != expected {
            let answer: String = format!("{:?}", case.answer).chars().take(200).collect();
            wrong.push(format!("{answer}\n  got  {tail:.200?} {retry:?}\n  want {expected:.200?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(place.kubelet.requests().iter().all(|request| request.container == "app"));
}

#[tokio::test]
async fn gives_up_hanging_and_stalling_logs_at_the_timeout() {
    let place = Place::new("logs-late").await;
    let hasty = place.reader(ReadLimits { timeout: Duration::from_secs(3), ..ReadLimits::default() });
    place.pod("pod", &place.node).await;
    let script = |answer| place.kubelet.script(&place.namespace, "pod", "app", false, answer);
    // The connections are already open, so three seconds are enough.
    script(Answer::text("warm\n"));
    read(&place.reader(patient()), &place.request("pod", false, "")).await;

    script(Answer::Hanging);
    let Shown { tail, retry } = read(&hasty, &place.request("pod", false, "no disk")).await;
    assert_eq!((tail.source, tail.text.as_str()), (LogSource::TerminationMessage, "no disk"));
    assert_eq!(tail.note, "no answer from the kubelet within 3 s");
    assert!(retry.is_some());

    // The API server forwards only full buffers.
    script(Answer::Stalling(format!("begun {}\n", "and so on ".repeat(100)).repeat(84).into_bytes()));
    let Shown { tail, retry } = read(&hasty, &place.request("pod", false, "no disk")).await;
    assert!(tail.source == LogSource::Current && tail.text.contains("begun"), "{tail:?}");
    assert_eq!(tail.note, "not the log's end: it came too slowly for 3 s; earlier lines left out");
    assert!(retry.is_some());

    place.kubelet.wait_until_idle(LIMIT).await.unwrap();
}

#[tokio::test]
async fn stops_reading_an_endless_log() {
    let place = Place::new("logs-endless").await;
    place.pod("pod", &place.node).await;
    place.kubelet.script(&place.namespace, "pod", "app", false, Answer::Endless);
    let reader = place.reader(ReadLimits { stream_bytes: 256 * 1024, ..patient() });
    let Shown { tail, .. } = read(&reader, &place.request("pod", false, "")).await;
    assert_eq!(tail.source, LogSource::Current);
    assert!(tail.text.lines().count() == 20 && tail.text.len() <= 4096, "{}", tail.text);
    assert_eq!(tail.note, "not the log's end: its last lines are longer than 256 KiB; earlier lines left out");
    let asked: Vec<_> =
        place.kubelet.requests().iter().map(|request| request.query.get("tailLines").cloned()).collect();
    assert_eq!(asked, [Some("84".to_owned()), Some("16".to_owned()), Some("2".to_owned())]);
    place.kubelet.wait_until_idle(LIMIT).await.unwrap();
}

#[tokio::test]
async fn requests_fewer_lines_if_they_are_long() {
    let place = Place::new("logs-long").await;
    place.pod("pod", &place.node).await;
    let log: String = (0..100).map(|line| format!("{}{line}\n", "y".repeat(8000))).collect();
    place.kubelet.script(&place.namespace, "pod", "app", false, Answer::text(log));
    let reader = place.reader(ReadLimits { stream_bytes: 256 * 1024, ..patient() });
    let Shown { tail, .. } = read(&reader, &place.request("pod", false, "")).await;
    assert!(tail.text.ends_with("y99") && tail.text.len() == 4096, "{} {:?}", tail.text.len(), tail);
    assert_eq!(tail.note, "earlier lines left out");
    assert_eq!(place.kubelet.requests().len(), 2);
}

#[tokio::test]
async fn reports_errors_of_the_api_server() {
    let place = Place::new("logs-refused").await;
    let reader = place.reader(patient());
    let note = async |reader: &LogReader, pod: &str, node: &str| {
        let request = place.request_on(node, pod);
        let Shown { tail, .. } = read(reader, &request).await;
        assert_eq!((tail.source, tail.text.as_str()), (LogSource::Unavailable, ""));
        tail.note
    };
    assert_eq!(note(&reader, "gone", &place.node).await, "the pod is gone");
    place.pod("lost", "logs-no-such-node").await;
    assert_eq!(note(&reader, "lost", "logs-no-such-node").await, "the pod's node is gone");

    let nobody = Client::try_from(place.plane.user("logs-nobody", &[])).unwrap();
    let refused = note(&LogReader::new(nobody, patient()), "lost", "logs-no-such-node").await;
    assert_eq!(refused, format!("not allowed: get on pods/log in namespace {}", place.namespace));

    // A machine that failed: its Node still exists.
    place.pod("dead", "logs-dead").await;
    drop(Kubelet::start(place.plane, "logs-dead").await.unwrap());
    assert_eq!(note(&reader, "dead", "logs-dead").await, "the node's kubelet can't be reached: connection refused");
}

#[tokio::test]
async fn a_hanging_kubelet_delays_only_its_own_pods() {
    let place = Place::new("logs-hanging").await;
    place.kubelet.script_default(Answer::Hanging);
    let other = Kubelet::start(place.plane, "logs-healthy").await.unwrap();
    place.pod("healthy", "logs-healthy").await;
    other.script(&place.namespace, "healthy", "app", false, Answer::text("fine\n"));
    let healthy = place.request_on("logs-healthy", "healthy");

    let mut pods = tokio::task::JoinSet::new();
    let reader = place.reader(patient());
    for pod in 0..50 {
        place.pod(&format!("pod-{pod}"), &place.node).await;
        let (reader, request) = (reader.clone(), place.request(&format!("pod-{pod}"), false, ""));
        pods.spawn(async move { read(&reader, &request).await });
    }
    place.kubelet.wait_for_requests(2, LIMIT).await.unwrap();
    assert_eq!(read(&reader, &healthy).await.tail.text, "fine", "others are read meanwhile");
    assert_eq!(place.kubelet.peak_in_flight(), 2, "two of one node");
    pods.abort_all();
    while pods.join_next().await.is_some() {}
    place.kubelet.wait_until_idle(LIMIT).await.unwrap();

    // Each pod is on its own node, so only the total limit applies.
    let reader = place.reader(patient());
    for pod in 0..50 {
        let request = place.request_on(&format!("node-{pod}"), &format!("pod-{pod}"));
        let reader = reader.clone();
        pods.spawn(async move { read(&reader, &request).await });
    }
    place.kubelet.wait_for_requests(10, LIMIT).await.unwrap();
    // A complete read by another reader. In this time, a ninth concurrent request would have arrived.
    assert_eq!(read(&place.reader(patient()), &healthy).await.tail.text, "fine");
    assert_eq!(place.kubelet.peak_in_flight(), 8, "eight in all");
}

#[tokio::test]
async fn reads_a_log_once_per_container_instance() {
    let place = Place::new("logs-lives").await;
    place.pod("pod", &place.node).await;
    place.kubelet.script(&place.namespace, "pod", "app", false, Answer::text("first life\n"));
    place.kubelet.script(&place.namespace, "pod", "app", true, Answer::text("second life\n"));
    let reader = place.reader(patient());
    let mut store = TailStore::new(StoreLimits::default());
    let asker = Asker { object: Arc::new(NamespacedName::new("shop", "cluster")), namespace: "shop".into() };
    let policy = policy(20, 4096);
    let pod = SlimPod {
        namespace: place.namespace.clone().into(),
        name: "pod".into(),
        node: place.node.clone().into(),
        ..SlimPod::default()
    };

    // A container fails, waits, is restarted and fails again. Each state is observed more than once.
    use ContainerStateName::{Running, Terminated as Ended, Waiting};
    let events = [
        (LogChoice::Current, Ended, 0, "a"),
        (LogChoice::Previous, Waiting, 0, "a"),
        (LogChoice::Previous, Waiting, 0, "a"),
        (LogChoice::Previous, Running, 1, "a"),
        (LogChoice::Previous, Waiting, 1, "b"),
        (LogChoice::Previous, Waiting, 1, "b"),
    ];
    let mut seen = Vec::new();
    let start = std::time::Instant::now();
    for (minutes, (log, state, restarts, id)) in (0..).zip(events) {
        let finding = ContainerFinding {
            name: "app".into(),
            kind: ContainerKind::App,
            state,
            reason: "".into(),
            message: String::new().into(),
            ready: false,
            restarts,
            last_termination: Some(Terminated { container_id: id.into(), ..Terminated::default() }),
            log,
        };
        let Ok(request) = LogRequest::plan(&pod, &finding, &policy) else { panic!("{finding:?}") };
        let now = start + Duration::from_mins(minutes);
        store.ask(&request, &asker, now);
        while let Some((read, (), _turn)) = store.next_read(now, |_| Some(())) {
            let result = reader.read(&read).await;
            store.read_ended(&read.instance, result, now);
        }
        while let Some(redaction) = store.next_redaction() {
            store.redacted(redaction.run());
        }
        let tail = store.get(&request, &asker.namespace).unwrap();
        seen.push((tail.source, tail.text.to_string()));
    }
    let (first, second) = ("first life".to_owned(), "second life".to_owned());
    assert_eq!(
        seen,
        [
            (LogSource::Current, first.clone()),
            (LogSource::Previous, first.clone()),
            (LogSource::Previous, first.clone()),
            (LogSource::Previous, first),
            (LogSource::Previous, second.clone()),
            (LogSource::Previous, second),
        ]
    );
    assert_eq!(place.kubelet.requests().len(), 2);
}
