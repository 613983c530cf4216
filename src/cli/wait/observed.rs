//! A pod, and what earlier versions of it have shown. Pure.

use std::time::Duration;

use arcstr::ArcStr;
use jiff::{SignedDuration, Timestamp};

use crate::pods::{ContainerStatus, Pod, Terminated};

/// The kubelet forgets earlier crashes of a container that has run for so long.
const LONG_RUN: SignedDuration = SignedDuration::from_mins(10);

/// A pod, with the times that its present version no longer shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Observed {
    pub(super) pod: Pod,
    containers: Vec<Container>,
    /// Since when it has been ready without a restart. Absent if it is not ready.
    ready_since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
struct Container {
    name: ArcStr,
    /// When the earliest known instance started since the last long run. That of a container that was restarted often is
    /// lost, unless it was seen.
    first_start: Option<Timestamp>,
    /// How many of the restarts precede the end of the last long run, as far as it was seen.
    earlier_restarts: i32,
    /// The longest of the runs that have ended since then, as far as they were seen.
    longest_run: SignedDuration,
    /// When the running instance started.
    running: Option<Timestamp>,
    waiting: Option<WaitingSince>,
    /// When an attempt to pull its image was last seen to fail.
    last_pull: Option<Timestamp>,
}

/// Since when a container has been waiting for the same reason.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WaitingSince {
    reason: ArcStr,
    pub(super) since: Timestamp,
    /// Whether its beginning was seen. Otherwise it may have begun earlier.
    pub(super) is_exact: bool,
}

impl Observed {
    /// The version of a pod that was received at `now`, and the version before it.
    pub(super) fn new(pod: Pod, before: Option<&Self>, now: Timestamp) -> Self {
        let statuses = pod.init_statuses.iter().chain(&pod.statuses);
        let containers = statuses
            .map(|status| {
                let known = before.and_then(|before| before.container(&status.name));
                let crashes = Crashes::of(status, known);
                let waiting = waiting_reason(status).map(|reason| {
                    let known = known.and_then(|known| known.waiting.clone()).filter(|known| known.reason == reason);
                    known.unwrap_or(WaitingSince { reason, since: now, is_exact: before.is_some() })
                });
                let was_pulling = before.and_then(|before| before.raw_reason(&status.name)) == Some("ErrImagePull");
                let has_failed = before.is_some() && !was_pulling && raw_reason(status) == Some("ErrImagePull");
                Container {
                    name: status.name.clone(),
                    first_start: crashes.first_start,
                    earlier_restarts: crashes.earlier_restarts,
                    longest_run: crashes.longest_run,
                    running: start_of_running(status),
                    waiting,
                    last_pull: if has_failed { Some(now) } else { known.and_then(|known| known.last_pull) },
                }
            })
            .collect();
        let ready_since = ready_since(&pod, before, now);
        Self { pod, containers, ready_since }
    }

    /// A version whose containers are not compared yet.
    pub(super) fn unseen(pod: Pod) -> Self {
        Self { pod, ..Self::default() }
    }

    /// Since when it has been ready without a restart. Absent if it is not ready.
    pub(super) fn ready_since(&self) -> Option<Timestamp> {
        self.ready_since
    }

    /// A container must outlive its own longest run, and be stable after that. Of the containers that have not run for that
    /// long yet, this is the longest required time. A run of ten minutes is no failed attempt, and those before it are forgotten.
    pub(super) fn required_run(&self, stable: Duration, now: Timestamp) -> Duration {
        let required = self.containers.iter().filter_map(|container| {
            let longest: Duration = container.longest_run.try_into().ok()?;
            let own = longest.saturating_add(stable);
            (after(container.running?, own) > now).then_some(own)
        });
        required.max().unwrap_or_default()
    }

    fn container(&self, name: &str) -> Option<&Container> {
        self.containers.iter().find(|container| container.name == name)
    }

    /// Why a container is waiting.
    fn raw_reason(&self, container: &str) -> Option<&str> {
        let statuses = self.pod.init_statuses.iter().chain(&self.pod.statuses);
        statuses.into_iter().find(|status| status.name == container).and_then(raw_reason)
    }

    /// How many restarts of a container precede its present series of crashes.
    pub(super) fn earlier_restarts(&self, container: &str) -> i32 {
        self.container(container).map_or(0, |container| container.earlier_restarts)
    }

    /// When an attempt to pull the image of a container was last seen to fail.
    pub(super) fn last_pull(&self, container: &str) -> Option<Timestamp> {
        self.container(container)?.last_pull
    }

    /// When the earliest known instance of a container started.
    pub(super) fn first_start(&self, container: &str) -> Option<Timestamp> {
        self.container(container)?.first_start
    }

    /// Since when a container has been waiting for its present reason.
    pub(super) fn waiting_since(&self, container: &str) -> Option<&WaitingSince> {
        self.container(container)?.waiting.as_ref()
    }
}

/// Since when a pod has been ready without a restart. Changes seen during the wait are timed by our clock, because the
/// node's clock may differ. For earlier changes, only the times in the pod are available.
fn ready_since(pod: &Pod, before: Option<&Observed>, now: Timestamp) -> Option<Timestamp> {
    let ready = pod.condition("Ready").filter(|ready| ready.status == "True")?;
    let statuses = || pod.init_statuses.iter().chain(&pod.statuses);
    let Some(before) = before else {
        let started = statuses().filter_map(start_of_running);
        let last = [ready.since, pod.created].into_iter().flatten().chain(started).max();
        return Some(last.unwrap_or(now).min(now));
    };
    let earlier = before.pod.init_statuses.iter().chain(&before.pod.statuses);
    let restarts = |status: &ContainerStatus| (status.name.clone(), status.restarts);
    let is_unchanged = before.pod.condition("Ready").is_some_and(|own| own.since == ready.since)
        && earlier.map(restarts).eq(statuses().map(restarts));
    before.ready_since.filter(|_| is_unchanged).or(Some(now))
}

/// A series of crashes. A long run ends it.
struct Crashes {
    first_start: Option<Timestamp>,
    earlier_restarts: i32,
    longest_run: SignedDuration,
}

impl Crashes {
    fn of(status: &ContainerStatus, known: Option<&Container>) -> Self {
        let ContainerStatus { last, state, restarts, .. } = status;
        let (last, ended) = (last.as_ref(), state.terminated.as_ref());
        let running = start_of_running(status);
        // While it waits, its next instance is not counted yet.
        let until_last = if ended.is_some() || running.is_some() { restarts.saturating_sub(1) } else { *restarts };
        let longest = |runs: [Option<&Terminated>; 2]| runs.into_iter().flatten().filter_map(length).max();
        if ended.is_some_and(is_long_run) {
            return Self { first_start: None, earlier_restarts: *restarts, longest_run: SignedDuration::ZERO };
        }
        if last.is_some_and(is_long_run) {
            return Self {
                first_start: ended.and_then(start_of).or(running),
                earlier_restarts: until_last,
                longest_run: longest([ended, None]).unwrap_or_default(),
            };
        }
        let shown = [last.and_then(start_of), ended.and_then(start_of), running].into_iter().flatten().min();
        let longest_run = longest([last, ended]).unwrap_or_default();
        let Some(known) = known else { return Self { first_start: shown, earlier_restarts: 0, longest_run } };
        // The end of an instance that was seen running may have been missed.
        let has_missed = |since: Timestamp| shown.is_some_and(|shown| shown.duration_since(since) >= LONG_RUN);
        if known.running.is_some_and(has_missed) {
            return Self { first_start: shown, earlier_restarts: *restarts, longest_run };
        }
        Self {
            first_start: known.first_start.into_iter().chain(shown).min(),
            earlier_restarts: known.earlier_restarts,
            longest_run: known.longest_run.max(longest_run),
        }
    }
}

/// Whether an instance has run for so long that its end begins a new series of crashes.
pub(super) fn is_long_run(instance: &Terminated) -> bool {
    length(instance).is_some_and(|length| length >= LONG_RUN)
}

fn length(instance: &Terminated) -> Option<SignedDuration> {
    let (started, finished) = instance.started.filter(is_credible).zip(instance.finished)?;
    Some(finished.duration_since(started))
}

/// The kubelet writes the epoch as the start of an instance that never ran.
fn is_credible(time: &Timestamp) -> bool {
    *time > Timestamp::UNIX_EPOCH
}

fn start_of(instance: &Terminated) -> Option<Timestamp> {
    instance.started.filter(is_credible).or(instance.finished.filter(is_credible))
}

fn start_of_running(status: &ContainerStatus) -> Option<Timestamp> {
    status.state.running.as_ref().and_then(|running| running.started.filter(is_credible))
}

fn raw_reason(status: &ContainerStatus) -> Option<&str> {
    status.state.waiting.as_ref().map(|waiting| waiting.reason.as_str())
}

/// Why a container is waiting; the same while the kubelet retries to pull an image.
fn waiting_reason(status: &ContainerStatus) -> Option<ArcStr> {
    let waiting = status.state.waiting.as_ref()?;
    Some(match waiting.reason.as_str() {
        "ErrImagePull" => arcstr::literal!("ImagePullBackOff"),
        _ => waiting.reason.clone(),
    })
}

/// Adds, saturating.
pub(super) fn after(time: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration)
        .ok()
        .and_then(|duration| time.checked_add(duration).ok())
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn pod(state: Value, last: Value) -> Pod {
        let app = orchestr_testbed::objects::container("app", json!({"state": state, "lastState": last}));
        crate::pods::testing::pod("a", json!({"status": {"containerStatuses": [app]}}))
    }

    fn ended(from: i64, to: i64) -> Value {
        json!({"terminated": {"exitCode": 1, "startedAt": at(from).to_string(), "finishedAt": at(to).to_string()}})
    }

    #[test]
    fn remembers_when_a_container_was_first_started() {
        let back_off = || json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let first = Observed::new(pod(json!({"running": {"startedAt": at(5).to_string()}}), json!({})), None, at(6));
        let later = Observed::new(pod(back_off(), ended(40, 45)), Some(&first), at(50));
        assert_eq!((first.first_start("app"), later.first_start("app")), (Some(at(5)), Some(at(5))));
        assert_eq!(Observed::new(pod(back_off(), ended(40, 45)), None, at(50)).first_start("app"), Some(at(40)));
        let never = json!({"terminated": {"exitCode": 128, "startedAt": "1970-01-01T00:00:00Z", "finishedAt": at(7).to_string()}});
        assert_eq!(Observed::new(pod(back_off(), never), None, at(50)).first_start("app"), Some(at(7)));
        assert_eq!(later.first_start("other"), None);
    }

    #[test]
    fn remembers_since_when_a_container_has_been_waiting() {
        let waits = |reason: &str| pod(json!({"waiting": {"reason": reason}}), json!({}));
        let since = |observed: &Observed| observed.waiting_since("app").map(|own| (own.since, own.is_exact));
        let first = Observed::new(waits("ErrImagePull"), None, at(0));
        let second = Observed::new(waits("ImagePullBackOff"), Some(&first), at(9));
        let third = Observed::new(waits("CreateContainerConfigError"), Some(&second), at(20));
        let fourth = Observed::new(waits("CreateContainerConfigError"), Some(&third), at(30));
        assert_eq!(
            [&first, &second, &third, &fourth].map(since),
            [Some((at(0), false)), Some((at(0), false)), Some((at(20), true)), Some((at(20), true)),]
        );
        let running = Observed::new(pod(json!({"running": {}}), json!({})), Some(&fourth), at(40));
        assert_eq!(since(&running), None);
    }
}
