//! Alerts on their way to real receivers.

mod alertmanager;
mod attempts;
mod command;
mod killed;
mod life;
mod support;
