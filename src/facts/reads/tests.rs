use std::sync::Arc;

use jiff::Timestamp;

use super::*;
use crate::{
    diagnosis::{JobFacts, TemplateChanges},
    pods::{Pod, testing::controller},
};

fn object(name: &str) -> NamespacedName {
    NamespacedName::new("ops", name)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn key(name: &str) -> JobKey {
    JobKey { namespace: "shop".to_owned(), name: name.to_owned(), uid: "u".to_owned() }
}

fn job(name: &str) -> Question {
    Question::Job(key(name))
}

fn claim(namespace: &str, number: usize) -> Question {
    Question::Claim { namespace: namespace.to_owned(), name: format!("data-{number}").into() }
}

fn known(facts: JobFacts) -> Fact {
    Fact::Job(facts.into())
}

fn read(facts: JobFacts) -> Answer {
    Answer::Read(known(facts))
}

fn nodes() -> Answer {
    Answer::Read(Fact::Nodes(Arc::default()))
}

fn denied() -> Answer {
    Answer::Denied("no".to_owned())
}

fn of_cron_job() -> JobFacts {
    JobFacts { failed: Some(Timestamp::UNIX_EPOCH), cron_job: Some("nightly".into()), ..JobFacts::default() }
}

/// What is known, and whether a read is started.
fn ask(reads: &mut Reads, question: &Question, name: &str, now: Instant) -> (Option<Fact>, bool) {
    let asked = reads.ask(question.clone(), Some(&object(name)), now);
    let due = reads.take_due();
    assert!(due.is_empty() || due == [question.clone()]);
    (asked.fact, !due.is_empty())
}

/// How often it is read within an hour in which it is asked for all the time.
fn reads_in_an_hour(question: &Question, answer: &Answer, step: Duration, ends: bool) -> usize {
    let (mut reads, begun, mut count) = (Reads::new(Limits::OPERATOR), Instant::now(), 0);
    let mut now = begun;
    while now < begun + seconds(3600) {
        if ends {
            reads.pod_ended(&key("u"), now);
        }
        if ask(&mut reads, question, "a", now).1 {
            count += 1;
            reads.answered(question, answer.clone(), now);
        }
        now += step;
    }
    count
}

#[test]
fn each_thing_is_read_once_for_all_objects() {
    let (mut reads, now) = (Reads::new(Limits::OPERATOR), Instant::now());
    for (name, is_started) in [("a", true), ("b", false)] {
        assert_eq!(ask(&mut reads, &Question::Nodes, name, now), (None, is_started));
    }
    assert!(reads.ask(Question::Nodes, None, now).is_reading);
    reads.answered(&Question::Nodes, nodes(), now);
    let fact = Some(Fact::Nodes(Arc::default()));
    assert_eq!(ask(&mut reads, &Question::Nodes, "a", now), (fact.clone(), false));
    // What is known is shown while it is read again.
    for is_started in [true, false] {
        assert_eq!(ask(&mut reads, &Question::Nodes, "a", now + FRESH), (fact.clone(), is_started));
    }
    reads.answered(&claim("shop", 1), nodes(), now);
    assert_eq!(reads.get(&claim("shop", 1)), None, "nobody has asked for it");
    reads.answered(&Question::Nodes, nodes(), now + FRESH);
    reads.sweep(|_| true, now + FRESH + UNUSED);
    assert_eq!(reads.get(&Question::Nodes), None);
}

#[test]
fn a_job_is_read_again_only_while_it_may_change() {
    let (mut reads, start) = (Reads::new(Limits::OPERATOR), Instant::now());
    let due = |reads: &mut Reads, at| reads.ask(job("u"), None, at).due;
    assert_eq!(ask(&mut reads, &job("u"), "a", start), (None, true));
    assert_eq!((ask(&mut reads, &job("u"), "a", start), due(&mut reads, start)), ((None, false), None));
    reads.answered(&job("u"), read(JobFacts::default()), start);
    assert_eq!(ask(&mut reads, &job("u"), "a", start), (Some(known(JobFacts::default())), false));
    assert_eq!(due(&mut reads, start), Some(start + USUAL));

    assert_eq!(reads.pod_ended(&key("u"), start), [job("u")]);
    assert!(ask(&mut reads, &job("u"), "a", start).1);
    assert_eq!(due(&mut reads, start), None, "not known during the read");
    reads.answered(&job("u"), read(JobFacts::default()), start);
    assert_eq!(due(&mut reads, start), Some(start + SOONEST));
    assert!(ask(&mut reads, &job("u"), "a", start + SOONEST).1);
    reads.sweep(|_| false, start);
    assert!(reads.get(&job("u")).is_some(), "a read is under way");

    let later = start + 10 * SLOWEST;
    let superseded = JobFacts { superseded: true, ..of_cron_job() };
    let failed = JobFacts { failed: Some(Timestamp::UNIX_EPOCH), ..JobFacts::default() };
    let orphan = JobFact { is_orphan: true, ..of_cron_job().into() };
    for end in [
        read(JobFacts { complete: true, ..JobFacts::default() }),
        read(failed),
        read(superseded),
        Answer::Read(Fact::Job(orphan)),
        Answer::Gone,
    ] {
        let mut reads = Reads::new(Limits::OPERATOR);
        ask(&mut reads, &job("u"), "a", start);
        reads.answered(&job("u"), end.clone(), start);
        let (fact, is_started) = ask(&mut reads, &job("u"), "a", later);
        assert!(fact.is_some() && !is_started && reads.is_answered(&job("u")), "{end:?}");
        assert!(due(&mut reads, later).is_none() && reads.pod_ended(&key("u"), later).is_empty(), "{end:?}");
    }
}

#[test]
fn what_cannot_be_read_is_tried_less_and_less_often() {
    for (question, answer, most) in [
        (job("u"), denied(), 9),
        (job("u"), Answer::Unavailable, 250),
        (claim("shop", 1), denied(), 6),
        (claim("shop", 1), Answer::Unavailable, 10),
        (Question::Nodes, nodes(), 12),
    ] {
        let count = reads_in_an_hour(&question, &answer, seconds(1), false);
        assert!((2..=most).contains(&count), "{count} reads in an hour of {question:?}: {answer:?}");
    }
}

#[test]
fn pods_that_end_all_the_time_cause_few_reads() {
    let count = reads_in_an_hour(&job("u"), &read(JobFacts::default()), Duration::from_millis(20), true);
    assert!((360..=370).contains(&count), "{count} reads in an hour");
    let (mut reads, now) = (Reads::new(Limits::OPERATOR), Instant::now());
    for attempts in [1, 2] {
        assert!(ask(&mut reads, &job("u"), "a", now).1, "immediately, because the last read brought something new");
        reads.answered(&job("u"), read(JobFacts { attempts: Some((attempts, 6)), ..JobFacts::default() }), now);
        assert_eq!(reads.pod_ended(&key("u"), now), [job("u")]);
    }
}

#[test]
fn a_command_looks_more_often() {
    let mut reads = Reads::new(Limits::of_command(seconds(15)));
    let now = Instant::now();
    for (name, answer, again) in [
        ("runs", read(JobFacts::default()), Some(15)),
        ("unread", Answer::Unavailable, Some(1)),
        ("nightly-1", read(of_cron_job()), Some(60)),
        ("gone", Answer::Gone, None),
    ] {
        ask(&mut reads, &job(name), "a", now);
        reads.answered(&job(name), answer, now);
        assert_eq!(reads.ask(job(name), None, now).due, again.map(|again| now + seconds(again)), "{name}");
    }
    assert_eq!(reads.due(now), Some(now + seconds(1)));
    assert_eq!(reads.due(now + seconds(1)), None, "nothing was asked for since");
}

#[test]
fn a_command_looks_for_a_later_run_every_minute() {
    let (mut reads, begun) = (Reads::new(Limits::of_command(seconds(15))), Instant::now());
    let is_read = |second: &u64| {
        let now = begun + seconds(*second);
        let is_started = ask(&mut reads, &job("nightly-1"), "a", now).1;
        if is_started {
            reads.answered(&job("nightly-1"), read(of_cron_job()), now);
        }
        is_started
    };
    assert_eq!((0..300).filter(is_read).collect::<Vec<_>>(), [0, 60, 120, 180, 240]);
}

#[test]
fn jobs_that_are_denied_at_once_are_denied_once() {
    let (mut reads, now) = (Reads::new(Limits::OPERATOR), Instant::now());
    let jobs: Vec<_> = (0..10).map(|number| job(&number.to_string())).collect();
    jobs.iter().for_each(|job| _ = reads.ask(job.clone(), Some(&object("a")), now));
    assert_eq!(reads.take_due().len(), 10);
    jobs.iter().for_each(|job| reads.answered(job, denied(), now));
    let mut denied_at = Vec::new();
    for second in 0..1000 {
        let now = now + seconds(second);
        jobs.iter().for_each(|job| _ = reads.ask(job.clone(), Some(&object("a")), now));
        for job in reads.take_due() {
            denied_at.push(second);
            reads.answered(&job, denied(), now);
        }
    }
    assert_eq!(denied_at, [60, 180, 420, 900], "one of them shows whether access is granted");
}

#[test]
fn a_denial_that_has_passed_wakes_nobody() {
    let (mut reads, now) = (Reads::new(Limits::of_command(seconds(2))), Instant::now());
    ask(&mut reads, &job("complete"), "a", now);
    reads.answered(&job("complete"), read(JobFacts { complete: true, ..JobFacts::default() }), now);
    ask(&mut reads, &job("denied"), "a", now);
    reads.answered(&job("denied"), denied(), now);
    assert_eq!(reads.due(now), Some(now + JOBS_DENIED));
    // The pod of the other Job is gone.
    let later = now + JOBS_DENIED;
    assert!(!ask(&mut reads, &job("complete"), "a", later).1);
    assert_eq!(reads.due(later), None);
    // Access to this one is granted.
    assert!(ask(&mut reads, &job("runs"), "a", later).1);
    reads.answered(&job("runs"), read(JobFacts::default()), later);
    reads.ask(job("runs"), None, later);
    assert_eq!(reads.due(later), Some(later + seconds(2)));
}

#[test]
fn what_is_known_outlasts_errors_and_a_job_a_denial() {
    let (mut reads, now) = (Reads::new(Limits::OPERATOR), Instant::now());
    for (question, answer, is_kept) in [
        (job("u"), read(of_cron_job()), true),
        (Question::Nodes, nodes(), false),
        (claim("shop", 1), Answer::Read(Fact::Claim(Arc::default())), false),
    ] {
        ask(&mut reads, &question, "a", now);
        reads.answered(&question, answer, now);
        let mut at = now;
        for lost in [Answer::Unavailable, Answer::Gone, denied()] {
            let fact = reads.get(&question).cloned();
            at += SLOWEST;
            let (known, _) = ask(&mut reads, &question, "a", at);
            reads.answered(&question, lost.clone(), at);
            assert_eq!((known.is_some(), known), (true, fact), "{question:?} {lost:?}");
        }
        assert_eq!(reads.get(&question).is_some(), is_kept, "{question:?}");
    }
    // A Job that may not be read says nothing, which is known.
    assert_eq!(ask(&mut reads, &job("v"), "a", now).0, Some(known(JobFacts::default())));
}

#[test]
fn a_denial_holds_for_a_scope_and_is_reported_to_who_asked() {
    let (mut reads, now) = (Reads::new(Limits::OPERATOR), Instant::now());
    ask(&mut reads, &claim("shop", 1), "a", now);
    reads.answered(&claim("shop", 1), denied(), now);
    for (question, at, is_started) in [
        (claim("shop", 1), now, false),
        (claim("shop", 2), now, false),
        (claim("bank", 2), now, true),
        (claim("shop", 2), now + DENIED, true),
        (claim("shop", 3), now + DENIED, false),
    ] {
        assert_eq!(ask(&mut reads, &question, "b", at).1, is_started, "{question:?}");
    }
    assert!(reads.denials(&object("b"), now).is_empty(), "the right is optional");

    let (revision, sentence) =
        (revision("two", Some("one")), "could not read the ReplicaSets of a workload to find what");
    for question in [revision, job("sums")] {
        ask(&mut reads, &question, "a", now);
        reads.answered(&question, denied(), now);
        ask(&mut reads, &question, "b", now);
    }
    for name in ["a", "b"] {
        let [of_jobs, of_revisions] = &reads.denials(&object(name), now)[..] else { panic!("{name}") };
        assert_eq!(of_jobs, "could not read the Job of a failed pod: no");
        assert!(of_revisions.starts_with(sentence), "{of_revisions}");
    }
    assert!(reads.denials(&object("c"), now).is_empty());
    assert_eq!(reads.denials(&object("b"), now + seconds(1)).len(), 1, "it asks for no Job any more");
    reads.forget(&object("b"));
    assert!(reads.denials(&object("b"), now).is_empty());
    ask(&mut reads, &job("sums"), "a", now + DENIED);
    assert_eq!(reads.denials(&object("a"), now + DENIED).len(), 2, "it may still be denied");
    reads.answered(&job("sums"), read(JobFacts::default()), now + DENIED);
    assert_eq!(reads.denials(&object("a"), now + DENIED).len(), 1);
}

#[test]
fn after_a_denial_nothing_is_due_for_which_there_is_no_room() {
    let (mut reads, now) = (Reads::new(Limits::OPERATOR), Instant::now());
    ask(&mut reads, &claim("shop", 1), "a", now);
    reads.answered(&claim("shop", 1), denied(), now);
    for number in 0..IN_NAMESPACE {
        ask(&mut reads, &revision(&number.to_string(), None), "a", now);
    }
    let asked = reads.ask(claim("shop", 1), Some(&object("a")), now + DENIED);
    assert_eq!(
        (asked.is_reading, asked.due),
        (false, None),
        "a time in the past would cause one reconcile after the other"
    );
}

#[test]
fn a_bounded_number_is_known_besides_jobs_and_nodes() {
    let (mut reads, now) = (Reads::new(Limits::OPERATOR), Instant::now());
    let mut started = |namespace: &str| {
        (0..2 * KNOWN).filter(|number| ask(&mut reads, &claim(namespace, *number), "a", now).1).count()
    };
    assert_eq!((started("attacker"), started("shop")), (IN_NAMESPACE, IN_NAMESPACE));
    let others: usize = (0..KNOWN / IN_NAMESPACE).map(|number| started(&number.to_string())).sum();
    assert_eq!(others, KNOWN - 2 * IN_NAMESPACE);
    for question in [Question::Nodes, job("sums")] {
        assert!(ask(&mut reads, &question, "a", now).1, "{question:?}");
    }
    let mut of_command = Reads::new(Limits::of_command(SLOWEST));
    let started = (0..2 * KNOWN).filter(|number| ask(&mut of_command, &claim("shop", *number), "a", now).1);
    assert_eq!(started.count(), 2 * KNOWN);
}

#[test]
fn what_is_unknown_is_read_first_and_jobs_before_lists() {
    let (mut reads, now) = (Reads::new(Limits::OPERATOR), Instant::now());
    ask(&mut reads, &job("known"), "a", now);
    reads.answered(&job("known"), read(JobFacts::default()), now);
    let events = Question::Events("shop".to_owned());
    for question in [&job("known"), &events, &job("new")] {
        reads.ask(question.clone(), None, now + USUAL);
    }
    assert_eq!(reads.next(|question| *question == events), Some(events));
    assert_eq!(reads.take_due(), [job("new"), job("known")]);
}

#[test]
fn a_job_is_read_again_after_another_run_of_its_cron_job() {
    let (mut reads, now) = (Reads::new(Limits::OPERATOR), Instant::now());
    ask(&mut reads, &job("nightly-1"), "a", now);
    reads.answered(&job("nightly-1"), read(of_cron_job()), now);
    assert!(reads.pod_ended(&key("nightly2-5"), now).is_empty(), "another CronJob's");
    assert!(reads.pod_ended(&JobKey { namespace: "ml".into(), ..key("nightly-2") }, now).is_empty());
    assert_eq!(reads.pod_ended(&key("nightly-2"), now), [job("nightly-1")]);
    assert!(ask(&mut reads, &job("nightly-1"), "a", now).1);
}

#[test]
fn a_new_term_keeps_what_cannot_have_changed() {
    let (mut reads, now) = (Reads::new(Limits::OPERATOR), Instant::now());
    let complete = JobFacts { complete: true, ..JobFacts::default() };
    for (name, facts) in [("complete", complete.clone()), ("nightly-1", of_cron_job()), ("runs", JobFacts::default())] {
        ask(&mut reads, &job(name), "a", now);
        reads.answered(&job(name), read(facts), now);
    }
    ask(&mut reads, &job("unread"), "a", now);
    reads.begin_term();
    assert_eq!(ask(&mut reads, &job("complete"), "a", now), (Some(known(complete)), false));
    for name in ["nightly-1", "runs", "unread"] {
        assert_eq!(ask(&mut reads, &job(name), "a", now), (None, true), "{name} is read again");
    }
}

fn pod(kind: &str, name: &str, label: &str, hash: &str) -> Pod {
    let labels = vec![(label.into(), hash.into())];
    Pod { namespace: "shop".into(), labels, controller: Some(controller(kind, name, "u")), ..Pod::default() }
}

fn revision(hash: &str, before: Option<&str>) -> Question {
    let pod = pod("ReplicaSet", &format!("cart-{hash}"), "pod-template-hash", hash);
    Question::Revision(RevisionKey::new(&pod, hash, before).unwrap())
}

#[test]
fn names_the_revisions_to_read() {
    for (kind, name, label, [hash, before], expected) in [
        ("ReplicaSet", "cart-two", "pod-template-hash", ["two", "one"], ["replicasets", "cart-two", "cart-one"]),
        (
            "ReplicaSet",
            "cart-two",
            "rollouts-pod-template-hash",
            ["two", "one"],
            ["replicasets", "cart-two", "cart-one"],
        ),
        ("StatefulSet", "db", "controller-revision-hash", ["db-2", "db-1"], ["controllerrevisions", "db-2", "db-1"]),
        ("DaemonSet", "log", "controller-revision-hash", ["2", "1"], ["controllerrevisions", "log-2", "log-1"]),
    ] {
        let key = RevisionKey::new(&pod(kind, name, label, hash), hash, Some(before)).unwrap();
        assert_eq!([key.resource, &key.failing, &key.before], expected);
    }
    let odd = pod("DaemonSet", "log", "controller-revision-hash", "2");
    for before in ["1/../../secrets", "1?watch=true", "%2f", "É", ""] {
        assert_eq!(RevisionKey::new(&odd, "2", Some(before)), None, "{before}");
    }
    let only = RevisionKey::new(&odd, "2", None).unwrap();
    assert_eq!([only.failing.as_str(), &only.before], ["log-2", ""]);
    assert_eq!(RevisionKey::new(&Pod::default(), "2", Some("1")), None);
}

#[test]
fn a_comparison_is_remembered_after_the_old_revision_is_gone() {
    let changes = Arc::new(TemplateChanges { more: 3, ..TemplateChanges::default() });
    let compared = Fact::Revision(RevisionFact::Compared(Arc::clone(&changes)));
    for fact in [compared.clone(), Fact::Revision(RevisionFact::NotNewer(changes))] {
        let (mut reads, now) = (Reads::new(Limits::OPERATOR), Instant::now());
        ask(&mut reads, &revision("two", Some("one")), "a", now);
        reads.answered(&revision("two", Some("one")), Answer::Read(fact.clone()), now);
        for at in [now, now + 100 * SLOWEST] {
            assert_eq!(ask(&mut reads, &revision("two", Some("one")), "a", at), (Some(fact.clone()), false));
            assert_eq!(ask(&mut reads, &revision("two", None), "a", at), (Some(compared.clone()), false));
        }
        for other in [revision("two", Some("zero")), revision("three", None)] {
            assert_eq!(ask(&mut reads, &other, "a", now), (None, true), "{other:?}");
        }
    }
    let mut reads = Reads::new(Limits::OPERATOR);
    ask(&mut reads, &revision("two", Some("one")), "a", Instant::now());
    assert!(ask(&mut reads, &revision("two", None), "a", Instant::now()).1, "nothing is known yet");
}
