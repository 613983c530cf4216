//! Container logs: chooses the log that explains a failure, reads its end, and cleans and redacts it.

mod clean;
mod life;
mod log_end;
mod log_queue;
mod masking;
mod node_limiter;
mod read_error;
mod reader;
mod redact;
mod redact_patterns;
mod request;
mod store;
mod telling_line;

pub use clean::{Cleaned, LogPolicy, clean};
pub use log_end::{LogEnd, Need, Tail};
pub use log_queue::QueueLimits;
pub use masking::Masking;
pub(crate) use masking::{MaskedLines, MaskedText, Wanted, WantedText, clean_text};
pub(crate) use node_limiter::Permit;
pub use reader::{LogReader, ReadLimits, ReadResult};
pub use redact::MASK;
pub(crate) use redact::prepare as prepare_redaction;
pub(crate) use redact_patterns::MAX_BYTES_OF_OBJECT as MAX_PATTERN_BYTES;
pub use redact_patterns::{Pattern, PatternError};
pub use request::{Asker, ContainerInstance, InstanceId, LogRead, LogRequest};
pub use store::{LogAnswer, Redacted, Redaction, StoreLimits, TailStore};
