//! Judges the suspect pods of one object. The verdict on a failed pod of a Job depends on the Job. No I/O: the caller starts
//! the reads of Jobs.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::Duration,
};

use arcstr::ArcStr;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    bounded::Interner,
    diagnosis::{
        ClaimFacts, ClusterNodes, Finding, Health, JobFacts, PortHolder, TemplateChanges, Thresholds, World, assess,
        needs_job,
    },
    events::Event,
    jobs::JobKey,
    pods::{Controller, Pod},
    report::Tracker,
};

use super::{
    jobs::{JobAnswer, Jobs},
    unread_jobs::{StoredProblems, UnreadJobs},
};

/// How long to wait for a Job that cannot be read before its pod is judged without it: as long as an interrupted watch is
/// tolerated.
const JOB_PATIENCE: Duration = Duration::from_secs(60);
/// The same for a pod that had failed long before its Job was asked for, as after a failover: its Job most likely completed,
/// or it was reported before.
const OLD_PATIENCE: Duration = Duration::from_secs(10 * 60);
/// The most warnings that a status contains.
pub(super) const WARNINGS: usize = 4;

/// What is known of claims, by name.
type NamedClaims = Vec<(ArcStr, Arc<ClaimFacts>)>;

/// The inputs of the verdicts beside the pods and their Jobs.
pub(super) struct JudgeContext<'a> {
    pub(super) thresholds: &'a Thresholds,
    pub(super) tracker: &'a Tracker,
    /// What the tracker has not resumed from yet.
    pub(super) stored: &'a StoredProblems<'a>,
    /// Whether the pod's owner has a healthy pod that was created after it.
    pub(super) is_replaced: &'a dyn Fn(&Pod) -> bool,
    /// The Warning events about a pod.
    pub(super) events: &'a dyn Fn(&Pod) -> Arc<[Event]>,
    /// Another pod that uses a host port of a pod.
    pub(super) port_holder: &'a dyn Fn(&Pod) -> Option<PortHolder>,
    /// The pod template of the pod's revision, if it was read.
    pub(super) revision: &'a dyn Fn(&Pod) -> Option<Arc<TemplateChanges>>,
    /// The nodes of the cluster, if they were read.
    pub(super) nodes: &'a dyn Fn() -> Option<Arc<ClusterNodes>>,
    /// The claims of a pod that were read.
    pub(super) claims: &'a dyn Fn(&Pod) -> NamedClaims,
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
    /// The Jobs to read now.
    pub(super) queries: Vec<JobKey>,
    /// The status must not be written before this time, because it might miss a problem.
    pub(super) wait_until: Option<Instant>,
}

/// Judges pods. `waiting_since` is kept between calls: since when some Job has not been read. It limits how long a status is
/// held back while further Jobs cannot be read.
pub(super) fn judge_pods<'p>(
    pods: impl Iterator<Item = &'p Pod>,
    jobs: &mut Jobs,
    waiting_since: &mut Option<Instant>,
    context: &JudgeContext<'_>,
) -> Verdicts<'p> {
    let &JudgeContext { thresholds, tracker, stored, now, wall, .. } = context;
    let world = Watched { context, jobs: RefCell::new(jobs), answer: Cell::new(None) };
    let to_wall = |at: Instant| wall.saturating_add(at.saturating_duration_since(now)).unwrap_or(wall);
    let mut verdicts = Verdicts::default();
    let has_waited = waiting_since.is_some_and(|since| now >= since + JOB_PATIENCE);
    // The status from before a restart may list pods whose Jobs have not been read since.
    let mut may_lose_problem = !tracker.is_resumed();
    let mut wait_until: Option<Instant> = None;
    let mut next_read: Option<Instant> = None;
    let mut guesses = Vec::new();
    let mut lacks_jobs = false;
    // Of thousands of pods that fail at the same time, most have the same few texts.
    let mut texts = Interner::new(usize::MAX);
    for pod in pods {
        let verdict = assess(pod, &world, thresholds, wall);
        if let (Some(answer), Some(job)) = (world.answer.take(), needs_job(pod)) {
            verdicts.queries.extend(answer.query);
            if let Some(at) = answer.read_at {
                next_read = next_read.into_iter().chain([at]).min();
                verdicts.recheck_at(to_wall(at));
            }
            if !answer.denial.is_empty() {
                verdicts.warn(format!("could not read the Job of a failed pod: {}", answer.denial));
            }
            if verdict.lacks_job {
                lacks_jobs = true;
                let had_problem = tracker.had_problem(pod.uid) || stored.has(pod, job);
                let asked = wall.saturating_sub(now.saturating_duration_since(answer.asked_since)).unwrap_or(wall);
                let is_old =
                    |finding: &Finding| finding.since.saturating_add(JOB_PATIENCE).unwrap_or(Timestamp::MAX) < asked;
                let is_unknown = !had_problem && matches!(&verdict.health, Health::Problem(own) if is_old(own));
                let report_at = answer.asked_since + JOB_PATIENCE;
                let guess_at = if is_unknown { answer.asked_since + OLD_PATIENCE } else { report_at };
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
    if let Some(until) = wait_until {
        if has_waited && verdicts.found.is_empty() && !guesses.is_empty() {
            // Otherwise pods that are deleted within their minute, each after the next one has failed, would hold the
            // status back for as long as Jobs cannot be read.
            verdicts.found = guesses;
        } else if verdicts.found.is_empty() || may_lose_problem && !has_waited {
            verdicts.wait_until = Some(next_read.map_or(until, |at| at.min(until)));
        }
    }
    verdicts
}

/// What the operator knows about the pods that it watches.
struct Watched<'a> {
    context: &'a JudgeContext<'a>,
    jobs: RefCell<&'a mut Jobs>,
    /// What is known about the Job of the pod that is assessed, if it was asked for.
    answer: Cell<Option<JobAnswer>>,
}

impl World for Watched<'_> {
    fn is_replaced(&self, pod: &Pod) -> bool {
        (self.context.is_replaced)(pod)
    }

    fn job(&self, pod: &Pod, job: &Controller) -> Option<Arc<JobFacts>> {
        // No Job is read for a pod that is only counted.
        if pod.ignored {
            return Some(Arc::default());
        }
        let answer = self.jobs.borrow_mut().ask(JobKey::new(pod, job), self.context.now);
        let facts = answer.facts.clone();
        self.answer.set(Some(answer));
        facts
    }

    fn events(&self, pod: &Pod) -> Arc<[Event]> {
        (self.context.events)(pod)
    }

    fn port_holder(&self, pod: &Pod) -> Option<PortHolder> {
        (self.context.port_holder)(pod)
    }

    fn revision(&self, pod: &Pod) -> Option<Arc<TemplateChanges>> {
        // Nothing is read for a pod that is only counted.
        if pod.ignored { None } else { (self.context.revision)(pod) }
    }

    fn nodes(&self, pod: &Pod) -> Option<Arc<ClusterNodes>> {
        if pod.ignored { None } else { (self.context.nodes)() }
    }

    fn claims(&self, pod: &Pod) -> NamedClaims {
        if pod.ignored { Vec::new() } else { (self.context.claims)(pod) }
    }
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
    use super::*;
    use crate::{
        api::OrchestrStatus,
        jobs::JobReading,
        pods::{self, Uid},
        report::UpdateContext,
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
            is_replaced: &|_| false,
            events: &|_| Arc::default(),
            port_holder: &|_| None,
            revision: &|_| None,
            nodes: &|| None,
            claims: &|_| Vec::new(),
            now: Instant::now(),
            wall: Timestamp::UNIX_EPOCH,
        };
        let mut found = judge_pods(pods.iter(), &mut Jobs::default(), &mut None, &context).found;
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

    /// An object whose Jobs cannot be read.
    #[derive(Default)]
    struct Outage {
        wall: Timestamp,
        jobs: Jobs,
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
                is_replaced: &|_| false,
                events: &|_| Arc::default(),
                port_holder: &|_| None,
                revision: &|_| None,
                nodes: &|| None,
                claims: &|_| Vec::new(),
                now,
                wall: self.wall,
            };
            let mut verdicts = judge_pods(pods.iter(), &mut self.jobs, &mut self.waiting_since, &context);
            self.left_out = verdicts.unread.pods();
            for query in &verdicts.queries {
                self.jobs.answered(query, JobReading::Unavailable, now);
            }
            if let Some(until) = verdicts.wait_until {
                assert!(now < until && until <= now + JOB_PATIENCE);
                return None;
            }
            let context = UpdateContext {
                previous: None,
                generation: 1,
                ignores: &|_, _| false,
                remains: &|_| true,
                is_hidden: &|_| false,
            };
            self.tracker.update(&mut verdicts.found, &context);
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
