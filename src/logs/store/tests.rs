use super::*;
use crate::{
    logs::{InstanceId, LogPolicy},
    pods::Uid,
};

mod tenants;

/// An object in a namespace.
pub(super) fn asker(namespace: &str, name: &str) -> Asker {
    Asker { object: Arc::new(NamespacedName::new(namespace, name)), namespace: namespace.into() }
}

pub(super) fn policy(tail_lines: u32, max_bytes: u32) -> Arc<LogPolicy> {
    Arc::new(LogPolicy { tail_lines, max_bytes, redact: true, redact_patterns: Vec::new() })
}

pub(super) fn request_for(pod: u128, restarts: i32, policy: &Arc<LogPolicy>) -> LogRequest {
    let read = LogRead {
        instance: ContainerInstance { uid: Uid::from(pod), container: "app".into(), id: InstanceId::Running(restarts) },
        namespace: "shop".into(),
        pod: "cart".into(),
        node: "n".into(),
        previous: false,
        need: Need::of(policy),
    };
    LogRequest { read, started_again: false, termination_message: "".into(), policy: Arc::clone(policy) }
}

fn request(restarts: i32, tail_lines: u32, previous: bool) -> LogRequest {
    let request = request_for(1, restarts, &policy(tail_lines, 4096));
    LogRequest { read: LogRead { previous, ..request.read }, ..request }
}

/// The result of a read that was cut if the log is longer than needed.
pub(super) fn result(text: &str, read: &LogRead, retry: Option<u64>) -> ReadResult {
    let end = LogEnd {
        bytes: text.as_bytes().into(),
        read: read.need,
        is_cut: text.lines().count() > 20,
        has_fewer_lines: false,
        note: if text.is_empty() { "no such log".into() } else { String::new() },
    };
    ReadResult { end, retry: retry.map(Duration::from_secs) }
}

/// Runs everything that is due, with this log. Returns the number of reads.
pub(super) fn run(store: &mut TailStore, now: Instant, mut log: impl FnMut(&LogRead) -> ReadResult) -> usize {
    let mut reads = 0;
    loop {
        let read = store.next_read(now, |_| Some(()));
        if let Some((read, (), _)) = &read {
            reads += 1;
            store.read_ended(&read.instance, log(read), now);
        }
        let redaction = store.next_redaction();
        if read.is_none() && redaction.is_none() {
            return reads;
        }
        if let Some(redaction) = redaction {
            store.redacted(redaction.run());
        }
    }
}

/// Asks and runs. Returns the number of reads.
fn reads(store: &mut TailStore, request: &LogRequest, now: Instant, text: &str, retry: Option<u64>) -> usize {
    store.ask(request, &asker("shop", "cluster"), now);
    run(store, now, |read| result(text, read, retry))
}

pub(super) fn text(store: &TailStore, request: &LogRequest) -> Option<String> {
    store.get(request, &"shop".into()).map(|tail| tail.text.to_string())
}

#[test]
fn reads_a_log_once_per_instance_for_all_policies() {
    let (mut store, now) = (TailStore::default(), Instant::now());
    let first = request(1, 20, false);
    let object = asker("shop", "cluster");
    assert_eq!(store.ask(&first, &object, now), LogAnswer { is_lacking: true, due: None });
    let (read, (), turn) = store.next_read(now, |_| Some(())).unwrap();
    assert!(store.ask(&first, &object, now).is_lacking && store.next_read(now, |_| Some(())).is_none(), "under way");
    assert_eq!(text(&store, &first), None);
    assert!(store.read_ended(&read.instance, result("one", &read, None), now).is_empty(), "it is redacted first");
    drop(turn);
    let redaction = store.next_redaction().unwrap();
    assert_eq!(store.redacted(redaction.run()), HashSet::from([object.object]));
    assert_eq!(text(&store, &first).as_deref(), Some("one"));
    for lines in 1..100 {
        assert_eq!(reads(&mut store, &request(1, lines, lines % 2 == 0), now, "other", None), 0);
        assert_eq!(text(&store, &request(1, lines, false)).as_deref(), Some("one"));
    }
    assert_eq!(store.get(&first, &"shop".into()).map(|tail| tail.source), Some(LogSource::Current));
    let later = request(1, 20, true);
    let source = store.get(&later, &"shop".into()).map(|tail| tail.source);
    assert_eq!(source, Some(LogSource::Previous), "the instance has ended by now");
    assert_eq!(reads(&mut store, &request(2, 20, false), now, "two", None), 1);
}

#[test]
fn a_policy_that_needs_more_causes_one_further_read() {
    let (mut store, now) = (TailStore::default(), Instant::now());
    let log: String = (0..2000).map(|line| format!("line {line}\n")).collect();
    let request = |lines| request_for(1, 1, &policy(lines, 64 * 1024));
    assert_eq!(reads(&mut store, &request_for(1, 1, &policy(1, 256)), now, &log, None), 1);
    let lines = |store: &TailStore, lines| text(store, &request(lines)).map_or(0, |text| text.lines().count());
    for more in [21, 22, 500, 1000, 30] {
        let further = usize::from(more == 21);
        assert_eq!(reads(&mut store, &request(more), now, &log, None), further, "{more}");
        assert_eq!(lines(&store, more), more as usize);
    }
    assert_eq!(text(&store, &request_for(1, 1, &policy(1, 256))).as_deref(), Some("line 1999"));
}

#[test]
fn masks_what_each_policy_masks() {
    let (mut store, now) = (TailStore::default(), Instant::now());
    let open = Arc::new(LogPolicy { redact: false, ..(*policy(20, 4096)).clone() });
    let (open, masked) = (request_for(1, 1, &open), request(1, 20, false));
    for _ in 0..2 {
        assert!(reads(&mut store, &open, now, "password=hunter2", None) <= 1);
        assert_eq!(reads(&mut store, &masked, now, "", None), 0);
        assert_eq!(text(&store, &open).as_deref(), Some("password=hunter2"));
        assert_eq!(text(&store, &masked), Some(format!("password={}", crate::logs::MASK)));
    }
    assert!(!format!("{:?}", store.ends).contains("hunter2"));
    assert!(!format!("{:?}", store.lives.values().map(|life| &life.end).collect::<Vec<_>>()).contains("hunter2"));
}

#[test]
fn reads_a_log_again_that_may_belong_to_the_next_instance() {
    let now = Instant::now();
    let delay = crate::logs::life::STATUS_DELAY;
    let ended = request(1, 20, false);
    let again = LogRequest { started_again: true, ..request(1, 20, true) };
    for (seen, doubtful) in [(now + delay / 2, true), (now + delay, false)] {
        let mut store = TailStore::default();
        assert_eq!(reads(&mut store, &ended, now, "of which instance?", None), 1);
        assert_eq!(reads(&mut store, &request(1, 20, true), seen, "", None), 0, "it is waiting to be started");
        let lacks = store.ask(&again, &asker("shop", "cluster"), seen).is_lacking;
        assert_eq!((lacks, text(&store, &again).is_none()), (doubtful, doubtful));
        let (read, expected) =
            if doubtful { (1, "the log of the previous instance") } else { (0, "of which instance?") };
        assert_eq!(run(&mut store, seen, |read| result("the log of the previous instance", read, None)), read);
        assert_eq!(text(&store, &again).as_deref(), Some(expected));
        assert_eq!(reads(&mut store, &again, seen, "", None), 0, "once");
        assert_eq!(store.tails.total(), expected.len() + OVERHEAD);
    }
}

#[test]
fn drops_the_redaction_of_a_text_that_became_doubtful() {
    let (mut store, now, object) = (TailStore::default(), Instant::now(), asker("shop", "cluster"));
    let (ended, again) = (request(1, 20, false), LogRequest { started_again: true, ..request(1, 20, true) });
    store.ask(&ended, &object, now);
    let (read, (), turn) = store.next_read(now, |_| Some(())).unwrap();
    store.read_ended(&read.instance, result("of which instance?", &read, None), now);
    drop(turn);
    let redaction = store.next_redaction().unwrap();
    store.ask(&again, &object, now);
    store.redacted(redaction.run());
    assert_eq!(text(&store, &again), None);
    assert_eq!(reads(&mut store, &again, now, "the log of the previous instance", None), 1);
    assert_eq!(text(&store, &again).as_deref(), Some("the log of the previous instance"));
}

#[test]
fn retries_temporary_failures_with_backoff_and_a_limit() {
    let (mut store, start) = (TailStore::default(), Instant::now());
    let (request, object) = (request(1, 20, false), asker("shop", "cluster"));
    assert_eq!(reads(&mut store, &request, start, "part", Some(10)), 1);
    let due = |store: &mut TailStore, now| store.ask(&request, &object, now).due;
    assert_eq!(due(&mut store, start), Some(start + Duration::from_secs(10)));
    assert_eq!(reads(&mut store, &request, start + Duration::from_secs(9), "", None), 0);
    let mut now = start + Duration::from_secs(10);
    let mut tries = 1;
    while reads(&mut store, &request, now, "", Some(10)) == 1 {
        tries += 1;
        now = due(&mut store, now).unwrap_or(now);
    }
    assert_eq!((tries, now), (crate::logs::life::MAX_TRIES, start + Duration::from_secs(10 + 20 + 40 + 80)));
    assert_eq!(text(&store, &request).as_deref(), Some("part"), "a retry without a text keeps the old one");
}

#[test]
fn a_retry_with_a_text_replaces_the_old_one() {
    let (mut store, start) = (TailStore::default(), Instant::now());
    let request = request(1, 20, false);
    assert_eq!(reads(&mut store, &request, start, "", Some(10)), 1);
    let note = store.get(&request, &"shop".into()).map(|tail| tail.note);
    assert_eq!(note.as_deref(), Some("no such log"));
    for text_now in ["part", "more"] {
        let later = start + Duration::from_secs(200);
        assert_eq!(reads(&mut store, &request, later, text_now, Some(10)), usize::from(text_now == "part"));
        assert_eq!(text(&store, &request).as_deref(), Some("part"));
    }
}

#[test]
fn shows_the_termination_message_if_there_is_no_log() {
    let (mut store, now) = (TailStore::default(), Instant::now());
    let request = LogRequest { termination_message: "token=abc123".into(), ..request(1, 20, false) };
    assert_eq!(reads(&mut store, &request, now, "", None), 1);
    let tail = store.get(&request, &"shop".into()).unwrap();
    assert_eq!(
        (tail.source, tail.text.to_string()),
        (LogSource::TerminationMessage, format!("token={}", crate::logs::MASK))
    );
}

#[test]
fn a_text_that_was_evicted_is_read_again_when_there_is_room() {
    let room = OVERHEAD + 2000;
    let limits = StoreLimits { tail_bytes: 3 * room, end_bytes: 3000, ..StoreLimits::default() };
    let (mut store, mut now) = (TailStore::new(limits), Instant::now());
    let request = |restarts| request(restarts, 20, false);
    let log = "x".repeat(2000);
    let ask_all = |store: &mut TailStore, lives: std::ops::Range<i32>, now| {
        lives.map(|restarts| reads(store, &request(restarts), now, &log, None)).sum::<usize>()
    };
    assert_eq!(ask_all(&mut store, 0..4, now), 4);
    assert!(store.tails.total() <= limits.tail_bytes && store.ends.total() <= limits.end_bytes);
    let gone = store.get(&request(0), &"shop".into()).unwrap();
    assert!(gone.source == LogSource::Unavailable && gone.note.contains("too much room"), "{gone:?}");
    assert_eq!(text(&store, &request(3)).as_deref(), Some(log.as_str()));
    // As long as all are shown, they do not evict each other in turns.
    for _ in 0..100 {
        now += Duration::from_secs(60);
        assert_eq!(ask_all(&mut store, 0..4, now), 0);
        store.sweep();
    }
    // The last one is over.
    let mut again = 0;
    for _ in 0..3 {
        again += ask_all(&mut store, 0..3, now);
        store.sweep();
    }
    assert_eq!(again, 1);
    assert_eq!(text(&store, &request(0)).as_deref(), Some(log.as_str()));
    store.sweep();
    store.sweep();
    store.sweep();
    assert!(store.lives.is_empty() && store.tails.total() == 0 && store.ends.total() == 0);
}

#[test]
fn an_evicted_end_of_a_log_is_read_at_most_once_a_minute() {
    let limits = StoreLimits { end_bytes: 10, ..StoreLimits::default() };
    let (mut store, mut now) = (TailStore::new(limits), Instant::now());
    let start = now;
    let mut total = 0;
    for lines in 1..=600 {
        let request = request(1, lines, false);
        total += reads(&mut store, &request, now, "longer than ten bytes", None);
        now += Duration::from_secs(1);
    }
    assert!(now <= start + Duration::from_secs(600) && (5..=10).contains(&total), "{total}");
}

#[test]
fn an_end_evicted_before_its_redaction_is_asked_for_again() {
    let limits = StoreLimits { end_bytes: 30, ..StoreLimits::default() };
    let (mut store, now) = (TailStore::new(limits), Instant::now());
    let [first, second] = [1, 2].map(|restarts| request(restarts, 20, false));
    let [one, other] = ["one", "other"].map(|name| asker("shop", name));
    let read = |store: &mut TailStore, request: &LogRequest, asker: &Asker| {
        assert!(store.ask(request, asker, now).is_lacking);
        let (read, (), _turn) = store.next_read(now, |_| Some(())).unwrap();
        store.read_ended(&read.instance, result("about twenty bytes", &read, None), now)
    };
    assert!(read(&mut store, &first, &one).is_empty());
    assert_eq!(read(&mut store, &second, &other), HashSet::from([Arc::clone(&one.object)]));
    let later = now + Duration::from_secs(60);
    assert_eq!(store.ask(&first, &one, now), LogAnswer { is_lacking: false, due: Some(later) });
    assert_eq!(store.get(&first, &"shop".into()), Some(Tail::unavailable(READ_RECENTLY)));
    assert_eq!(run(&mut store, now, |_| unreachable!()), 0);
    assert_eq!(text(&store, &second).as_deref(), Some("about twenty bytes"));
    assert_eq!(reads(&mut store, &first, later, "about twenty bytes", None), 1);
    assert_eq!(text(&store, &first).as_deref(), Some("about twenty bytes"));
}

#[test]
fn says_what_found_no_place_in_the_queue() {
    let limits = QueueLimits { running: 1, waiting: 2, waiting_per_namespace: 2 };
    let (mut store, now) = (TailStore::new(StoreLimits { reads: limits, ..StoreLimits::default() }), Instant::now());
    let object = asker("shop", "cluster");
    for restarts in 0..2 {
        assert!(store.ask(&request(restarts, 20, false), &object, now).is_lacking);
    }
    let cut = request(2, 20, false);
    assert_eq!(store.ask(&cut, &object, now), LogAnswer { is_lacking: false, due: Some(now + FULL_DELAY) });
    assert_eq!(store.get(&cut, &"shop".into()), Some(Tail::unavailable(QUEUE_FULL)));
    // That of another tenant displaces one.
    assert!(store.ask(&request(3, 20, false), &asker("other", "cluster"), now).is_lacking);
    assert_eq!(store.get(&request(1, 20, false), &"shop".into()), Some(Tail::unavailable(QUEUE_FULL)));
    let mut order = Vec::new();
    let mut log = |read: &LogRead| {
        order.push(read.instance.id.clone());
        result("text", read, None)
    };
    assert_eq!(run(&mut store, now, &mut log), 2);
    assert!(store.ask(&cut, &object, now).is_lacking);
    assert_eq!(run(&mut store, now, &mut log), 1);
    assert_eq!(text(&store, &cut).as_deref(), Some("text"));
    assert_eq!(order, [0, 3, 2].map(InstanceId::Running));
}

#[test]
fn drops_a_result_that_no_object_waits_for() {
    let (mut store, now, object) = (TailStore::default(), Instant::now(), asker("shop", "cluster"));
    let request = request(1, 20, false);
    store.ask(&request, &object, now);
    let (read, (), _turn) = store.next_read(now, |_| Some(())).unwrap();
    for _ in 0..3 {
        store.sweep();
    }
    assert!(store.read_ended(&read.instance, result("late", &read, None), now).is_empty());
    assert_eq!((text(&store, &request), store.lives.len(), store.tails.total()), (None, 0, 0));
}

#[test]
fn reads_no_log_twice_because_redaction_is_slow() {
    const LOGS: i32 = 150;
    let (mut store, now, object) = (TailStore::default(), Instant::now(), asker("shop", "cluster"));
    let policy = Arc::new(LogPolicy { redact: false, ..(*policy(1000, 65536)).clone() });
    let log = format!("{}\n", "x".repeat(65)).repeat(1000);
    let mut reads = 0;
    for _ in 0..2 * LOGS {
        for restarts in 0..LOGS {
            store.ask(&request_for(1, restarts, &policy), &object, now);
        }
        for _ in 0..4 {
            let Some((read, (), _turn)) = store.next_read(now, |_| Some(())) else { break };
            store.read_ended(&read.instance, result(&log, &read, None), now);
            reads += 1;
        }
        if let Some(redaction) = store.next_redaction() {
            store.redacted(redaction.run());
        }
    }
    let shown = (0..LOGS)
        .filter(|&restarts| text(&store, &request_for(1, restarts, &policy)).is_some_and(|text| text.len() > 65_000));
    assert_eq!((reads, shown.count()), (LOGS, LOGS as usize));
}
