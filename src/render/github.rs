//! Annotations of a GitHub Actions job, as workflow commands on standard output.
//!
//! GitHub shows ten errors, ten warnings and ten notices of a step, and drops the others.

use super::{
    document::{Document, Entry, Fault, Outcome, Unchecked, length, log_lines, logs, logs_or_why_not, message, older},
    numbers::counted,
    safe::{data, printable, property},
};

/// The most annotations of one kind.
const MOST: usize = 10;
/// The lines of a log in an annotation about a wait, the last ones.
const LOG_LINES: usize = 15;
/// The longest message about a wait, in bytes. GitHub cuts longer ones at 64 KiB.
const MESSAGE_LIMIT: usize = 8 * 1024;

/// One error for each of the largest incidents and for each target that failed, and one warning for each cluster that could not be
/// scanned.
pub(super) fn write(document: &Document) -> String {
    let entries = document.largest_first();
    let mut out = outcomes(&document.outcomes);
    for entry in entries.iter().take(MOST) {
        out += &command("error", &title(entry), &explanation(entry));
    }
    let unchecked: Vec<_> = document.unchecked().collect();
    for Unchecked { context, why } in unchecked.iter().take(MOST) {
        out += &command("warning", &format!("{} was not scanned", printable(context)), why);
    }
    for (count, (noun, what)) in
        [(entries.len(), ("more incident", "")), (unchecked.len(), ("more cluster", " that could not be scanned"))]
    {
        if let Some(more) = count.checked_sub(MOST).filter(|more| *more > 0) {
            out += &command("notice", "Orchestr", &format!("and {}{what}", counted(more, noun)));
        }
    }
    match document.sections().filter_map(|section| section.older_problematic_pods).sum() {
        0 => out,
        pods => out + &command("notice", "Orchestr", &older(pods)),
    }
}

fn title(entry: &Entry<'_>) -> String {
    let context = entry.section.context.as_ref().map(|context| format!("{}: ", printable(context))).unwrap_or_default();
    format!("{context}{}: {}", entry.name(), printable(&entry.incident.reason))
}

fn explanation(entry: &Entry<'_>) -> String {
    let mut message = format!("{}: {}", entry.extent(), entry.message());
    for (heading, log) in entry.example.into_iter().flat_map(logs) {
        message += &format!("\n{heading}:");
        log_lines(log).for_each(|line| message += &format!("\n{line}"));
    }
    message
}

/// How a wait ended: one error for each target that failed, and a line for each of the others.
fn outcomes(outcomes: &[Outcome]) -> String {
    let failed: Vec<_> = outcomes.iter().filter_map(|outcome| Some((outcome, outcome.fault()?))).collect();
    // The last annotation counts the others.
    let shown = if failed.len() > MOST { MOST - 1 } else { failed.len() };
    let mut out: String = failed.iter().take(shown).map(|(outcome, fault)| annotation(outcome, fault)).collect();
    match failed.len() - shown {
        0 => {}
        more => out += &command("error", "orchestr wait", &format!("and {more} more are not healthy")),
    }
    for Outcome { target, what, .. } in outcomes.iter().filter(|outcome| outcome.fault().is_none()) {
        out += &format!("{}\n", data(&format!("{target}: {what}")));
    }
    out
}

fn annotation(outcome: &Outcome, Fault { code, message }: &Fault) -> String {
    let mut text = format!("{message}\n{} after {}", outcome.what, length(outcome.took));
    for (incident, pod) in &outcome.troubles {
        let (name, status) = (printable(&pod.name), printable(&pod.status));
        text += &format!("\n\n{name} {status} (pods: {})\n{}", incident.pods, self::message(incident));
        text.extend(pod.evidence.iter().map(|line| format!("\nevidence: {}", printable(line))));
        for (title, log) in logs_or_why_not(pod) {
            text += &format!("\n{title}");
            let omitted = log.lines().count().saturating_sub(LOG_LINES);
            text.extend(log_lines(log).skip(omitted).map(|line| format!("\n| {line}")));
        }
    }
    if text.len() > MESSAGE_LIMIT {
        text.truncate(text.floor_char_boundary(MESSAGE_LIMIT));
        text.push('…');
    }
    command("error", &format!("{}: {code}", outcome.target), &text)
}

/// A workflow command. Nothing in it can end the line or the title, which begin further commands and parameters.
fn command(kind: &str, title: &str, message: &str) -> String {
    format!("::{kind} title={}::{}\n", property(title), data(message))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::document::{
            End,
            tests::{failed, outcome, waited},
        },
        *,
    };

    /// Reads a line as the runner does.
    fn read(line: &str) -> (String, String, String) {
        let (kind, rest) = line.strip_prefix("::").unwrap().split_once(" title=").unwrap();
        let (title, message) = rest.split_once("::").unwrap();
        let unescape = |text: &str, codes: &[(&str, &str)]| {
            codes.iter().fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
        };
        let of_data = [("%0D", "\r"), ("%0A", "\n"), ("%25", "%")];
        let of_property = [("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")];
        (kind.to_owned(), unescape(title, &of_property), unescape(message, &of_data))
    }

    proptest! {
        #[test]
        fn any_text_stays_in_its_command(title in any::<String>(), message in any::<String>()) {
            let out = command("error", &title, &message);
            prop_assert_eq!(out.matches('\n').count(), 1);
            prop_assert_eq!(out.matches('\r').count(), 0);
            let defused = |text: String| text.replace("##[", "# #[");
            prop_assert_eq!(read(out.trim_end_matches('\n')), ("error".to_owned(), defused(title), defused(message)));
        }
    }

    fn outcomes(outcomes: Vec<Outcome>) -> String {
        write(&waited(outcomes))
    }

    fn unhealthy(target: &str, message: &str) -> Outcome {
        let mut outcome = outcome(message, failed("ExitCode", message));
        (outcome.target, outcome.what) = (target.to_owned(), "0 of 1 replica updated".to_owned());
        let (incident, pod) = &mut outcome.troubles[0];
        (pod.name, pod.evidence) = ("cart-a".to_owned(), Vec::new());
        incident.message = message.to_owned();
        outcome
    }

    #[test]
    fn annotates_each_failure() {
        assert_eq!(
            outcomes(vec![unhealthy("deployment/cart", "50% of: a, b")]),
            "::error title=deployment/cart%3A ExitCode::50%25 of: a, b%0A0 of 1 replica updated after 4s%0A%0Acart-a Error \
             (pods: 1)%0A50%25 of: a, b%0Alog of app%0A| 50%25 of: a, b\n"
        );
    }

    #[test]
    fn counts_the_failures_beyond_ten() {
        for (count, annotations, last) in [(10, 10, "deployment/cart"), (11, 10, "and 2 more"), (40, 10, "and 31 more")]
        {
            let all: Vec<_> = (0..count).map(|_| unhealthy("deployment/cart", "no")).collect();
            let text = outcomes(all);
            let lines: Vec<_> = text.lines().collect();
            assert_eq!(lines.len(), annotations);
            assert!(lines.last().unwrap().contains(last), "{text}");
        }
    }

    #[test]
    fn a_target_without_failure_is_a_plain_line() {
        let done = Outcome { end: End::Done, ..unhealthy("deployment/cart", "no") };
        assert_eq!(outcomes(vec![done]), "deployment/cart: 0 of 1 replica updated\n");
    }

    proptest! {
        /// Texts of a cluster cannot start another command of the runner.
        #[test]
        fn each_line_is_one_annotation(text in "(?s).{0,40}((\n|\r)?(::|##\\[|%0A|,)[a-z]{0,8}){0,3}.{0,40}") {
            let written = outcomes(vec![unhealthy(&text, &text)]);
            prop_assert_eq!(written.matches('\n').count(), 1);
            prop_assert!(written.starts_with("::error title=") && !written.contains('\r') && !written.contains("##["));
            // The title ends at the first `::` after it.
            let title = written["::error ".len()..].split("::").next().unwrap();
            prop_assert!(title.ends_with("%3A ExitCode") && !title.contains(','));
        }
    }
}
