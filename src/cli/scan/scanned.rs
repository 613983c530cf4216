//! What a scan found in one cluster or file, or in several clusters.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    api::{Incident, PodProblem},
    cli::Failure,
    report::{PodFinding, in_full},
};

use super::{
    collector::Collector,
    counted,
    logs::{self, Logs},
};

/// The pods of a cluster or file that were checked, and the logs that explain their problems.
pub(super) struct Scanned {
    /// The context of the cluster, if several are scanned.
    pub(super) context: Option<String>,
    pub(super) collector: Collector,
    pub(super) logs: Logs,
    /// What could not be read.
    pub(super) notes: Vec<String>,
}

/// The result of the scan of each cluster.
pub(super) struct Results {
    /// Whether each cluster is named, because several contexts or all of them were given.
    pub(super) are_named: bool,
    pub(super) clusters: Vec<Result<Scanned, Unscanned>>,
}

/// A cluster that could not be scanned.
pub(super) struct Unscanned {
    pub(super) context: String,
    pub(super) why: Failure,
}

/// What was found, as documents contain it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<String>,
    pub(super) watched_pods: u64,
    problematic_pod_count: usize,
    pub(super) unreadable_pods: u64,
    /// How many pods have problems that began before `--since`. Absent without the flag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) older_problematic_pods: Option<usize>,
    /// How many logs were not read because there are too many.
    #[serde(skip_serializing_if = "is_zero")]
    omitted_logs: usize,
    pub(super) incidents: Vec<Incident>,
    pub(super) problematic_pods: Vec<PodProblem>,
    /// The time of the scan.
    #[serde(skip)]
    pub(super) now: Timestamp,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The sentence about pods that `--since` leaves out.
pub(super) fn older(pods: u64) -> String {
    let verb = if pods == 1 { "has an older problem" } else { "have older problems" };
    format!("{} {verb}, which --since leaves out", counted(pods, "pod"))
}

impl Scanned {
    pub(super) fn report(&self) -> Report {
        let Self { context, collector, logs, .. } = self;
        let problems: Vec<_> = collector.problems.iter().map(|(pod, finding)| PodFinding { pod, finding }).collect();
        let ownership = |namespace: &str| collector.ownership.get(namespace).cloned();
        let (incidents, problematic_pods) = in_full(&problems, &ownership, &|pod, container| logs.get(pod, container));
        Report {
            context: context.clone(),
            watched_pods: collector.pods,
            problematic_pod_count: problematic_pods.len(),
            unreadable_pods: collector.undecodable,
            older_problematic_pods: collector.older.map(|older| older.pods),
            omitted_logs: logs.omitted,
            incidents,
            problematic_pods,
            now: collector.now(),
        }
    }

    /// What was not checked or read, a sentence each.
    pub(super) fn unseen(&self) -> Vec<String> {
        let Self { collector, logs, .. } = self;
        let mut sentences = self.notes.clone();
        if collector.undecodable > 0 {
            let names = collector.undecodable_names.join(", ");
            let more = if collector.undecodable > collector.undecodable_names.len() as u64 { ", …" } else { "" };
            sentences.push(format!("cannot decode {}: {names}{more}", counted(collector.undecodable, "pod")));
        }
        if let Some(kind) =
            collector.other_kind.as_ref().filter(|kind| !["Job", "CronJob", "Event"].contains(&kind.as_str()))
        {
            let skipped = counted(collector.other_objects, "object");
            sentences.push(format!("skipped {skipped} of another kind, such as a {kind}"));
        }
        if logs.omitted > 0 {
            sentences.push(format!(
                "left out {}: at most {} are read",
                counted(logs.omitted as u64, "log"),
                logs::MOST
            ));
        }
        if logs.late > 0 {
            let late = counted(logs.late as u64, "log");
            sentences.push(format!("could not read {late} in time: --log-timeout sets how long to read logs"));
        }
        sentences
    }
}

#[cfg(test)]
impl Report {
    pub(super) fn for_tests(
        context: Option<&str>,
        incidents: Vec<Incident>,
        problematic_pods: Vec<PodProblem>,
    ) -> Self {
        Self {
            context: context.map(str::to_owned),
            watched_pods: 40,
            problematic_pod_count: problematic_pods.len(),
            unreadable_pods: 0,
            older_problematic_pods: None,
            omitted_logs: 0,
            incidents,
            problematic_pods,
            now: "2026-03-01T12:00:00Z".parse().unwrap(),
        }
    }
}

impl Results {
    /// The only cluster or file.
    pub(super) fn one(scanned: Scanned) -> Self {
        Self { are_named: false, clusters: vec![Ok(scanned)] }
    }

    pub(super) fn scanned(&self) -> impl Iterator<Item = &Scanned> {
        self.clusters.iter().filter_map(|cluster| cluster.as_ref().ok())
    }

    pub(super) fn unscanned(&self) -> impl Iterator<Item = &Unscanned> {
        self.clusters.iter().filter_map(|cluster| cluster.as_ref().err())
    }

    pub(super) fn reports(&self) -> Vec<Report> {
        self.scanned().map(Scanned::report).collect()
    }

    pub(super) fn pods(&self) -> u64 {
        self.scanned().map(|scanned| scanned.collector.pods).sum()
    }

    pub(super) fn problems(&self) -> usize {
        self.scanned().map(|scanned| scanned.collector.problems.len()).sum()
    }

    pub(super) fn older_pods(&self) -> usize {
        self.scanned().map(|scanned| scanned.collector.older_pods()).sum()
    }

    /// The value of `--since`.
    pub(super) fn since(&self) -> Option<Duration> {
        self.scanned().find_map(|scanned| scanned.collector.older).map(|older| older.since)
    }

    pub(super) fn undecodable(&self) -> u64 {
        self.scanned().map(|scanned| scanned.collector.undecodable).sum()
    }
}
