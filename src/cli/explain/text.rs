//! An explanation as text.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    api::{Cause, ContainerIssue, ContainerKind, LogSource, PodProblem},
    cli::{printable::printable, show::text::Layout, workload::counted, wrap::write_wrapped},
    diagnosis::human_duration,
};

use super::explanation::{
    ConditionPart, ContainerPart, Counts, EventPart, Events, Explanation, NodePart, ObjectPart, PodPart, State,
    WorkloadPart,
};

const HEADING: Style = Style::new().bold();
const BAD: Style = AnsiColor::Red.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const LOG: Style = Style::new().dimmed();

/// Writes an explanation, always with colours: the stream removes them if it is not a terminal.
pub(super) fn write(out: &mut impl Write, explanation: &Explanation, layout: Layout) -> io::Result<()> {
    let Explanation { target, namespace, time, state, workload, pods, not_read } = explanation;
    let mut text = Text { out, width: layout.width, now: time.0 };
    let (style, what) = match state {
        State::Healthy => (GOOD, "is healthy"),
        State::Running => (GOOD, "is running, and its pods are healthy"),
        State::Settling => (Style::new(), "is not healthy yet"),
        State::Problem => (BAD, "has a problem"),
        State::Unknown => (BAD, "may have problems: not all of its pods could be read"),
    };
    writeln!(text.out, "{HEADING}{}{HEADING:#} in {} {style}{what}{style:#}", printable(target), printable(namespace))?;
    let is_pod = target.starts_with("pod/");
    if let Some(workload) = workload.as_ref().filter(|_| !is_pod) {
        text.workload(workload, false)?;
    }
    for pod in pods {
        if !is_pod {
            text.heading(&format!("pod/{}", pod.name))?;
        }
        text.pod(pod)?;
    }
    if let Some(workload) = workload.as_ref().filter(|_| is_pod) {
        text.heading(&format!("Its workload, {}", workload.name))?;
        text.workload(workload, true)?;
    }
    if !not_read.is_empty() {
        text.heading("Not read")?;
        not_read.iter().try_for_each(|sentence| text.line(2, sentence))?;
    }
    Ok(())
}

struct Text<'w, W> {
    out: &'w mut W,
    width: usize,
    now: Timestamp,
}

impl<W: Write> Text<'_, W> {
    fn pod(&mut self, pod: &PodPart) -> io::Result<()> {
        let since = pod.since.as_ref().map(|since| format!(" for {}", self.age(since))).unwrap_or_default();
        match (&pod.problem, pod.state) {
            (Some(problem), _) => self.problem(pod, problem, &since)?,
            (None, State::Settling) => {
                let until = pod.until.as_ref().map(|until| {
                    let left = human_duration(until.0.duration_since(self.now).max(SignedDuration::ZERO));
                    format!("; it becomes a problem in {left}, at {until}, unless it changes", until = until.0)
                });
                self.line(2, &format!("{}{}", pod.status, until.unwrap_or_default()))?;
            }
            (None, _) if pod.status == "Completed" || pod.status == "Succeeded" => {
                let ago = pod.since.as_ref().map(|since| format!(" {} ago", self.age(since))).unwrap_or_default();
                self.line(2, &format!("{}{ago}", pod.status))?;
            }
            (None, _) => self.line(2, &format!("{}, ready{since}", pod.status))?,
        }
        let mut facts = Vec::new();
        if let Some(owner) = &pod.owner {
            facts.push(format!("owned by {} {}", owner.kind, owner.name));
        }
        if !pod.node.is_empty() {
            facts.push(format!("on {}", pod.node));
        }
        if let Some(created) = &pod.created {
            facts.push(format!("created {} ago", self.age(created)));
        }
        self.line(2, &facts.join(", "))?;
        if pod.ignored {
            self.line(2, "reports leave it out, because of the annotation kopf.dev/ignore")?;
        }
        self.section("Containers", &pod.containers, |text, container| {
            let issues = pod.problem.iter().flat_map(|problem| &problem.container_issues);
            let issue = issues.into_iter().find(|issue| printable(&issue.name) == container.name);
            text.container(container, issue)
        })?;
        self.section("Conditions that are not as they should be", &pod.conditions, Self::condition)?;
        self.section("Objects that the pod refers to", &pod.objects, Self::object)?;
        if let Some(node) = &pod.node_state {
            self.node(node)?;
        }
        self.events("Events, the newest first", &pod.events)
    }

    fn problem(&mut self, pod: &PodPart, problem: &PodProblem, since: &str) -> io::Result<()> {
        let PodProblem { reason, cause, message, evidence, .. } = problem;
        let reason = if *reason == pod.status { String::new() } else { format!(", {reason}") };
        let cause = if *cause == Cause::Unknown { String::new() } else { format!(", {cause}") };
        self.line(2, &format!("{}{reason}{cause}{since}", pod.status))?;
        self.line(2, &pod.explanation)?;
        if printable(message) != pod.explanation {
            self.line(2, message)?;
        }
        evidence.iter().try_for_each(|line| self.line(2, &format!("evidence: {line}")))?;
        pod.also.iter().try_for_each(|sentence| self.line(2, &format!("also: {sentence}")))
    }

    fn container(&mut self, container: &ContainerPart, issue: Option<&ContainerIssue>) -> io::Result<()> {
        let ContainerPart { name, image, state, reason, since, restarts, .. } = container;
        let kind = match container.kind {
            ContainerKind::App => "",
            ContainerKind::Init => "init container ",
            ContainerKind::Sidecar => "sidecar ",
        };
        let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        let since = since.as_ref().map(|since| format!(" since {}", self.age(since))).unwrap_or_default();
        let ready = if container.ready { ", ready" } else { ", not ready" };
        let ready = if container.kind == ContainerKind::Init { "" } else { ready };
        let restarts = match restarts {
            0 => String::new(),
            count => format!(", {}", counted(*count, "restart")),
        };
        self.line(4, &format!("{kind}{name}: {state:?}{reason}{since}{ready}{restarts}, image {image}"))?;
        self.line(8, &container.message)?;
        if let Some(last) = &container.last_termination {
            let ago = last.finished_at.as_ref().map(|time| format!(" {} ago", self.age(time))).unwrap_or_default();
            let reason = if last.reason.is_empty() { String::new() } else { format!(" ({})", last.reason) };
            let ran = last.started_at.as_ref().zip(last.finished_at.as_ref()).map(|(started, finished)| {
                format!(", after {}", human_duration(finished.0.duration_since(started.0).max(SignedDuration::ZERO)))
            });
            let ran = ran.unwrap_or_default();
            self.line(8, &format!("last run ended{ago} with exit code {}{reason}{ran}", last.exit_code))?;
        }
        if !container.memory_limit.is_empty() {
            self.line(8, &format!("memory limit {}", container.memory_limit))?;
        }
        container.probes.iter().try_for_each(|probe| self.line(8, probe))?;
        match issue {
            Some(issue) => self.log(issue),
            None => Ok(()),
        }
    }

    fn log(&mut self, issue: &ContainerIssue) -> io::Result<()> {
        let ContainerIssue { logs, log_source, log_note, .. } = issue;
        let source = match log_source {
            None => return Ok(()),
            Some(LogSource::Unavailable) => return self.line(8, &format!("no log: {log_note}")),
            Some(LogSource::Current) => "log",
            Some(LogSource::Previous) => "log of the previous run",
            Some(LogSource::TerminationMessage) => "termination message",
        };
        let note = if log_note.is_empty() { String::new() } else { format!(" ({log_note})") };
        self.line(8, &format!("{source}{note}:"))?;
        for line in logs.lines() {
            // A tab is harmless, and common in stack traces.
            let line = printable(&line.replace('\t', "    "));
            writeln!(self.out, "        | {LOG}{line}{LOG:#}")?;
        }
        Ok(())
    }

    fn condition(&mut self, condition: &ConditionPart) -> io::Result<()> {
        let ConditionPart { kind, status, reason, message, since } = condition;
        let since = since.as_ref().map(|since| format!(" for {}", self.age(since))).unwrap_or_default();
        let details: Vec<&str> = [reason.as_str(), message].into_iter().filter(|text| !text.is_empty()).collect();
        let details = if details.is_empty() { String::new() } else { format!(": {}", details.join(": ")) };
        self.line(4, &format!("{kind} is {status}{since}{details}"))
    }

    fn object(&mut self, object: &ObjectPart) -> io::Result<()> {
        let ObjectPart { kind, name, exists, missing_keys, unchecked_keys, used_by, detail, .. } = object;
        let mut state = match exists {
            Some(true) if !missing_keys.is_empty() => format!("does not have the key {}", missing_keys.join(", ")),
            Some(true) if !unchecked_keys.is_empty() => {
                format!("exists; whether it has the key {} is not read", unchecked_keys.join(", "))
            }
            Some(true) => "exists".to_owned(),
            Some(false) => "does not exist".to_owned(),
            None => "could not be read".to_owned(),
        };
        if !detail.is_empty() {
            state = format!("{state}: {detail}");
        }
        self.line(4, &format!("{kind} {name} ({}) {state}", used_by.join(", ")))?;
        object.events.shown.iter().try_for_each(|event| self.event(8, event))
    }

    fn node(&mut self, node: &NodePart) -> io::Result<()> {
        let NodePart { name, exists, unschedulable, conditions, taints } = node;
        let is_well = conditions.is_empty() && taints.is_empty() && !unschedulable;
        match (exists, is_well) {
            (false, _) => self.line(2, &format!("The node {name} does not exist."))?,
            (true, true) => self.line(2, &format!("The node {name} is ready, without pressure or taints."))?,
            (true, false) => self.line(2, &format!("The node {name}:"))?,
        }
        conditions.iter().try_for_each(|condition| self.condition(condition))?;
        if *unschedulable {
            self.line(4, "it is cordoned")?;
        }
        taints.iter().try_for_each(|taint| self.line(4, &format!("taint {taint}")))
    }

    fn workload(&mut self, workload: &WorkloadPart, is_brief: bool) -> io::Result<()> {
        let WorkloadPart { progress, pods, revision, missing_pods, incidents, events, .. } = workload;
        self.line(2, progress)?;
        match pods {
            Some(counts) => self.line(2, &shown_counts(counts))?,
            None => self.line(2, "its pods could not be read")?,
        }
        if let Some(missing) = missing_pods {
            let cause = if missing.cause == Cause::Unknown { String::new() } else { format!(" ({})", missing.cause) };
            self.line(2, &format!("pods cannot be created{cause}: {}", missing.message))?;
            missing.quotas.iter().try_for_each(|quota| self.line(4, quota))?;
        }
        if let Some(revision) = revision {
            let newest = if is_brief { "the pod's revision" } else { "the newest revision" };
            self.line(2, &format!("{newest} is {}; what changed since {}:", revision.name, revision.before))?;
            revision.changes.iter().try_for_each(|change| self.line(4, change))?;
        }
        self.section("Incidents", incidents, |text, incident| {
            let cause = if incident.cause == Cause::Unknown { String::new() } else { format!(", {}", incident.cause) };
            let age = text.age(&incident.since);
            let pods =
                format!("{} of {}", incident.pods, counted(i32::try_from(incident.of).unwrap_or(i32::MAX), "pod"));
            text.line(4, &format!("{}{cause}: {pods} for {age}", incident.reason))?;
            text.line(8, &incident.message)
        })?;
        self.events("Events, the newest first", events)
    }

    fn events(&mut self, heading: &str, events: &Events) -> io::Result<()> {
        self.section(heading, &events.shown, |text, event| text.event(4, event))?;
        match events.omitted {
            0 => {}
            omitted => self.line(4, &format!("and {omitted} older ones"))?,
        }
        if events.more {
            self.line(4, "there are more events, which were not read")?;
        }
        Ok(())
    }

    fn event(&mut self, indent: usize, event: &EventPart) -> io::Result<()> {
        let EventPart { about, kind, reason, message, count, last, from, .. } = event;
        let ago = last.as_ref().map(|last| format!("{} ago ", self.age(last))).unwrap_or_default();
        let count = if *count > 1 { format!(" ×{count}") } else { String::new() };
        let from = if from.is_empty() { String::new() } else { format!(", {from}") };
        self.line(indent, &format!("{ago}{kind} {reason}{count} ({about}{from}): {message}"))
    }

    /// Entries under a heading, which is left out if there are no entries.
    fn section<T>(
        &mut self,
        heading: &str,
        entries: &[T],
        mut entry: impl FnMut(&mut Self, &T) -> io::Result<()>,
    ) -> io::Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        self.line(2, &format!("{heading}:"))?;
        entries.iter().try_for_each(|own| entry(self, own))
    }

    fn heading(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "\n{HEADING}{}{HEADING:#}", printable(text))
    }

    fn line(&mut self, indent: usize, text: &str) -> io::Result<()> {
        write_wrapped(self.out, self.width, indent, text)
    }

    fn age(&self, time: &Time) -> String {
        // The clock may be behind by seconds.
        human_duration(self.now.duration_since(time.0).max(SignedDuration::ZERO))
    }
}

/// For example `3 pods: 1 healthy, 2 with a problem`.
fn shown_counts(counts: &Counts) -> String {
    let Counts { total, healthy, settling, problems, unreadable, more } = *counts;
    let parts = [(healthy, "healthy"), (settling, "not healthy yet"), (problems, "with a problem")];
    let mut parts: Vec<_> =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if unreadable > 0 {
        parts.push(format!("{unreadable} more that cannot be decoded"));
    }
    if more {
        parts.push("and more that were not read".to_owned());
    }
    let total = counted(i32::try_from(total).unwrap_or(i32::MAX), "pod");
    if parts.is_empty() { total } else { format!("{total}: {}", parts.join(", ")) }
}

#[cfg(test)]
mod tests;
