//! Whether this replica leads, for the parts of the operator that write and send.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    task::Poll,
    time::Duration,
};

use http::{Request, Response};
use kube::{Client, client::Body};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tower::{BoxError, service_fn};

use super::uptime::Uptime;

/// The value of `held_until` without leader election.
const ALWAYS: u64 = u64::MAX;

/// The role of this replica, as it is published to its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It watches, and neither writes nor sends.
    Follower {
        /// Whether the Lease names another holder. If it does not, there may be no leader.
        is_led: bool,
    },
    Leader {
        /// Counts how often this replica has begun to lead; 0 without leader election.
        term: u64,
    },
}

/// Whether this replica leads. Clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct Leadership(Arc<State>);

#[derive(Debug)]
struct State {
    /// Until when this replica leads, in nanoseconds of [`Uptime`]; 0 if it does not.
    held_until: AtomicU64,
    /// The term that `held_until` belongs to.
    term: AtomicU64,
    role: watch::Sender<Role>,
}

/// This replica does not lead, or stopped leading before the end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this replica does not lead")]
pub(crate) struct NotLeader;

impl Leadership {
    /// Without leader election, a process always leads.
    pub(crate) fn always() -> Self {
        Self::new(ALWAYS, Role::Leader { term: 0 })
    }

    /// A follower, until [`lead`](Self::lead) is called.
    pub(crate) fn follower() -> Self {
        Self::new(0, Role::Follower { is_led: false })
    }

    fn new(held_until: u64, role: Role) -> Self {
        let (held_until, term) = (AtomicU64::new(held_until), AtomicU64::new(0));
        Self(Arc::new(State { held_until, term, role: watch::Sender::new(role) }))
    }

    /// This replica leads until then. Returns the new role if it has changed.
    pub(crate) fn lead(&self, held_until: Uptime, term: u64) -> Option<Role> {
        // First, so that no request of an earlier term takes the new Lease for its own.
        self.0.term.store(term, SeqCst);
        self.0.held_until.store(held_until.as_nanos(), SeqCst);
        self.publish(Role::Leader { term })
    }

    /// This replica does not lead. Returns the new role if it has changed.
    pub(crate) fn follow(&self, is_led: bool) -> Option<Role> {
        self.0.held_until.store(0, SeqCst);
        self.publish(Role::Follower { is_led })
    }

    fn publish(&self, role: Role) -> Option<Role> {
        self.0.role.send_if_modified(|known| std::mem::replace(known, role) != role).then_some(role)
    }

    /// The role, and its changes. A task may notice a change late: before it writes or sends, [`guard`](Self::guard) checks.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Role> {
        self.0.role.subscribe()
    }

    /// Whether this replica leads at this moment. Unlike the role, this is exact: it compares the Lease with the clock.
    pub(crate) fn is_held(&self) -> bool {
        self.remaining().is_some()
    }

    /// For how long this replica leads unless it renews its Lease; absent if it does not lead.
    fn remaining(&self) -> Option<Duration> {
        match self.0.held_until.load(SeqCst) {
            ALWAYS => Some(Duration::MAX),
            until => Some(Uptime::from_nanos(until).since(Uptime::now())).filter(|left| !left.is_zero()),
        }
    }

    /// Runs a request for as long as this replica leads. The check is repeated whenever the request makes progress: so a
    /// process that was stopped in the middle of it, and continues when another replica leads, sends nothing more of it,
    /// except what it has already handed to the connection. A request belongs to the term in which it has begun, and does not
    /// continue in a later one.
    pub(crate) async fn guard<F: Future>(&self, request: F) -> Result<F::Output, NotLeader> {
        let mut request = pin!(request);
        let mut timer = pin!(sleep_until(Instant::now()));
        let term = self.0.term.load(SeqCst);
        poll_fn(|context| {
            loop {
                let left = self.remaining().filter(|_| self.0.term.load(SeqCst) == term);
                let Some(left) = left else { return Poll::Ready(Err(NotLeader)) };
                if let Poll::Ready(output) = request.as_mut().poll(context) {
                    return Poll::Ready(Ok(output));
                }
                if left == Duration::MAX {
                    return Poll::Pending;
                }
                // The Lease may be renewed until then, so the loop checks it again.
                timer.as_mut().reset(Instant::now() + left);
                if timer.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Returns a client that refuses requests other than reads while this replica does not lead, and ends them when it stops
    /// leading. All of the operator's writes to the API server pass through it, except those of the Lease.
    pub(crate) fn fence(&self, client: Client) -> Client {
        if self.0.held_until.load(SeqCst) == ALWAYS {
            return client;
        }
        let leadership = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (client, leadership) = (client.clone(), leadership.clone());
            async move {
                let is_read = request.method().is_safe();
                let answer = client.send(request);
                let answer = if is_read { answer.await } else { leadership.guard(answer).await? };
                answer.map_err(BoxError::from) as Result<Response<Body>, BoxError>
            }
        });
        Client::new(service, namespace)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        sync::atomic::AtomicUsize,
    };

    use super::*;

    fn soon() -> Uptime {
        Uptime::now() + Duration::from_millis(300)
    }

    #[tokio::test]
    async fn a_request_is_not_even_begun_by_a_follower() {
        let leadership = Leadership::follower();
        let polls = AtomicUsize::new(0);
        let request = poll_fn(|_| {
            polls.fetch_add(1, SeqCst);
            Poll::Ready(())
        });
        assert_eq!(leadership.guard(request).await, Err(NotLeader));
        assert_eq!(polls.load(SeqCst), 0);
        assert_eq!(Leadership::always().guard(ready(7)).await, Ok(7));
    }

    #[tokio::test]
    async fn a_request_lasts_as_long_as_the_lease() {
        let leadership = Leadership::follower();
        leadership.lead(soon(), 1);
        assert_eq!(leadership.guard(pending::<()>()).await, Err(NotLeader));
        assert!(!leadership.is_held());
        leadership.lead(soon(), 2);
        let renewals = AtomicUsize::new(0);
        let renew = async {
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                renewals.fetch_add(1, SeqCst);
                leadership.lead(soon(), 2);
            }
            pending::<()>().await;
        };
        tokio::select! {
            result = leadership.guard(pending::<()>()) => assert_eq!(result, Err(NotLeader)),
            () = renew => unreachable!(),
        }
        assert_eq!(renewals.load(SeqCst), 5);
    }

    #[tokio::test]
    async fn a_request_makes_no_progress_after_the_lease() {
        // As after SIGCONT: the request and the timer are ready at the same time.
        let leadership = Leadership::follower();
        leadership.lead(soon(), 1);
        let mut polls = 0;
        let request = poll_fn(|context| {
            polls += 1;
            if polls == 1 {
                std::thread::sleep(Duration::from_millis(310));
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        });
        assert_eq!(leadership.guard(request).await, Err(NotLeader));
        assert_eq!(polls, 1);
    }

    #[tokio::test]
    async fn a_request_does_not_continue_in_a_later_term() {
        let leadership = Leadership::follower();
        leadership.lead(soon(), 1);
        let mut polls = 0;
        let request = poll_fn(|context| {
            polls += 1;
            if polls == 1 {
                // The Lease ends, and this replica takes it again.
                leadership.follow(false);
                leadership.lead(soon(), 2);
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        });
        assert_eq!(leadership.guard(request).await, Err(NotLeader));
        assert_eq!(polls, 1);
        assert_eq!(leadership.guard(ready(7)).await, Ok(7), "a new one belongs to the new term");
    }

    #[test]
    fn announces_only_changes_of_the_role() {
        let leadership = Leadership::follower();
        let mut roles = leadership.subscribe();
        assert_eq!(leadership.follow(false), None);
        assert_eq!(leadership.lead(soon(), 1), Some(Role::Leader { term: 1 }));
        assert!(roles.has_changed().unwrap());
        roles.mark_unchanged();
        assert_eq!(leadership.lead(soon(), 1), None);
        assert!(!roles.has_changed().unwrap());
        for is_led in [false, true] {
            assert_eq!(leadership.follow(is_led), Some(Role::Follower { is_led }));
        }
        assert_eq!(*Leadership::always().subscribe().borrow(), Role::Leader { term: 0 });
    }
}
