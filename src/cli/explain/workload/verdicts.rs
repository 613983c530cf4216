//! The verdicts about the pods of a workload.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    cli::explain::explanation::Counts,
    diagnosis::{Facts, Finding, Health, JobFacts, Replacements, Thresholds, assess, is_healthy_under_any_thresholds},
    events::Event,
    pods::Pod,
};

use super::{Gathered, Pods};

/// The pods of a workload by their state, and those with a problem.
pub(in crate::cli::explain) struct Verdicts {
    pub(in crate::cli::explain) counts: Counts,
    pub(in crate::cli::explain) problems: Vec<(Pod, Finding)>,
}

/// What verdicts about the pods of a workload depend on, apart from the events about each.
#[derive(Clone, Debug, Default)]
pub(in crate::cli::explain) struct Siblings {
    job: Option<Arc<JobFacts>>,
    replacements: Replacements,
}

impl Siblings {
    pub(in crate::cli::explain) fn new(pods: &[Pod], job: Option<Arc<JobFacts>>, now: Timestamp) -> Self {
        let mut replacements = Replacements::default();
        let is_healthy = |pod: &&Pod| is_healthy_under_any_thresholds(pod, Thresholds::default().restarted, now);
        pods.iter().filter(is_healthy).for_each(|pod| replacements.add(pod));
        Self { job, replacements }
    }

    pub(in crate::cli::explain) fn facts(&self, pod: &Pod, events: Arc<[Event]>) -> Facts {
        Facts { job: self.job.clone(), replaced: self.replacements.has_replaced(pod), events }
    }
}

impl Gathered {
    /// What verdicts about its pods depend on.
    pub(in crate::cli::explain) fn siblings(&self, now: Timestamp) -> Siblings {
        let pods = self.pods.as_ref().map_or(&[] as &[Pod], |pods| &pods.pods);
        Siblings::new(pods, self.job.clone(), now)
    }

    /// Judges its pods. Absent if they could not be read.
    pub(in crate::cli::explain) fn verdicts(&self, now: Timestamp) -> Option<Verdicts> {
        let Pods { pods, unreadable, more } = self.pods.as_ref()?;
        let mut counts = Counts { unreadable: *unreadable, more: *more, ..Counts::default() };
        let mut problems = Vec::new();
        let siblings = self.siblings(now);
        for pod in pods.iter().filter(|pod| !pod.ignored) {
            counts.total += 1;
            match assess(pod, &siblings.facts(pod, Arc::default()), &Thresholds::default(), now).health {
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
}
