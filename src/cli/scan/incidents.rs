//! The incidents of a report with the pods that explain them, for outputs with one entry for each incident.

use std::{cmp::Reverse, collections::HashMap};

use crate::{
    api::{Cause, ContainerIssue, Incident, LogSource, Owner, PodProblem},
    cli::printable::printable,
    diagnosis::human_duration,
};

use super::scanned::Report;

/// An incident, and one of its pods: one with a log, or else the one whose problem began last.
pub(super) struct Entry<'a> {
    pub(super) report: &'a Report,
    pub(super) incident: &'a Incident,
    pub(super) example: Option<&'a PodProblem>,
}

/// The incidents of all clusters with most pods first, so that an output of a few names the largest.
pub(super) fn largest_first(reports: &[Report]) -> Vec<Entry<'_>> {
    let mut entries: Vec<_> = reports.iter().flat_map(entries).collect();
    entries.sort_by_key(|entry| Reverse(entry.incident.pods));
    entries
}

/// The incidents of a cluster, the most recent first.
pub(super) fn entries<'r>(report: &'r Report) -> Vec<Entry<'r>> {
    let mut pods = HashMap::<_, Vec<&PodProblem>>::new();
    for pod in &report.problematic_pods {
        pods.entry((pod.namespace.as_str(), owner(pod), pod.kind)).or_default().push(pod);
    }
    let entry = |incident: &'r Incident| {
        let Incident { namespace, owner: Owner { kind, name }, container, kind: problem, .. } = incident;
        let members = pods.get(&(namespace.as_str(), (kind.as_str(), name.as_str()), *problem));
        let is_of = |pod: &&&PodProblem| {
            container.is_empty() || pod.container_issues.first().is_none_or(|issue| issue.name == *container)
        };
        let members = || members.into_iter().flatten().filter(is_of).copied();
        Entry { report, incident, example: members().find(|pod| logs(pod).next().is_some()).or(members().next()) }
    };
    report.incidents.iter().map(entry).collect()
}

fn owner(pod: &PodProblem) -> (&str, &str) {
    pod.owner.as_ref().map_or(("Pod", pod.name.as_str()), |owner| (&owner.kind, &owner.name))
}

/// The logs of a pod, with a heading such as `log of the previous run of app`.
pub(super) fn logs(pod: &PodProblem) -> impl Iterator<Item = (String, &str)> {
    pod.container_issues.iter().filter_map(|issue| {
        let ContainerIssue { name, logs, log_source, log_note, .. } = issue;
        let source = match log_source {
            None | Some(LogSource::Unavailable) => return None,
            Some(LogSource::Current) => "log",
            Some(LogSource::Previous) => "log of the previous run",
            Some(LogSource::TerminationMessage) => "termination message",
        };
        let note = if log_note.is_empty() { String::new() } else { format!(" ({log_note})") };
        Some((printable(&format!("{source} of {name}{note}")), logs.as_str()))
    })
}

/// The lines of a log that can be printed. A tab is harmless, and common in stack traces.
pub(super) fn lines(log: &str) -> impl Iterator<Item = String> {
    log.lines().map(|line| printable(&line.replace('\t', "    ")))
}

impl Entry<'_> {
    /// Such as `shop/cart (Deployment)`.
    pub(super) fn name(&self) -> String {
        let Incident { namespace, owner: Owner { kind, name }, .. } = self.incident;
        printable(&format!("{namespace}/{name} ({kind})"))
    }

    pub(super) fn message(&self) -> String {
        printable(&self.incident.message)
    }

    /// The proven cause, if any.
    pub(super) fn cause(&self) -> String {
        if self.incident.cause == Cause::Unknown { String::new() } else { self.incident.cause.to_string() }
    }

    /// How long it has lasted.
    pub(super) fn age(&self) -> String {
        human_duration(self.report.now.duration_since(self.incident.since.0).max(jiff::SignedDuration::ZERO))
    }

    /// Such as `3 pods for 15m, such as cart-a`.
    pub(super) fn extent(&self) -> String {
        let Incident { pods, example_pods, .. } = self.incident;
        let pods = if *pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") };
        let example = example_pods.first().map(|name| format!(", such as {}", printable(name))).unwrap_or_default();
        format!("{pods} for {}{example}", self.age())
    }
}
