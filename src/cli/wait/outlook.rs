//! Whether a trouble of a pod can mend itself. Pure.
//!
//! A wait must never fail what is only slow, so whatever is not known to be hopeless may mend itself. docs/pipelines.md
//! describes these rules.

use std::{cmp::Reverse, time::Duration};

use jiff::Timestamp;

use crate::{
    api::{Cause, ProblemKind},
    diagnosis::{self, Explanation, Finding, Health, Thresholds, World},
    events::Event,
    pods::{ContainerStatus, Pod, Terminated},
};

use super::observed::{Observed, after, is_long_run};

/// The longest time between two attempts of the kubelet: its back-offs reach five minutes.
const LONGEST_BACK_OFF: Duration = Duration::from_mins(6);

/// How much patience troubles get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// How long something that a pod refers to may be missing, because it may be created at the same moment.
    pub(super) grace: Duration,
    /// How long after its first start a container may crash in a loop, for example until its database is up.
    pub(super) crash_grace: Duration,
    /// After how many restarts a container crashes in a loop.
    pub(super) restarts: i32,
    /// How long a pod must have been ready without a restart.
    pub(super) stable: Duration,
}

/// One look at the targets of a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    pub(super) limits: Limits,
    /// When the wait began.
    pub(super) begun: Timestamp,
    /// Whether everything is checked only once. Then what has failed before counts, because nothing follows.
    pub(super) is_single: bool,
    pub(super) now: Timestamp,
}

/// Whether a trouble can mend itself. In the order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outlook {
    /// It runs again, and for long enough for a wait. The operator reports it for longer: see [`required_run`].
    Mended,
    MayMend,
    /// It is hopeless if it still exists at this time. If another attempt must have failed by then, the latest time.
    HopelessAt(Timestamp),
    Hopeless,
}

/// What happens to a pod after it has failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its controller creates another one.
    Replaced,
    /// Its Job decides whether to try again.
    Retried,
    /// It is of an earlier revision: its controller deletes it, whatever its state.
    Superseded,
    /// Nothing.
    Final,
}

/// What is wrong with a pod that is not ready yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trouble {
    pub(super) pod: Pod,
    pub(super) finding: Finding,
    pub(super) outlook: Outlook,
}

impl Trouble {
    /// The cause, or the reason if it is not known.
    pub(super) fn code(&self) -> &str {
        match self.finding.explanation.cause {
            Cause::Unknown => &self.finding.reason,
            cause => cause.as_str(),
        }
    }

    /// Whether it keeps a wait from being done.
    pub(super) fn is_open(&self) -> bool {
        self.outlook != Outlook::Mended
    }
}

/// The state of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Assessment {
    /// Absent if the pod is healthy.
    pub(super) trouble: Option<Trouble>,
    /// When the state may change without a change of the pod.
    pub(super) recheck: Option<Timestamp>,
}

/// Any state before Ready is a trouble, however short, that may mend itself: a person who waits wants to know it. What has
/// failed is the same problem, for as long, as for the operator.
fn thresholds() -> Thresholds {
    let none = Duration::ZERO;
    Thresholds { pending: none, initializing: none, not_ready: none, terminating: none, ..Thresholds::default() }
}

/// How long a container that has failed before must run until a wait may end, so that the pauses of a crash loop do not pass
/// as success. One that is OOM-killed a minute after each start is not healthy ten seconds after the next one: it must
/// outlive its longest run, and be stable then.
fn required_run(observed: &Observed, check: Check) -> Duration {
    let shortest = Duration::from_secs(10);
    shortest.max(observed.required_run(check.limits.stable, check.now))
}

pub(super) fn assess(observed: &Observed, world: &impl World, fate: Fate, check: Check) -> Assessment {
    let (pod, now) = (&observed.pod, check.now);
    let verdict = diagnosis::assess(pod, world, &thresholds(), now);
    let until_stable = Thresholds { restarted: required_run(observed, check), ..thresholds() };
    let stable = diagnosis::assess(pod, world, &until_stable, now);
    let mut recheck = verdict.recheck.into_iter().chain(stable.recheck).min();
    let is_mended = stable.health == Health::Healthy;
    let ((Health::Problem(mut finding), _) | (_, Health::Problem(mut finding))) = (verdict.health, stable.health)
    else {
        return Assessment { trouble: None, recheck };
    };
    if is_mended {
        let trouble = Trouble { pod: pod.clone(), finding: *finding, outlook: Outlook::Mended };
        return Assessment { trouble: Some(trouble), recheck };
    }
    let view = View { observed, events: &world.events(pod), fate, outdated_before: check.outdated_before(pod), check };
    let mut outlook = view.outlook(finding.kind, &finding.container, finding.since, &finding.explanation);
    let others =
        finding.others.iter().map(|other| view.outlook(other.kind, &other.container, other.since, &other.explanation));
    // Of several equal ones, `max_by_key` would take the last.
    let worst = others.enumerate().rev().max_by_key(|(_, outlook)| severity(*outlook));
    if let Some((index, other)) = worst.filter(|(_, other)| severity(*other) > severity(outlook)) {
        finding.promote(index);
        outlook = other;
    }
    if let Outlook::HopelessAt(time) = outlook {
        recheck = Some(recheck.map_or(time, |recheck| recheck.min(time)));
    }
    Assessment { trouble: Some(Trouble { pod: pod.clone(), finding: *finding, outlook }), recheck }
}

/// The more severe, the higher. Of two that become hopeless, the earlier one.
pub(super) fn severity(outlook: Outlook) -> (u8, Reverse<Option<Timestamp>>) {
    match outlook {
        Outlook::Mended => (0, Reverse(None)),
        Outlook::MayMend => (1, Reverse(None)),
        Outlook::HopelessAt(time) => (2, Reverse(Some(time))),
        Outlook::Hopeless => (3, Reverse(None)),
    }
}

/// The outlook of something that may be repaired from outside within `grace`, after which another attempt is made.
///
/// It is hopeless if an attempt after the grace failed as well. Without events, which may be lost or forbidden, `patience`
/// leaves time for that attempt.
pub(super) fn persists(
    start: Timestamp,
    last_attempt: Option<Timestamp>,
    grace: Duration,
    patience: Duration,
    now: Timestamp,
) -> Outlook {
    let (end, latest) = (after(start, grace), after(start, patience));
    match last_attempt {
        Some(last) if last >= end && now >= end => Outlook::Hopeless,
        _ if now >= latest => Outlook::Hopeless,
        _ => Outlook::HopelessAt(latest),
    }
}

impl Check {
    /// How long to wait for another attempt. If the first one precedes the wait, the next may be a whole back-off away. A single
    /// check sees no other attempt.
    pub(super) fn patience(&self, is_older_than_wait: bool) -> Duration {
        let grace = self.limits.grace;
        match (self.is_single, is_older_than_wait) {
            (true, _) => grace,
            (false, true) => grace.saturating_mul(2).max(LONGEST_BACK_OFF),
            (false, false) => grace.saturating_mul(2),
        }
    }

    /// The time before which nothing that has failed proves anything. What an older pod needs may have been repaired just
    /// before the wait, and its next attempt may be minutes away. A pod that is created about when the wait begins fails for a
    /// reason of the present.
    fn outdated_before(&self, pod: &Pod) -> Option<Timestamp> {
        let is_older = pod.created.is_some_and(|created| after(created, self.limits.grace) < self.begun);
        (is_older && !self.is_single).then_some(self.begun)
    }
}

struct View<'a> {
    observed: &'a Observed,
    events: &'a [Event],
    fate: Fate,
    outdated_before: Option<Timestamp>,
    check: Check,
}

impl View<'_> {
    fn outlook(&self, kind: ProblemKind, container: &str, since: Timestamp, explanation: &Explanation) -> Outlook {
        use Cause::{
            CommandNotFound, ConfigMapMissing, ImageAuth, ImageNameInvalid, ImageNeverPull, ImageNotFound,
            ImageNotFoundOrPrivate, ImagePlatform, KeyMissing, PermissionDenied, SecretMissing,
        };
        let is_missing = matches!(explanation.cause, ConfigMapMissing | SecretMissing | KeyMissing);
        // A wait sees when something begins to be missing. A single check has only the times in the pod.
        let shown = self.check.is_single.then_some(since);
        match kind {
            _ if self.fate == Fate::Superseded => Outlook::MayMend,
            // The image and the command are part of the pod, which never changes.
            ProblemKind::Image if explanation.cause == ImageNameInvalid => Outlook::Hopeless,
            ProblemKind::Image if matches!(explanation.cause, ImageNotFound | ImagePlatform) => {
                // Perhaps it was pushed since the last attempt.
                let last = self.attempts(container, is_pull).filter_map(|event| event.last).max();
                let last = last.max(self.observed.last_pull(container));
                if last >= self.outdated_before { Outlook::Hopeless } else { Outlook::MayMend }
            }
            ProblemKind::Start | ProblemKind::Crash
                if matches!(explanation.cause, CommandNotFound | PermissionDenied) =>
            {
                Outlook::Hopeless
            }
            // The Secret with the credentials may be created at the same moment, and an image may be loaded into the node.
            ProblemKind::Image if matches!(explanation.cause, ImageAuth | ImageNotFoundOrPrivate | ImageNeverPull) => {
                self.persists(container, shown, |event| is_pull(event) || event.reason == "ErrImageNeverPull")
            }
            ProblemKind::Start if is_missing => self.persists(container, shown, |event| {
                event.reason == "Failed" && event.text().starts_with("Error: ") && !event.text().contains("Image")
            }),
            // Volumes are mounted as soon as the pod is scheduled.
            ProblemKind::Creating if is_missing => self.persists("", Some(since), |event| {
                event.reason == "FailedMount" && event.text().starts_with("MountVolume.SetUp failed")
            }),
            ProblemKind::Failed | ProblemKind::Crash | ProblemKind::Start
                if self.observed.pod.phase == "Failed" && self.fate == Fate::Final =>
            {
                Outlook::Hopeless
            }
            ProblemKind::Crash | ProblemKind::Start => self.crash(container, explanation.cause),
            _ => Outlook::MayMend,
        }
    }

    /// The events about failed attempts to start a container, or any if `container` is empty.
    fn attempts(&self, container: &str, is_attempt: impl Fn(&Event) -> bool) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| {
            let own = &event.involved.container;
            (container.is_empty() || own.is_empty() || own == container) && is_attempt(event)
        })
    }

    /// The outlook of something that is missing. `since` is when it was first needed, if the pod shows that.
    fn persists(&self, container: &str, since: Option<Timestamp>, is_attempt: impl Fn(&Event) -> bool) -> Outlook {
        let latest = self.attempts(container, is_attempt).max_by_key(|event| event.last);
        let since = since.unwrap_or_else(|| match self.observed.waiting_since(container) {
            Some(waiting) if waiting.is_exact => waiting.since,
            // It was missing before the wait began, and only an event may show since when.
            Some(waiting) => {
                latest.and_then(|event| event.first).map_or(waiting.since, |first| first.min(waiting.since))
            }
            None => self.check.now,
        });
        let Check { limits, now, .. } = self.check;
        let start = Some(since.min(now)).max(self.outdated_before).unwrap_or(now);
        let last = latest.and_then(|event| event.last).max(self.observed.last_pull(container));
        let is_older = self.outdated_before.is_some_and(|begun| since < begun);
        persists(start, last, limits.grace, self.check.patience(is_older), now)
    }

    /// A container crashes in a loop if it has been restarted several times since it last ran for long, is not running, and
    /// was first started a while ago, as far as that is known. A container that a probe has killed may only be slow.
    fn crash(&self, container: &str, cause: Cause) -> Outlook {
        let (pod, Check { limits, now, .. }) = (&self.observed.pod, self.check);
        let statuses = pod.init_statuses.iter().chain(&pod.statuses);
        let Some(status) = statuses.into_iter().find(|status| status.name == container) else {
            return Outlook::MayMend;
        };
        let may_be_slow = matches!(cause, Cause::LivenessProbe | Cause::StartupProbe)
            || cause == Cause::Signal && self.has_killing_probe(container);
        let restarts = status.restarts.saturating_sub(self.observed.earlier_restarts(container));
        let is_loop = restarts >= limits.restarts && status.state.running.is_none() && !was_long(status);
        // What it needs may be up since its last crash.
        let is_outdated = last_crash(status) < self.outdated_before;
        if is_outdated || !is_loop || may_be_slow || self.fate == Fate::Retried || pod.phase == "Failed" {
            return Outlook::MayMend;
        }
        let started = self.observed.first_start(container).unwrap_or(now).min(now);
        // A pod shows only its last two runs. A single check has not seen those before, so it counts from the pod's start.
        let shown = pod.started.filter(|_| self.check.is_single);
        let started = started.min(shown.unwrap_or(started));
        match after(started, limits.crash_grace) {
            end if end <= now => Outlook::Hopeless,
            end => Outlook::HopelessAt(end),
        }
    }

    fn has_killing_probe(&self, container: &str) -> bool {
        let Pod { init_containers, containers, .. } = &self.observed.pod;
        let specs = init_containers.iter().chain(containers);
        specs
            .filter(|spec| spec.name == container)
            .any(|spec| spec.liveness_probe.is_some() || spec.startup_probe.is_some())
    }
}

fn is_pull(event: &Event) -> bool {
    event.reason == "Failed" && event.text().starts_with("Failed to pull image ")
}

fn last_instance(status: &ContainerStatus) -> Option<&Terminated> {
    status.state.terminated.as_ref().or(status.last.as_ref())
}

fn last_crash(status: &ContainerStatus) -> Option<Timestamp> {
    last_instance(status)?.finished
}

/// Whether the last instance has run for so long that its end does not continue a loop.
fn was_long(status: &ContainerStatus) -> bool {
    last_instance(status).is_some_and(is_long_run)
}

#[cfg(test)]
mod tests;
