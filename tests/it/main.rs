//! Integration tests against a real API server.

mod crd;
mod support;
