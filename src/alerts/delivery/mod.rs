//! Delivery: what was decided on is stored, sent, and recorded, off the path on which pods are judged.
//!
//! The [`Dispatcher`] has a task for each object with webhooks. It is handed the present incidents, of
//! which it only ever sees the latest, so that nothing waits for it. The task reads the webhooks'
//! [Secrets](secrets), asks [`super::plan`], persists what is to be sent, [sends](send) it by a
//! [`client`] of its own that has no credentials of the cluster's, and records the outcome.

pub mod client;
mod condition;
mod connect;
mod courier;
mod dispatcher;
mod farewell;
mod hints;
mod line;
mod persist;
mod rival;
pub mod secrets;
pub mod send;

pub use client::HttpClient;
pub use connect::{Lookup, system_lookup};
pub use dispatcher::{Dispatcher, ObjectUpdate};
pub use hints::hint;

use super::destination::UrlPolicy;

/// What the one who runs the operator allows webhooks to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryOptions {
    /// What a URL may be.
    pub urls: UrlPolicy,
    /// Whether requests go through the proxy that `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`
    /// name. It resolves names by itself: then [`UrlPolicy::addresses`] covers literal addresses only.
    pub proxy_from_env: bool,
}
