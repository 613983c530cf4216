//! The STATUS, READY and RESTARTS columns of `kubectl get pods`.
//!
//! The API server renders them in `printPod` (`pkg/printers/internalversion` of Kubernetes). This follows it step by step
//! as of v1.36, including its quirks. Tests compare both on the same pods.

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp};

use crate::pods::{ContainerState, ContainerStatus, Pod, Terminated};

/// The STATUS column, for example `CrashLoopBackOff` or `Init:0/1`. Empty if the pod has no status yet.
#[must_use]
pub fn kubectl_status(pod: &Pod) -> String {
    Columns::of(pod).status.into_owned()
}

/// The READY column: the number of ready containers, and of all.
#[must_use]
pub fn ready_counts(pod: &Pod) -> (usize, usize) {
    let columns = Columns::of(pod);
    (columns.ready, columns.total)
}

/// The RESTARTS column, for example `0` or `4 (3m ago)`.
#[must_use]
pub fn restarts(pod: &Pod, now: Timestamp) -> String {
    let Restarts { count, last } = Columns::of(pod).restarts;
    match last {
        Some(last) if count != 0 => format!("{count} ({} ago)", human_duration(now.duration_since(last))),
        _ => count.to_string(),
    }
}

/// A duration in the AGE and RESTARTS columns, for example `2d3h`. Follows `HumanDuration` of
/// `k8s.io/apimachinery/pkg/util/duration`.
#[must_use]
pub(crate) fn human_duration(span: SignedDuration) -> String {
    // Go's `time.Since` saturates at 2^63 ns.
    let seconds = span.as_secs().min(i64::MAX / 1_000_000_000);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let pair = |large: i64, unit: char, small: i64, sub: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{sub}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 2 * 60 => format!("{}s", seconds.max(0)),
        () if minutes < 10 => pair(minutes, 'm', seconds % 60, 's'),
        () if minutes < 3 * 60 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 8 * 24 => pair(days, 'd', hours % 24, 'h'),
        () if hours < 2 * 365 * 24 => format!("{days}d"),
        () if hours < 8 * 365 * 24 => pair(years, 'y', days % 365, 'd'),
        () => format!("{years}y"),
    }
}

struct Columns<'a> {
    status: Cow<'a, str>,
    ready: usize,
    total: usize,
    restarts: Restarts,
}

#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &ContainerStatus) {
        self.count = self.count.saturating_add(status.restarts.into());
        self.last = self.last.max(status.last.as_ref().and_then(|last| last.finished));
    }
}

impl<'a> Columns<'a> {
    fn of(pod: &'a Pod) -> Self {
        let mut columns = Self {
            status: Cow::Borrowed(if pod.reason.is_empty() { &pod.phase } else { &pod.reason }),
            ready: 0,
            total: pod.omitted.containers as usize
                + pod.containers.len()
                + pod.init_containers.iter().filter(|spec| spec.is_sidecar()).count(),
            restarts: Restarts::default(),
        };
        if pod.conditions.iter().any(|condition| condition.kind == "PodScheduled" && condition.reason == GATED) {
            columns.status = Cow::Borrowed(GATED);
        }
        let (initializing, sidecars) = columns.init_containers(pod);
        if !initializing || pod.is_true("Initialized") {
            columns.restarts = sidecars;
            columns.containers(pod);
        }
        if pod.deletion.is_some() {
            if pod.reason == "NodeLost" {
                columns.status = Cow::Borrowed("Unknown");
            } else if pod.phase != "Succeeded" && pod.phase != "Failed" {
                columns.status = Cow::Borrowed("Terminating");
            }
        }
        columns
    }

    /// Goes through the init containers up to the first one that has not finished. Returns whether one was found, and the
    /// restarts of the sidecars before it.
    fn init_containers(&mut self, pod: &'a Pod) -> (bool, Restarts) {
        let mut sidecars = Restarts::default();
        for (index, status) in pod.init_statuses.iter().enumerate() {
            let sidecar = pod.is_sidecar(&status.name);
            self.restarts.add(status);
            if sidecar {
                sidecars.add(status);
            }
            let ContainerState { waiting, terminated, .. } = &status.state;
            self.status = match (terminated, waiting) {
                (Some(Terminated { exit_code: 0, .. }), _) => continue,
                _ if sidecar && status.started == Some(true) => {
                    self.ready += usize::from(status.ready);
                    continue;
                }
                (Some(terminated), _) => Cow::Owned(format!("Init:{}", termination_reason(terminated))),
                (None, Some(waiting)) if !matches!(waiting.reason.as_str(), "" | "PodInitializing") => {
                    Cow::Owned(format!("Init:{}", waiting.reason))
                }
                _ => Cow::Owned(format!(
                    "Init:{}/{}",
                    index + pod.omitted.init_containers as usize,
                    pod.init_containers.len() + pod.omitted.init_containers as usize
                )),
            };
            return (true, sidecars);
        }
        (false, sidecars)
    }

    fn containers(&mut self, pod: &'a Pod) {
        self.ready += pod.omitted.ready as usize;
        self.restarts.count = self.restarts.count.saturating_add(pod.omitted.restarts);
        let mut running = pod.omitted.ready > 0;
        let mut error: Option<Cow<'a, str>> = None;
        for status in pod.statuses.iter().rev() {
            self.restarts.add(status);
            let ContainerState { waiting, running: runs, terminated } = &status.state;
            match (waiting, terminated) {
                (Some(waiting), _) if !waiting.reason.is_empty() => self.status = Cow::Borrowed(&waiting.reason),
                (_, Some(terminated)) => {
                    self.status = termination_reason(terminated);
                    if terminated.exit_code != 0 {
                        error = Some(self.status.clone());
                    }
                }
                _ if status.ready && runs.is_some() => {
                    running = true;
                    self.ready += 1;
                }
                _ => {}
            }
        }
        if self.status == "Completed" {
            let ready =
                || pod.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True");
            self.status = match error {
                _ if running && ready() => Cow::Borrowed("Running"),
                Some(error) => error,
                None if running => Cow::Borrowed("NotReady"),
                None => Cow::Borrowed("Completed"),
            };
        }
    }
}

const GATED: &str = "SchedulingGated";

/// A termination as kubectl prints it: its reason, signal or exit code.
pub(super) fn termination_reason(terminated: &Terminated) -> Cow<'_, str> {
    match terminated {
        Terminated { reason, .. } if !reason.is_empty() => Cow::Borrowed(reason),
        Terminated { signal: 0, exit_code, .. } => Cow::Owned(format!("ExitCode:{exit_code}")),
        Terminated { signal, .. } => Cow::Owned(format!("Signal:{signal}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_durations_in_the_units_of_kubectl() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        const YEAR: i64 = 365 * DAY;
        for (seconds, printed) in [
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (9 * MINUTE + 59, "9m59s"),
            (10 * MINUTE + 59, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 59 * MINUTE, "7h59m"),
            (8 * HOUR + 59 * MINUTE, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3 * HOUR, "2d3h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY + 23 * HOUR, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (3 * YEAR + 40 * DAY, "3y40d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR + 40 * DAY, "8y"),
            (100 * YEAR, "100y"),
            (i64::MAX, "292y"),
        ] {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), printed, "{seconds} s");
        }
    }

    #[test]
    fn prints_slightly_negative_durations_as_zero() {
        for (milliseconds, printed) in
            [(-2000, "<invalid>"), (-1999, "0s"), (-1000, "0s"), (-1, "0s"), (0, "0s"), (1999, "1s")]
        {
            assert_eq!(human_duration(SignedDuration::from_millis(milliseconds)), printed, "{milliseconds} ms");
        }
    }
}
