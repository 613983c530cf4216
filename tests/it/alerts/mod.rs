//! Delivers alerts to receivers over real connections.

mod alert_log;
mod alertmanager;
mod attempts;
mod command;
mod common_cause;
mod custom;
mod end_to_end;
mod formats;
mod kept_back;
mod killed;
mod other_version;
mod ownership;
mod receivers;
mod refusals;
mod secret_reads;
mod silences;
mod simulation;
mod slack_api;
pub mod support;
