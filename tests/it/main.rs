//! Integration tests against a real API server.

mod operator;
mod proxy;
mod support;
mod world;
