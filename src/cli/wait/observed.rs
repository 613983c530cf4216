//! A pod, and what earlier versions of it have shown. Pure.

use arcstr::ArcStr;
use jiff::Timestamp;

use crate::pods::{ContainerStatus, Pod, Terminated};

/// A pod, with the times that its present version no longer shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Observed {
    pub(super) pod: Pod,
    containers: Vec<Container>,
}

#[derive(Clone, Debug, PartialEq)]
struct Container {
    name: ArcStr,
    /// When the earliest known instance started. That of a container that was restarted often is lost, unless it was seen.
    first_start: Option<Timestamp>,
    waiting: Option<WaitingSince>,
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
                let starts = [known.and_then(|known| known.first_start), first_start(status)];
                let waiting = waiting_reason(status).map(|reason| {
                    let known = known.and_then(|known| known.waiting.clone()).filter(|known| known.reason == reason);
                    known.unwrap_or(WaitingSince { reason, since: now, is_exact: before.is_some() })
                });
                Container { name: status.name.clone(), first_start: starts.into_iter().flatten().min(), waiting }
            })
            .collect();
        Self { pod, containers }
    }

    /// A version whose containers are not compared yet.
    pub(super) fn unseen(pod: Pod) -> Self {
        Self { pod, containers: Vec::new() }
    }

    fn container(&self, name: &str) -> Option<&Container> {
        self.containers.iter().find(|container| container.name == name)
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

/// When the earliest instance started that a status shows.
fn first_start(status: &ContainerStatus) -> Option<Timestamp> {
    let credible = |time: &Timestamp| *time > Timestamp::UNIX_EPOCH;
    // The kubelet writes the epoch as the start of an instance that never ran.
    let of = |life: &Terminated| life.started.filter(credible).or(life.finished.filter(credible));
    let running = status.state.running.as_ref().and_then(|running| running.started.filter(credible));
    [status.last.as_ref().and_then(of), status.state.terminated.as_ref().and_then(of), running]
        .into_iter()
        .flatten()
        .min()
}

/// Why a container is waiting; the same while the kubelet retries to pull an image.
fn waiting_reason(status: &ContainerStatus) -> Option<ArcStr> {
    let waiting = status.state.waiting.as_ref()?;
    Some(match waiting.reason.as_str() {
        "ErrImagePull" => arcstr::literal!("ImagePullBackOff"),
        _ => waiting.reason.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn pod(state: Value, last: Value) -> Pod {
        let status = json!({"name": "app", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": state, "lastState": last});
        crate::pods::from_json(
            &json!({"metadata": {"name": "a"}, "status": {"containerStatuses": [status]}}).to_string(),
        )
        .unwrap()
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
