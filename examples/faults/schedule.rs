//! What happens in a run, and when: a pure function of the seed.

use std::{fmt, time::Duration};

use fastrand::Rng;

/// The webhooks, by their formats.
pub const FORMATS: [&str; 8] =
    ["PagerDuty", "Custom", "Generic", "Alertmanager", "Slack", "Discord", "Teams", "CloudEvents"];

/// At most this many pods have a problem at a time. With those that ended just now, PagerDuty has an alert for each.
const BROKEN: usize = 6;

/// A fault from its begin to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub at: Duration,
    pub lasts: Duration,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A replica is killed, and started again later.
    Kill(Who),
    /// A replica is asked to end, and started again later.
    Terminate(Who),
    /// A replica is stopped, and continues.
    Stop(Who),
    /// The API server is killed, and started again later.
    ApiServerKilled,
    /// The receiver of the webhook with this index fails.
    Receiver(usize, Trouble),
    /// The operator loses its rights, and gets them back.
    RightsWithdrawn,
    /// The Secret of this webhook gets another key, which changes nothing.
    SecretTouched(usize),
    /// The Secret of this webhook gets another URL.
    UrlChanged(usize),
    /// This webhook is removed, and added again.
    WebhookRemoved(usize),
    /// etcd is killed, and started again later.
    EtcdKilled,
    /// The history of etcd is compacted, and the API server restarted.
    EtcdCompacted,
    /// A backup of etcd is taken, and restored later.
    EtcdRestored,
    /// The CRD is deleted with all objects, and applied again later with the object.
    CrdDeleted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Leader,
    Replica(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It answers 503.
    Unavailable,
    /// It answers nothing.
    Hangs,
    /// It takes messages, but its answers are lost.
    LosesAnswers,
    /// It answers 429 and when to try again.
    Busy,
    /// It answers 400 to messages that name this pod.
    RefusesOne(usize),
}

/// A change of a pod, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodChange {
    Breaks(usize),
    Mends(usize),
    Goes(usize),
}

/// A step of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Pod(PodChange),
    Begin(Fault),
    End(Fault),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:6.1} s  {:?}, {:.1} s", self.at.as_secs_f64(), self.kind, self.lasts.as_secs_f64())
    }
}

/// The faults of a run. Those of one lane never overlap, those of different lanes do: replicas, receivers, and the rest of
/// the cluster.
pub fn faults(seed: u64, length: Duration) -> Vec<Fault> {
    let mut rng = Rng::with_seed(seed);
    let mut faults = Vec::new();
    for draw in [of_replicas, of_receivers, of_receivers, of_cluster] {
        let rng = &mut rng.fork();
        let mut at = rng.u64(8_000..20_000);
        loop {
            let (kind, lasts) = draw(rng);
            let fault = Fault { at: Duration::from_millis(at), lasts: Duration::from_millis(lasts), kind };
            at += lasts + rng.u64(2_000..20_000);
            if fault.at + fault.lasts > length {
                break;
            }
            faults.push(fault);
        }
    }
    faults.sort_by_key(|fault| fault.at);
    faults
}

fn of_replicas(rng: &mut Rng) -> (Kind, u64) {
    let who = if rng.u8(..4) < 3 { Who::Leader } else { Who::Replica(rng.usize(..3)) };
    match rng.u8(..4) {
        0 => (Kind::Kill(who), rng.u64(500..5_000)),
        1 => (Kind::Terminate(who), rng.u64(500..5_000)),
        // Shorter than the Lease.
        2 => (Kind::Stop(who), rng.u64(1_000..9_000)),
        _ => (Kind::Stop(who), rng.u64(12_000..30_000)),
    }
}

fn of_receivers(rng: &mut Rng) -> (Kind, u64) {
    let trouble = match rng.u8(..5) {
        0 => Trouble::Unavailable,
        1 => Trouble::Hangs,
        2 => Trouble::LosesAnswers,
        3 => Trouble::Busy,
        _ => Trouble::RefusesOne(rng.usize(..40)),
    };
    (Kind::Receiver(rng.usize(..FORMATS.len()), trouble), rng.u64(3_000..30_000))
}

fn of_cluster(rng: &mut Rng) -> (Kind, u64) {
    let webhook = rng.usize(..FORMATS.len());
    match rng.u8(..11) {
        0 | 1 => (Kind::ApiServerKilled, rng.u64(500..20_000)),
        2 => (Kind::RightsWithdrawn, rng.u64(2_000..30_000)),
        3 => (Kind::SecretTouched(webhook), 0),
        4 => (Kind::UrlChanged(webhook), 0),
        5 => (Kind::WebhookRemoved(webhook), rng.u64(2_000..30_000)),
        6 | 7 => (Kind::EtcdKilled, rng.u64(200..12_000)),
        8 => (Kind::EtcdCompacted, 0),
        9 => (Kind::EtcdRestored, rng.u64(5_000..40_000)),
        _ => (Kind::CrdDeleted, rng.u64(500..8_000)),
    }
}

/// The changes of pods in a run. Each problem is that of a new pod, or sometimes of one that had a problem before.
fn pod_changes(seed: u64, length: Duration) -> Vec<(Duration, PodChange)> {
    let mut rng = Rng::with_seed(!seed);
    let (mut changes, mut broken, mut mended, mut count) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut at = 1_000;
    while at < u64::try_from(length.as_millis()).unwrap_or(u64::MAX) {
        let breaks = broken.is_empty() || broken.len() < BROKEN && rng.u8(..10) < 6;
        let change = if breaks {
            let again = !mended.is_empty() && rng.u8(..8) == 0;
            let pod = if again { mended.swap_remove(rng.usize(..mended.len())) } else { count };
            count += usize::from(!again);
            broken.push(pod);
            PodChange::Breaks(pod)
        } else {
            let pod = broken.swap_remove(rng.usize(..broken.len()));
            if rng.bool() {
                mended.push(pod);
                PodChange::Mends(pod)
            } else {
                PodChange::Goes(pod)
            }
        };
        changes.push((Duration::from_millis(at), change));
        at += rng.u64(500..8_000);
    }
    changes
}

/// All steps of a run with these faults, in the order of their times.
pub fn steps(seed: u64, length: Duration, faults: &[Fault]) -> Vec<(Duration, Step)> {
    let pods = pod_changes(seed, length).into_iter().map(|(at, change)| (at, Step::Pod(change)));
    let begins = faults.iter().map(|fault| (fault.at, Step::Begin(*fault)));
    let ends = faults.iter().map(|fault| (fault.at + fault.lasts, Step::End(*fault)));
    let mut steps: Vec<_> = pods.chain(begins).chain(ends).collect();
    steps.sort_by_key(|(at, _)| *at);
    steps
}
