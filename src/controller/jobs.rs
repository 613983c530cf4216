//! Decides when to read the Jobs of failing pods. A Job shows whether the work succeeded in the end, and which CronJob owns
//! it. It is read when one of its pods has a problem, and again only while the answer may change.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    backoff::doubled,
    diagnosis::JobFacts,
    jobs::{JobKey, JobReading},
};

/// The delay until a Job is read again after one of its pods ended. It doubles with each further read, up to
/// [`SLOWEST`].
const SOONEST: Duration = Duration::from_secs(1);
/// The shortest time between two reads that ends of pods cause, while no read brings anything new. It grows up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The delay until a Job is read again if nothing suggests that it has changed.
const USUAL: Duration = Duration::from_secs(60);
const SLOWEST: Duration = Duration::from_secs(15 * 60);
/// The longest delay for a Job that was never read, since a status may be waiting for it.
const UNREAD: Duration = Duration::from_secs(15);

/// The Jobs that were asked for, with the results of their reads.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    known: BTreeMap<JobKey, State>,
}

#[derive(Debug)]
struct State {
    /// Absent until the first read that gave an answer.
    reading: Option<JobReading>,
    /// Whether the Job was deleted after it was read.
    is_gone: bool,
    /// Whether a read is under way.
    is_reading: bool,
    asked_since: Instant,
    /// When to read it next, and the delay after that.
    read_at: Instant,
    delay: Duration,
    last_read: Option<Instant>,
    /// How often a pod has ended since a read brought anything new.
    ends: u32,
}

/// The answer to [`Jobs::ask`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JobAnswer {
    /// Absent until the Job was read.
    pub(super) facts: Option<Arc<JobFacts>>,
    /// When the Job was first asked for.
    pub(super) asked_since: Instant,
    /// The API server's message if it denied access to the Job or its CronJob; else empty.
    pub(super) denial: String,
    /// A read that is due now. The caller starts it.
    pub(super) query: Option<JobKey>,
    /// When the next read will be due.
    pub(super) read_at: Option<Instant>,
}

impl Jobs {
    /// Returns the known state of the Job of a pod with a problem, and the read to start if one is due.
    pub(super) fn ask(&mut self, key: JobKey, now: Instant) -> JobAnswer {
        let state = self.known.entry(key.clone()).or_insert(State {
            reading: None,
            is_gone: false,
            is_reading: false,
            asked_since: now,
            read_at: now,
            delay: SOONEST,
            last_read: None,
            ends: 0,
        });
        let open = !state.is_gone && !state.reading.as_ref().is_some_and(JobReading::is_final) && !state.is_reading;
        let due = open && state.read_at <= now;
        if due {
            state.is_reading = true;
            state.last_read = Some(now);
        }
        JobAnswer {
            facts: state.reading.as_ref().map(JobReading::facts),
            asked_since: state.asked_since,
            denial: state.reading.as_ref().map(JobReading::denial).unwrap_or_default().to_owned(),
            query: due.then_some(key),
            read_at: (open && !due).then_some(state.read_at),
        }
    }

    /// Stores the result of a read. Returns whether the objects with pods of this Job must be reconciled: because the
    /// result changed, or because the Job is to be read again. An object that was reconciled during the read could not
    /// schedule that.
    pub(super) fn answered(&mut self, key: &JobKey, reading: JobReading, now: Instant) -> bool {
        let Some(state) = self.known.get_mut(key) else { return false };
        state.is_reading = false;
        if state.reading.is_none() {
            if reading == JobReading::Unavailable {
                state.read_at = now + state.delay;
                state.delay = (2 * state.delay).min(UNREAD);
                return true;
            }
            state.delay = USUAL;
        }
        state.read_at = now + state.delay;
        state.delay = (2 * state.delay).min(SLOWEST);
        // An earlier result stays valid when a later read fails: the owner of a Job does not change, and a complete Job stays
        // complete.
        let reading = match (&state.reading, reading) {
            (_, JobReading::Unavailable) => return true,
            (Some(JobReading::Read { facts, is_orphan, .. }), JobReading::Denied(denial)) => {
                JobReading::Read { facts: Arc::clone(facts), denial, is_orphan: *is_orphan }
            }
            (Some(JobReading::Read { .. }), JobReading::Gone) => {
                state.is_gone = true;
                return false;
            }
            (_, reading) => reading,
        };
        let changes = state.reading.as_ref() != Some(&reading);
        if changes {
            state.ends = 0;
        }
        let is_final = reading.is_final();
        state.reading = Some(reading);
        changes || !is_final
    }

    /// A pod of this Job ended. The Job's status, or that of other runs of its CronJob, may change a moment later. Returns
    /// the Jobs to read again.
    pub(super) fn pod_ended(&mut self, key: &JobKey, now: Instant) -> Vec<JobKey> {
        let mut jobs = Vec::new();
        let first = JobKey { namespace: key.namespace.clone(), name: String::new(), uid: String::new() };
        let of_namespace = self.known.range_mut(first..).take_while(|(known, _)| known.namespace == key.namespace);
        for (known, state) in of_namespace {
            let Some(reading) = state.reading.as_ref().filter(|reading| !reading.is_final()) else { continue };
            let is_other_run = || {
                let cron_job = reading.facts().cron_job.clone().unwrap_or_default();
                let rest = key.name.strip_prefix(&cron_job).filter(|_| !cron_job.is_empty());
                rest.is_some_and(|rest| rest.starts_with('-'))
            };
            if known == key || is_other_run() {
                // Who changes ended pods all the time must not cause a read each time.
                let pause = match state.ends {
                    0 => Duration::ZERO,
                    ends => doubled(SOONEST, ends - 1, LONGEST_PAUSE),
                };
                let at = state.last_read.map_or(now, |read| now.max(read + pause));
                if at < state.read_at || state.is_reading {
                    state.ends = state.ends.saturating_add(1);
                    state.delay = SOONEST.max(pause);
                    state.read_at = at;
                    jobs.push(known.clone());
                }
            }
        }
        jobs
    }

    /// This replica begins to lead, perhaps again. A follower reads nothing, so what may have changed since is read again.
    pub(super) fn begin_term(&mut self) {
        self.known.retain(|_, state| {
            state.is_reading = false;
            state.is_gone || state.reading.as_ref().is_some_and(JobReading::is_final)
        });
    }

    /// Forgets the Jobs that are no longer needed.
    pub(super) fn retain(&mut self, is_needed: impl Fn(&JobKey) -> bool) {
        self.known.retain(|key, state| state.is_reading || is_needed(key));
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn key(name: &str) -> JobKey {
        JobKey { namespace: "shop".to_owned(), name: name.to_owned(), uid: "u".to_owned() }
    }

    fn read(facts: JobFacts) -> JobReading {
        JobReading::Read { facts: Arc::new(facts), denial: String::new(), is_orphan: false }
    }

    #[test]
    fn reads_a_job_again_only_while_it_may_change() {
        let mut jobs = Jobs::default();
        let start = Instant::now();

        let answer = jobs.ask(key("u"), start);
        assert_eq!((answer.facts, answer.query), (None, Some(key("u"))));
        let under_way = jobs.ask(key("u"), start);
        assert_eq!((under_way.facts, under_way.query, under_way.read_at), (None, None, None));

        assert!(jobs.answered(&key("u"), read(JobFacts::default()), start));
        let answer = jobs.ask(key("u"), start);
        assert_eq!((answer.facts, answer.query, answer.read_at), (Some(Arc::default()), None, Some(start + USUAL)));

        assert_eq!(jobs.pod_ended(&key("u"), start), [key("u")]);
        assert!(jobs.ask(key("u"), start).query.is_some());
        assert_eq!(jobs.ask(key("u"), start).read_at, None, "not known during the read");
        assert!(
            jobs.answered(&key("u"), read(JobFacts::default()), start),
            "the same result, but it is to be read again"
        );
        assert_eq!(jobs.ask(key("u"), start).read_at, Some(start + SOONEST));
        assert!(jobs.ask(key("u"), start + SOONEST).query.is_some());
        jobs.retain(|_| false);
        assert_eq!(jobs.known.len(), 1, "a read is under way");

        let later = start + 10 * SLOWEST;
        for end in [
            read(JobFacts { complete: true, ..JobFacts::default() }),
            read(JobFacts { failed: Some(Timestamp::UNIX_EPOCH), ..JobFacts::default() }),
            read(JobFacts {
                superseded: true,
                failed: Some(Timestamp::UNIX_EPOCH),
                cron_job: Some("c".into()),
                ..JobFacts::default()
            }),
            JobReading::Read {
                facts: Arc::new(JobFacts {
                    failed: Some(Timestamp::UNIX_EPOCH),
                    cron_job: Some("c".into()),
                    ..JobFacts::default()
                }),
                denial: String::new(),
                is_orphan: true,
            },
            JobReading::Gone,
        ] {
            jobs.answered(&key("u"), end.clone(), start);
            let answer = jobs.ask(key("u"), later);
            assert_eq!((answer.query, answer.read_at), (None, None), "{end:?}");
            assert!(jobs.pod_ended(&key("u"), later).is_empty(), "{end:?}");
            jobs.known.get_mut(&key("u")).unwrap().reading = None;
        }
    }

    #[test]
    fn reads_an_unreadable_job_less_and_less_often() {
        for (reading, most) in [(JobReading::Denied("no".to_owned()), 8), (JobReading::Unavailable, 250)] {
            let mut jobs = Jobs::default();
            let mut now = Instant::now();
            let mut asked = 0;
            for _ in 0..3600 {
                if jobs.ask(key("u"), now).query.is_some() {
                    asked += 1;
                    jobs.answered(&key("u"), reading.clone(), now);
                }
                now += Duration::from_secs(1);
            }
            assert!((2..=most).contains(&asked), "{asked} reads in an hour of {reading:?}");
        }
    }

    #[test]
    fn pods_that_end_all_the_time_cause_few_reads() {
        let mut jobs = Jobs::default();
        let start = Instant::now();
        let mut asked = 0;
        for step in 0..3600 * 50 {
            let now = start + step * Duration::from_millis(20);
            jobs.pod_ended(&key("u"), now);
            if jobs.ask(key("u"), now).query.is_some() {
                asked += 1;
                jobs.answered(&key("u"), read(JobFacts::default()), now);
            }
        }
        assert!((360..=370).contains(&asked), "{asked} reads in an hour");
        let now = start + Duration::from_secs(3600);
        jobs.answered(&key("u"), read(JobFacts { attempts: Some((1, 6)), ..JobFacts::default() }), now);
        assert_eq!(jobs.pod_ended(&key("u"), now), [key("u")]);
        assert!(jobs.ask(key("u"), now).query.is_some(), "immediately, because the last read brought something new");
    }

    #[test]
    fn keeps_what_was_read_through_an_outage_or_a_denial() {
        let mut jobs = Jobs::default();
        let now = Instant::now();
        jobs.ask(key("u"), now);
        let facts =
            JobFacts { failed: Some(Timestamp::UNIX_EPOCH), cron_job: Some("nightly".into()), ..JobFacts::default() };
        jobs.answered(&key("u"), read(facts.clone()), now);
        for lost in [JobReading::Unavailable, JobReading::Denied("no".to_owned()), JobReading::Gone] {
            jobs.answered(&key("u"), lost.clone(), now);
            assert_eq!(jobs.ask(key("u"), now).facts.as_deref(), Some(&facts), "{lost:?}");
        }
        assert_eq!(jobs.ask(key("u"), now).denial, "no");

        jobs.ask(key("v"), now);
        jobs.answered(&key("v"), JobReading::Unavailable, now);
        let answer = jobs.ask(key("v"), now);
        assert_eq!(
            (answer.facts, answer.read_at),
            (None, Some(now + SOONEST)),
            "it was never read, so it is retried soon"
        );
    }

    #[test]
    fn reads_a_job_again_after_another_run_of_its_cron_job() {
        let mut jobs = Jobs::default();
        let now = Instant::now();
        jobs.ask(key("nightly-1"), now);
        let facts =
            JobFacts { failed: Some(Timestamp::UNIX_EPOCH), cron_job: Some("nightly".into()), ..JobFacts::default() };
        jobs.answered(&key("nightly-1"), read(facts), now);
        assert!(jobs.pod_ended(&key("nightly2-5"), now).is_empty(), "another CronJob's");
        assert!(jobs.pod_ended(&JobKey { namespace: "ml".into(), ..key("nightly-2") }, now).is_empty());
        assert_eq!(jobs.pod_ended(&key("nightly-2"), now), [key("nightly-1")]);
        assert!(jobs.ask(key("nightly-1"), now).query.is_some());
    }

    #[test]
    fn a_new_term_keeps_what_cannot_have_changed() {
        let mut jobs = Jobs::default();
        let now = Instant::now();
        let complete = JobFacts { complete: true, ..JobFacts::default() };
        let cron_job =
            JobFacts { failed: Some(Timestamp::UNIX_EPOCH), cron_job: Some("nightly".into()), ..JobFacts::default() };
        for (name, facts) in [("complete", complete.clone()), ("nightly-1", cron_job), ("running", JobFacts::default())]
        {
            jobs.ask(key(name), now);
            jobs.answered(&key(name), read(facts), now);
        }
        jobs.ask(key("unread"), now);
        jobs.begin_term();
        let answer = jobs.ask(key("complete"), now);
        assert_eq!((answer.facts.as_deref(), answer.query), (Some(&complete), None));
        for name in ["nightly-1", "running", "unread"] {
            let answer = jobs.ask(key(name), now);
            assert_eq!((answer.facts, answer.query), (None, Some(key(name))), "{name} is read again");
        }
    }
}
