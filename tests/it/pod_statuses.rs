//! Pods and their statuses as a kubelet writes them.

pub use orchestr_testbed::objects::*;
