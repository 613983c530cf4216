//! The outcomes as annotations of GitHub Actions.

use std::io::{self, Write};

use super::{decide::Failure, outcome::Outcome, text::age};
use crate::cli::workflow_command;

/// GitHub shows at most ten errors of a step.
const ANNOTATIONS: usize = 10;
/// The lines of a log in an annotation, the last ones.
const LOG_LINES: usize = 15;
/// The longest message, in bytes. GitHub cuts longer ones at 64 KiB.
const MESSAGE_LIMIT: usize = 8 * 1024;

pub(super) fn write(out: &mut impl Write, outcomes: &[Outcome]) -> io::Result<()> {
    let failed: Vec<(&Outcome, Failure)> =
        outcomes.iter().filter_map(|outcome| Some((outcome, outcome.failure()?))).collect();
    // The last annotation counts the others.
    let shown = if failed.len() > ANNOTATIONS { ANNOTATIONS - 1 } else { failed.len() };
    for (outcome, failure) in failed.iter().take(shown) {
        writeln!(out, "{}", annotation(outcome, failure))?;
    }
    match failed.len() - shown {
        0 => {}
        more => writeln!(out, "::error title=orchestr wait::and {more} more are not healthy")?,
    }
    for outcome in outcomes.iter().filter(|outcome| outcome.failure().is_none()) {
        writeln!(out, "{}", workflow_command::data(&format!("{}: {}", outcome.target, outcome.what)))?;
    }
    Ok(())
}

fn annotation(outcome: &Outcome, failure: &Failure) -> String {
    let Failure { code, message } = failure;
    let mut text = format!("{message}\n{} after {}", outcome.what, age(outcome.took));
    for detail in &outcome.details {
        text.push_str(&format!("\n\n{} {} (pods: {})\n{}", detail.pod, detail.status, detail.alike, detail.message));
        for line in &detail.evidence {
            text.push_str(&format!("\nevidence: {line}"));
        }
        if let Some(title) = &detail.log_title {
            text.push_str(&format!("\n{title}"));
        }
        let omitted = detail.log.len().saturating_sub(LOG_LINES);
        for line in detail.log.iter().skip(omitted) {
            text.push_str(&format!("\n| {line}"));
        }
    }
    if text.len() > MESSAGE_LIMIT {
        text.truncate(text.floor_char_boundary(MESSAGE_LIMIT));
        text.push('…');
    }
    let title = workflow_command::property(&format!("{}: {code}", outcome.target));
    format!("::error title={title}::{}", workflow_command::data(&text))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{
        super::outcome::{Detail, End},
        *,
    };

    fn failed(target: &str, message: &str) -> Outcome {
        Outcome {
            target: target.to_owned(),
            end: End::Failed(Failure { code: "ExitCode".to_owned(), message: message.to_owned() }),
            what: "0 of 1 replica updated".to_owned(),
            took: Duration::from_secs(4),
            details: vec![Detail {
                pod: "cart-a".to_owned(),
                alike: 1,
                status: "Error".to_owned(),
                code: "ExitCode".to_owned(),
                message: message.to_owned(),
                evidence: Vec::new(),
                log_title: Some("log of app".to_owned()),
                log: vec![message.to_owned()],
            }],
            more: 0,
        }
    }

    fn written(outcomes: &[Outcome]) -> String {
        let mut out = Vec::new();
        write(&mut out, outcomes).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn annotates_each_failure() {
        assert_eq!(
            written(&[failed("deployment/cart", "50% of: a, b")]),
            "::error title=deployment/cart%3A ExitCode::50%25 of: a, b%0A0 of 1 replica updated after 4s%0A%0Acart-a Error \
             (pods: 1)%0A50%25 of: a, b%0Alog of app%0A| 50%25 of: a, b\n"
        );
    }

    #[test]
    fn counts_the_failures_beyond_ten() {
        for (count, annotations, last) in [(10, 10, "deployment/cart"), (11, 10, "and 2 more"), (40, 10, "and 31 more")]
        {
            let outcomes: Vec<_> = (0..count).map(|_| failed("deployment/cart", "no")).collect();
            let text = written(&outcomes);
            let lines: Vec<_> = text.lines().collect();
            assert_eq!(lines.len(), annotations);
            assert!(lines.last().unwrap().contains(last), "{text}");
        }
    }

    #[test]
    fn a_target_without_failure_is_a_plain_line() {
        let done = Outcome { end: End::Done, ..failed("deployment/cart", "no") };
        assert_eq!(written(&[done]), "deployment/cart: 0 of 1 replica updated\n");
    }

    proptest! {
        /// Texts of a cluster cannot start another command of the runner.
        #[test]
        fn each_line_is_one_annotation(text in "(?s).{0,40}((\n|\r)?(::|##\\[|%0A|,)[a-z]{0,8}){0,3}.{0,40}") {
            let written = written(&[failed(&text, &text)]);
            prop_assert_eq!(written.matches('\n').count(), 1);
            prop_assert!(written.starts_with("::error title=") && !written.contains('\r') && !written.contains("##["));
            // The title ends at the first `::` after it.
            let title = written["::error ".len()..].split("::").next().unwrap();
            prop_assert!(title.ends_with("%3A ExitCode") && !title.contains(','));
        }
    }
}
