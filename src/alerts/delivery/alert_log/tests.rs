//! Tests of the lines, and of files, disks and readers that do not take them.

use std::{fs, os::unix::fs::PermissionsExt, sync::atomic::AtomicBool};

use serde_json::{Value, json};

use super::*;
use crate::{
    alerts::{Farewell, Incident, Storm, Texts, formats::RenderError},
    api::{NamespacedName, ProblemKind},
};

fn now() -> Timestamp {
    "2026-07-01T10:00:30Z".parse().unwrap()
}

fn alert(key: &str, owner: &str) -> Alert {
    let texts = Texts { message: "its token is hunter2".to_owned(), logs: "hunter2".into(), ..Texts::default() };
    let incident = Incident {
        key: key.into(),
        namespace: "shop".into(),
        owner: Owner { kind: "Deployment".to_owned(), name: owner.to_owned() }.into(),
        container: "app".into(),
        kind: ProblemKind::Crash,
        reason: "OOMKilled".into(),
        cause: Cause::OutOfMemory,
        since: "2026-07-01T10:00:00Z".parse().unwrap(),
        texts: texts.into(),
        ..Incident::default()
    };
    Alert { incident, ..Alert::default() }
}

fn message(started: Vec<Alert>) -> Notification {
    let object = NamespacedName::new("ops", "cluster");
    let source = Source { object, uid: "u".to_owned(), cluster: "prod".to_owned() };
    let (id, webhook) = ("0a1b".to_owned(), "chat".to_owned());
    Notification { id, webhook, source, started, created: now(), now: now(), ..Notification::default() }
}

fn answered(status: u16) -> Attempt {
    attempt(AttemptOutcome::Answered { status, retry_after: None })
}

fn attempt(outcome: AttemptOutcome) -> Attempt {
    Attempt { outcome, latency: Duration::from_millis(12), thread: None }
}

fn line_of(message: &Notification, attempt: &Attempt) -> Value {
    let progress = Progress { format: "Slack", attempt: 2, retry_at: Some(now()) };
    let line = line(message, progress, attempt, now());
    assert!(line.ends_with('\n') && line.lines().count() == 1, "{line}");
    serde_json::from_str(&line).unwrap()
}

#[test]
fn names_the_message_its_incidents_and_the_result() {
    let entry = |key: &str, owner: &str| {
        json!({
            "key": key, "status": "firing", "namespace": "shop", "owner": {"kind": "Deployment", "name": owner},
            "container": "app", "kind": "Crash", "reason": "OOMKilled", "cause": "OutOfMemory", "severity": "warning",
            "startsAt": "2026-07-01T10:00:00Z",
        })
    };
    let mut resolved = alert("b", "web");
    resolved.resolved_at = Some(now());
    let sent = Notification {
        resolved: vec![resolved],
        ongoing: vec![alert("c", "old")],
        omitted: 3,
        storm: Some(Storm { count: 40, ..Storm::default() }),
        ..message(vec![alert("a", "cart")])
    };
    let mut over = entry("b", "web");
    (over["status"], over["endsAt"]) = (json!("resolved"), json!("2026-07-01T10:00:30Z"));
    let mut ongoing = entry("c", "old");
    ongoing["ongoing"] = json!(true);
    let mut expected = json!({
        "timestamp": "2026-07-01T10:00:30Z", "level": "INFO", "target": "orchestr::alert_log", "message": "delivered",
        "cluster": "prod", "namespace": "ops", "object": "cluster", "webhook": "chat", "format": "Slack", "id": "0a1b",
        "kind": "Firing", "result": "delivered", "status": 200, "milliseconds": 12, "attempt": 2,
        "incidents": [entry("a", "cart"), over, ongoing], "omitted": 3, "storm": 40,
    });
    assert_eq!(line_of(&sent, &answered(200)), expected);
    let changes = json!({
        "level": "WARN", "message": "not delivered", "result": "server_error", "status": 503,
        "reason": "the receiver answered 503", "retryAt": "2026-07-01T10:00:30Z",
    });
    expected.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    assert_eq!(line_of(&sent, &answered(503)), expected);
}

#[test]
fn contains_no_text_of_an_incident_or_of_an_answer() {
    let sent = message(vec![alert("a", "cart\u{202e}\n\"x")]);
    let error = RenderError { detail: "hunter2".to_owned(), ..RenderError::new("body", None, "undefined value") };
    for outcome in [
        AttemptOutcome::Answered { status: 200, retry_after: None },
        AttemptOutcome::Refused { status: 400, code: "", words: "hunter2 is not allowed".to_owned() },
        AttemptOutcome::Unrendered(error),
        AttemptOutcome::TimedOut,
    ] {
        let line = line_of(&sent, &attempt(outcome));
        assert!(!line.to_string().contains("hunter2"), "{line}");
        assert_eq!(line["incidents"][0]["owner"]["name"], "cart \"x");
    }
    let farewell = Notification { farewell: Some(Farewell::ObjectDeleted), ..sent };
    assert_eq!(line_of(&farewell, &answered(200))["note"], "no longer watched: the Orchestr was deleted");
}

#[test]
fn a_line_is_bounded_and_counts_what_it_does_not_name() {
    let many = |number: usize| (0..number).map(|key| alert(&key.to_string(), &"\"".repeat(253))).collect();
    let sent = Notification { ongoing: many(1_000), omitted: 5, ..message(many(20)) };
    let text = line(&sent, Progress::default(), &answered(200), now());
    assert!((LINE / 2..=LINE).contains(&text.len()), "{} bytes", text.len());
    let line: Value = serde_json::from_str(&text).unwrap();
    let named = line["incidents"].as_array().unwrap();
    assert_eq!(line["omitted"].as_u64().unwrap() as usize + named.len(), 1_025);
    assert!(named.len() > 10 && named[0]["key"] == "0" && named[0].get("ongoing").is_none(), "{line}");
}

/// The parsed lines of a file; the text of those that are not JSON.
fn lines(path: &Path) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| json!(line));
    fs::read_to_string(path).unwrap().lines().map(parse).collect()
}

fn ids(path: &Path) -> Vec<String> {
    lines(path).iter().map(|line| line["id"].as_str().unwrap_or_default().to_owned()).collect()
}

fn send(log: &AlertLog, id: &str) {
    let message = Notification { id: id.to_owned(), ..message(vec![alert("a", "cart")]) };
    log.sent(&message, Progress::default(), &answered(200));
}

fn flushed(log: &AlertLog) {
    log.close(Duration::from_secs(30));
}

#[test]
fn appends_to_a_file_that_only_its_owner_reads_and_follows_renames() {
    let folder = tempfile::tempdir().unwrap();
    let (path, old) = (folder.path().join("alerts.log"), folder.path().join("alerts.log.1"));
    let log = AlertLog::start(&path, Metrics::default()).unwrap();
    send(&log, "first");
    flushed(&log);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    fs::rename(&path, &old).unwrap();
    send(&log, "second");
    flushed(&log);
    assert_eq!((ids(&old), ids(&path)), (vec!["first".to_owned()], vec!["second".to_owned()]));

    // As copytruncate does.
    fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    send(&log, "third");
    flushed(&log);
    // Another process continues the file.
    let log = AlertLog::start(&path, Metrics::default()).unwrap();
    send(&log, "fourth");
    flushed(&log);
    assert_eq!(ids(&path), ["third", "fourth"]);
    let resend = Notification { kind: MessageKind::Resend, ..message(vec![alert("a", "cart")]) };
    log.sent(&resend, Progress::default(), &answered(200));
    flushed(&log);
    assert_eq!(ids(&path).len(), 2, "messages that only keep alerts alive have no line");
}

#[test]
fn refuses_what_is_no_regular_file() {
    let folder = tempfile::tempdir().unwrap();
    for (path, expected) in [
        (folder.path().to_owned(), "it is no regular file"),
        ("/dev/null".into(), "it is no regular file"),
        (folder.path().join("no/such"), "No such file or directory (os error 2)"),
    ] {
        let error = AlertLog::start(&path, Metrics::default()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{}", path.display());
    }
}

/// The value of the counter.
fn counted(metrics: &Metrics, result: &str) -> u64 {
    let page = metrics.page(crate::metrics::Format::Prometheus).unwrap();
    let series = format!("orchestr_alert_log_lines_total{{result=\"{result}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&series)).unwrap().parse().unwrap()
}

#[test]
fn counts_lines_that_fail_and_says_later_that_they_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, moved) = (folder.path().join("logs"), folder.path().join("moved"));
    fs::create_dir(&inside).unwrap();
    let (path, metrics) = (inside.join("alerts.log"), Metrics::default());
    let log = AlertLog::start(&path, metrics.clone()).unwrap();
    send(&log, "first");
    flushed(&log);
    // The volume is gone, so the file cannot be opened again.
    fs::rename(&inside, &moved).unwrap();
    send(&log, "lost");
    send(&log, "lost too");
    flushed(&log);
    assert_eq!((counted(&metrics, "written"), counted(&metrics, "failed")), (1, 2));
    fs::rename(&moved, &inside).unwrap();
    send(&log, "second");
    flushed(&log);
    let lines = lines(&path);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!((&lines[1]["message"], &lines[1]["lines"]), (&json!("lines are missing here"), &json!(2)));
    assert_eq!(lines[2]["id"], "second");
    assert_eq!((counted(&metrics, "written"), counted(&metrics, "dropped")), (2, 0));
}

/// Takes some bytes of each line, like a disk that is full.
struct Full {
    room: usize,
    written: Vec<u8>,
}

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.room);
        if taken == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= taken;
        self.written.extend(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_line_after_one_that_was_cut_off_begins_on_its_own_line() {
    let mut full = Full { room: 5, written: Vec::new() };
    let mut is_torn = false;
    let results = ["first\n", "second\n", "third\n"].map(|line| {
        let result = writer::write_line(&mut full, line, &mut is_torn).is_ok();
        full.room = if line.starts_with("second") { 100 } else { full.room };
        result
    });
    assert_eq!(results, [false, false, true]);
    assert_eq!(String::from_utf8(full.written).unwrap(), "first\nthird\n");
}

#[test]
fn drops_lines_instead_of_waiting_for_a_thread_that_is_stuck() {
    let (sender, waiting) = sync_channel(WAITING);
    let metrics = Metrics::default();
    let losses = Arc::new(Losses { lines: AtomicU64::new(0), warned: Mutex::default(), metrics: metrics.clone() });
    let log = AlertLog(Some(Arc::new(Shared { lines: sender, losses: Arc::clone(&losses) })));
    for number in 0..WAITING + 7 {
        send(&log, &number.to_string());
    }
    assert_eq!(counted(&metrics, "dropped"), 7);
    let begun = Instant::now();
    log.close(Duration::from_millis(20));
    assert!(begun.elapsed() < Duration::from_secs(10));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("alerts.log");
    let writer = LineWriter::open(&path).unwrap();
    drop(log);
    write(writer, &waiting, &losses);
    assert_eq!(lines(&path)[0]["lines"], 7);
    assert_eq!(lines(&path).len(), WAITING + 1);
}

#[test]
fn a_log_that_is_off_renders_nothing() {
    let is_rendered = AtomicBool::new(false);
    AlertLog::default().push(|| {
        is_rendered.store(true, Ordering::Relaxed);
        String::new()
    });
    assert!(!is_rendered.load(Ordering::Relaxed));
}
