//! Text for a terminal, always with colours: the stream removes them if standard output is not a terminal.

pub(super) mod explanation;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{CommonCause, ContainerIssue, ContainerKind, Incident, LogSource, PodProblem};

use super::{
    document::{
        Document, End, Extent, Outcome, Section, affected, age, cause, in_parentheses, lasted, length, log_lines,
        log_name, logs_or_why_not, message, ownership, sentence,
    },
    numbers::counted,
    safe::{printable, wrapped},
    table::{self, terminal_width},
    timeline::Timeline,
};

const HEADING: Style = Style::new().bold();
const BAD: Style = AnsiColor::Red.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const LOG: Style = Style::new().dimmed();
/// How many of the incidents that have ended are printed.
const ENDED: usize = 5;
/// The width of the text if the output is not a terminal, in columns.
const WIDTH: usize = 80;
/// The smallest and the largest width of the text on a terminal, in columns: longer lines are hard to read.
const WIDTHS: (usize, usize) = (40, 120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The width of wrapped text, in terminal columns. Names and lines of logs are never broken.
    pub(crate) width: usize,
    /// How many lines of each log are printed, the last ones.
    pub(crate) log_lines: usize,
}

impl Layout {
    /// The width of the terminal, or 80 columns if standard output is not a terminal.
    pub(crate) fn of_terminal(log_lines: usize) -> Self {
        Self { width: terminal_width().map_or(WIDTH, |width| width.clamp(WIDTHS.0, WIDTHS.1)), log_lines }
    }
}

/// The statuses of objects, and how `wait` ended for each target.
pub(crate) fn write(document: &Document, layout: Layout) -> String {
    document.sections().map(|section| status(section, layout)).chain(document.outcomes.iter().map(outcome)).collect()
}

/// The status of an object.
fn status(section: &Section, layout: Layout) -> String {
    let mut text = Text::new(layout, section.now);
    let part = &section.status;
    if let (Extent::History, Some(history)) = (part.extent, &part.history) {
        return table::history(history, terminal_width());
    }
    let checked = match section.as_of {
        Some(time) => format!("checked {} ago", age(time, section.now)),
        None => "never checked".to_owned(),
    };
    text.out += &format!("{HEADING}{}{HEADING:#}, {checked}\n", printable(&section.subject));
    text.line(0, &part.statement);
    section.not_seen.iter().for_each(|note| text.line(0, note));
    if !section.common_causes.is_empty() {
        text.heading("Common causes");
        section.common_causes.iter().for_each(|cause| text.common_cause(cause));
    }
    if !section.incidents.is_empty() {
        text.heading("Incidents");
        section.incidents.iter().for_each(|incident| text.incident(incident, part.extent == Extent::Selected));
        text.omitted(part.omitted_incidents);
    }
    if let Some(history) = &part.history {
        text.ended(history);
    }
    if !section.pods.is_empty() {
        text.heading("Pods");
        section.pods.iter().for_each(|pod| text.pod(pod));
        text.omitted(part.omitted_pods);
    }
    text.out
}

/// The pods of each cluster whose logs were to be read, in the order of the table.
pub(crate) fn pods_with_logs(document: &Document, layout: Layout) -> String {
    let pods_of = |section: &Section| {
        let mut text = Text::new(layout, section.now);
        let was_read = |pod: &&PodProblem| pod.container_issues.iter().any(|issue| issue.log_source.is_some());
        let mut pods: Vec<_> = section.pods.iter().filter(was_read).collect();
        if !pods.is_empty() {
            text.heading(&section.context.as_ref().map_or("Pods".to_owned(), |context| format!("Pods of {context}")));
        }
        pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        pods.into_iter().for_each(|pod| text.pod(pod));
        text.out
    };
    document.sections().map(pods_of).collect()
}

/// How the wait for a target ended.
pub(super) fn outcome(outcome: &Outcome) -> String {
    let Outcome { target, end, what, took, troubles, more } = outcome;
    let after = length(*took);
    let said = outcome.fault().map(|fault| fault.message).unwrap_or_default();
    let mut text = format!("{HEADING}{target}{HEADING:#}");
    text += &match end {
        End::Done => return text + &format!(" is {GOOD}healthy{GOOD:#} after {after}: {what}\n"),
        End::Unfinished => return text + &format!(" was still waited for: {what}\n"),
        End::Failed(_) if said == *what => format!(" {BAD}failed{BAD:#} after {after}: {what}\n"),
        End::Failed(_) => format!(" {BAD}failed{BAD:#} after {after}, {what}: {said}\n"),
        End::TimedOut => format!(" {BAD}timed out{BAD:#} after {after}: {what}\n"),
    };
    text.extend(troubles.iter().map(|(incident, pod)| trouble(incident, pod, &said)));
    match more {
        0 => text,
        1 => text + "  and 1 more pod that is not healthy\n",
        more => text + &format!("  and {more} more pods that are not healthy\n"),
    }
}

/// `said` is the sentence that the heading contains already.
fn trouble(incident: &Incident, pod: &PodProblem, said: &str) -> String {
    let alike = match incident.pods {
        ..=1 => String::new(),
        2 => "  and 1 more pod".to_owned(),
        alike => format!("  and {} more pods", alike - 1),
    };
    let (name, status) = (printable(&pod.name), printable(&pod.status));
    let code = Some(cause(pod.cause)).filter(|cause| !cause.is_empty()).map_or(printable(&pod.reason), str::to_owned);
    let code = if code == status { String::new() } else { format!("  {code}") };
    let mut text = format!("  {HEADING}{name}{HEADING:#}  {BAD}{status}{BAD:#}{code}{alike}\n");
    text.extend(Some(message(incident)).filter(|message| message != said).map(|message| format!("      {message}\n")));
    text.extend(pod.evidence.iter().map(|line| format!("      evidence: {}\n", printable(line))));
    for (title, log) in logs_or_why_not(pod) {
        let colon = if log.is_empty() { "" } else { ":" };
        text += &format!("      {title}{colon}\n");
        text.extend(log_lines(log).map(|line| format!("      | {LOG}{line}{LOG:#}\n")));
    }
    text
}

/// The text without colours.
pub(crate) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

struct Text {
    out: String,
    layout: Layout,
    now: Timestamp,
}

impl Text {
    fn new(layout: Layout, now: Timestamp) -> Self {
        Self { out: String::new(), layout, now }
    }

    fn common_cause(&mut self, cause: &CommonCause) {
        let CommonCause { kind, name, owners, pods, since, since_at_latest, message } = cause;
        let extent = format!("{} of {}", counted(*pods, "pod"), counted(*owners, "owner"));
        self.title(&format!("{kind} {name}"), "", &[&extent, &lasted(since, *since_at_latest, self.now)]);
        self.line(6, message);
    }

    /// The lines of an overview have no room for the key.
    fn incident(&mut self, incident: &Incident, shows_key: bool) {
        let Incident { namespace, owner, key, reason, .. } = incident;
        let key = if shows_key { key.as_str() } else { "" };
        let lasted = lasted(&incident.since, incident.since_at_latest, self.now);
        let facts = [cause(incident.cause), &affected(incident), &lasted, key];
        self.title(&format!("{namespace}/{} ({})", owner.name, owner.kind), reason, &facts);
        self.line(6, &sentence(incident));
        self.line(6, &ownership(incident));
        if let Some(revision) = &incident.revision {
            let healthy = counted(revision.healthy_before, "pod");
            self.line(6, &format!("only revision {} fails; {healthy} of the one before are healthy", revision.name));
            revision.changes.iter().for_each(|change| self.line(6, &format!("changed: {change}")));
        }
    }

    /// The last incidents that have ended.
    fn ended(&mut self, timeline: &Timeline) {
        let mut ended = timeline.incidents.iter().filter_map(|own| Some((own, own.ended?))).peekable();
        if ended.peek().is_none() {
            return;
        }
        self.heading("Ended recently");
        for (own, end) in ended.by_ref().take(ENDED) {
            let lasted = format!("lasted {}", own.lasted(self.now));
            let ago = format!("ended {} ago", age(end, self.now));
            let name = format!("{} ({})", own.workload(), own.owner.kind);
            self.title(&name, &own.reason, &[cause(own.cause), &counted(own.pods, "pod"), &lasted, &ago]);
        }
        match ended.count() {
            0 => {}
            more => self.line(2, &format!("and {more} more: see orchestr show --history")),
        }
    }

    fn omitted(&mut self, count: i64) {
        if count > 0 {
            self.line(2, &format!("and {count} more, which the status omits"));
        }
    }

    fn pod(&mut self, pod: &PodProblem) {
        let reason = if pod.reason == pod.status { "" } else { pod.reason.as_str() };
        let node = if pod.node.is_empty() { String::new() } else { format!("on {}", pod.node) };
        let lasted = lasted(&pod.since, pod.since_at_latest, self.now);
        self.title(&format!("{}/{}", pod.namespace, pod.name), &pod.status, &[reason, &node, &lasted]);
        self.line(6, &pod.message);
        pod.evidence.iter().for_each(|evidence| self.line(6, &format!("evidence: {evidence}")));
        pod.container_issues.iter().for_each(|issue| self.container(issue));
    }

    fn container(&mut self, issue: &ContainerIssue) {
        let mut parts = vec![format!("{:?}{}", issue.state, in_parentheses(&issue.reason))];
        if issue.restarts != 0 {
            parts.push(counted(issue.restarts, "restart"));
        }
        if let Some(last) = &issue.last_termination {
            let ago = last.finished_at.as_ref().map(|time| format!(" {} ago", self.age(time))).unwrap_or_default();
            let reason = if last.reason == issue.reason { String::new() } else { in_parentheses(&last.reason) };
            parts.push(format!("terminated{ago} with exit code {}{reason}", last.exit_code));
        }
        self.line(6, &format!("{} {}: {}", kind(issue.kind), issue.name, parts.join(", ")));
        self.log(issue);
    }

    fn log(&mut self, issue: &ContainerIssue) {
        let ContainerIssue { logs, log_source, log_note, .. } = issue;
        let Some(name) = log_name(*log_source) else {
            if *log_source == Some(LogSource::Unavailable) {
                self.line(8, &format!("no log: {log_note}"));
            }
            return;
        };
        let count = logs.lines().count();
        let omitted = count.saturating_sub(self.layout.log_lines);
        let cut = (omitted > 0).then(|| format!("the last {} of {count} lines here", count - omitted));
        let notes = [Some(log_note.clone()).filter(|note| !note.is_empty()), cut];
        let notes = notes.into_iter().flatten().collect::<Vec<_>>().join("; ");
        self.line(8, &format!("{name}{}:", in_parentheses(&notes)));
        self.out.extend(log_lines(logs).skip(omitted).map(|line| format!("        | {LOG}{line}{LOG:#}\n")));
    }

    fn heading(&mut self, text: &str) {
        self.out += &format!("\n{HEADING}{}{HEADING:#}\n", printable(text));
    }

    /// The first line of an entry: what it is, its reason, and further facts.
    fn title(&mut self, name: &str, reason: &str, facts: &[&str]) {
        self.out += &format!("  {HEADING}{}{HEADING:#}", printable(name));
        if !reason.is_empty() {
            self.out += &format!("  {BAD}{}{BAD:#}", printable(reason));
        }
        let facts = facts.iter().filter(|fact| !fact.is_empty());
        self.out.extend(facts.map(|fact| format!("  {}", printable(fact))));
        self.out.push('\n');
    }

    /// A text at this indentation, wrapped. Nothing if the text is empty.
    fn line(&mut self, indent: usize, text: &str) {
        self.out += &wrapped(self.layout.width, indent, text);
    }

    fn age(&self, time: &Time) -> String {
        age(time.0, self.now)
    }
}

pub(super) fn kind(kind: ContainerKind) -> &'static str {
    match kind {
        ContainerKind::App => "container",
        ContainerKind::Init => "init container",
        ContainerKind::Sidecar => "sidecar container",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::document::tests::{failed, trouble, waited},
        *,
    };
    use crate::api::Cause;

    #[test]
    fn prints_the_cause_the_evidence_and_the_log() {
        let (mut incident, mut pod) = trouble("panic: no database", "app", LogSource::Previous);
        (incident.message, incident.pods) = ("app exited with code 1".to_owned(), 3);
        (pod.name, pod.status) = ("cart-5d9f-a".to_owned(), "CrashLoopBackOff".to_owned());
        pod.evidence = vec!["BackOff ×4".to_owned()];
        let mut unread = trouble("app was killed", "proxy", LogSource::Unavailable);
        (unread.1.name, unread.1.reason, unread.1.cause) =
            ("cart-5d9f-b".to_owned(), "Error".to_owned(), Cause::Unknown);
        unread.1.container_issues[0].log_note = "the node does not respond".to_owned();
        let failed = Outcome {
            target: "deployment/cart".to_owned(),
            end: failed("ExitCode", "app exited with code 1"),
            what: "1 of 3 replicas updated".to_owned(),
            took: Duration::from_secs(125),
            troubles: vec![(incident, pod), unread],
            more: 1,
        };
        let waiting = Outcome {
            target: "job/migrate".to_owned(),
            end: End::Unfinished,
            what: "0 of 1 pod succeeded".to_owned(),
            troubles: Vec::new(),
            more: 0,
            ..failed.clone()
        };
        let done = Outcome {
            target: "statefulset/db".to_owned(),
            end: End::Done,
            what: "3 pods".to_owned(),
            ..waiting.clone()
        };
        let late = Outcome { end: End::TimedOut, ..waiting.clone() };
        assert_eq!(
            plain(&write(&waited(vec![failed, waiting, done, late]), Layout { width: 80, log_lines: 0 })),
            "deployment/cart failed after 2m5s, 1 of 3 replicas updated: app exited with code 1\n  \
               cart-5d9f-a  CrashLoopBackOff  ExitCode  and 2 more pods\n      \
                   evidence: BackOff ×4\n      \
                   log of the previous run of app:\n      \
                   | panic: no database\n  \
               cart-5d9f-b  Error\n      \
                   app was killed\n      \
                   evidence: app was killed\n      \
                   no log of proxy: the node does not respond\n  \
               and 1 more pod that is not healthy\n\
             job/migrate was still waited for: 0 of 1 pod succeeded\n\
             statefulset/db is healthy after 2m5s: 3 pods\n\
             job/migrate timed out after 2m5s: 0 of 1 pod succeeded\n"
        );
    }
}
