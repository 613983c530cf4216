//! Reports which pods of a Kubernetes cluster are broken, and why, in the status of `Orchestr` objects.
//!
//! In the order of the data flow:
//!
//! - [`watch`] lists and watches a kind of objects, with fallback, backoff and error classification.
//! - [`pods`] decodes pods into the fields that are used.
//! - [`events`] watches Warning events, which are evidence for causes.
//! - `namespaces` watches the annotations of namespaces, which say who is responsible.
//! - [`diagnosis`] decides whether a pod has a problem, and finds its kind, reason and owner.
//! - [`index`] keeps all pods, and finds those with a problem among the pods that an object selects.
//! - `facts` knows what else verdicts and their explanations depend on: it decides which Jobs, revisions, nodes, claims and
//!   events are read, and reads them.
//! - [`logs`] reads the ends of logs and masks credentials in them.
//! - [`report`] builds an object's status and its incidents from the problems.
//! - `controller` reconciles the objects: it owns the state, writes statuses and records events.
//! - [`alerts`] sends the incidents to webhooks.
//! - `render` prints what the commands found.
//!
//! [`leader`] elects the replica that writes and sends.
//! [`metrics`] counts what happens, and [`telemetry`] serves the counts and the probes.
//! [`version`] is the version that users, receivers and the API server see.
//! [`watchdog`] notices if the event loop is stuck.
//! [`api`] contains the types of the custom resource, and [`settings`] validates a spec. [`cli`] parses the flags, and
//! [`app`] starts the operator.

pub mod alerts;
pub mod api;
pub mod app;
mod backoff;
mod bounded;
pub mod cli;
mod clock;
pub mod config;
mod controller;
pub mod diagnosis;
mod escapes;
pub mod events;
mod facts;
mod glob;
mod hex;
pub mod index;
pub mod leader;
pub mod logs;
pub mod metrics;
mod namespaces;
mod partial_text;
pub mod pods;
mod quantity;
mod render;
pub mod report;
pub mod settings;
pub mod spec_error;
mod status_apply;
pub mod telemetry;
pub mod version;
pub mod watch;
pub mod watchdog;
