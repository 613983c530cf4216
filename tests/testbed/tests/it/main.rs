//! The control plane, the kubelet and the loader, proven on the real thing.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod binaries;
mod control_plane;
mod kubelet;
mod no_trace;
