//! Delivers alerts to receivers over real connections.

mod alertmanager;
mod attempts;
mod command;
mod killed;
mod life;
mod support;
