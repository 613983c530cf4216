//! Integration tests against a real API server.

mod command;
mod install;
mod operator;
mod support;
mod world;
