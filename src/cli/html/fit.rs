//! Chooses the workloads and pods that the page shows, and how much of each log, so that it stays below its size.

use jiff::Timestamp;

use crate::api::{ContainerIssue, LogSource, PodProblem};

use super::{section, text, workloads::Workload};

/// The largest page, in bytes.
pub(super) const PAGE_LIMIT: usize = 1_000_000;
/// How many pods it shows in detail.
const PODS: usize = 500;
/// How many workloads it shows.
const WORKLOADS: usize = 500;
/// The part of the page that is kept for logs, in bytes. What the rest of the page does not use is added to it.
const LOGS: usize = 100_000;
/// The headings above workloads, which an empty page does not have, in bytes.
const HEADINGS: usize = 1_000;
/// The markup that may be added around a log when it is shown, in bytes.
const LOG_MARKUP: usize = 100;

/// What the page shows.
pub(super) struct Shown<'a> {
    /// With those pods that are shown.
    pub(super) workloads: Vec<Workload<'a>>,
    /// How many workloads are left out.
    pub(super) omitted_workloads: usize,
    /// How many bytes each log may take.
    pub(super) log_bytes: usize,
    /// How many logs are longer than that.
    pub(super) shortened_logs: usize,
}

impl Shown<'_> {
    pub(super) fn pods(&self) -> usize {
        self.workloads.iter().map(|workload| workload.pods.len()).sum()
    }
}

/// Every workload and its first pod come before the second pod of any. `used` is the size of the rest of the page.
pub(super) fn fit(all: Vec<Workload<'_>>, as_of: Option<Timestamp>, used: usize) -> Shown<'_> {
    let mut room = PAGE_LIMIT.saturating_sub(used + HEADINGS + LOGS);
    let mut take = |size: usize| {
        let rest = room.checked_sub(size);
        room = rest.unwrap_or(room);
        rest.is_some()
    };
    let mut workloads = Vec::new();
    let (mut omitted_workloads, mut pods) = (0, 0);
    for workload in all {
        let first = || workload.pods.first().map_or(0, |pod| pod_size(pod, as_of));
        if workloads.len() < WORKLOADS && take(section::frame_size(&workload, as_of) + first()) {
            pods += usize::from(!workload.pods.is_empty());
            let shown = Workload { pods: workload.pods.iter().take(1).copied().collect(), ..workload.clone() };
            workloads.push((shown, workload.pods));
        } else {
            omitted_workloads += 1;
        }
    }
    let most = workloads.iter().map(|(_, pods)| pods.len()).max().unwrap_or(0).min(PODS);
    for round in 1..most {
        for (shown, all) in &mut workloads {
            if let Some(pod) = all.get(round)
                && pods < PODS
                && take(pod_size(pod, as_of))
            {
                shown.pods.push(pod);
                pods += 1;
            }
        }
    }
    let workloads: Vec<_> = workloads.into_iter().map(|(shown, _)| shown).collect();
    let all_logs = || workloads.iter().flat_map(|workload| &workload.pods).flat_map(|pod| logs(pod));
    let log_bytes = text::log_share(all_logs(), room + LOGS);
    let shortened_logs = all_logs().filter(|log| text::log_size(log) > log_bytes).count();
    Shown { workloads, omitted_workloads, log_bytes, shortened_logs }
}

/// The size of a pod without its logs.
fn pod_size(pod: &PodProblem, as_of: Option<Timestamp>) -> usize {
    section::pod(pod, as_of, true, 0).into_string().len() + LOG_MARKUP * logs(pod).count()
}

/// The logs of a pod that the page shows.
fn logs(pod: &PodProblem) -> impl Iterator<Item = &str> {
    section::shown_containers(pod).iter().filter(|issue| has_log(issue)).map(|issue| issue.logs.as_str())
}

fn has_log(issue: &ContainerIssue) -> bool {
    !matches!(issue.log_source, None | Some(LogSource::Unavailable)) && !issue.logs.is_empty()
}
