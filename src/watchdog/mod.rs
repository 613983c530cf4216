//! Notices if the event loop makes no progress, which fails the liveness probe, and receives the signals to stop even if the
//! loop is busy.
//!
//! All tasks share one thread, so whatever blocks it blocks the operator. The watchdog is a thread of its own with a
//! runtime of its own. The kubelet restarts a container whose liveness probe fails: it sends SIGTERM, which the watchdog
//! answers for a loop that cannot.

use std::{
    io, process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

use tokio::{
    runtime::{Builder, Runtime},
    select,
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

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

/// How often to look.
const INTERVAL: Duration = Duration::from_secs(1);
/// The most that counts between two looks. If more time passed, the watchdog did not run either: the process was stopped,
/// the machine was suspended, or it has too little processor time. That is not the loop's fault.
const MOST_COUNTED: Duration = Duration::from_secs(2);
/// How long the loop may make no progress before a liveness probe fails.
const LATE: Duration = Duration::from_secs(15);
/// How long the process may take to stop after a signal. Draining takes at most four seconds.
const STOP: Duration = Duration::from_secs(10);
/// The exit code of a process that was asked to stop and did not stop in time.
const NOT_STOPPED: i32 = 2;
/// How long a line of the log may take. The thread that is stuck may be stuck because the log is.
const LOG_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts the watchdog. From now on, the first SIGTERM or SIGINT cancels `shutdown`.
///
/// # Errors
/// When the thread cannot be started, or signals cannot be received.
pub fn start(heartbeat: Heartbeat, shutdown: CancellationToken) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let signals = Signals::new(&runtime)?;
    let watch = move || runtime.block_on(watch(&heartbeat, signals, &shutdown));
    thread::Builder::new().name("watchdog".to_owned()).spawn(watch).map(drop)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new(runtime: &Runtime) -> io::Result<Self> {
        let _entered = runtime.enter();
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

async fn watch(heartbeat: &Heartbeat, mut signals: Signals, shutdown: &CancellationToken) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stall = Stall::default();
    let mut looked = Instant::now();
    let mut was_late = false;
    loop {
        select! {
            () = signals.next() => {
                stall.stop();
                shutdown.cancel();
            }
            _ = ticks.tick() => {
                let now = Instant::now();
                let verdict = stall.look(heartbeat.beats(), now.saturating_duration_since(looked));
                looked = now;
                let is_late = verdict != Verdict::Fine;
                heartbeat.set_late(is_late);
                let doing = heartbeat.doing();
                match verdict {
                    Verdict::Fine => {}
                    Verdict::Late if was_late => {}
                    Verdict::Late => {
                        log(move || tracing::warn!(doing, "the event loop has made no progress for 15 s"));
                    }
                    Verdict::NotStopping => {
                        log(move || tracing::error!(doing, "did not stop within 10 s of a signal: exiting"));
                        process::exit(NOT_STOPPED);
                    }
                }
                was_late = is_late;
            }
        }
    }
}

/// Writes to the log, but does not wait for it for long.
fn log(write: impl FnOnce() + Send + 'static) {
    let (written, end) = mpsc::channel();
    let write = move || {
        write();
        // The receiver is gone if this took too long.
        let _ = written.send(());
    };
    if thread::Builder::new().spawn(write).is_ok() {
        let _ = end.recv_timeout(LOG_TIMEOUT);
    }
}

/// What the watchdog has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    Late,
    /// The process was asked to stop, and did not.
    NotStopping,
}

/// What was seen at the looks so far. Only time in which the watchdog itself ran counts.
#[derive(Debug, Default)]
struct Stall {
    beats: u64,
    stalled: Duration,
    /// The time since the process was asked to stop.
    stopping: Option<Duration>,
}

impl Stall {
    /// The process was asked to stop.
    fn stop(&mut self) {
        self.stopping.get_or_insert(Duration::ZERO);
    }

    /// Looks at the number of beats, `elapsed` after the last look.
    fn look(&mut self, beats: u64, elapsed: Duration) -> Verdict {
        let counted = elapsed.min(MOST_COUNTED);
        if let Some(stopping) = &mut self.stopping {
            *stopping += counted;
            if *stopping >= STOP {
                return Verdict::NotStopping;
            }
        }
        self.stalled = if beats == self.beats { self.stalled + counted } else { Duration::ZERO };
        self.beats = beats;
        if self.stalled >= LATE { Verdict::Late } else { Verdict::Fine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_loop_is_late_after_15_s_without_progress_until_it_beats() {
        let mut stall = Stall::default();
        assert_eq!(stall.look(7, SECOND), Verdict::Fine);
        for second in 1..=60 {
            let expected = if second < 15 { Verdict::Fine } else { Verdict::Late };
            assert_eq!(stall.look(7, SECOND), expected, "{second} s");
        }
        assert_eq!(stall.look(8, SECOND), Verdict::Fine);
    }

    #[test]
    fn time_in_which_the_watchdog_did_not_run_does_not_count() {
        let mut stall = Stall::default();
        assert_eq!(stall.look(1, SECOND), Verdict::Fine);
        // The process is stopped for a day, or the machine is suspended, a few times.
        for _ in 0..5 {
            assert_eq!(stall.look(1, Duration::from_secs(86_400)), Verdict::Fine);
        }
        assert_eq!(stall.look(2, SECOND), Verdict::Fine);
        let mut stopping = Stall::default();
        stopping.stop();
        assert_eq!(stopping.look(1, Duration::from_secs(86_400)), Verdict::Fine);
    }

    #[test]
    fn a_process_that_does_not_stop_is_noticed() {
        let mut stall = Stall::default();
        stall.look(1, SECOND);
        stall.stop();
        for second in 1..10 {
            stall.stop();
            assert_eq!(stall.look(second, SECOND), Verdict::Fine, "{second} s");
        }
        assert_eq!(stall.look(11, SECOND), Verdict::NotStopping);
    }

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
