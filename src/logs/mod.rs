//! Logs: which one explains a failure, read in bounds, cleaned and masked before anyone else sees it.

mod clean;
mod escapes;
mod kubelet;
mod node_limiter;
mod read_error;
mod reader;
mod redact;
mod request;
mod store;
mod tail;
mod tail_buffer;

pub use clean::{Cleaned, clean, clean_text};
pub use reader::{LogReader, ReadLimits, ReadResult};
pub use redact::{MASK, redact};
pub use request::{ContainerInstance, InstanceId, LogPlan, LogRequest};
pub use store::{StoreLimits, TailStore};
pub use tail::{LogPolicy, Tail};

/// Compiles a pattern that stands in the code: one that doesn't compile fails every test that uses it.
#[expect(clippy::expect_used, reason = "a mask that silently matches nothing would be worse than a panic in a test")]
fn constant(pattern: &str) -> regex::Regex {
    regex::Regex::new(pattern).expect("a valid pattern")
}
