//! Chooses the workloads and pods that a page shows, and how much of each log, so that it stays below its size.

use crate::api::{ContainerIssue, LogSource, PodProblem};

use super::{
    super::document::Section,
    text,
    workload::{self, Origin, Workload, workloads},
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

/// The workloads of a section.
struct Content<'a> {
    workloads: Vec<Workload<'a>>,
    origin: Origin<'a>,
}

/// What the page shows of a section.
pub(super) struct Shown<'a> {
    /// With those pods that are shown.
    pub(super) workloads: Vec<Workload<'a>>,
    /// The position of the first of them among the workloads of the page.
    pub(super) first_position: usize,
    /// How many workloads are left out.
    pub(super) omitted_workloads: usize,
    /// How many bytes each log may take.
    pub(super) log_bytes: usize,
    /// How many logs are longer than that.
    pub(super) shortened_logs: usize,
}

impl Shown<'_> {
    /// Makes the sentences about what is left out as long as they can be.
    pub(super) const NOTHING: Self = Self {
        workloads: Vec::new(),
        first_position: 1,
        omitted_workloads: usize::MAX,
        log_bytes: 0,
        shortened_logs: usize::MAX,
    };

    pub(super) fn pods(&self) -> usize {
        self.workloads.iter().map(|workload| workload.pods.len()).sum()
    }
}

/// A workload that is shown, and all of its pods.
struct Chosen<'a> {
    shown: Workload<'a>,
    pods: Vec<&'a PodProblem>,
}

/// What the page shows of each section. Every workload and its first pod come before the second pod of any, and the
/// sections take turns. `used` is the size of the rest of the page.
pub(super) fn fit<'a>(sections: impl Iterator<Item = &'a Section>, used: usize) -> Vec<Shown<'a>> {
    let reports: Vec<_> = sections.map(|own| Content { workloads: workloads(own), origin: Origin::of(own) }).collect();
    let headings = HEADINGS * reports.iter().filter(|report| !report.workloads.is_empty()).count();
    let mut room = PAGE_LIMIT.saturating_sub(used + headings + LOGS);
    let mut take = |size: usize| {
        let rest = room.checked_sub(size);
        room = rest.unwrap_or(room);
        rest.is_some()
    };
    let mut chosen: Vec<Vec<Chosen<'_>>> = reports.iter().map(|_| Vec::new()).collect();
    let (mut workloads, mut pods) = (0, 0);
    let most = reports.iter().map(|report| report.workloads.len()).max().unwrap_or(0);
    for position in 0..most {
        for (Content { workloads: all, origin }, chosen) in reports.iter().zip(&mut chosen) {
            let Some(workload) = all.get(position) else { continue };
            let first = || workload.pods.first().map_or(0, |pod| pod_size(pod, *origin));
            if workloads < WORKLOADS && take(workload::frame_size(workload, *origin) + first()) {
                workloads += 1;
                pods += usize::from(!workload.pods.is_empty());
                let shown = Workload { pods: workload.pods.iter().take(1).copied().collect(), ..workload.clone() };
                chosen.push(Chosen { shown, pods: workload.pods.clone() });
            }
        }
    }
    let most = chosen.iter().flatten().map(|own| own.pods.len()).max().unwrap_or(0).min(PODS);
    for round in 1..most {
        for (report, chosen) in reports.iter().zip(&mut chosen) {
            for Chosen { shown, pods: all } in chosen {
                if let Some(pod) = all.get(round)
                    && pods < PODS
                    && take(pod_size(pod, report.origin))
                {
                    shown.pods.push(pod);
                    pods += 1;
                }
            }
        }
    }
    let all_logs = || chosen.iter().flatten().flat_map(|own| logs_of(&own.shown));
    let log_bytes = text::log_share(all_logs(), room + LOGS);
    let mut first_position = 1;
    let shown = reports.iter().zip(chosen).map(|(report, chosen)| {
        let workloads: Vec<_> = chosen.into_iter().map(|own| own.shown).collect();
        let shortened_logs = workloads.iter().flat_map(logs_of).filter(|log| text::log_size(log) > log_bytes).count();
        let omitted_workloads = report.workloads.len() - workloads.len();
        let position = first_position;
        first_position += workloads.len();
        Shown { workloads, first_position: position, omitted_workloads, log_bytes, shortened_logs }
    });
    shown.collect()
}

/// The size of a pod without its logs.
fn pod_size(pod: &PodProblem, origin: Origin<'_>) -> usize {
    workload::pod(pod, origin, true, 0).into_string().len() + LOG_MARKUP * logs(pod).count()
}

/// The logs of the pods of a workload that is shown.
fn logs_of<'a>(workload: &'a Workload<'_>) -> impl Iterator<Item = &'a str> {
    workload.pods.iter().flat_map(|pod| logs(pod))
}

/// The logs of a pod that the page shows.
fn logs(pod: &PodProblem) -> impl Iterator<Item = &str> {
    workload::shown_containers(pod).iter().filter(|issue| has_log(issue)).map(|issue| issue.logs.as_str())
}

fn has_log(issue: &ContainerIssue) -> bool {
    !matches!(issue.log_source, None | Some(LogSource::Unavailable)) && !issue.logs.is_empty()
}
