//! Stores, sends and records what [`super::plan`] decides, in tasks of its own, so that it never delays the controller.
//!
//! The [`Dispatcher`] runs a [`worker`] for each object with webhooks. The worker has a
//! [queue](webhook_queue) for each webhook: it reads the webhook's [Secrets](secrets), [stores](persist) what is about
//! to be sent, [sends](send) it, and records the outcome.

mod deletion;
mod delivered_condition;
mod dispatcher;
mod hints;
pub mod http_client;
mod other_writer;
mod persist;
mod resolver;
pub mod secrets;
pub mod send;
mod webhook_queue;
mod worker;

pub use dispatcher::{Dispatcher, ObjectUpdate};
pub use hints::hint;
pub use http_client::HttpClient;
pub use resolver::{Lookup, system_lookup};

use std::time::Duration;

use super::destination::UrlPolicy;

/// Delays that integration tests shorten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryTimings {
    /// How often the Secrets of a failing webhook are read: someone may be about to fix them.
    pub secrets_retry_interval: Duration,
    /// Divides the intervals between messages, and the times that an incident must be gone before it counts as over.
    pub pacing_divisor: u32,
}

impl Default for DeliveryTimings {
    fn default() -> Self {
        Self { secrets_retry_interval: Duration::from_secs(10), pacing_divisor: 1 }
    }
}

/// What the operator's flags allow webhooks to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryOptions {
    pub urls: UrlPolicy,
    /// Whether to use the proxy that `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` define. A proxy resolves
    /// names by itself: then [`UrlPolicy::addresses`] applies only to URLs with a literal address.
    pub proxy_from_env: bool,
}
