//! Alerts: which receiver is sent which incident, when, and in which format.
//!
//! [`step`] compares a webhook's stored status with the current incidents and decides on the next [`Notification`].
//! [`formats`] renders it for its receiver. [`record`] updates the status with the outcome.
//! [`address`] decides which addresses may be connected to; [`destination`], [`headers`] and [`signature`] parse
//! values of Secrets. Everything here is pure, except [`mod@delivery`], which reads Secrets, sends and stores.

pub mod address;
mod common_cause;
mod compose;
pub mod delivery;
pub mod destination;
mod formats;
mod headers;
mod held_back;
mod input;
mod lifecycle;
mod link_template;
mod matcher;
mod memory;
mod mute;
mod notification;
mod policy;
mod record;
mod refusal;
pub mod retry;
mod sanitize;
pub mod signature;
mod space;
mod state;
mod step;
mod thread;
mod times;
mod update;
mod validated_webhook;

pub use common_cause::Grouped;
pub use compose::last_messages;
use compose::open_alerts;
pub use formats::{CustomFormat, Pacing, RenderError, Request, render};
pub use input::{ObjectInput, StepInput};
pub use link_template::LinkTemplate;
pub(crate) use memory::gone_alerts;
pub use memory::{GoneAlerts, IncidentMemory};
pub use mute::{CurrentMutes, MuteRules};
pub use notification::{Alert, Farewell, Notification, Source, Storm};
pub use policy::NotificationPolicy;
pub(crate) use policy::is_one_namespace;
pub use record::record;
pub(crate) use space::alert_bytes;
pub use step::{Step, step};
pub use validated_webhook::{EndpointSpec, ValidatedWebhook};

pub use crate::report::{CommonCause, Incident, Member, Texts};
