//! Integration tests against a real API server.

mod arbitrary;
mod cases;
mod command;
mod crd;
mod install;
mod judgement;
mod operator;
mod printed_status;
mod support;
mod verdicts;
mod world;
