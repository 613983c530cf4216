//! Integration tests against a real API server.

mod arbitrary;
mod cases;
mod judgement;
mod printed_status;
mod verdicts;
