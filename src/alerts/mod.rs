//! Alerts: who is told of which incident, when, in which form. Pure but for [`mod@delivery`]: no clock, no
//! network, no store.
//!
//! [`plan`] holds what a receiver knows against what there is, and decides on a message; a
//! [`Notification`] is [rendered](formats) into the receiver's format; [`record`] makes of the outcome
//! what is to be stored. What may be connected to is judged by [`address`], what a user's Secrets hold
//! is read by [`destination`], [`headers`] and [`signature`].

pub mod address;
mod board;
mod compose;
mod condition;
pub mod delivery;
pub mod destination;
pub mod formats;
pub mod headers;
mod incident;
mod notification;
mod plan;
mod policy;
mod record;
pub mod retry;
pub mod signature;
#[cfg(test)]
pub(crate) mod simulation;
mod storm;
mod subscriber;
mod text;

pub use board::{ALERT_BYTES, alert_bytes};
pub use compose::{farewell, remind};
pub use condition::{Delivery, delivery};
pub use incident::{Ages, Incident, Source, absent};
pub use notification::{Alert, Notification, Storm};
pub use plan::{Plan, Situation, plan};
pub use policy::{Pace, Policy};
pub use record::record;
pub use subscriber::Subscriber;
