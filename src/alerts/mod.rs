//! Alerts: which receiver is sent which incident, when, and in which format.
//!
//! [`plan`] compares a webhook's stored status with the current incidents and decides on the next
//! [`Notification`]. [`formats`] renders it for its receiver. [`record`] updates the status with the outcome.
//! [`address`] decides which addresses may be connected to; [`destination`], [`headers`] and [`signature`] parse
//! values of Secrets. Everything here is pure, except [`mod@delivery`], which reads Secrets, sends and stores.

pub mod address;
mod alert;
mod common_cause;
mod compose;
pub mod delivery;
mod delivery_summary;
pub mod destination;
mod endpoint_spec;
mod formats;
mod headers;
mod incident;
mod lifecycle;
mod link_template;
mod mentions;
mod mute;
mod muted;
mod name_pattern;
mod notification;
mod plan;
mod plan_input;
mod policy;
mod reason_set;
mod record;
mod refusal;
pub mod retry;
mod sanitize;
pub mod signature;
mod slots;
mod storm;
#[cfg(test)]
mod testing;
mod times;
mod unstored;
mod validated_webhook;
mod webhook_state;

pub use alert::Alert;
pub use common_cause::Grouped;
pub use compose::{deletion_notices, resend};
use compose::{last_messages, open_alerts};
use delivery_summary::{summarize_delivery, summarize_mutes};
pub use endpoint_spec::EndpointSpec;
pub use formats::{Pacing, Request, render};
pub(crate) use incident::gone_alerts;
pub use incident::{CommonCause, GoneAlerts, Incident, IncidentMemory, Member, Source, Texts};
pub use link_template::LinkTemplate;
pub(crate) use mute::MuteSearch;
pub use mute::{CurrentMutes, MuteRules};
pub use notification::{Farewell, Notification, Storm};
pub use plan::{Plan, plan};
pub use plan_input::PlanInput;
pub use policy::NotificationPolicy;
pub(crate) use policy::is_one_namespace;
pub use record::record;
use unstored::name_unstored;
pub use validated_webhook::ValidatedWebhook;
pub(crate) use webhook_state::{ALERT_BYTES, alert_bytes};
