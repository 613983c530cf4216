//! Integration tests against a real API server.

mod operator;
mod support;
mod world;
