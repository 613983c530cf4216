//! A workload with its revisions and its pods: what was read of it, and what that means.

mod read;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event as ApiEvent;

use crate::{
    api::Cause,
    cli::{
        kind::Kind,
        live::ClusterView,
        workload::{Progress, Workload},
    },
    diagnosis::{
        Finding, Health, RevisionObject, TemplateChanges, Thresholds, assess, classify_failed_create, owner_names,
        revision_hash, revision_name, template_changes,
    },
    facts::JobFact,
    pods::Pod,
    render::safe::clean,
    report::Comparison,
};

use super::{
    events,
    explanation::{Counts, MissingPart, RevisionPart, State},
    objects,
    reader::Reader,
};
pub(super) use read::{FoundCronJob, gather, of_pod, read_cron_job, siblings};

/// A workload with its pods.
pub(super) struct Gathered {
    pub(super) workload: Workload,
    revisions: Vec<RevisionObject>,
    /// Absent if they could not be read.
    pods: Option<Pods>,
    /// Of a Job, with what is known of its CronJob.
    job: Option<JobFact>,
    /// What verdicts about its pods depend on besides each pod.
    pub(super) view: ClusterView,
}

struct Pods {
    pods: Vec<Pod>,
    unreadable: usize,
    /// Whether there are more.
    more: bool,
}

/// The pods of a workload by their state, and those with a problem.
pub(super) struct Verdicts {
    pub(super) counts: Counts,
    pub(super) problems: Vec<(Pod, Finding)>,
}

impl Gathered {
    /// For example `deployment/cart`.
    pub(super) fn name(&self) -> String {
        let name = self.workload.metadata().name.as_deref().unwrap_or_default();
        clean(&format!("{}/{name}", self.workload.kind().singular()))
    }

    /// Whether a pod that has its labels belongs to it.
    fn owns(&self, pod: &Pod) -> bool {
        let is_named = || {
            let name = self.workload.metadata().name.as_deref();
            owner_names(pod).is_some_and(|(kind, own)| kind == "Deployment" && Some(own) == name)
        };
        match self.workload.kind() {
            Kind::Deployment => is_named(),
            _ => pod.controller.as_ref().is_some_and(|own| own.uid == self.workload.uid()),
        }
    }

    /// How far its rollout is, in a sentence, and whether its controller has given up. A failed run of a CronJob does not
    /// count if a later one has succeeded.
    pub(super) fn progress(&self) -> (String, bool) {
        let (text, has_given_up) = match self.workload.progress() {
            Progress::Unobserved(text) => (text.to_owned(), false),
            Progress::Waiting(text) if self.workload.kind() == Kind::Job => {
                (format!("it is not complete: {text}"), false)
            }
            Progress::Waiting(text) => {
                let pods = self.pods.iter().flat_map(|pods| &pods.pods);
                let held_up = self.workload.held_up(pods).map(|sentence| format!("; {sentence}")).unwrap_or_default();
                (format!("its rollout is not complete: {text}{held_up}"), false)
            }
            Progress::Done(text) if self.workload.kind() == Kind::Job => (format!("it is complete: {text}"), false),
            Progress::Done(text) => (format!("it is rolled out: {text}"), false),
            Progress::Failed { message, .. } => {
                match self.job.as_ref().map(|job| &job.facts).filter(|job| job.superseded) {
                    Some(job) => {
                        let cron_job = job.cron_job.as_deref().unwrap_or_default();
                        (format!("{message}; a later run of the CronJob {cron_job} has succeeded"), false)
                    }
                    None => (message, true),
                }
            }
            Progress::Unknowable(text) => (text, false),
        };
        (clean(&text), has_given_up)
    }

    /// Its state. `is_missing_pods` is whether its pods cannot be created.
    pub(super) fn state(&self, verdicts: Option<&Verdicts>, is_missing_pods: bool) -> State {
        let runs = self.workload.kind() == Kind::Job && !self.workload.is_paused();
        match verdicts {
            _ if self.progress().1 || is_missing_pods => State::Problem,
            None => State::Unknown,
            Some(Verdicts { problems, .. }) if !problems.is_empty() => State::Problem,
            Some(Verdicts { counts, .. }) if counts.unreadable > 0 || counts.more => State::Unknown,
            Some(Verdicts { counts, .. }) if counts.settling > 0 => State::Settling,
            Some(Verdicts { counts, .. }) if self.is_under_way() => {
                if runs && counts.healthy > 0 {
                    State::Running
                } else {
                    State::Settling
                }
            }
            Some(_) => State::Healthy,
        }
    }

    /// Whether its rollout is under way.
    fn is_under_way(&self) -> bool {
        matches!(self.workload.progress(), Progress::Unobserved(_) | Progress::Waiting(_))
    }

    /// Judges its pods. Absent if they could not be read.
    pub(super) fn verdicts(&self, now: Timestamp) -> Option<Verdicts> {
        let Pods { pods, unreadable, more } = self.pods.as_ref()?;
        let mut counts = Counts { unreadable: *unreadable, more: *more, ..Counts::default() };
        let mut problems = Vec::new();
        for pod in pods.iter().filter(|pod| !pod.ignored) {
            counts.total += 1;
            match assess(pod, &self.view.as_known(), &Thresholds::default(), now).health {
                Health::Healthy => counts.healthy += 1,
                Health::Settling => counts.settling += 1,
                Health::Problem(finding) => {
                    counts.problems += 1;
                    problems.push((pod.clone(), *finding));
                }
            }
        }
        Some(Verdicts { counts, problems })
    }

    /// The revisions that the workload controls.
    pub(super) fn own_revisions(&self) -> impl Iterator<Item = &RevisionObject> {
        self.revisions.iter().filter(|own| own.owner_uid == self.workload.uid())
    }

    /// The newest revision, or that of a pod, and what changed in its pod template.
    pub(super) fn revision(&self, pod: Option<&Pod>) -> Option<RevisionPart> {
        let own = match pod {
            Some(pod) => self.own_revisions().find(|own| self.is_of(own, pod))?,
            None => self.own_revisions().max_by_key(|own| own.number)?,
        };
        let before = self.before(own)?;
        let changes = template_changes(&before.template, &own.template);
        let lines = Comparison::Compared(Arc::new(changes)).lines(None);
        Some(RevisionPart {
            name: clean(&own.name),
            before: clean(&before.name),
            changes: lines.iter().map(|line| clean(line)).collect(),
        })
    }

    fn before(&self, revision: &RevisionObject) -> Option<&RevisionObject> {
        let older = self.own_revisions().filter(|other| other.number < revision.number);
        older.max_by_key(|other| other.number)
    }

    /// What the pod template of each revision with pods says. One of its pods names it.
    fn templates<'p>(&self, pods: &'p [Pod]) -> Vec<(&'p Pod, TemplateChanges)> {
        let templates = self.own_revisions().filter_map(|own| {
            let template = &own.template;
            let changes = match self.before(own) {
                Some(before) => template_changes(&before.template, template),
                None => TemplateChanges::of_one(template),
            };
            Some((pods.iter().find(|pod| self.is_of(own, pod))?, changes))
        });
        templates.collect()
    }

    fn is_of(&self, revision: &RevisionObject, pod: &Pod) -> bool {
        if self.workload.kind() == Kind::Deployment {
            return pod.controller.as_ref().is_some_and(|own| own.uid == revision.uid.as_str());
        }
        let name = self.workload.metadata().name.as_deref().unwrap_or_default();
        let hash = revision_hash(pod).map(|hash| revision_name(self.workload.kind().api_kind(), name, hash));
        hash.is_some_and(|hash| hash == revision.name)
    }

    /// The events about the workload and the newest ReplicaSet, and whether there are more.
    pub(super) async fn events(&self, reader: &Reader<'_>) -> (Vec<ApiEvent>, bool) {
        let name = self.name();
        let own = events::read(reader, &name, self.workload.uid());
        let newest =
            self.own_revisions().max_by_key(|own| own.number).filter(|_| self.workload.kind() == Kind::Deployment);
        let of_newest = async {
            match newest {
                Some(own) => events::read(reader, &format!("ReplicaSet {}", own.name), &own.uid).await,
                None => None,
            }
        };
        let (own, of_newest) = futures::join!(own, of_newest);
        let (mut all, more) = own.unwrap_or_default();
        let (others, more_others) = of_newest.unwrap_or_default();
        all.extend(others);
        (all, more || more_others)
    }

    /// Why its pods cannot be created, if they cannot.
    pub(super) async fn missing(&self, reader: &Reader<'_>, events: &[ApiEvent]) -> Option<MissingPart> {
        let message = match self.workload.replica_failure() {
            // The condition keeps the message of the first refusal.
            Some((message, _)) => latest_refusal(events).unwrap_or(message).to_owned(),
            None if self.workload.kind() == Kind::Deployment || !self.is_under_way() => return None,
            None => refused(events)?.to_owned(),
        };
        let (cause, sentence) = classify_failed_create(&message);
        let quotas = if cause == Cause::QuotaExceeded { objects::quotas(reader).await } else { Vec::new() };
        let hint = reader.hint(cause, &sentence).await;
        Some(MissingPart { cause, message: clean(&sentence), hint, quotas })
    }
}

/// The message about the last pod that could not be created.
fn latest_refusal(events: &[ApiEvent]) -> Option<&str> {
    let refusals = events.iter().filter(|event| event.reason.as_deref() == Some("FailedCreate"));
    refusals.max_by_key(|event| events::last(event))?.message.as_deref()
}

/// The message about the last pod that could not be created, unless another one was created later.
fn refused(events: &[ApiEvent]) -> Option<&str> {
    let creations =
        events.iter().filter(|event| matches!(event.reason.as_deref(), Some("FailedCreate" | "SuccessfulCreate")));
    let last = creations.max_by_key(|event| events::last(event))?;
    last.message.as_deref().filter(|_| last.reason.as_deref() == Some("FailedCreate"))
}

#[cfg(test)]
mod tests;
