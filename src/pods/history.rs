//! Observations of earlier versions of a pod that its present version no longer shows.

use arcstr::ArcStr;
use jiff::Timestamp;

use crate::clock::MAX_SKEW;

use super::{
    ContainerStatus, History, Pod, StartCause, Terminated,
    pod::{Life, Runs, Start},
};

/// How many run times are kept of a container.
const LIVES: usize = 4;

impl Runs {
    fn new(container: &ArcStr) -> Self {
        Self { container: container.clone(), exit_code: 0, reason: ArcStr::new(), lives: Vec::new() }
    }

    /// Adds a life that has ended, unless it is known. If it ended differently from those before, they are dropped.
    fn add(&mut self, ended: &Terminated) {
        let (Some(started), Some(finished)) = (ended.started, ended.finished) else { return };
        let (started, finished) = (started.as_second(), finished.as_second());
        // The kubelet writes the epoch for a container that never ran.
        let Some(seconds) = finished.checked_sub(started).filter(|_| started > 0) else { return };
        let Ok(seconds) = u32::try_from(seconds) else { return };
        let life = Life { started, seconds };
        if self.lives.contains(&life) {
            return;
        }
        if (self.exit_code, self.reason.as_str()) != (ended.exit_code, ended.reason.as_str()) {
            self.lives.clear();
            self.exit_code = ended.exit_code;
            self.reason.clone_from(&ended.reason);
        }
        if self.lives.len() == LIVES {
            self.lives.remove(0);
        }
        self.lives.reserve_exact(1);
        self.lives.push(life);
    }
}

impl History {
    pub(super) fn for_each_name(&mut self, visit: &mut dyn FnMut(&mut ArcStr)) {
        self.starts.iter_mut().for_each(|start| visit(&mut start.container));
        for runs in &mut self.runs {
            visit(&mut runs.container);
            visit(&mut runs.reason);
        }
    }

    /// Why the present instance of a container was started, if that was observed.
    #[must_use]
    pub(crate) fn start_cause(&self, container: &ContainerStatus) -> Option<StartCause> {
        let is_present = |start: &&Start| start.container == container.name && start.restarts == container.restarts;
        self.starts.iter().find(is_present).map(|start| start.cause)
    }

    /// How many seconds the last lives of a container lasted that were observed: at most four, the last one last, and only
    /// those that ended like the last one, with the same exit code and reason.
    pub(crate) fn run_times(&self, container: &str) -> impl Iterator<Item = u32> {
        let runs = self.runs.iter().find(|runs| runs.container == container);
        runs.into_iter().flat_map(|runs| runs.lives.iter().map(|life| life.seconds))
    }
}

impl Pod {
    /// Whether the kubelet is resizing the pod.
    #[must_use]
    pub(crate) fn is_resizing(&self) -> bool {
        self.is_true("PodResizeInProgress")
    }

    fn is_gated(&self) -> bool {
        self.condition("PodScheduled").is_some_and(|condition| condition.reason == "SchedulingGated")
    }

    /// Fills in the history of a version that was received at `now`, from the version before it.
    pub fn update_history(&mut self, previous: Option<&Self>, now: Timestamp) {
        let mut history = previous.map(|previous| previous.history.clone()).unwrap_or_default();
        if previous.is_some_and(Self::is_gated) && !self.is_gated() {
            history.gate_removed = Some(now);
        }
        history.server_ahead = history.server_ahead.max(seconds_ahead([self.created], now));
        history.node_ahead = history.node_ahead.max(seconds_ahead(self.kubelet_times(), now));
        let is_resizing = self.is_resizing() || previous.is_some_and(Self::is_resizing);
        let mut starts = Vec::new();
        let mut all_runs = Vec::new();
        for status in self.init_statuses.iter().chain(&self.statuses) {
            let earlier = previous.and_then(|previous| previous.status_of(&status.name));
            let cause = earlier.and_then(|earlier| {
                let was_in_back_off =
                    earlier.state.waiting.as_ref().is_some_and(|waiting| waiting.reason == "CrashLoopBackOff");
                let started = status.state.running.is_some() || status.state.terminated.is_some();
                let restarted = status.restarts > earlier.restarts;
                match () {
                    () if was_in_back_off && started => Some(StartCause::BackOff),
                    () if is_resizing && restarted => Some(StartCause::Resize),
                    () => None,
                }
            });
            let known = history.starts.iter().find(|start| start.container == status.name);
            let start = match cause {
                Some(cause) => Some(Start { container: status.name.clone(), restarts: status.restarts, cause }),
                None => known.filter(|start| start.restarts == status.restarts).cloned(),
            };
            starts.extend(start);
            let ended = status.last.iter().chain(&status.state.terminated);
            let known = history.runs.iter().position(|runs| runs.container == status.name);
            let mut runs = match known {
                Some(known) => history.runs.swap_remove(known),
                None => Runs::new(&status.name),
            };
            ended.for_each(|ended| runs.add(ended));
            if !runs.lives.is_empty() {
                all_runs.push(runs);
            }
        }
        // A growing list allocates room for four.
        starts.shrink_to_fit();
        all_runs.shrink_to_fit();
        history.starts = starts;
        history.runs = all_runs;
        self.history = history;
    }

    fn status_of(&self, container: &str) -> Option<&ContainerStatus> {
        self.init_statuses.iter().chain(&self.statuses).find(|status| status.name == container)
    }

    /// The times in the status that the kubelet writes.
    fn kubelet_times(&self) -> impl Iterator<Item = Option<Timestamp>> {
        const CONDITIONS: [&str; 4] = ["Ready", "ContainersReady", "Initialized", "PodReadyToStartContainers"];
        let own = self.conditions.iter().filter(|condition| CONDITIONS.contains(&condition.kind.as_str()));
        let conditions = own.map(|condition| condition.since);
        let containers = self.init_statuses.iter().chain(&self.statuses).flat_map(|status| {
            let running = status.state.running.as_ref().and_then(|running| running.started);
            let ended = status.state.terminated.as_ref().and_then(|terminated| terminated.finished);
            [running, ended]
        });
        conditions.chain(containers).chain([self.started])
    }
}

/// How far the latest of these times is ahead of `now`. A time further ahead than [`MAX_SKEW`] is ignored.
fn seconds_ahead(times: impl IntoIterator<Item = Option<Timestamp>>, now: Timestamp) -> u32 {
    let ahead = times.into_iter().flatten().map(|time| time.duration_since(now)).filter(|ahead| *ahead <= MAX_SKEW);
    ahead.max().and_then(|ahead| u32::try_from(ahead.as_secs()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::ContainerState;

    fn at(second: i64) -> Option<Timestamp> {
        Timestamp::from_second(1_700_000_000 + second).ok()
    }

    fn life(started: i64, finished: i64, exit_code: i32, reason: &str) -> Terminated {
        let (started, finished) = (at(started), at(finished));
        Terminated { exit_code, reason: reason.into(), started, finished, ..Terminated::default() }
    }

    /// The next version of the pod, whose container `app` has these two lives.
    fn next(before: Option<&Pod>, last: Option<Terminated>, present: Option<Terminated>) -> Pod {
        let state = ContainerState { terminated: present, ..ContainerState::default() };
        let status = ContainerStatus { name: "app".into(), last, state, ..ContainerStatus::default() };
        let other = ContainerStatus { name: "other".into(), ..ContainerStatus::default() };
        let mut pod = Pod { statuses: vec![status, other], ..Pod::default() };
        pod.update_history(before, Timestamp::UNIX_EPOCH);
        pod
    }

    fn times(pod: &Pod) -> Vec<u32> {
        assert_eq!(pod.history.run_times("other").count(), 0);
        pod.history.run_times("app").collect()
    }

    #[test]
    fn keeps_the_run_times_of_the_last_four_lives() {
        let oom = |index: i64| Some(life(100 * index, 100 * index + 30 + index, 137, "OOMKilled"));
        let mut pod = next(None, None, oom(0));
        assert_eq!(times(&pod), [30]);
        for (last, present, expected) in [
            (oom(0), None, &[30][..]),
            (oom(0), oom(1), &[30, 31]),
            (oom(0), oom(1), &[30, 31]),
            (oom(1), None, &[30, 31]),
            // A life in between was not observed.
            (oom(3), None, &[30, 31, 33]),
            (oom(3), oom(4), &[30, 31, 33, 34]),
            (oom(4), oom(5), &[31, 33, 34, 35]),
            (None, None, &[31, 33, 34, 35]),
        ] {
            pod = next(Some(&pod), last, present);
            assert_eq!(times(&pod), expected);
        }
        assert_eq!(times(&next(None, oom(3), oom(4))), [33, 34], "both lives of the first version");
    }

    #[test]
    fn forgets_the_lives_that_ended_in_another_way() {
        let mut pod = next(None, Some(life(0, 30, 137, "OOMKilled")), Some(life(50, 80, 137, "OOMKilled")));
        assert_eq!(times(&pod), [30, 30]);
        pod = next(Some(&pod), Some(life(50, 80, 137, "OOMKilled")), Some(life(90, 92, 1, "Error")));
        assert_eq!(times(&pod), [2]);
        pod = next(Some(&pod), Some(life(100, 107, 137, "Error")), None);
        assert_eq!(times(&pod), [7]);
    }

    #[test]
    fn ignores_lives_without_credible_times() {
        let never_ran = Terminated { started: Some(Timestamp::UNIX_EPOCH), finished: at(5), ..Terminated::default() };
        let unknown = Terminated { started: at(5), ..Terminated::default() };
        let odd = Terminated { started: Some(Timestamp::MAX), finished: Some(Timestamp::MIN), ..Terminated::default() };
        for ended in [never_ran, unknown, life(10, 5, 1, "Error"), life(0, 1 << 33, 1, "Error"), odd] {
            assert_eq!(times(&next(None, Some(ended), None)), [0_u32; 0]);
        }
    }
}
