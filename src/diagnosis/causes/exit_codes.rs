//! Describes how a container's process ended.

use jiff::SignedDuration;

use crate::{api::Cause, pods::Terminated};

use super::super::{kubectl_columns::human_duration, messages::signal_name};

/// The cause that the exit code and signal prove, and what happened, for example `exited with code 143 (SIGTERM)`.
pub(super) fn end(terminated: &Terminated) -> (Cause, String) {
    let Terminated { exit_code, signal, .. } = terminated;
    if *signal != 0 {
        return (Cause::Signal, format!("was killed by signal {signal}{}", signal_name(*signal)));
    }
    let signal = signal_name(exit_code.saturating_sub(128));
    match exit_code {
        0 => (Cause::Completed, "exits with code 0".to_owned()),
        // These are conventions of shells, so they prove nothing.
        126 => {
            (Cause::ExitCode, "exited with code 126, which usually means that a command may not be executed".to_owned())
        }
        127 => (Cause::ExitCode, "exited with code 127, which usually means that a command was not found".to_owned()),
        code if !signal.is_empty() => (Cause::Signal, format!("exited with code {code}{signal}")),
        code => (Cause::ExitCode, format!("exited with code {code}")),
    }
}

/// How long an instance ran.
pub(super) fn run_time(terminated: &Terminated) -> Option<SignedDuration> {
    let started = terminated.started.filter(|started| *started > jiff::Timestamp::UNIX_EPOCH)?;
    Some(terminated.finished?.duration_since(started)).filter(|time| !time.is_negative())
}

/// For example `31–34 s after its start`.
pub(super) fn after_start(times: &[SignedDuration]) -> Option<String> {
    let (least, most) = (times.iter().min()?, times.iter().max()?);
    let shown = |time: &SignedDuration| match time.as_secs() {
        0..120 => format!("{} s", time.as_secs()),
        _ => human_duration(*time),
    };
    let text = match (least.as_secs(), most.as_secs()) {
        (_, 0) => "within a second of its start".to_owned(),
        (least, most) if least == most => format!("{} after its start", shown(&SignedDuration::from_secs(least))),
        (low, 0..120) => format!("{low}–{} after its start", shown(most)),
        _ => format!("{}–{} after its start", shown(least), shown(most)),
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_prove_only_signals_and_codes() {
        for (exit_code, signal, cause, text) in [
            (0, 0, Cause::Completed, "exits with code 0"),
            (1, 0, Cause::ExitCode, "exited with code 1"),
            (3, 9, Cause::Signal, "was killed by signal 9 (SIGKILL)"),
            (126, 0, Cause::ExitCode, "exited with code 126, which usually means that a command may not be executed"),
            (127, 0, Cause::ExitCode, "exited with code 127, which usually means that a command was not found"),
            (137, 0, Cause::Signal, "exited with code 137 (SIGKILL)"),
            (139, 0, Cause::Signal, "exited with code 139 (SIGSEGV)"),
            (143, 0, Cause::Signal, "exited with code 143 (SIGTERM)"),
            (255, 0, Cause::ExitCode, "exited with code 255"),
            (i32::MIN, 0, Cause::ExitCode, "exited with code -2147483648"),
        ] {
            let terminated = Terminated { exit_code, signal, ..Terminated::default() };
            assert_eq!(end(&terminated), (cause, text.to_owned()), "{exit_code} {signal}");
        }
    }

    #[test]
    fn shows_the_range_of_run_times() {
        let times = |seconds: &[i64]| -> Option<String> {
            after_start(&seconds.iter().map(|seconds| SignedDuration::from_secs(*seconds)).collect::<Vec<_>>())
        };
        assert_eq!(times(&[]), None);
        assert_eq!(times(&[0, 0]).as_deref(), Some("within a second of its start"));
        assert_eq!(times(&[31]).as_deref(), Some("31 s after its start"));
        assert_eq!(times(&[34, 31, 33]).as_deref(), Some("31–34 s after its start"));
        assert_eq!(times(&[90, 400]).as_deref(), Some("90 s–6m40s after its start"));
        assert_eq!(times(&[7200, 7200]).as_deref(), Some("120m after its start"));
    }
}
