//! Finds the containers that failed since the last version of a pod. Between two scrapes a container may fail and run again,
//! so this counts what no gauge shows.

use std::{
    collections::{HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use jiff::{SignedDuration, Timestamp};

use crate::pods::{ContainerStatus, Pod, Terminated};

/// The failures of a pod without an earlier version count if they are at most this old. Details of pods that have been
/// healthy for as long are not kept.
const RECENT: SignedDuration = SignedDuration::from_mins(10);
/// How many failures of pods without an earlier version are remembered, so that none of them counts twice.
const REMEMBERED: usize = 4_096;
/// The reason if the runtime gives none.
const NO_REASON: &str = "Error";

#[derive(Debug, Default)]
pub(super) struct Terminations {
    remembered: HashSet<u64>,
    oldest_first: VecDeque<u64>,
}

impl Terminations {
    /// The reasons of the failures in this version of a pod that were not in the last one. Those of a pod that is being
    /// deleted, or has succeeded, are left out: containers end with any exit code then.
    pub(super) fn record(&mut self, pod: &Pod, previous: Option<&Pod>, now: Timestamp) -> Vec<String> {
        let mut reasons = Vec::new();
        if pod.deletion.is_some() || pod.phase == "Succeeded" {
            return reasons;
        }
        for status in pod.init_statuses.iter().chain(&pod.statuses) {
            let known = previous.and_then(|previous| {
                previous.init_statuses.iter().chain(&previous.statuses).find(|known| known.name == status.name)
            });
            let mut last = None;
            for ended in endings(status).filter(|ended| is_failure(ended)) {
                let is_repeated = last.replace(ended).is_some_and(|last| is_same(last, ended));
                let is_new = match known {
                    Some(known) => !endings(known).any(|known| is_same(known, ended)),
                    None => self.is_new(pod, status, ended, now),
                };
                if is_new && !is_repeated {
                    let reason = if ended.reason.is_empty() { NO_REASON } else { &ended.reason };
                    reasons.push(reason.to_owned());
                }
            }
        }
        reasons
    }

    fn is_new(&mut self, pod: &Pod, status: &ContainerStatus, ended: &Terminated, now: Timestamp) -> bool {
        if ended.finished.is_none_or(|finished| now.duration_since(finished) > RECENT) {
            return false;
        }
        let mut hasher = DefaultHasher::new();
        (pod.uid, &status.name, &ended.container_id, ended.finished).hash(&mut hasher);
        let hash = hasher.finish();
        if !self.remembered.insert(hash) {
            return false;
        }
        self.oldest_first.push_back(hash);
        if self.oldest_first.len() > REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.remembered.remove(&oldest);
        }
        true
    }
}

/// How the last lives of a container ended, the older one first.
fn endings(status: &ContainerStatus) -> impl Iterator<Item = &Terminated> {
    status.last.iter().chain(&status.state.terminated)
}

fn is_failure(ended: &Terminated) -> bool {
    ended.exit_code != 0 || ended.signal != 0
}

fn is_same(a: &Terminated, b: &Terminated) -> bool {
    (&a.container_id, a.started, a.finished) == (&b.container_id, b.started, b.finished)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::{ContainerState, Uid};

    const NOW: i64 = 1_700_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ended(id: u32, second: i64, reason: &str, exit_code: i32) -> Terminated {
        Terminated {
            exit_code,
            reason: reason.into(),
            finished: Some(at(second)),
            container_id: format!("containerd://{id}").into(),
            ..Terminated::default()
        }
    }

    fn oom(id: u32) -> Terminated {
        ended(id, NOW + i64::from(id), "OOMKilled", 137)
    }

    fn pod(uid: u128, last: Option<Terminated>, present: Option<Terminated>) -> Pod {
        let state = ContainerState { terminated: present, ..ContainerState::default() };
        let status = ContainerStatus { name: "app".into(), last, state, ..ContainerStatus::default() };
        Pod { uid: Uid::from(uid), statuses: vec![status], ..Pod::default() }
    }

    fn count(terminations: &mut Terminations, versions: &[Pod]) -> Vec<usize> {
        let mut previous = None;
        versions.iter().map(|pod| terminations.record(pod, previous.replace(pod), at(NOW + 60)).len()).collect()
    }

    #[test]
    fn counts_each_failure_of_a_container_once() {
        let versions = [
            pod(1, None, None),
            pod(1, None, Some(oom(1))),
            pod(1, Some(oom(1)), None),
            pod(1, Some(oom(1)), Some(oom(2))),
            pod(1, Some(oom(2)), None),
            // A life in between was not received.
            pod(1, Some(oom(4)), Some(oom(5))),
            // The kubelet reports the same life twice.
            pod(1, Some(oom(6)), Some(oom(6))),
        ];
        assert_eq!(count(&mut Terminations::default(), &versions), [0, 1, 0, 1, 0, 2, 1]);
    }

    #[test]
    fn counts_a_recent_failure_of_a_new_pod_once() {
        let mut terminations = Terminations::default();
        let failed = pod(1, Some(oom(1)), None);
        assert_eq!(terminations.record(&failed, None, at(NOW + 60)), ["OOMKilled"]);
        assert_eq!(terminations.record(&failed, None, at(NOW + 60)), [""; 0], "the index has forgotten the pod");
        let old = pod(2, Some(ended(1, NOW - 601, "Error", 1)), None);
        assert_eq!(terminations.record(&old, None, at(NOW)), [""; 0], "it failed before it was watched");
        assert_eq!(terminations.record(&pod(3, Some(ended(1, NOW, "", 1)), None), None, at(NOW)), ["Error"]);
    }

    #[test]
    fn ignores_completions_and_the_end_of_a_pod() {
        let mut terminations = Terminations::default();
        let completed = pod(1, None, Some(ended(1, NOW, "Completed", 0)));
        let deleted = Pod { deletion: Some(at(NOW)), ..pod(2, None, Some(oom(1))) };
        let succeeded = Pod { phase: "Succeeded".into(), ..pod(3, None, Some(oom(1))) };
        for pod in [completed, deleted, succeeded] {
            assert_eq!(terminations.record(&pod, None, at(NOW)), [""; 0]);
        }
    }

    #[test]
    fn remembers_a_bounded_number_of_failures() {
        let mut terminations = Terminations::default();
        for uid in 0..3 * REMEMBERED as u128 {
            assert_eq!(terminations.record(&pod(uid, Some(oom(1)), None), None, at(NOW)).len(), 1);
        }
        assert_eq!((terminations.remembered.len(), terminations.oldest_first.len()), (REMEMBERED, REMEMBERED));
    }
}
