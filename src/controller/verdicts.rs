//! Judges the suspect pods of one object. The verdict on a failed pod of a Job depends on the Job. No I/O: the caller starts
//! the reads that [`Known`] asks for.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    bounded::Interner,
    diagnosis::{Finding, Health, Thresholds, assess, needs_job},
    facts::Known,
    pods::Pod,
    report::Tracker,
};

use super::unread_jobs::{StoredProblems, UnreadJobs};

/// How long to wait for a Job that cannot be read before its pod is judged without it: as long as an interrupted watch is
/// tolerated.
const JOB_PATIENCE: Duration = Duration::from_secs(60);
/// The same for a pod that had failed long before its Job was asked for, as after a failover: its Job most likely completed,
/// or it was reported before.
const OLD_PATIENCE: Duration = Duration::from_secs(10 * 60);
/// The most warnings that a status contains.
pub(super) const WARNINGS: usize = 4;

/// The inputs of the verdicts besides the pods and what is known of the cluster.
pub(super) struct JudgeContext<'a> {
    pub(super) thresholds: &'a Thresholds,
    pub(super) tracker: &'a Tracker,
    /// What the tracker has not resumed from yet.
    pub(super) stored: &'a StoredProblems<'a>,
    pub(super) now: Instant,
    pub(super) wall: Timestamp,
}

/// The verdicts on an object's pods.
#[derive(Default)]
pub(super) struct Verdicts<'p> {
    /// The pods with a problem.
    pub(super) found: Vec<(&'p Pod, Box<Finding>)>,
    /// How many pods have a problem that an annotation excludes.
    pub(super) ignored: usize,
    /// Which Jobs could not be read, and why.
    pub(super) warnings: Vec<String>,
    /// When time alone may change a verdict, or a Job is due to be read again.
    pub(super) recheck: Option<Timestamp>,
    /// The pods that are left out, because their Jobs were not read.
    pub(super) unread: UnreadJobs,
    /// The status must not be written before this time, because it might miss a problem.
    pub(super) wait_until: Option<Instant>,
}

/// Judges pods. `waiting_since` is kept between calls: since when some Job has not been read. It limits how long a status is
/// held back while further Jobs cannot be read.
pub(super) fn judge_pods<'p>(
    pods: impl Iterator<Item = &'p Pod>,
    known: &Known<'_>,
    waiting_since: &mut Option<Instant>,
    context: &JudgeContext<'_>,
) -> Verdicts<'p> {
    let &JudgeContext { thresholds, tracker, stored, now, wall, .. } = context;
    let to_wall = |at: Instant| wall.saturating_add(at.saturating_duration_since(now)).unwrap_or(wall);
    let mut verdicts = Verdicts::default();
    let has_waited = waiting_since.is_some_and(|since| now >= since + JOB_PATIENCE);
    // The status from before a restart may list pods whose Jobs have not been read since.
    let mut may_lose_problem = !tracker.is_resumed();
    let mut wait_until: Option<Instant> = None;
    let mut guesses = Vec::new();
    let mut lacks_jobs = false;
    // Of thousands of pods that fail at the same time, most have the same few texts.
    let mut texts = Interner::new(usize::MAX);
    for pod in pods {
        let verdict = assess(pod, known, thresholds, wall);
        if let (Some(asked), Some(job)) = (known.take_asked_job(), needs_job(pod)) {
            if !asked.denial.is_empty() {
                verdicts.warn(format!("could not read the Job of a failed pod: {}", asked.denial));
            }
            if verdict.lacks_job {
                lacks_jobs = true;
                let had_problem = tracker.had_problem(pod.uid) || stored.has(pod, job);
                let asked_at = wall.saturating_sub(now.saturating_duration_since(asked.since)).unwrap_or(wall);
                let is_old =
                    |finding: &Finding| finding.since.saturating_add(JOB_PATIENCE).unwrap_or(Timestamp::MAX) < asked_at;
                let is_unknown = !had_problem && matches!(&verdict.health, Health::Problem(own) if is_old(own));
                let report_at = asked.since + JOB_PATIENCE;
                let guess_at = if is_unknown { asked.since + OLD_PATIENCE } else { report_at };
                if now < guess_at && !(has_waited && had_problem) {
                    may_lose_problem |= had_problem;
                    verdicts.unread.add(pod, job);
                    if now < report_at && !(has_waited && is_unknown) {
                        wait_until = wait_until.into_iter().chain([report_at]).min();
                    }
                    verdicts.recheck_at(to_wall(if now < report_at { report_at } else { guess_at }));
                    if let (Health::Problem(finding), false) = (verdict.health, is_unknown) {
                        guesses.push((pod, finding));
                    }
                    continue;
                }
            }
        }
        verdict.recheck.into_iter().for_each(|at| verdicts.recheck_at(at));
        match verdict.health {
            Health::Problem(_) if pod.ignored => verdicts.ignored += 1,
            Health::Problem(mut finding) => {
                finding.for_each_text(&mut |text| _ = texts.intern(text));
                verdicts.found.push((pod, finding));
            }
            Health::Healthy | Health::Settling => {}
        }
    }
    *waiting_since = waiting_since.or(Some(now)).filter(|_| lacks_jobs);
    known.due().into_iter().for_each(|at| verdicts.recheck_at(to_wall(at)));
    if let Some(until) = wait_until {
        if has_waited && verdicts.found.is_empty() && !guesses.is_empty() {
            // Otherwise pods that are deleted within their minute, each after the next one has failed, would hold the
            // status back for as long as Jobs cannot be read.
            verdicts.found = guesses;
        } else if verdicts.found.is_empty() || may_lose_problem && !has_waited {
            verdicts.wait_until = Some(known.due().map_or(until, |at| at.min(until)));
        }
    }
    verdicts
}

impl Verdicts<'_> {
    fn recheck_at(&mut self, at: Timestamp) {
        self.recheck = self.recheck.into_iter().chain([at]).min();
    }

    fn warn(&mut self, warning: String) {
        if self.warnings.len() < WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use arcstr::ArcStr;

    use super::*;
    use crate::{
        api::{NamespacedName, OrchestrStatus},
        events::EventStore,
        facts::{Answer, Judge, Limits, Reads},
        index::{Index, ViewId},
        pods::{self, PodSelection, Uid},
        report::{SharedProblems, UpdateContext},
    };

    #[test]
    fn a_crash_looping_pod_takes_little_during_a_reconcile() {
        use crate::diagnosis::ContainerFinding;
        let size = size_of::<Finding>() + size_of::<ContainerFinding>();
        assert!(size <= 304, "{size} bytes");
        let pods = ["a", "b"].map(|name| {
            let pod = format!(
                r#"{{"metadata": {{"namespace": "shop", "name": "{name}", "labels": {{"pod-template-hash": "5d9f"}},
                    "ownerReferences": [
                        {{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-5d9f", "uid": "1", "controller": true}}]}},
                    "status": {{"phase": "Running", "containerStatuses": [{{"name": "app", "restartCount": 7,
                        "state": {{"waiting": {{"reason": "CrashLoopBackOff"}}}},
                        "lastState": {{"terminated": {{"exitCode": 1, "reason": "Error"}}}}}}]}}}}"#
            );
            pods::from_json(&pod).unwrap()
        });
        let context = JudgeContext {
            thresholds: &Thresholds::default(),
            tracker: &Tracker::default(),
            stored: &StoredProblems::default(),
            now: Instant::now(),
            wall: Timestamp::UNIX_EPOCH,
        };
        let cluster = Cluster::default();
        let mut found = judge_pods(pods.iter(), &cluster.known(context.now), &mut None, &context).found;
        let mut texts = found.iter_mut().map(|(_, finding)| {
            let mut texts = Vec::new();
            finding.for_each_text(&mut |text| texts.push(text.clone()));
            texts
        });
        let (one, other) = (texts.next().unwrap(), texts.next().unwrap());
        assert!(one.iter().any(|text| text == "cart") && one.iter().any(|text| text.contains("exited with code 1")));
        assert_eq!(one, other);
        for (one, other) in one.iter().zip(&other) {
            assert!(ArcStr::ptr_eq(one, other), "{one}");
        }
    }

    fn failed_pod(job: &str) -> Pod {
        let controller =
            pods::Controller { api_version: "batch/v1".into(), kind: "Job".into(), name: job.into(), uid: job.into() };
        let uid = Uid::from(job.bytes().fold(0, |uid, byte| uid << 8 | u128::from(byte)));
        Pod { uid, name: job.into(), phase: "Failed".into(), controller: Some(controller), ..Pod::default() }
    }

    /// What is known of a cluster without pods.
    struct Cluster {
        index: Index,
        view: ViewId,
        events: EventStore,
        reads: RefCell<Reads>,
        object: NamespacedName,
    }

    impl Default for Cluster {
        fn default() -> Self {
            let (mut index, reads) = (Index::new(Duration::ZERO), RefCell::new(Reads::new(Limits::OPERATOR)));
            let all = PodSelection { namespaces: Vec::new(), exclude_namespaces: Vec::new(), labels: Vec::new() };
            let (view, object) = (index.add_view(all), NamespacedName::new("ops", "cluster"));
            Self { index, view, events: EventStore::default(), reads, object }
        }
    }

    impl Cluster {
        fn known(&self, now: Instant) -> Known<'_> {
            Known::new(&self.index, self.view, &self.events, &self.reads, Judge::Object(&self.object), now)
        }
    }

    /// An object whose Jobs cannot be read.
    #[derive(Default)]
    struct Outage {
        wall: Timestamp,
        cluster: Cluster,
        tracker: Tracker,
        waiting_since: Option<Instant>,
        /// The status from before a failover.
        status: OrchestrStatus,
        left_out: u64,
    }

    impl Outage {
        /// Returns the names of the pods that are reported; absent if the status is held back.
        fn judge<'p>(&mut self, pods: &'p [Pod], now: Instant) -> Option<Vec<&'p str>> {
            let context = JudgeContext {
                thresholds: &Thresholds::default(),
                tracker: &self.tracker,
                stored: &StoredProblems::of(&self.status),
                now,
                wall: self.wall,
            };
            let known = self.cluster.known(now);
            let mut verdicts = judge_pods(pods.iter(), &known, &mut self.waiting_since, &context);
            self.left_out = verdicts.unread.pods();
            let mut reads = self.cluster.reads.borrow_mut();
            while let Some(question) = reads.next(|_| true) {
                reads.answered(&question, Answer::Unavailable, now);
            }
            if let Some(until) = verdicts.wait_until {
                assert!(now < until && until <= now + JOB_PATIENCE);
                return None;
            }
            self.tracker.update(&mut verdicts.found, &UpdateContext::default(), &mut SharedProblems::default());
            Some(verdicts.found.iter().map(|(pod, _)| pod.name.as_str()).collect())
        }
    }

    #[test]
    fn waits_a_minute_for_each_job_before_it_guesses() {
        let start = Instant::now();
        let pods = ["first", "second"].map(failed_pod);
        let mut outage = Outage::default();
        for (seconds, pods, reported) in [
            (0, &pods[..1], None),
            (59, &pods[..1], None),
            (60, &pods[..1], Some(vec!["first"])),
            (61, &pods[..], Some(vec!["first"])),
            (120, &pods[..], Some(vec!["first"])),
            (121, &pods[..], Some(vec!["first", "second"])),
        ] {
            let found = outage.judge(pods, start + Duration::from_secs(seconds));
            assert_eq!(found, reported, "{seconds} s after the first Job was asked for");
        }
    }

    #[test]
    fn unreadable_jobs_hold_a_status_back_for_a_minute() {
        let start = Instant::now();
        let pods: Vec<_> = (0..10).map(|index| failed_pod(&index.to_string())).collect();
        let mut outage = Outage::default();
        // Each pod exists for 50 s, and the next one fails before it is deleted.
        let mut at = |seconds: usize| {
            let present = seconds.saturating_sub(50).div_ceil(40)..=seconds / 40;
            outage.judge(&pods[present], start + Duration::from_secs(seconds as u64)).map(|found| found.len())
        };
        assert_eq!([0, 20, 40, 59].map(&mut at), [None; 4]);
        for seconds in (60..380).step_by(5) {
            assert!(at(seconds).is_some_and(|found| found > 0), "{seconds} s");
        }
    }

    #[test]
    fn new_unreadable_jobs_hold_a_status_back_for_a_minute_at_most() {
        let start = Instant::now();
        let pods: Vec<_> = (0..10).map(|index| failed_pod(&index.to_string())).collect();
        let mut outage = Outage::default();
        let mut reported = Vec::new();
        for (count, seconds) in (1..=10).zip((0..).step_by(20)) {
            let found = outage.judge(&pods[..count], start + Duration::from_secs(seconds));
            reported.push(found.map(|found| found.len()));
        }
        let waiting = [None; 3];
        assert_eq!(reported[..3], waiting);
        assert_eq!(reported[3..], [1, 2, 3, 4, 5, 6, 7].map(Some), "each Job has its own minute");
    }

    /// As after a failover with more Jobs than can be read within a minute.
    #[test]
    fn an_unreported_old_failure_is_unknown_for_ten_minutes() {
        let start = Instant::now();
        let wall: Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
        let failed = |job: &str, minutes: u64| {
            let ended = wall - Duration::from_secs(60 * minutes);
            Pod { created: Some(ended), namespace: "shop".into(), ..failed_pod(job) }
        };
        let pods = [failed("old", 60), failed("reported", 60), failed("new", 0)];
        let status = serde_json::from_value(serde_json::json!({"incidents": [{
            "key": "1", "namespace": "shop", "owner": {"kind": "Job", "name": "reported"}, "reason": "Error", "pods": 1,
            "since": "2026-11-01T11:00:00Z",
        }]}));
        let mut outage = Outage { status: status.unwrap(), ..Outage::default() };
        for (seconds, reported, left_out) in [
            (0, None, 3),
            (59, None, 3),
            (60, Some(vec!["reported", "new"]), 1),
            (599, Some(vec!["reported", "new"]), 1),
            (600, Some(vec!["old", "reported", "new"]), 0),
        ] {
            let after = Duration::from_secs(seconds);
            outage.wall = wall + after;
            assert_eq!(outage.judge(&pods, start + after), reported, "{seconds} s after the failover");
            assert_eq!(outage.left_out, left_out, "{seconds} s after the failover");
        }
    }
}
