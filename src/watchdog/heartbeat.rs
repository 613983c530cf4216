//! The sign of life of the event loop.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed},
};

/// What the event loop does. A task that shares its thread may be what takes long: that shows as [`Phase::Waiting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The loop waits for the next event, so other tasks run, and events are received and decoded.
    Waiting,
    /// Orchestr objects are reconciled.
    Reconciling,
    /// A change of an Orchestr object is handled.
    Object,
    /// Changes of pods are handled.
    Pods,
    /// Warning events, or changes of namespaces, are handled.
    Events,
    /// The answer to a request is handled.
    Answer,
    /// Outdated data is dropped.
    Compacting,
}

/// The phases as parts of a sentence, in the order of [`Phase`].
const DOING: [&str; 7] = [
    "waiting for events, or running another task",
    "reconciling objects",
    "handling a change of an Orchestr object",
    "handling changes of pods",
    "handling Warning events",
    "handling the answer to a request",
    "dropping outdated data",
];

/// Shared by the event loop, which beats, and those who watch it. Holds no clock: what counts is whether it beat since
/// one last looked.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat(Arc<State>);

#[derive(Debug, Default)]
struct State {
    beats: AtomicU64,
    phase: AtomicU8,
    is_late: AtomicBool,
}

impl Heartbeat {
    /// The loop makes progress, and begins this phase.
    pub fn beat(&self, phase: Phase) {
        self.0.phase.store(phase as u8, Relaxed);
        self.0.beats.fetch_add(1, Relaxed);
    }

    /// Whether the loop makes progress, for the liveness probe: false after 15 s without, until it makes progress again.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.0.is_late.load(Relaxed)
    }

    /// What the loop does in the phase that began last.
    pub(super) fn doing(&self) -> &'static str {
        DOING.get(usize::from(self.0.phase.load(Relaxed))).copied().unwrap_or_default()
    }

    pub(super) fn beats(&self) -> u64 {
        self.0.beats.load(Relaxed)
    }

    pub(crate) fn set_late(&self, is_late: bool) {
        self.0.is_late.store(is_late, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_phase_that_began_last() {
        let heartbeat = Heartbeat::default();
        assert_eq!((heartbeat.doing(), heartbeat.beats()), (DOING[0], 0));
        for (beats, (phase, doing)) in (1..).zip([
            (Phase::Waiting, "waiting for events, or running another task"),
            (Phase::Pods, "handling changes of pods"),
            (Phase::Compacting, "dropping outdated data"),
        ]) {
            heartbeat.clone().beat(phase);
            assert_eq!((heartbeat.doing(), heartbeat.beats()), (doing, beats));
        }
    }
}
