//! Stores, sends and records what [`super::plan`] decides, in tasks of its own, so that it never delays the controller.
//!
//! The [`Dispatcher`] runs a [`worker`] for each object with webhooks. The worker has a
//! [queue](webhook_queue) for each webhook: it reads the webhook's [Secrets](secrets), [stores](persist) what is about
//! to be sent, [sends](send) it, and records the outcome.

mod delivered_condition;
mod dispatcher;
mod ending;
mod exchange;
mod farewells;
mod hints;
pub mod http_client;
mod options;
mod other_writer;
mod persist;
mod secret_reads;
pub mod secrets;
pub mod send;
mod shared_texts;
mod status_writer;
mod webhook_queue;
mod worker;
mod write_pace;

pub(crate) use dispatcher::{Dispatcher, ObjectUpdate};
pub(crate) use exchange::DeliveryNotice;
pub use hints::hint;
pub use http_client::{HttpClient, Lookup, system_lookup};
pub use options::{DeliveryOptions, DeliveryTimings};
