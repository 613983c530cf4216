//! The only ways in which the operator bounds the work and the memory that others can cause. Whoever can write into one
//! namespace (create pods, events or `Orchestr` objects) must not delay, evict or leave out what concerns another one.
//!
//! - [`FairQueue`]: what waits, by namespace. The namespace of which the fewest items run, and that has taken the least, comes
//!   next. [`RequestLimiter`] is the same for requests to the API server. [`TokenBucket`] and [`Rates`] bound how often something happens.
//! - [`WeightedCache`]: what is stored, by namespace. The one that holds the most loses what it has not used for longest.
//! - [`Interner`]: equal texts of many pods, incidents and objects are kept once.
//!
//! Nothing here has a clock or does I/O, except that [`RequestLimiter`] waits. docs/architecture.md lists what is bounded by
//! which of these, and with which numbers.

mod cache;
mod fair_queue;
mod interner;
mod rate;
mod request_limiter;

pub use self::fair_queue::Turn;
pub(crate) use self::{
    cache::WeightedCache,
    fair_queue::{FairQueue, Lane},
    interner::Interner,
    rate::{Rates, TokenBucket},
    request_limiter::{RequestLimiter, RequestLimits},
};
