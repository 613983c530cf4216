//! Chooses the workloads and pods that a page shows, and how much of each log, so that it stays below its size.

use crate::api::{LogSource, PodProblem};

use super::{
    super::document::Section,
    text,
    workload::{self, Workload, workloads},
};

/// The largest page, in bytes.
pub(super) const PAGE_LIMIT: usize = 1_000_000;
/// How many pods it shows in detail.
const PODS: usize = 500;
/// How many workloads it shows.
const WORKLOADS: usize = 500;
/// The part of the page that is kept for logs, in bytes. What the rest of the page does not use is added to it.
const LOGS: usize = 100_000;
/// The headings above the workloads of a section, which an empty page does not have, in bytes.
const HEADINGS: usize = 1_000;
/// The markup that may be added around a log when it is shown, in bytes.
const LOG_MARKUP: usize = 100;

/// A cluster, a file or an object, and what the page shows of it.
pub(super) struct Part<'a> {
    pub(super) section: &'a Section,
    /// How many limits, and how many common causes, are shown.
    pub(super) items: usize,
    pub(super) workloads: Vec<Workload<'a>>,
    /// How many workloads are left out.
    pub(super) omitted_workloads: usize,
    /// How many bytes each log may take.
    pub(super) log_bytes: usize,
    /// How many logs are longer than that.
    pub(super) shortened_logs: usize,
}

impl<'a> Part<'a> {
    /// The sentences about what is left out are as long as they can be.
    pub(super) fn without_workloads(section: &'a Section, items: usize) -> Self {
        let most = usize::MAX;
        Self { section, items, workloads: Vec::new(), omitted_workloads: most, log_bytes: 0, shortened_logs: most }
    }

    /// How many pods are shown.
    pub(super) fn pods(&self) -> usize {
        self.workloads.iter().map(|workload| workload.shown).sum()
    }

    /// The logs that are shown.
    fn logs(&self) -> impl Iterator<Item = &str> {
        self.workloads.iter().flat_map(Workload::shown_pods).flat_map(|pod| logs(pod))
    }
}

/// Chooses what the page shows of each part. Every workload and its first pod come before the second pod of any, and the parts
/// take turns. `used` is the size of the rest of the page.
pub(super) fn fit(parts: &mut [Part<'_>], used: usize) {
    let mut all: Vec<_> = parts.iter().map(|part| workloads(part.section).into_iter()).collect();
    let headings = HEADINGS * all.iter().filter(|workloads| workloads.len() > 0).count();
    let mut room = PAGE_LIMIT.saturating_sub(used + headings + LOGS);
    let mut take = |size: usize| {
        let rest = room.checked_sub(size);
        room = rest.unwrap_or(room);
        rest.is_some()
    };
    parts.iter_mut().for_each(|part| part.omitted_workloads = 0);
    let (mut number, mut pods) = (0, 0);
    while all.iter().any(|workloads| workloads.len() > 0) {
        for (part, workloads) in parts.iter_mut().zip(&mut all) {
            let Some(workload) = workloads.next() else { continue };
            let first = workload.pods.first().map(|pod| pod_size(part.section, pod));
            if number < WORKLOADS && take(workload::frame_size(part.section, &workload) + first.unwrap_or(0)) {
                number += 1;
                let shown = usize::from(first.is_some());
                pods += shown;
                part.workloads.push(Workload { number, shown, ..workload });
            } else {
                part.omitted_workloads += 1;
            }
        }
    }
    for round in 1..PODS {
        for part in parts.iter_mut() {
            for workload in part.workloads.iter_mut().filter(|workload| workload.shown == round) {
                let size = workload.pods.get(round).map(|pod| pod_size(part.section, pod));
                if pods < PODS && size.is_some_and(&mut take) {
                    workload.shown += 1;
                    pods += 1;
                }
            }
        }
    }
    let log_bytes = text::log_share(parts.iter().flat_map(Part::logs), room + LOGS);
    for part in parts {
        part.log_bytes = log_bytes;
        part.shortened_logs = part.logs().filter(|log| text::log_size(log) > log_bytes).count();
    }
}

/// The size of a pod without its logs.
fn pod_size(own: &Section, pod: &PodProblem) -> usize {
    workload::pod(own, pod, true, 0).into_string().len() + LOG_MARKUP * logs(pod).count()
}

/// The logs of a pod that the page shows.
fn logs(pod: &PodProblem) -> impl Iterator<Item = &str> {
    let has_log = |source: Option<LogSource>| !matches!(source, None | Some(LogSource::Unavailable));
    let shown = workload::shown_containers(pod).iter().filter(move |issue| has_log(issue.log_source));
    shown.map(|issue| issue.logs.as_str()).filter(|log| !log.is_empty())
}
