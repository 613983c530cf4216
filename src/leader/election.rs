//! Reads and writes the Lease as [`decide`](super::decide) decides.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::PostParams};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    decide::{Action, Answer, Candidate},
    leadership::{Leadership, Role},
    uptime::Uptime,
};

/// How long one request may take. The leader can try again once before it must stop leading.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);
/// How long the release of the Lease may take: all of the operator's end has five seconds.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);
/// How often a release is tried, if the Lease was renewed at the same time.
const RELEASES: usize = 2;
/// The longest name of a holder that is logged, in bytes.
const HOLDER_LIMIT: usize = 253;

/// Which Lease to use, and under which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseOptions {
    pub name: String,
    /// Absent: the namespace of the pod, or of the kubeconfig's context.
    pub namespace: Option<String>,
    /// The name of this replica in the Lease, to which a random suffix is added: the name of its pod.
    pub holder: String,
}

/// Takes part in the election of the leader.
pub(crate) struct Election {
    leases: Api<Lease>,
    name: String,
    candidate: Candidate,
    leadership: Leadership,
    term: u64,
    /// The holder that was logged last.
    logged_holder: Option<String>,
    /// Whether the last read and the last write have failed.
    failing: Failing,
}

#[derive(Default)]
struct Failing {
    reads: bool,
    writes: bool,
}

impl Election {
    /// `client` must not be [fenced](Leadership::fence).
    pub(crate) fn new(client: Client, options: &LeaseOptions) -> Self {
        let namespace = options.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
        // A process that is started again in the same pod is another holder.
        let identity = format!("{}_{:016x}", options.holder, fastrand::u64(..));
        tracing::info!(lease = options.name, namespace, identity, "taking part in the election of a leader");
        Self {
            leases: Api::namespaced(client, &namespace),
            name: options.name.clone(),
            candidate: Candidate::new(identity),
            leadership: Leadership::follower(),
            term: 0,
            logged_holder: None,
            failing: Failing::default(),
        }
    }

    pub(crate) fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Takes part until `stop`, and then releases the Lease. The caller must have ended all writes by then.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            let now = Uptime::now();
            self.publish(now);
            let step = match self.candidate.next(now, Timestamp::now(), fastrand::f64()) {
                // The leader must also notice that its time is over.
                Action::Wait(until) => {
                    let until = self.candidate.held_until(now).map_or(until, |end| until.min(end));
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = sleep(until.since(now)) => continue,
                    }
                }
                Action::Read => None,
                Action::Write(lease) => Some(lease),
            };
            let limit =
                self.candidate.held_until(now).map_or(REQUEST_TIMEOUT, |end| end.since(now).min(REQUEST_TIMEOUT));
            let is_write = step.is_some();
            let request = async {
                match step {
                    None => self.leases.get(&self.name).await,
                    Some(lease) => write(&self.leases, &self.name, *lease).await,
                }
            };
            let answer = tokio::select! {
                () = stop.cancelled() => break,
                answer = timeout(limit, request) => answer,
            };
            let answer = self.answer(answer.unwrap_or_else(|_| Err(timed_out())), is_write);
            if is_write {
                self.candidate.on_written(answer, now, Uptime::now(), fastrand::f64());
            } else {
                self.candidate.on_read(answer, Uptime::now());
            }
        }
        self.release().await;
    }

    /// Publishes whether this replica leads, and logs if that or the holder has changed.
    fn publish(&mut self, now: Uptime) {
        let was_leading = matches!(*self.leadership.subscribe().borrow(), Role::Leader { .. });
        let role = match self.candidate.held_until(now) {
            Some(until) => {
                // Requests that were refused in the meantime belong to an earlier term.
                if !self.leadership.is_held() {
                    self.term += 1;
                }
                self.leadership.lead(until, self.term)
            }
            None => self.leadership.follow(self.candidate.is_led()),
        };
        match role {
            Some(Role::Leader { term }) => tracing::info!(lease = self.name, term, "leading"),
            Some(Role::Follower { .. }) if was_leading => {
                tracing::warn!(
                    lease = self.name,
                    "stopped leading: the Lease was not renewed in time, or has another holder"
                );
            }
            Some(Role::Follower { .. }) | None => {}
        }
        let holder = self.candidate.holder();
        if holder != self.logged_holder.as_deref() {
            let shown = holder.map(|holder| &holder[..holder.floor_char_boundary(HOLDER_LIMIT)]);
            tracing::info!(lease = self.name, holder = ?shown.unwrap_or_default(), "the Lease has a new holder");
            self.logged_holder = holder.map(str::to_owned);
        }
    }

    fn answer(&mut self, answer: kube::Result<Lease>, is_write: bool) -> Answer {
        let (answer, error) = match answer {
            Ok(lease) => (Answer::Lease(Box::new(lease)), None),
            Err(kube::Error::Api(status)) if status.is_not_found() => (Answer::Absent, None),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                (Answer::Conflict, None)
            }
            // The message names the account and the permission that it lacks.
            Err(kube::Error::Api(status)) if status.is_forbidden() => (Answer::Failed, Some(status.message)),
            Err(kube::Error::Api(status)) => {
                (Answer::Failed, Some(format!("{} (HTTP {})", status.reason, status.code)))
            }
            Err(error) => (Answer::Failed, Some(error.to_string())),
        };
        let (is_failing, verb) =
            if is_write { (&mut self.failing.writes, "write") } else { (&mut self.failing.reads, "read") };
        match (&error, std::mem::replace(is_failing, error.is_some())) {
            // Once, until a request succeeds.
            (Some(error), false) => {
                tracing::warn!(
                    lease = self.name,
                    verb,
                    error,
                    "cannot use the Lease, and without it this replica cannot lead"
                );
            }
            (None, true) => tracing::info!(lease = self.name, verb, "the Lease can be used again"),
            _ => {}
        }
        answer
    }

    async fn release(mut self) {
        self.leadership.follow(false);
        let released = async {
            for _ in 0..RELEASES {
                let Some(lease) = self.candidate.release(Uptime::now(), Timestamp::now()) else { return false };
                match write(&self.leases, &self.name, lease).await {
                    Ok(_) => return true,
                    // A renewal that was under way has changed it.
                    Err(kube::Error::Api(status)) if status.is_conflict() => {
                        let Ok(lease) = self.leases.get(&self.name).await else { return false };
                        self.candidate.on_read(Answer::Lease(Box::new(lease)), Uptime::now());
                    }
                    Err(_) => return false,
                }
            }
            false
        };
        let released = timeout(RELEASE_TIMEOUT, released).await.unwrap_or(false);
        tracing::info!(lease = self.name, released, "left the election");
    }
}

async fn write(leases: &Api<Lease>, name: &str, mut lease: Lease) -> kube::Result<Lease> {
    if lease.metadata.resource_version.is_some() {
        return leases.replace(name, &PostParams::default(), &lease).await;
    }
    lease.metadata.name = Some(name.to_owned());
    let label = ("app.kubernetes.io/name".to_owned(), "orchestr".to_owned());
    lease.metadata.labels = Some([label].into());
    leases.create(&PostParams::default(), &lease).await
}

fn timed_out() -> kube::Error {
    kube::Error::Service("no answer in time".into())
}
