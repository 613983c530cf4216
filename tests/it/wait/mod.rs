//! `orchestr wait` against a real API server. The statuses are written by hand, as controllers and kubelets write them.

mod bad_input;
mod outputs;
mod slow;
mod stable;
pub mod support;
mod troubles;
mod workloads;
