//! Notices if the event loop makes no progress, which fails the liveness probe, and receives the signals to stop even if the
//! loop is busy.
//!
//! All tasks share one thread, so whatever blocks it blocks the operator. The watchdog is a thread of its own with a
//! runtime of its own. The kubelet restarts a container whose liveness probe fails: it sends SIGTERM, which the watchdog
//! answers for a loop that cannot.

mod heartbeat;
mod stall;

use std::{io, process, sync::mpsc, thread, time::Duration};

use tokio::{
    runtime::{Builder, Runtime},
    select,
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

pub use self::heartbeat::{Heartbeat, Phase};
use self::stall::{INTERVAL, Stall, Verdict};

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
                let doing = heartbeat.phase().as_str();
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
