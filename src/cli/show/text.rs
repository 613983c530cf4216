//! A status as text.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::{
    api::{
        Cause, CommonCause, ContainerIssue, ContainerKind, Incident, LogSource, NamespacedName, OrchestrStatus, Owner,
        PodProblem, condition,
    },
    cli::{ownership::ownership, printable::printable, timeline::Timeline, wrap::write_wrapped},
    diagnosis::human_duration,
};

use super::{notes::notes, selection::Selection};

const HEADING: Style = Style::new().bold();
const REASON: Style = AnsiColor::Red.on_default();
const LOG: Style = Style::new().dimmed();
/// How many of the incidents that have ended are printed.
const ENDED: usize = 5;
/// The width of the text if the output is not a terminal, in columns.
const WIDTH: usize = 80;
/// The smallest and the largest width of the text on a terminal, in columns: longer lines are hard to read.
const WIDTHS: (usize, usize) = (40, 120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Layout {
    /// The width of wrapped text, in terminal columns. Names and lines of logs are never broken.
    pub(in crate::cli) width: usize,
    /// How many lines of each log are printed, the last ones.
    pub(in crate::cli) log_lines: usize,
}

impl Layout {
    /// The width of the terminal, or 80 columns if standard output is not a terminal.
    pub(in crate::cli) fn of_terminal(log_lines: usize) -> Self {
        let width = terminal_size::terminal_size_of(io::stdout());
        Self { width: width.map_or(WIDTH, |(width, _)| usize::from(width.0).clamp(WIDTHS.0, WIDTHS.1)), log_lines }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Health {
    Healthy,
    Unhealthy,
    /// The status does not say, for instance because the pods cannot be read.
    Unknown,
}

pub(in crate::cli) fn health(status: &OrchestrStatus) -> Health {
    match find(status, condition::PODS_HEALTHY).map(|condition| condition.status.as_str()) {
        Some("True") => Health::Healthy,
        Some("False") => Health::Unhealthy,
        _ => Health::Unknown,
    }
}

pub(super) fn find<'a>(status: &'a OrchestrStatus, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|condition| condition.type_ == kind)
}

/// Writes the selected parts of the status, always with colours: the stream removes them if it is not a terminal.
pub(super) fn write(
    out: &mut impl Write,
    object: &NamespacedName,
    status: &OrchestrStatus,
    generation: Option<i64>,
    selection: &Selection<'_>,
    layout: Layout,
    now: Timestamp,
) -> io::Result<()> {
    let mut text = Text { out, layout, now, shows_keys: !selection.is_everything };
    text.overview(object, status, generation)?;
    if selection.is_everything && !status.common_causes.is_empty() {
        text.heading("Common causes")?;
        status.common_causes.iter().try_for_each(|cause| text.common_cause(cause))?;
    }
    if !selection.incidents.is_empty() {
        text.heading("Incidents")?;
        selection.incidents.iter().try_for_each(|incident| text.incident(incident))?;
        if selection.is_everything && status.omitted_incidents > 0 {
            text.line(2, &format!("and {} more, which the status omits", status.omitted_incidents))?;
        }
    }
    if selection.is_everything {
        text.ended(status)?;
    }
    if !selection.pods.is_empty() {
        text.heading("Pods")?;
        selection.pods.iter().try_for_each(|pod| text.pod(pod))?;
        if selection.is_everything && status.omitted_pods > 0 {
            text.line(2, &format!("and {} more, which the status omits", status.omitted_pods))?;
        }
    }
    Ok(())
}

/// Writes pods with their containers and logs under a heading, with colours as [`write`].
pub(in crate::cli) fn write_pods<'p>(
    out: &mut impl Write,
    heading: &str,
    pods: impl IntoIterator<Item = &'p PodProblem>,
    layout: Layout,
    now: Timestamp,
) -> io::Result<()> {
    let mut text = Text { out, layout, now, shows_keys: false };
    text.heading(heading)?;
    pods.into_iter().try_for_each(|pod| text.pod(pod))
}

struct Text<'w, W> {
    out: &'w mut W,
    layout: Layout,
    now: Timestamp,
    /// Whether to print the keys of incidents, for which the lines of an overview have no room.
    shows_keys: bool,
}

impl<W: Write> Text<'_, W> {
    /// How the pods are, how old the status is, and every condition that limits what it says.
    fn overview(
        &mut self,
        object: &NamespacedName,
        status: &OrchestrStatus,
        generation: Option<i64>,
    ) -> io::Result<()> {
        let NamespacedName { namespace, name } = object;
        let checked = match &status.last_check_time {
            Some(time) => format!("checked {} ago", self.age(time)),
            None => "never checked".to_owned(),
        };
        self.heading_line(&format!("{namespace}/{name}"), &checked)?;
        let healthy = find(status, condition::PODS_HEALTHY);
        match (health(status), healthy) {
            (Health::Unknown, Some(healthy)) => {
                let Condition { reason, message, .. } = healthy;
                self.line(0, &format!("It is unknown whether the pods are healthy ({reason}): {message}"))?;
            }
            (Health::Unknown, None) => self.line(0, "It is unknown whether the pods are healthy.")?,
            (_, Some(healthy)) => self.line(0, &healthy.message)?,
            (_, None) => {}
        }
        notes(status, generation, self.now).iter().try_for_each(|note| self.line(0, note))
    }

    fn common_cause(&mut self, cause: &CommonCause) -> io::Result<()> {
        let CommonCause { kind, name, owners, pods: affected, since, message } = cause;
        let owners = if *owners == 1 { "1 owner".to_owned() } else { format!("{owners} owners") };
        let since = self.age(since);
        self.title(&format!("{kind} {name}"), "", &[&format!("{} of {owners}", pods(*affected)), &since])?;
        self.line(6, message)
    }

    fn incident(&mut self, incident: &Incident) -> io::Result<()> {
        let Incident { namespace, owner: Owner { kind, name }, .. } = incident;
        let affected = match incident.of {
            ..=0 => pods(incident.pods),
            of => format!("{} of {}", incident.pods, pods(of)),
        };
        let age = self.age(&incident.since);
        let cause = cause_or_nothing(&incident.cause);
        let key = if self.shows_keys { incident.key.as_str() } else { "" };
        self.title(&format!("{namespace}/{name} ({kind})"), &incident.reason, &[&cause, &affected, &age, key])?;
        self.line(6, &incident.message)?;
        let ownership = ownership(incident);
        if !ownership.is_empty() {
            self.line(6, &ownership)?;
        }
        if let Some(revision) = &incident.revision {
            let healthy = pods(revision.healthy_before);
            self.line(6, &format!("only revision {} fails; {healthy} of the one before are healthy", revision.name))?;
            for change in &revision.changes {
                self.line(6, &format!("changed: {change}"))?;
            }
        }
        Ok(())
    }

    /// The last incidents that have ended.
    fn ended(&mut self, status: &OrchestrStatus) -> io::Result<()> {
        let timeline = Timeline::of(status, None, self.now);
        let mut ended = timeline.incidents.iter().filter_map(|own| Some((own, own.end.last()?))).peekable();
        if ended.peek().is_none() {
            return Ok(());
        }
        self.heading("Ended recently")?;
        for (own, end) in ended.by_ref().take(ENDED) {
            let lasted = format!("lasted {}", own.lasted(self.now));
            let age = format!("ended {} ago", self.age(&Time(end)));
            let (name, cause) = (format!("{} ({})", own.workload(), own.owner.kind), cause_or_nothing(&own.cause));
            self.title(&name, own.reason, &[&cause, &pods(own.pods), &lasted, &age])?;
        }
        match ended.count() {
            0 => Ok(()),
            more => self.line(2, &format!("and {more} more: see orchestr history")),
        }
    }

    fn pod(&mut self, pod: &PodProblem) -> io::Result<()> {
        let reason = if pod.reason == pod.status { "" } else { pod.reason.as_str() };
        let node = if pod.node.is_empty() { String::new() } else { format!("on {}", pod.node) };
        let age = self.age(&pod.since);
        self.title(&format!("{}/{}", pod.namespace, pod.name), &pod.status, &[reason, &node, &age])?;
        self.line(6, &pod.message)?;
        for evidence in &pod.evidence {
            self.line(6, &format!("evidence: {evidence}"))?;
        }
        pod.container_issues.iter().try_for_each(|issue| self.container(issue))
    }

    fn container(&mut self, issue: &ContainerIssue) -> io::Result<()> {
        let state = format!("{:?}", issue.state);
        let mut parts = vec![if issue.reason.is_empty() { state } else { format!("{state} ({})", issue.reason) }];
        match issue.restarts {
            0 => {}
            1 => parts.push("1 restart".to_owned()),
            restarts => parts.push(format!("{restarts} restarts")),
        }
        if let Some(last) = &issue.last_termination {
            let ago = last.finished_at.as_ref().map(|time| format!(" {} ago", self.age(time))).unwrap_or_default();
            let is_known = last.reason.is_empty() || last.reason == issue.reason;
            let reason = if is_known { String::new() } else { format!(" ({})", last.reason) };
            parts.push(format!("terminated{ago} with exit code {}{reason}", last.exit_code));
        }
        let kind = match issue.kind {
            ContainerKind::App => "container",
            ContainerKind::Init => "init container",
            ContainerKind::Sidecar => "sidecar container",
        };
        self.line(6, &format!("{kind} {}: {}", issue.name, parts.join(", ")))?;
        self.log(issue)
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
        let lines: Vec<_> = logs.lines().collect();
        let omitted = lines.len().saturating_sub(self.layout.log_lines);
        let mut notes = Vec::new();
        if !log_note.is_empty() {
            notes.push(log_note.clone());
        }
        if omitted > 0 {
            notes.push(format!("the last {} of {} lines here", lines.len() - omitted, lines.len()));
        }
        let note = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
        self.line(8, &format!("{source}{note}:"))?;
        for line in lines.iter().skip(omitted) {
            // A tab is harmless, and common in stack traces.
            let line = printable(&line.replace('\t', "    "));
            writeln!(self.out, "        | {LOG}{line}{LOG:#}")?;
        }
        Ok(())
    }

    fn heading(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "\n{HEADING}{}{HEADING:#}", printable(text))
    }

    fn heading_line(&mut self, text: &str, note: &str) -> io::Result<()> {
        writeln!(self.out, "{HEADING}{}{HEADING:#}, {note}", printable(text))
    }

    /// The first line of an entry: what it is, its reason, and further facts.
    fn title(&mut self, name: &str, reason: &str, facts: &[&str]) -> io::Result<()> {
        write!(self.out, "  {HEADING}{}{HEADING:#}", printable(name))?;
        if !reason.is_empty() {
            write!(self.out, "  {REASON}{}{REASON:#}", printable(reason))?;
        }
        for fact in facts.iter().filter(|fact| !fact.is_empty()) {
            write!(self.out, "  {}", printable(fact))?;
        }
        writeln!(self.out)
    }

    /// A text at this indentation, wrapped. Nothing if the text is empty.
    fn line(&mut self, indent: usize, text: &str) -> io::Result<()> {
        write_wrapped(self.out, self.layout.width, indent, text)
    }

    fn age(&self, time: &Time) -> String {
        // The clock may be behind by seconds.
        human_duration(self.now.duration_since(time.0).max(SignedDuration::ZERO))
    }
}

fn cause_or_nothing(cause: &Cause) -> String {
    if *cause == Cause::Unknown { String::new() } else { cause.to_string() }
}

fn pods(count: i64) -> String {
    if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") }
}

#[cfg(test)]
mod tests;
