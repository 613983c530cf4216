//! Tests of the testbed: the control plane, the fake kubelet and the loading of pods.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod binaries;
mod control_plane;
mod kubelet;
mod no_trace;
