//! Alerts: which receiver is sent which incident, when, and in which format.
//!
//! [`plan`] compares a webhook's stored status with the current incidents and decides on the next
//! [`Notification`]. [`formats`] renders it for its receiver. [`record`] updates the status with the outcome.
//! [`address`] decides which addresses may be connected to; [`destination`], [`headers`] and [`signature`] parse
//! values of Secrets. Everything here is pure, except [`mod@delivery`], which reads Secrets, sends and stores.

pub mod address;
mod compose;
pub mod delivery;
mod delivery_summary;
pub mod destination;
pub mod formats;
pub mod headers;
mod incident;
mod notification;
mod plan;
mod policy;
mod record;
pub mod retry;
mod sanitize;
pub mod signature;
#[cfg(test)]
pub(crate) mod simulation;
mod storm;
mod validated_webhook;
mod webhook_state;

pub use compose::{deletion_notices, resend};
pub use delivery_summary::{DeliverySummary, summarize_delivery};
pub use incident::{Incident, IncidentMemory, Source, gone_alerts};
pub use notification::{Alert, Notification, Storm};
pub use plan::{Plan, PlanInput, plan};
pub use policy::{NotificationPolicy, Pace};
pub use record::record;
pub use validated_webhook::ValidatedWebhook;
pub use webhook_state::{ALERT_BYTES, alert_bytes};
