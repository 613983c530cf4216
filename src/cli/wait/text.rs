//! The outcomes as text.

use std::{
    io::{self, Write},
    time::Duration,
};

use anstyle::{AnsiColor, Style};
use jiff::SignedDuration;

use crate::diagnosis::human_duration;

use super::outcome::{Detail, End, Outcome};

const NAME: Style = Style::new().bold();
const BAD: Style = AnsiColor::Red.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const LOG: Style = Style::new().dimmed();

/// Such as `12s` or `3m`.
pub(super) fn age(duration: Duration) -> String {
    SignedDuration::try_from(duration).map(human_duration).unwrap_or_default()
}

/// Writes the outcomes, always with colours: the stream removes them if it is not a terminal.
pub(super) fn write(out: &mut impl Write, outcomes: &[Outcome]) -> io::Result<()> {
    outcomes.iter().try_for_each(|outcome| write_outcome(out, outcome))
}

fn write_outcome(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    let Outcome { target, end, what, took, details, more } = outcome;
    let after = age(*took);
    write!(out, "{NAME}{target}{NAME:#}")?;
    match end {
        End::Done => return writeln!(out, " is {GOOD}healthy{GOOD:#} after {after}: {what}"),
        End::Unfinished => return writeln!(out, " was still waited for: {what}"),
        End::Failed(failure) if failure.message == *what => {
            writeln!(out, " {BAD}failed{BAD:#} after {after}: {what}")?;
        }
        End::Failed(failure) => {
            writeln!(out, " {BAD}failed{BAD:#} after {after}, {what}: {}", failure.message)?;
        }
        End::TimedOut => writeln!(out, " {BAD}timed out{BAD:#} after {after}: {what}")?,
    }
    let said = outcome.failure().map(|failure| failure.message).unwrap_or_default();
    details.iter().try_for_each(|detail| write_detail(out, detail, &said))?;
    match more {
        0 => Ok(()),
        1 => writeln!(out, "  and 1 more pod that is not healthy"),
        more => writeln!(out, "  and {more} more pods that are not healthy"),
    }
}

/// `said` is the sentence that the heading contains already.
fn write_detail(out: &mut impl Write, detail: &Detail, said: &str) -> io::Result<()> {
    let Detail { pod, alike, status, code, message, evidence, log_title, log } = detail;
    let alike = match alike {
        0 | 1 => String::new(),
        2 => "  and 1 more pod".to_owned(),
        alike => format!("  and {} more pods", alike - 1),
    };
    let code = if code == status { String::new() } else { format!("  {code}") };
    writeln!(out, "  {NAME}{pod}{NAME:#}  {BAD}{status}{BAD:#}{code}{alike}")?;
    if message != said {
        writeln!(out, "      {message}")?;
    }
    for line in evidence {
        writeln!(out, "      evidence: {line}")?;
    }
    let Some(title) = log_title else { return Ok(()) };
    writeln!(out, "      {title}{}", if log.is_empty() { "" } else { ":" })?;
    log.iter().try_for_each(|line| writeln!(out, "      | {LOG}{line}{LOG:#}"))
}

#[cfg(test)]
pub(super) fn plain(outcomes: &[Outcome]) -> String {
    let mut out = anstream::StripStream::new(Vec::new());
    write(&mut out, outcomes).unwrap();
    String::from_utf8(out.into_inner()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::{super::decide::Failure, *};

    #[test]
    fn prints_the_cause_the_evidence_and_the_log() {
        let failed = Outcome {
            target: "deployment/cart".to_owned(),
            end: End::Failed(Failure { code: "ExitCode".to_owned(), message: "app exited with code 1".to_owned() }),
            what: "1 of 3 replicas updated".to_owned(),
            took: Duration::from_secs(125),
            details: vec![Detail {
                pod: "cart-5d9f-a".to_owned(),
                alike: 3,
                status: "CrashLoopBackOff".to_owned(),
                code: "ExitCode".to_owned(),
                message: "app exited with code 1".to_owned(),
                evidence: vec!["BackOff ×4".to_owned()],
                log_title: Some("log of the previous run of app".to_owned()),
                log: vec!["panic: no database".to_owned()],
            }],
            more: 1,
        };
        let waiting = Outcome {
            target: "job/migrate".to_owned(),
            end: End::Unfinished,
            what: "0 of 1 pod succeeded".to_owned(),
            details: Vec::new(),
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
            plain(&[failed, waiting, done, late]),
            "deployment/cart failed after 2m5s, 1 of 3 replicas updated: app exited with code 1\n  \
               cart-5d9f-a  CrashLoopBackOff  ExitCode  and 2 more pods\n      \
                   evidence: BackOff ×4\n      \
                   log of the previous run of app:\n      \
                   | panic: no database\n  \
               and 1 more pod that is not healthy\n\
             job/migrate was still waited for: 0 of 1 pod succeeded\n\
             statefulset/db is healthy after 2m5s: 3 pods\n\
             job/migrate timed out after 2m5s: 0 of 1 pod succeeded\n"
        );
    }
}
