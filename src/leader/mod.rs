//! Leader election: of several replicas, one writes and sends. The others follow: they watch, and are ready to lead.
//!
//! kube has none, and the crates for it that are kept (kube-lease-manager, kube-leader-election) write the Lease without its
//! resource version, so that two replicas may lead at the same time.
//!
//! The leader holds a Lease, which it renews every two seconds. [`decide`] decides what a replica does with the Lease it
//! has read; it is pure. [`election`] reads and writes the Lease. [`Leadership`] is what the rest of the operator sees: it
//! checks that the Lease is held before each write to the API server ([`Leadership::fence`]) and each message to a receiver.
//!
//! # Why there are never two leaders
//!
//! A replica leads for [`RENEW_DEADLINE`](decide::RENEW_DEADLINE), 10 s, counted from the moment before it sent the last
//! request that renewed the Lease. Another replica takes the Lease only after it has seen it unchanged for
//! [`LEASE_DURATION`](decide::LEASE_DURATION), 15 s, counted from the moment after it received it. Each uses its own clock,
//! which only moves forward, so no two clocks are compared: only their rates matter, and 5 s are left for that and for
//! requests under way. Every write of the Lease names the resource version that it replaces, so that of two replicas that
//! take it at the same time, one fails.
//!
//! A Lease whose holder was removed by hand may belong to a leader that does not know it yet, so a replica waits for 15 s in
//! this case as well. The same is true of a Lease that was deleted, and a missing Lease may be such a one: a replica creates
//! it without a holder, and then waits. A Lease that names this replica itself may be an old copy that someone has restored
//! while another one leads, so a replica waits unless it has written that version itself. Only a Lease that its holder has
//! released is taken immediately. The release of an earlier holder that someone has restored is recognized by its term, except
//! by a replica that has just started and has not seen the Lease with a holder.

mod decide;
mod election;
mod leadership;
#[cfg(test)]
mod simulation;
mod uptime;

pub use self::election::LeaseOptions;
pub(crate) use self::{
    election::Election,
    leadership::{Leadership, NotLeader, Role},
};
