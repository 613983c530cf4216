//! Tests of the testbed: the control plane, the fake kubelet and the loading of pods.

mod binaries;
mod book;
mod control_plane;
mod fixtures;
mod kubelet;
mod logs;
mod no_trace;
mod pods;
