//! An explanation as text.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    api::{ContainerKind, PodProblem},
    report::{with_hint, with_log_line},
};

use super::{
    super::{
        document::{age, cause, in_parentheses, lasted, sentence},
        explanation::{
            ConditionPart, ContainerPart, Counts, EventPart, Events, Explanation, NodePart, ObjectPart, PodPart, State,
            WorkloadPart,
        },
        numbers::counted,
        safe::printable,
    },
    BAD, GOOD, HEADING, Layout, Style, Text,
};

/// What is known about a pod or a workload.
pub(in crate::render) fn write(explanation: &Explanation, layout: Layout) -> String {
    let Explanation { target, namespace, time, state, workload, pods, not_read } = explanation;
    let mut text = Text::new(layout, time.0);
    let (style, what) = match state {
        State::Healthy => (GOOD, "is healthy"),
        State::Running => (GOOD, "is running, and its pods are healthy"),
        State::Settling => (Style::new(), "is not healthy yet"),
        State::Problem => (BAD, "has a problem"),
        State::Unknown => (BAD, "may have problems: not all of its pods could be read"),
    };
    let (target, namespace) = (printable(target), printable(namespace));
    text.out += &format!("{HEADING}{target}{HEADING:#} in {namespace} {style}{what}{style:#}\n");
    let is_pod = target.starts_with("pod/");
    if let Some(workload) = workload.as_ref().filter(|_| !is_pod) {
        text.workload(workload, false);
    }
    for pod in pods {
        if !is_pod {
            text.heading(&format!("pod/{}", pod.name));
        }
        text.explained_pod(pod);
    }
    if let Some(workload) = workload.as_ref().filter(|_| is_pod) {
        text.heading(&format!("Its workload, {}", workload.name));
        text.workload(workload, true);
    }
    if !not_read.is_empty() {
        text.heading("Not read");
        not_read.iter().for_each(|sentence| text.line(2, sentence));
    }
    text.out
}

impl Text {
    fn explained_pod(&mut self, pod: &PodPart) {
        let since = self.with_age(" for ", pod.since.as_ref(), "");
        match (&pod.problem, pod.state) {
            (Some(problem), _) => self.problem(pod, problem),
            (None, State::Settling) => {
                let until = pod.until.as_ref().map(|until| {
                    let left = age(self.now, until.0);
                    format!("; it becomes a problem in {left}, at {until}, unless it changes", until = until.0)
                });
                self.line(2, &format!("{}{}", pod.status, until.unwrap_or_default()));
            }
            (None, _) if pod.status == "Completed" || pod.status == "Succeeded" => {
                let ago = self.with_age(" ", pod.since.as_ref(), " ago");
                self.line(2, &format!("{}{ago}", pod.status));
            }
            (None, _) => self.line(2, &format!("{}, ready{since}", pod.status)),
        }
        let owner = pod.owner.as_ref().map(|owner| format!("owned by {} {}", owner.kind, owner.name));
        let created = self.with_age("created ", pod.created.as_ref(), " ago");
        let facts = [owner.unwrap_or_default(), after("on ", &pod.node), created];
        self.line(2, &facts.into_iter().filter(|fact| !fact.is_empty()).collect::<Vec<_>>().join(", "));
        if pod.ignored {
            self.line(2, "reports leave it out, because of the annotation kopf.dev/ignore");
        }
        self.section("Containers", &pod.containers, |text, container| {
            let mut issues = pod.problem.iter().flat_map(|problem| &problem.container_issues);
            text.explained_container(container);
            issues.find(|issue| printable(&issue.name) == container.name).into_iter().for_each(|issue| text.log(issue));
        });
        self.section("Conditions that are not as they should be", &pod.conditions, Self::condition);
        self.section("Objects that the pod refers to", &pod.objects, Self::object);
        if let Some(node) = &pod.node_state {
            self.node(node);
        }
        self.events("Events, the newest first", &pod.events);
    }

    fn problem(&mut self, pod: &PodPart, problem: &PodProblem) {
        let PodProblem { reason, message, evidence, .. } = problem;
        let reason = if *reason == pod.status { String::new() } else { format!(", {reason}") };
        let lasted = lasted(&problem.since, problem.since_at_latest, self.now);
        self.line(2, &format!("{}{reason}{} for {lasted}", pod.status, after(", ", cause(problem.cause))));
        self.line(2, &with_log_line(&with_hint(&pod.explanation, &pod.hint), &pod.log_line));
        if printable(message) != pod.explanation {
            self.line(2, message);
        }
        evidence.iter().for_each(|line| self.line(2, &format!("evidence: {line}")));
        pod.also.iter().for_each(|sentence| self.line(2, &format!("also: {sentence}")));
    }

    fn explained_container(&mut self, container: &ContainerPart) {
        let ContainerPart { name, image, state, reason, since, restarts, .. } = container;
        let kind = match container.kind {
            ContainerKind::App => "",
            ContainerKind::Init => "init container ",
            ContainerKind::Sidecar => "sidecar ",
        };
        let (reason, since) = (in_parentheses(reason), self.with_age(" since ", since.as_ref(), ""));
        let ready = match (container.kind, container.ready) {
            (ContainerKind::Init, _) => "",
            (_, true) => ", ready",
            (_, false) => ", not ready",
        };
        let restarts = if *restarts == 0 { String::new() } else { after(", ", &counted(*restarts, "restart")) };
        self.line(4, &format!("{kind}{name}: {state:?}{reason}{since}{ready}{restarts}, image {image}"));
        self.line(8, &container.message);
        if let Some(last) = &container.last_termination {
            let ago = self.with_age(" ", last.finished_at.as_ref(), " ago");
            let reason = in_parentheses(&last.reason);
            let ran = last
                .started_at
                .as_ref()
                .zip(last.finished_at.as_ref())
                .map(|(started, finished)| format!(", after {}", age(started.0, finished.0)));
            let ran = ran.unwrap_or_default();
            self.line(8, &format!("last run ended{ago} with exit code {}{reason}{ran}", last.exit_code));
        }
        self.line(8, &after("memory limit ", &container.memory_limit));
        container.probes.iter().for_each(|probe| self.line(8, probe));
    }

    fn condition(&mut self, condition: &ConditionPart) {
        let ConditionPart { kind, status, reason, message, since } = condition;
        let since = self.with_age(" for ", since.as_ref(), "");
        self.line(4, &format!("{kind} is {status}{since}{}{}", after(": ", reason), after(": ", message)));
    }

    fn object(&mut self, object: &ObjectPart) {
        let ObjectPart { kind, name, exists, missing_keys, unchecked_keys, used_by, detail, .. } = object;
        let state = match exists {
            Some(true) if !missing_keys.is_empty() => format!("does not have the key {}", missing_keys.join(", ")),
            Some(true) if !unchecked_keys.is_empty() => {
                format!("exists; whether it has the key {} is not read", unchecked_keys.join(", "))
            }
            Some(true) => "exists".to_owned(),
            Some(false) => "does not exist".to_owned(),
            None => "could not be read".to_owned(),
        };
        self.line(4, &format!("{kind:?} {name} ({}) {state}{}", used_by.join(", "), after(": ", detail)));
        object.events.shown.iter().for_each(|event| self.event(8, event));
    }

    fn node(&mut self, node: &NodePart) {
        let NodePart { name, exists, unschedulable, conditions, taints } = node;
        let is_well = conditions.is_empty() && taints.is_empty() && !unschedulable;
        match (exists, is_well) {
            (false, _) => self.line(2, &format!("The node {name} does not exist.")),
            (true, true) => self.line(2, &format!("The node {name} is ready, without pressure or taints.")),
            (true, false) => self.line(2, &format!("The node {name}:")),
        }
        conditions.iter().for_each(|condition| self.condition(condition));
        if *unschedulable {
            self.line(4, "it is cordoned");
        }
        taints.iter().for_each(|taint| self.line(4, &format!("taint {taint}")));
    }

    fn workload(&mut self, workload: &WorkloadPart, is_brief: bool) {
        let WorkloadPart { progress, pods, revision, missing_pods, incidents, events, .. } = workload;
        self.line(2, progress);
        match pods {
            Some(counts) => self.line(2, &shown_counts(counts)),
            None => self.line(2, "its pods could not be read"),
        }
        if let Some(missing) = missing_pods {
            let cause = in_parentheses(cause(missing.cause));
            self.line(2, &format!("pods cannot be created{cause}: {}", with_hint(&missing.message, &missing.hint)));
            missing.quotas.iter().for_each(|quota| self.line(4, quota));
        }
        if let Some(revision) = revision {
            let newest = if is_brief { "the pod's revision" } else { "the newest revision" };
            self.line(2, &format!("{newest} is {}; what changed since {}:", revision.name, revision.before));
            revision.changes.iter().for_each(|change| self.line(4, change));
        }
        self.section("Incidents", incidents, |text, incident| {
            let cause = after(", ", cause(incident.cause));
            let lasted = lasted(&incident.since, incident.since_at_latest, text.now);
            let pods = format!("{} of {}", incident.pods, counted(incident.of, "pod"));
            text.line(4, &format!("{}{cause}: {pods} for {lasted}", incident.reason));
            text.line(8, &sentence(incident));
        });
        self.events("Events, the newest first", events);
    }

    fn events(&mut self, heading: &str, events: &Events) {
        self.section(heading, &events.shown, |text, event| text.event(4, event));
        if events.omitted > 0 {
            self.line(4, &format!("and {}", counted(events.omitted, "older one")));
        }
        if events.more {
            self.line(4, "there are more events, which were not read");
        }
    }

    fn event(&mut self, indent: usize, event: &EventPart) {
        let EventPart { about, kind, reason, message, count, last, from, .. } = event;
        let (ago, from) = (self.with_age("", last.as_ref(), " ago "), after(", ", from));
        let count = if *count > 1 { format!(" ×{count}") } else { String::new() };
        self.line(indent, &format!("{ago}{kind} {reason}{count} ({about}{from}): {message}"));
    }

    /// Entries under a heading, which is left out if there are no entries.
    fn section<T>(&mut self, heading: &str, entries: &[T], entry: impl Fn(&mut Self, &T)) {
        if !entries.is_empty() {
            self.line(2, &format!("{heading}:"));
        }
        entries.iter().for_each(|own| entry(self, own));
    }

    /// How long ago a time is, between these texts. Nothing if there is no time.
    fn with_age(&self, before: &str, time: Option<&Time>, behind: &str) -> String {
        time.map(|time| format!("{before}{}{behind}", self.age(time))).unwrap_or_default()
    }
}

/// The text after a prefix, or nothing if the text is empty.
fn after(prefix: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{prefix}{text}") }
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
    let total = counted(total, "pod");
    if parts.is_empty() { total } else { format!("{total}: {}", parts.join(", ")) }
}

#[cfg(test)]
mod tests;
