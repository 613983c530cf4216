//! Container logs: chooses the log that explains a failure, reads its end, and cleans and redacts it.

mod clean;
mod escapes;
mod kubelet;
mod node_limiter;
mod pattern;
mod read_error;
mod reader;
mod redact;
mod request;
mod store;
mod tail;
mod tail_buffer;

pub(crate) use clean::clean_text;
pub use clean::{Cleaned, clean};
pub use reader::{LogReader, ReadLimits, ReadResult};
pub use redact::MASK;
pub use request::{ContainerInstance, InstanceId, LogPlan, LogRequest};
pub use store::{StoreLimits, TailStore};
pub use tail::{LogPolicy, Tail};
