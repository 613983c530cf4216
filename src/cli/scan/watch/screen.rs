//! Shows the pods with a problem: on a terminal as a table that is drawn again, otherwise as a line for each change.

use std::{
    collections::BTreeMap,
    env,
    io::{self, IsTerminal, Write},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    api::{Cause, ProblemKind},
    diagnosis::Finding,
    logs::clean_text,
    pods::{Pod, TEXT_LIMIT},
    render::{
        safe::{cut, printable, without_older_form},
        table::{self, Layout},
    },
};

use super::super::{
    collector::Collector,
    counted,
    output::{note, print_to_stderr},
    scanned::summary,
};

/// How often the ages on a terminal are updated if nothing else changes.
const AGES: Duration = Duration::from_secs(10);
/// The size of the terminal if it does not say it, in columns and lines.
const SIZE: (usize, usize) = (80, 24);
const CLEAR: &str = "\x1b[H\x1b[2J";

/// What is to be shown.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// Whether all pods have been listed.
    pub(super) is_synced: bool,
    /// Whether the API server answers, and no change is missing.
    pub(super) is_current: bool,
    /// The sentence about an outage of the API server.
    pub(super) outage: Option<String>,
    /// The sentence about events that could not be read.
    pub(super) missing_events: Option<&'static str>,
}

pub(super) struct Screen {
    wide: bool,
    is_terminal: bool,
    /// Sentences that stay on a terminal.
    notes: Vec<String>,
    /// What was shown last, and when. Absent before the first time.
    last: Option<(State, Instant)>,
    /// Whether the number of pods with problems has been printed.
    is_summarized: bool,
}

/// What decides whether something has changed.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    header: Vec<String>,
    rows: Rows,
}

type Rows = BTreeMap<(String, String), Row>;

/// A pod with a problem.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    /// The same problem as long as these are the same. The STATUS of kubectl alternates while a container crashes.
    problem: (ProblemKind, String, Cause),
    /// The STATUS, and the cause or the reason.
    status: String,
    message: String,
}

impl Row {
    fn of(finding: &Finding) -> Self {
        let cause = finding.explanation.cause;
        let code = if cause == Cause::Unknown { finding.reason.as_str() } else { cause.as_str() };
        let status = if code == finding.status { code.to_owned() } else { format!("{} {code}", finding.status) };
        Self {
            problem: (finding.kind, finding.reason.to_string(), cause),
            status: printable(&status),
            message: printable(&clean_text(&finding.explanation.message, None, TEXT_LIMIT)),
        }
    }
}

fn rows(problems: &[(Pod, Finding)]) -> Rows {
    let row = |(pod, finding): &(Pod, Finding)| {
        let name = (printable(&pod.namespace), printable(&pod.name));
        (name, Row::of(finding))
    };
    problems.iter().map(row).collect()
}

/// A line for each problem that began, ended or changed.
fn changes(before: &Rows, now: &Rows, time: Timestamp) -> Vec<String> {
    let time = time.strftime("%Y-%m-%dT%H:%M:%SZ");
    let line = |sign: char, (namespace, name): &(String, String), row: &Row| {
        let message = if sign == '-' || row.message.is_empty() { String::new() } else { format!(": {}", row.message) };
        without_older_form(&format!("{time} {sign} {namespace}/{name} {}{message}", row.status))
    };
    let ended = before.iter().filter(|(name, _)| !now.contains_key(name)).map(|(name, row)| line('-', name, row));
    let others = now.iter().filter_map(|(name, row)| match before.get(name) {
        None => Some(line('+', name, row)),
        Some(before) if before.problem != row.problem => Some(line('~', name, row)),
        Some(_) => None,
    });
    ended.chain(others).collect()
}

impl Screen {
    pub(super) fn new(wide: bool) -> Self {
        let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_terminal = io::stdout().is_terminal() && !is_dumb;
        Self { wide, is_terminal, notes: Vec::new(), last: None, is_summarized: false }
    }

    /// Reports something that stays true.
    pub(super) fn note(&mut self, text: &str) {
        if self.is_terminal { self.notes.push(text.to_owned()) } else { note(text) }
    }

    /// Reports something that a terminal shows anyway.
    pub(super) fn report(&self, text: &str) {
        if !self.is_terminal {
            note(text);
        }
    }

    /// Shows the pods if something has changed, and returns when to call this again although nothing changes.
    pub(super) fn show(&mut self, pods: &Collector, shown: &Shown, now: Instant) -> io::Result<Option<Instant>> {
        if self.is_terminal {
            self.draw(pods, shown, now)
        } else {
            self.print(&mut io::stdout().lock(), pods, shown, now)
        }
    }

    fn print(
        &mut self,
        out: &mut impl Write,
        pods: &Collector,
        shown: &Shown,
        now: Instant,
    ) -> io::Result<Option<Instant>> {
        // A timer may end a problem of a pod that has changed in the meantime, so the lines wait for the end of an outage.
        if !shown.is_synced || !shown.is_current {
            return Ok(None);
        }
        let rows = rows(&pods.problems);
        let before = self.last.take().map(|(state, _)| state.rows).unwrap_or_default();
        for line in changes(&before, &rows, pods.now) {
            writeln!(out, "{line}")?;
        }
        out.flush()?;
        self.last = Some((State { header: Vec::new(), rows }, now));
        // Pods of Jobs may have problems as well.
        if !self.is_summarized && pods.unjudged == 0 {
            self.is_summarized = true;
            header(pods, shown, &[]).iter().for_each(|line| print_to_stderr(line));
        }
        Ok(None)
    }

    fn draw(&mut self, pods: &Collector, shown: &Shown, now: Instant) -> io::Result<Option<Instant>> {
        let (width, height) = terminal_size::terminal_size_of(io::stdout())
            .map_or(SIZE, |(width, height)| (usize::from(width.0), usize::from(height.0)));
        let state = State { header: header(pods, shown, &self.notes), rows: rows(&pods.problems) };
        let is_due = match &self.last {
            Some((last, at)) => *last != state || now >= *at + AGES,
            None => true,
        };
        if is_due {
            let layout = Layout {
                contexts: false,
                namespaces: pods.filter.namespaces.single().is_none(),
                wide: self.wide,
                width: Some(width),
            };
            let all =
                table::Pods { context: "", problems: &pods.problems, now: pods.now, sentence: table::Pods::plain() };
            let table = if shown.is_synced { table::pods([all].into_iter(), layout) } else { String::new() };
            let text = fitted(&state.header, &table, !state.rows.is_empty(), width, height);
            // A stream without colours would remove this as well.
            io::stdout().lock().write_all(CLEAR.as_bytes())?;
            let mut out = anstream::AutoStream::auto(io::stdout().lock());
            out.write_all(text.as_bytes())?;
            out.flush()?;
            self.last = Some((state, now));
        }
        Ok(self.last.as_ref().map(|(_, at)| *at + AGES))
    }
}

/// The sentences above the table. They say that nothing is wrong only if that is known.
fn header(pods: &Collector, shown: &Shown, notes: &[String]) -> Vec<String> {
    let is_known = pods.is_complete() && shown.outage.is_none();
    let mut header = Vec::new();
    match (shown.is_synced, pods.problems.len()) {
        (false, _) => header.push("The pods are being read.".to_owned()),
        (true, 0) if !is_known => header.push("It is not known whether pods have problems.".to_owned()),
        (true, problems) => header.push(summary(&pods.filter.namespaces.place(), pods.pods, problems, None, 0)),
    }
    header.extend(shown.outage.clone());
    if pods.undecodable > pods.without_room {
        header.push(format!("cannot decode {}", counted(pods.undecodable - pods.without_room, "pod")));
    }
    if pods.without_room > 0 {
        header.push(format!("left out {} that may have problems", counted(pods.without_room, "pod")));
    }
    if shown.is_synced && pods.unjudged > 0 {
        header.push(match pods.unjudged {
            1 => "1 failed pod is not judged, because its Job is not read yet".to_owned(),
            count => format!("{count} failed pods are not judged, because their Jobs are not read yet"),
        });
    }
    let missing_events = shown.missing_events.filter(|sentence| notes.iter().all(|note| note != sentence));
    header.extend(missing_events.map(str::to_owned));
    header.extend(notes.iter().cloned());
    header
}

/// The text that fits on a terminal of this size.
fn fitted(header: &[String], table: &str, has_rows: bool, width: usize, height: usize) -> String {
    let mut text = String::new();
    for line in header {
        text += &cut(&printable(line), width);
        text.push('\n');
    }
    if !has_rows {
        return text;
    }
    text.push('\n');
    // A line remains for the cursor, and one for the number of lines that are left out.
    let room = height.saturating_sub(header.len() + 3).max(1);
    let lines: Vec<&str> = table.lines().collect();
    let shown = if lines.len() <= room + 1 { lines.len() } else { room };
    for line in lines.iter().take(shown) {
        text += line;
        text.push('\n');
    }
    if shown < lines.len() {
        text += &cut(&format!("… {} more lines", lines.len() - shown), width);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::super::filter::{Filter, Namespaces};
    use super::*;
    use crate::{
        cli::live::ClusterView,
        diagnosis::{Facts, Health, Thresholds, assess},
    };

    fn row(reason: &str, status: &str) -> Row {
        let problem = (ProblemKind::Crash, reason.to_owned(), Cause::Unknown);
        Row { problem, status: status.to_owned(), message: "app exited".to_owned() }
    }

    fn problem() -> Option<(Pod, Finding)> {
        let pod = r#"{"metadata": {"name": "a", "namespace": "shop", "uid": "a"},
            "spec": {"containers": [{"name": "app", "image": "a"}]}, "status": {"phase": "Failed", "reason": "Evicted"}}"#;
        let pod = crate::pods::from_json(pod).unwrap();
        let time = "2026-03-01T12:00:00Z".parse().unwrap();
        match assess(&pod, &Facts::default(), &Thresholds::default(), time).health {
            Health::Problem(finding) => Some((pod, *finding)),
            _ => None,
        }
    }

    fn collector(now: Timestamp) -> Collector {
        let namespaces = Namespaces::new(&["shop".to_owned()]).unwrap();
        let filter = Filter { namespaces, ..Filter::default() };
        let mut pods = Collector::new(ClusterView::default(), Thresholds::default(), now, filter);
        pods.pods = 1;
        pods
    }

    fn of(all: &[(&str, Row)]) -> Rows {
        all.iter().map(|(name, row)| (("shop".to_owned(), (*name).to_owned()), row.clone())).collect()
    }

    #[test]
    fn prints_what_began_ended_and_changed() {
        let time = "2026-03-01T12:00:00.5Z".parse().unwrap();
        let before = of(&[("a", row("Error", "Error")), ("b", row("Error", "Error")), ("c", row("Error", "Error"))]);
        let now = of(&[
            ("b", row("Error", "CrashLoopBackOff")),
            ("c", row("OOMKilled", "CrashLoopBackOff OutOfMemory")),
            ("##[d", row("Error", "Error")),
        ]);
        assert_eq!(
            changes(&before, &now, time),
            [
                "2026-03-01T12:00:00Z - shop/a Error",
                "2026-03-01T12:00:00Z + shop/# #[d Error: app exited",
                "2026-03-01T12:00:00Z ~ shop/c CrashLoopBackOff OutOfMemory: app exited",
            ]
        );
        assert_eq!(changes(&now, &now, time), [""; 0]);
    }

    #[test]
    fn prints_nothing_while_changes_are_missing() {
        let time: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let mut screen = Screen::new(false);
        let mut print = |has_problem: bool, is_current: bool| {
            let mut pods = collector(time);
            pods.problems.extend(problem().filter(|_| has_problem));
            let shown = Shown { is_synced: true, is_current, ..Shown::default() };
            let mut out = Vec::new();
            screen.print(&mut out, &pods, &shown, Instant::now()).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(print(true, false), "");
        let began = print(true, true);
        assert!(began.starts_with("2026-03-01T12:00:00Z + shop/a "), "{began}");
        assert_eq!((print(false, false), print(true, true)), (String::new(), String::new()));
        assert_eq!(print(false, false), "");
        assert!(print(false, true).starts_with("2026-03-01T12:00:00Z - shop/a "));
    }

    #[test]
    fn says_that_nothing_is_wrong_only_if_all_pods_were_judged() {
        let time: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let first = |unjudged: u64| {
            let mut pods = collector(time);
            pods.unjudged = unjudged;
            header(&pods, &Shown { is_synced: true, is_current: true, ..Shown::default() }, &[])
        };
        assert_eq!(first(0), ["No problems in shop namespace: 1 pod."]);
        let unknown = "It is not known whether pods have problems.";
        assert_eq!(first(1), [unknown, "1 failed pod is not judged, because its Job is not read yet"]);
        assert_eq!(first(2), [unknown, "2 failed pods are not judged, because their Jobs are not read yet"]);
    }

    #[test]
    fn fits_the_terminal() {
        let table = |rows: usize| (0..=rows).map(|row| format!("row {row}\n")).collect::<String>();
        let header = ["2 of 9 pods have problems.".to_owned()];
        assert_eq!(fitted(&header, &table(1), true, 10, 24), "2 of 9 po…\n\nrow 0\nrow 1\n");
        assert_eq!(fitted(&header, "", false, 80, 24), "2 of 9 pods have problems.\n");
        for (rows, height) in [(5, 24), (22, 24), (23, 24), (500, 24), (500, 1), (500, 0)] {
            let text = fitted(&header, &table(rows), true, 80, height);
            assert!(text.lines().count() < height.max(6), "{text}");
            assert_eq!(text.ends_with("more lines\n"), rows + 1 + 2 >= height, "{rows} {height}: {text}");
        }
    }
}
