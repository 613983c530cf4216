//! What a scan found in one cluster or file, or in several clusters.

use std::{collections::HashMap, time::Duration};

use arcstr::ArcStr;

use crate::{
    diagnosis::Finding,
    pods::Pod,
    render::{
        document::{Document, Section, StatusPart, Unchecked, Verdict, headline, length, no_problems, older, reasons},
        numbers::thousands,
        table::{self, Layout, Pods},
    },
    report::{PodFinding, in_full, log_line, may_quote, overview, with_hint, with_log_line},
};

use super::{
    collector::Collector,
    counted,
    logs::{self, Logs},
};

/// What exists in the place of missing objects, by the namespace and the sentence.
pub(super) type Hints = HashMap<(String, ArcStr), String>;

/// The pods of a cluster or file that were checked, and the logs that explain their problems.
pub(super) struct Scanned {
    /// The context of the cluster, if several are scanned.
    pub(super) context: Option<String>,
    pub(super) collector: Collector,
    pub(super) logs: Logs,
    pub(super) hints: Hints,
    /// What could not be read.
    pub(super) notes: Vec<String>,
}

/// The result of the scan of each cluster.
pub(super) struct Results {
    /// Whether each cluster is named, because several contexts or all of them were given.
    pub(super) are_named: bool,
    pub(super) clusters: Vec<Result<Scanned, Unchecked>>,
}

impl Scanned {
    fn section(&self) -> Section {
        let Self { context, collector, logs, .. } = self;
        let problems: Vec<_> = collector.problems.iter().map(|(pod, finding)| PodFinding { pod, finding }).collect();
        let ownership = |namespace: &str| collector.ownership.get(namespace).cloned();
        let (mut incidents, pods) = in_full(&problems, &ownership, &|pod, container| logs.get(pod, container));
        for incident in incidents.iter_mut().filter(|_| !self.hints.is_empty()) {
            let place = (incident.namespace.clone(), incident.message.as_str().into());
            incident.hint = self.hints.get(&place).cloned().unwrap_or_default();
        }
        let (message, common_causes) =
            overview(&problems, collector.pods, &|node| collector.view.index.pods_on_node(node).pods.into());
        let older_pods = collector.older_pods();
        let (verdict, headline) = answer(pods.len(), collector.pods, collector.undecodable, older_pods);
        let mut not_seen = self.unseen();
        if older_pods > 0 {
            not_seen.push(older(older_pods));
        }
        Section {
            context: context.clone(),
            watched_pods: collector.pods,
            problematic_pod_count: pods.len(),
            unreadable_pods: collector.undecodable,
            older_problematic_pods: collector.older.map(|older| older.pods),
            omitted_logs: logs.omitted,
            incidents,
            pods,
            verdict,
            headline,
            summary: if problems.is_empty() { String::new() } else { reasons(&message).to_owned() },
            subject: format!("pods{} of {}", self.place(), collector.source),
            as_of: Some(collector.now),
            now: collector.now,
            not_seen,
            common_causes,
            status: StatusPart::default(),
        }
    }

    /// What explains a problem: the sentence, what may have been meant, and the line of the log that it quotes.
    fn sentence(&self, pod: &Pod, finding: &Finding) -> String {
        let explanation = &finding.explanation;
        let hint = self.hints.get(&(pod.namespace.to_string(), explanation.message.clone()));
        let culprit = finding.containers.iter().find(|own| own.name == finding.container);
        let tail = culprit.filter(|_| may_quote(finding.kind, explanation.cause));
        let line = tail.and_then(|container| self.logs.get(pod, container)).map(|tail| log_line(&tail));
        let sentence = with_hint(&explanation.message, hint.map_or("", String::as_str));
        with_log_line(&sentence, &line.unwrap_or_default())
    }

    /// Such as ` in shop namespace`.
    fn place(&self) -> String {
        match self.collector.filter.namespaces.place() {
            all if all.is_empty() => " in all namespaces".to_owned(),
            place => place,
        }
    }

    /// What was not checked or read, a sentence each.
    pub(super) fn unseen(&self) -> Vec<String> {
        let Self { collector, logs, .. } = self;
        let mut sentences = self.notes.clone();
        if collector.without_room > 0 {
            sentences.push(format!("left out {} that may have problems", counted(collector.without_room, "pod")));
        }
        let unreadable = collector.undecodable - collector.without_room;
        if unreadable > 0 {
            let names = collector.undecodable_names.join(", ");
            let more = if unreadable > collector.undecodable_names.len() as u64 { ", …" } else { "" };
            sentences.push(format!("cannot decode {}: {names}{more}", counted(unreadable, "pod")));
        }
        if let Some((skipped, kind)) = &collector.skipped {
            sentences.push(format!("skipped {} of another kind, such as a {kind}", counted(*skipped, "object")));
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

impl Results {
    /// The only cluster or file.
    pub(super) fn one(scanned: Scanned) -> Self {
        Self { are_named: false, clusters: vec![Ok(scanned)] }
    }

    pub(super) fn scanned(&self) -> impl Iterator<Item = &Scanned> {
        self.clusters.iter().filter_map(|cluster| cluster.as_ref().ok())
    }

    pub(super) fn unchecked(&self) -> impl Iterator<Item = &Unchecked> {
        self.clusters.iter().filter_map(|cluster| cluster.as_ref().err())
    }

    /// What all formats but the table of pods show.
    pub(super) fn document(&self) -> Document {
        if let ([Ok(scanned)], false) = (self.clusters.as_slice(), self.are_named) {
            return Document::of(scanned.section(), self.summary());
        }
        let all = counted(self.clusters.len() as u64, "cluster");
        let place = self.scanned().next().map(Scanned::place).unwrap_or_default();
        let (verdict, headline) = self.answer(&all);
        Document {
            is_named: true,
            summary: self.summary(),
            verdict,
            headline,
            subject: format!("pods{place} of {all}"),
            clusters: self
                .clusters
                .iter()
                .map(|own| own.as_ref().map(Scanned::section).map_err(Clone::clone))
                .collect(),
            ..Document::default()
        }
    }

    /// The verdict and the headline about all clusters, of which some may not have been checked.
    fn answer(&self, all: &str) -> (Verdict, String) {
        if self.scanned().next().is_none() {
            return (Verdict::Unknown, "No cluster could be checked".to_owned());
        }
        let (problems, older_pods) = (self.problems(), self.older_pods());
        let (verdict, answer) = answer(problems, self.pods(), self.undecodable(), older_pods);
        let unchecked = format!("{} of {all} could not be checked", self.unchecked().count());
        match (self.unchecked().count(), verdict) {
            (0, _) => (verdict, format!("{answer}, in {all}")),
            _ if problems > 0 || older_pods > 0 => (verdict, format!("{answer}; {unchecked}")),
            (_, _) => (Verdict::Unknown, format!("No problems found, but {unchecked}")),
        }
    }

    /// How many pods have problems in a sentence.
    pub(super) fn summary(&self) -> String {
        let Some(first) = self.scanned().next() else { return "No cluster could be checked.".to_owned() };
        let clusters = match self.are_named {
            true => format!(" in {}", counted(self.scanned().count() as u64, "cluster")),
            false => String::new(),
        };
        let place = format!("{}{clusters}", first.collector.filter.namespaces.place());
        let since = first.collector.older.map(|older| older.since);
        summary(&place, self.pods(), self.problems(), since, self.older_pods())
    }

    /// The table of pods.
    pub(super) fn table(&self, layout: Layout) -> String {
        let pods = self.scanned().map(|scanned| Pods {
            context: scanned.context.as_deref().unwrap_or_default(),
            problems: &scanned.collector.problems,
            now: scanned.collector.now,
            sentence: Box::new(|pod, finding| scanned.sentence(pod, finding)),
        });
        table::pods(pods, layout)
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

    pub(super) fn undecodable(&self) -> u64 {
        self.scanned().map(|scanned| scanned.collector.undecodable).sum()
    }
}

/// Such as `9 of 328 pods in shop namespace have problems.` With the value of `--since`, it counts the pods with older ones.
pub(super) fn summary(place: &str, pods: u64, problems: usize, since: Option<Duration>, older_pods: usize) -> String {
    let since = since.map(|since| format!(" that began in the last {}", length(since))).unwrap_or_default();
    let older = if older_pods == 0 { String::new() } else { format!("; {}", older(older_pods)) };
    let all = thousands(pods);
    match (pods, problems) {
        (0, _) => format!("No pods found{place}."),
        (_, 0) => format!("No problems{since}{place}: {}{older}.", counted(pods, "pod")),
        (_, 1) => format!("1 of {all} pods{place} has a problem{since}{older}."),
        (_, problems) => format!("{} of {all} pods{place} have problems{since}{older}.", thousands(problems as u64)),
    }
}

/// The verdict and the headline about one cluster, or about all of which every pod was to be checked.
fn answer(problems: usize, pods: u64, undecodable: u64, older_pods: usize) -> (Verdict, String) {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    match (problems as u64, undecodable, pods) {
        (0, 0, 1..) if older_pods > 0 => (Verdict::Unknown, "No recent problems found, but older ones".to_owned()),
        (problems @ 1.., _, _) => (Verdict::Unhealthy, headline(number(problems), number(pods))),
        (0, 1.., _) => (Verdict::Unknown, "No problems found, but not every pod could be checked".to_owned()),
        (0, 0, 0) => (Verdict::Unknown, "No pods found".to_owned()),
        (0, 0, checked) => (Verdict::Healthy, no_problems(number(checked))),
    }
}
