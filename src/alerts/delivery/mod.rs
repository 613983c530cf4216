//! Stores, sends and records what [`super::step`](super::step()) decides, in tasks of its own, so that it never delays the controller.
//!
//! The [`Dispatcher`] runs a [`worker`] for each object with webhooks. The worker has a
//! [queue](webhook_queue) for each webhook: it reads the webhook's [Secrets](secrets), [stores](persist) what is about
//! to be sent, [sends](send) it, and records the outcome, also in the [`AlertLog`].

mod alert_log;
mod delivered_condition;
mod dispatcher;
mod farewells;
pub mod http_client;
mod persist;
pub mod secrets;
pub mod send;
mod shared_texts;
mod status_writer;
mod webhook_queue;
mod worker;

use std::time::Duration;

pub use alert_log::AlertLog;
pub(crate) use dispatcher::{Dispatcher, ObjectUpdate};
pub use http_client::{HttpClient, Lookup, system_lookup};
pub use send::hint;

use super::destination::UrlPolicy;
use crate::api::NamespacedName;

/// The options of delivery that the operator's flags set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryOptions {
    pub urls: UrlPolicy,
    /// Whether to use the proxy that `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` define. A proxy resolves
    /// names by itself: then [`UrlPolicy::addresses`] applies only to URLs with a literal address.
    pub proxy_from_env: bool,
}

/// Delays that integration tests shorten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryTimings {
    /// After which time the Secrets of a failing webhook are read again, because someone may fix them. It doubles with
    /// each further read without a change.
    pub secrets_retry_interval: Duration,
    /// Before a message is sent, Secrets that were read longer ago than this are read again.
    pub secrets_max_age: Duration,
    /// After how long a message is sent although its state cannot be stored.
    pub unstored_after: Duration,
    /// Divides the intervals between messages, and the times that an incident must be gone before it counts as over.
    pub pacing_divisor: u32,
}

impl Default for DeliveryTimings {
    fn default() -> Self {
        Self {
            secrets_retry_interval: Duration::from_secs(10),
            secrets_max_age: Duration::from_secs(30),
            unstored_after: Duration::from_secs(5 * 60),
            pacing_divisor: 1,
        }
    }
}

/// How many notices may wait for the controller. Further ones are only in the log.
const NOTICES: usize = 64;

/// Something that a person should know about an object's webhooks. It becomes an event, because the status may not be writable. It
/// contains no values of Secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeliveryNotice {
    pub object: NamespacedName,
    pub uid: String,
    /// The webhook's name; empty if it concerns all webhooks of the object.
    pub webhook: String,
    /// The reason of the event, a constant of [`crate::api::reason`].
    pub reason: &'static str,
    pub note: String,
}
