//! Warning events: evidence for the cause of a problem. An event never decides whether a pod has a problem, because any
//! event may be lost.

mod event;

pub use event::{Event, InvolvedObject};
