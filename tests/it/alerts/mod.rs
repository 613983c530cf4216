//! Delivers alerts to receivers over real connections.

mod alertmanager;
mod attempts;
mod command;
mod end_to_end;
mod killed;
pub mod support;
