//! The workloads of a section, and the markup of a workload and its pods.

use std::collections::HashMap;

use jiff::Timestamp;
use maud::{Markup, html};

use crate::api::{ContainerIssue, Incident, LogSource, Owner, PodProblem, ProblemKind};

use super::{
    super::{
        document::{Section, affected, cause, log_name, owner, ownership, sentence},
        numbers::counted,
        text::kind,
    },
    commands,
    text::{ago, began, log_end, log_text, shortened, since, untrusted},
};

/// How many incidents of a workload are shown.
const INCIDENTS: usize = 20;
/// How many changes of a revision are shown.
const CHANGES: usize = 20;
/// How many containers of a pod are shown.
const CONTAINERS: usize = 10;
/// How many lines of evidence for a pod are shown.
const EVIDENCE: usize = 10;

/// The size of the sentence about pods that are left out, in bytes.
const OMITTED_PODS: usize = 120;

/// The owner of pods, such as a Deployment. A pod without a controller is its own owner.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Workload<'a> {
    pub(super) namespace: &'a str,
    pub(super) owner: Owner,
    pub(super) incidents: Vec<&'a Incident>,
    pub(super) pods: Vec<&'a PodProblem>,
    /// How many pods have a problem. `pods` may contain fewer.
    pub(super) problematic_pods: usize,
    /// By which links name it.
    pub(super) number: usize,
    /// How many of its pods are shown, the first ones.
    pub(super) shown: usize,
}

impl<'a> Workload<'a> {
    pub(super) fn shown_pods(&self) -> &[&'a PodProblem] {
        self.pods.get(..self.shown).unwrap_or_default()
    }
}

/// The workloads in the order of their first incidents. Workloads that have pods but no incident come last.
pub(super) fn workloads(section: &Section) -> Vec<Workload<'_>> {
    let incidents = section.incidents.iter().map(|own| (own.namespace.as_str(), own.owner.clone(), Some(own), None));
    let pods = section.pods.iter().map(|own| (own.namespace.as_str(), owner(own), None, Some(own)));
    let mut workloads: Vec<Workload<'_>> = Vec::new();
    let mut positions = HashMap::new();
    for (namespace, owner, incident, pod) in incidents.chain(pods) {
        let position = *positions.entry((namespace, owner.clone())).or_insert_with(|| {
            let (incidents, pods) = (Vec::new(), Vec::new());
            workloads.push(Workload { namespace, owner, incidents, pods, problematic_pods: 0, number: 9999, shown: 0 });
            workloads.len() - 1
        });
        if let Some(workload) = workloads.get_mut(position) {
            workload.incidents.extend(incident);
            workload.pods.extend(pod);
        }
    }
    for workload in &mut workloads {
        let existing = workload.incidents.iter().filter(|incident| incident.kind != ProblemKind::Missing);
        let counted = existing.map(|incident| incident.pods).fold(0, i64::saturating_add);
        workload.problematic_pods = usize::try_from(counted).unwrap_or(0).max(workload.pods.len());
    }
    workloads
}

/// The size of a workload without its pods, with its rows in the overview.
pub(super) fn frame_size(own: &Section, workload: &Workload<'_>) -> usize {
    let frame = html! { (rows(own, workload)) section { (head(own, workload)) } };
    let may_omit_pods = workload.problematic_pods > 1 || workload.pods.is_empty();
    frame.into_string().len() + if may_omit_pods { OMITTED_PODS } else { 0 }
}

/// The rows of a workload in the overview.
pub(super) fn rows(own: &Section, workload: &Workload<'_>) -> Markup {
    let name = format!("{}/{}", workload.namespace, workload.owner.name);
    html! {
        @for incident in workload.incidents.iter().take(INCIDENTS) {
            tr {
                th scope="row" { a href={ "#w" (workload.number) } { (untrusted(&name)) } }
                td class="reason" { (untrusted(&incident.reason)) }
                td { (cause(incident.cause)) }
                td { (affected(incident)) }
                td { (began(&incident.since, incident.since_at_latest, own.as_of)) }
                td { (untrusted(&sentence(incident))) }
            }
        }
    }
}

/// A workload with its pods, the first of which may be open.
pub(super) fn section(own: &Section, workload: &Workload<'_>, open: bool, log_bytes: usize) -> Markup {
    let omitted_pods = workload.problematic_pods.saturating_sub(workload.shown);
    html! {
        section {
            (head(own, workload))
            @for (index, shown) in workload.shown_pods().iter().enumerate() {
                (pod(own, shown, open && index == 0, log_bytes))
            }
            @if omitted_pods > 0 {
                p class="omitted" {
                    (counted(omitted_pods, "more pod")) " with problems, which this page leaves out"
                }
            }
        }
    }
}

/// What is known about a workload beside its pods.
fn head(own: &Section, workload: &Workload<'_>) -> Markup {
    let Workload { namespace, owner, incidents, number, .. } = workload;
    let (id, context) = (format!("w{number}"), own.context.as_deref());
    let name = html! {
        (untrusted(&format!("{namespace}/{}", owner.name))) " " small { (untrusted(&owner.kind)) }
    };
    html! {
        @if context.is_some() { h4 id=(id) { (name) } } @else { h3 id=(id) { (name) } }
        @for shown in incidents.iter().take(INCIDENTS) { (incident(shown, own.as_of)) }
        @if incidents.len() > INCIDENTS {
            p { "and " (counted(incidents.len() - INCIDENTS, "more incident")) ", which this page leaves out" }
        }
        (command_lines(&commands::of_owner(context, namespace, owner, incidents)))
    }
}

fn incident(incident: &Incident, as_of: Option<Timestamp>) -> Markup {
    html! {
        p {
            strong class="reason" { (untrusted(&incident.reason)) } " " (untrusted(&sentence(incident)))
            br;
            small {
                @if !cause(incident.cause).is_empty() { "cause " (cause(incident.cause)) ", " }
                @if !incident.container.is_empty() { "container " (untrusted(&incident.container)) ", " }
                (affected(incident)) ", " (since(&incident.since, incident.since_at_latest, as_of))
            }
            @let ownership = ownership(incident);
            @if !ownership.is_empty() { br; small { (untrusted(&ownership)) } }
        }
        @if let Some(revision) = &incident.revision {
            p {
                "Only revision " (untrusted(&revision.name)) " fails; of the one before, "
                (counted(revision.healthy_before, "healthy pod")) " still run."
            }
            @if !revision.changes.is_empty() {
                ul {
                    @for change in revision.changes.iter().take(CHANGES) { li { "changed: " (untrusted(change)) } }
                    @if revision.changes.len() > CHANGES { li { "and " (revision.changes.len() - CHANGES) " more" } }
                }
            }
        }
    }
}

/// A pod with its containers, and at most this many bytes of each log.
pub(super) fn pod(own: &Section, pod: &PodProblem, open: bool, log_bytes: usize) -> Markup {
    let (as_of, context) = (own.as_of, own.context.as_deref());
    let hidden = pod.container_issues.len().saturating_sub(CONTAINERS);
    html! {
        details class="pod" open[open] {
            summary {
                (untrusted(&pod.name)) " " strong class="reason" { (untrusted(&pod.status)) } " "
                small {
                    @if pod.reason != pod.status { (untrusted(&pod.reason)) ", " }
                    @if !pod.node.is_empty() { "on " (untrusted(&pod.node)) ", " }
                    (began(&pod.since, pod.since_at_latest, as_of))
                }
            }
            p { (untrusted(&pod.message)) }
            @if !pod.evidence.is_empty() {
                ul {
                    @for evidence in pod.evidence.iter().take(EVIDENCE) { li { "evidence: " (untrusted(evidence)) } }
                    @if pod.evidence.len() > EVIDENCE { li { "and " (pod.evidence.len() - EVIDENCE) " more" } }
                }
            }
            @for issue in shown_containers(pod) { (container(issue, as_of)) (log(issue, log_bytes)) }
            @if hidden > 0 { p { "and " (counted(hidden, "more container")) } }
            (command_lines(&commands::of_pod(context, pod)))
        }
    }
}

pub(super) fn shown_containers(pod: &PodProblem) -> &[ContainerIssue] {
    pod.container_issues.get(..CONTAINERS).unwrap_or(&pod.container_issues)
}

fn container(issue: &ContainerIssue, as_of: Option<Timestamp>) -> Markup {
    html! {
        p {
            (kind(issue.kind)) " " b { (untrusted(&issue.name)) } ": " (format!("{:?}", issue.state))
            @if !issue.reason.is_empty() { " (" (untrusted(&issue.reason)) ")" }
            @if issue.restarts > 0 { ", " (counted(issue.restarts, "restart")) }
            @if let Some(last) = &issue.last_termination {
                ", terminated "
                @if let Some(time) = &last.finished_at { (ago(time.0, as_of)) " " }
                "with exit code " (last.exit_code)
                @if !last.reason.is_empty() && last.reason != issue.reason { " (" (untrusted(&last.reason)) ")" }
            }
        }
    }
}

fn log(issue: &ContainerIssue, log_bytes: usize) -> Markup {
    let Some(source) = log_name(issue.log_source) else {
        let is_missing = issue.log_source == Some(LogSource::Unavailable);
        return html! { @if is_missing { p { "no log: " (untrusted(&issue.log_note)) } } };
    };
    let end = log_end(&issue.logs, log_bytes);
    let (lines, all) = (end.lines().count(), issue.logs.lines().count());
    let note = Some(shortened(&issue.log_note)).filter(|note| !note.is_empty());
    let cut = match (end.len() < issue.logs.len(), end.is_empty()) {
        (false, _) => None,
        (true, true) => Some("left out: no room".to_owned()),
        (true, false) => Some(format!("the last {lines} of {all} lines")),
    };
    let notes: Vec<_> = note.into_iter().chain(cut).collect();
    html! {
        details class="log" open {
            summary {
                (source) " of " (untrusted(&issue.name))
                @if !notes.is_empty() { " (" bdi { (notes.join("; ")) } ")" }
            }
            @if issue.logs.is_empty() { p { "It is empty." } }
            // `dir` isolates the log as well, and finds the direction of each line.
            @if !end.is_empty() { pre dir="auto" { samp { (log_text(end)) } } }
        }
    }
}

fn command_lines(commands: &[String]) -> Markup {
    html! { @if !commands.is_empty() { pre class="commands" { code { (commands.join("\n")) } } } }
}
