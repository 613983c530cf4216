//! The verdicts about the pods of a workload.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    cli::{explain::explanation::Counts, kind::Kind},
    diagnosis::{Facts, Finding, Health, JobFacts, Thresholds, explain, judge},
    pods::Pod,
};

use super::{Gathered, Pods};

/// The pods of a workload by their state, and those with a problem.
pub(in crate::cli::explain) struct Verdicts {
    pub(in crate::cli::explain) counts: Counts,
    pub(in crate::cli::explain) problems: Vec<(Pod, Finding)>,
}

/// What a verdict about a pod depends on, apart from the pod.
#[derive(Clone, Debug, Default)]
pub(in crate::cli::explain) struct Siblings {
    job: Option<Arc<JobFacts>>,
    /// When the youngest healthy pod of a Deployment was created.
    youngest_healthy: Option<Timestamp>,
}

impl Siblings {
    pub(in crate::cli::explain) fn facts(&self, pod: &Pod) -> Facts {
        // A missing time is less than any other.
        let replaced = pod.created.is_some() && self.youngest_healthy > pod.created;
        Facts { job: self.job.clone(), replaced, ..Facts::default() }
    }
}

impl Gathered {
    /// What verdicts about its pods depend on.
    pub(in crate::cli::explain) fn siblings(&self, now: Timestamp) -> Siblings {
        let youngest_healthy = match &self.pods {
            // Only its controller replaces a failed pod by one with another name.
            Some(Pods { pods, .. }) if self.workload.kind() == Kind::Deployment => {
                let running = pods.iter().filter(|pod| pod.phase == "Running");
                running.filter(|pod| is_healthy((*pod).clone(), now)).filter_map(|pod| pod.created).max()
            }
            _ => None,
        };
        Siblings { job: self.job.clone(), youngest_healthy }
    }

    /// Judges its pods. Absent if they could not be read.
    pub(in crate::cli::explain) fn verdicts(&self, now: Timestamp) -> Option<Verdicts> {
        let Pods { pods, unreadable, more } = self.pods.as_ref()?;
        let mut counts = Counts { unreadable: *unreadable, more: *more, ..Counts::default() };
        let mut problems = Vec::new();
        let siblings = self.siblings(now);
        for pod in pods.iter().filter(|pod| !pod.ignored) {
            let mut pod = pod.clone();
            pod.update_history(None, now);
            counts.total += 1;
            let facts = siblings.facts(&pod);
            match judge(&pod, &facts, &Thresholds::default(), now).health {
                Health::Healthy => counts.healthy += 1,
                Health::Settling => counts.settling += 1,
                Health::Problem(mut finding) => {
                    counts.problems += 1;
                    explain(&pod, &mut finding, &facts, now);
                    problems.push((pod, *finding));
                }
            }
        }
        Some(Verdicts { counts, problems })
    }
}

fn is_healthy(mut pod: Pod, now: Timestamp) -> bool {
    pod.update_history(None, now);
    matches!(judge(&pod, &Facts::default(), &Thresholds::default(), now).health, Health::Healthy)
}
