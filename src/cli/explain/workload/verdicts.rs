//! The verdicts about the pods of a workload.

use jiff::Timestamp;

use crate::{
    cli::explain::explanation::Counts,
    diagnosis::{Finding, Health, Thresholds, assess},
    pods::Pod,
};

use super::{Gathered, Pods};

/// The pods of a workload by their state, and those with a problem.
pub(in crate::cli::explain) struct Verdicts {
    pub(in crate::cli::explain) counts: Counts,
    pub(in crate::cli::explain) problems: Vec<(Pod, Finding)>,
}

impl Gathered {
    /// Judges its pods. Absent if they could not be read.
    pub(in crate::cli::explain) fn verdicts(&self, now: Timestamp) -> Option<Verdicts> {
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
}
