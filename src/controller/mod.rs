//! The controller: keeps the status of every `Orchestr` object up to date.
//!
//! [`Controller::run`] is one task that owns all state. Updates from the watches go into the [`reconciler`], which holds
//! the index of pods, and mark the objects concerned as dirty in the [`queue`]. A due object is reconciled, and its status
//! is written if it changed. Every request to the API server is a task of its own ([`tasks`]), limited in number and time,
//! whose result comes back as an event.

mod event_lists;
mod event_loop;
mod events;
mod evidence;
mod log_requests;
mod lookback;
mod masked_texts;
mod namespaces;
mod object;
mod objects;
mod pattern_checks;
mod queue;
mod reconciler;
mod schedule;
mod status;
mod tasks;
mod terminations;
mod unread_jobs;
mod verdicts;
mod watch_health;
mod workloads;
mod write_limiter;

pub(crate) use self::{
    event_loop::{Controller, Shared, Sources},
    watch_health::Scope,
};
