//! Reads logs from the API server, which has them from the kubelets.
//!
//! A kubelet that is asked for the last lines *and* for so many bytes gives the **first** bytes of those
//! lines; so nothing it offers yields the end of a log whatever its lines' length. Therefore all of the
//! last lines are streamed through a [`Ring`] that keeps the end. Where they are more than
//! [`ReadLimits::stream_bytes`], they are asked for again, fewer of them. More lines are asked for than
//! are shown: what is masked in a line can depend on the lines before it.

use std::{sync::Arc, time::Duration};

use futures::{AsyncBufRead, AsyncBufReadExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::LogParams};
use tokio::time::{Instant, timeout_at};

use super::{
    LogRequest, Tail,
    clean::{Cleaned, clean},
    kubelet,
    node_limiter::{NodeLimiter, SILENCE},
    read_error::ReadError,
    tail_buffer::Ring,
};
use crate::api::LogSource;

/// Lines that are read before those that are shown: a private key of 4096 bits has 52.
const CONTEXT: usize = 64;

/// How many lines are asked for where that many were too long, and then where those were.
const FEWER: [usize; 2] = [16, 2];

/// How many times the bytes that are shown are kept for cleaning: masking and escapes take some away.
const SLACK: usize = 4;

/// The fewest bytes that are kept for cleaning, before [`SLACK`].
const SHORTEST: usize = 8 * 1024;

/// The longest termination message that is certainly whole, in bytes: where the kubelet takes it from
/// the log's end, it keeps 2048.
const WHOLE_MESSAGE: usize = 2047;

/// How long to wait before a log is read again that wasn't read to its end.
const AGAIN: Duration = Duration::from_secs(10);

/// Bounds of a [`LogReader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Readings at the same time.
    pub concurrency: usize,
    /// Readings at the same time from one node.
    pub per_node: usize,
    /// How long one may take, once it has begun.
    pub timeout: Duration,
    /// The bytes that one request may bring.
    pub stream_bytes: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { concurrency: 8, per_node: 2, timeout: Duration::from_secs(5), stream_bytes: 4 * 1024 * 1024 }
    }
}

/// What came of reading a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadResult {
    /// What there is to show.
    pub tail: Tail,
    /// After how long another try may bring more, if that may be.
    pub retry: Option<Duration>,
}

/// Reads logs, a bounded number at a time. Cheap to clone; clones share the bounds.
#[derive(Clone)]
pub struct LogReader {
    client: Client,
    limits: ReadLimits,
    node_limiter: Arc<NodeLimiter>,
}

/// How a stream ended.
#[derive(Debug)]
enum End {
    /// By itself.
    Whole,
    /// At the bound of its bytes.
    TooLong,
    /// By an error.
    Broken,
    /// At the bound of its time.
    TooSlow,
}

impl LogReader {
    /// A reader within bounds.
    #[must_use]
    pub fn new(client: Client, limits: ReadLimits) -> Self {
        Self { client, limits, node_limiter: Arc::new(NodeLimiter::new(limits.concurrency, limits.per_node, SILENCE)) }
    }

    /// Reads the end of a log; waits for its turn first, for as long as that takes. Never fails: what
    /// goes wrong is told by the tail.
    ///
    /// A kubelet names lives by "present" and "previous" only. Where the container was started again
    /// since the request was made, this is the log of another life: whoever asked compares
    /// [`ContainerInstance`](super::ContainerInstance) once more with the pod as it is by then.
    pub async fn read(&self, request: &LogRequest) -> ReadResult {
        let place = self.node_limiter.enter(&request.node).await;
        let deadline = Instant::now() + self.limits.timeout;
        let shown = usize::try_from(request.policy.tail_lines).unwrap_or(usize::MAX);
        let most = shown.saturating_add(CONTEXT);
        let kept = usize::try_from(request.policy.max_bytes).unwrap_or(SHORTEST).max(SHORTEST) * SLACK;

        let mut lines = most;
        let mut fewer = FEWER.into_iter();
        loop {
            let mut ring = Ring::new(kept);
            let end = match timeout_at(deadline, self.open(request, lines)).await {
                Err(_) => End::TooSlow,
                Ok(Err(error)) => {
                    let refusal = ReadError::of(&error, request);
                    place.answered(!refusal.silent);
                    return instead(request, &refusal.note, refusal.retry);
                }
                Ok(Ok(body)) => {
                    timeout_at(deadline, pump(body, &mut ring, self.limits.stream_bytes)).await.unwrap_or(End::TooSlow)
                }
            };
            place.answered(!matches!(end, End::TooSlow) || ring.total > 0);
            if matches!(end, End::TooLong)
                && let Some(next) = fewer.next()
            {
                lines = next;
                continue;
            }
            return self.outcome(request, &mut ring, &end, lines, lines < most);
        }
    }

    async fn open(&self, request: &LogRequest, lines: usize) -> kube::Result<impl AsyncBufRead + use<>> {
        let params = LogParams {
            container: Some(request.instance.container.to_string()),
            previous: request.previous,
            tail_lines: i64::try_from(lines).ok(),
            limit_bytes: i64::try_from(self.limits.stream_bytes).ok(),
            ..LogParams::default()
        };
        Api::<Pod>::namespaced(self.client.clone(), &request.namespace).log_stream(&request.pod, &params).await
    }

    fn outcome(&self, request: &LogRequest, ring: &mut Ring, end: &End, lines: usize, fewer: bool) -> ReadResult {
        let cut = ring.may_be_cut(lines);
        let whole = !ring.lost_some();
        let mut body = ring.bytes();
        let mut notes = Vec::new();
        let mut retry = None;
        match end {
            End::Whole => {
                if let Some((at, error)) = kubelet::error_in(body, whole) {
                    body = body.get(..at).unwrap_or_default();
                    notes.push(error.to_owned());
                }
            }
            End::TooLong => notes.push(format!(
                "not the log's end: its last lines are longer than {} KiB",
                self.limits.stream_bytes / 1024
            )),
            End::Broken => {
                notes.push("the connection broke before the log's end".to_owned());
                retry = Some(AGAIN);
            }
            End::TooSlow => {
                let seconds = self.limits.timeout.as_secs_f32();
                notes.push(if body.is_empty() {
                    format!("no answer from the kubelet within {seconds} s")
                } else {
                    format!("not the log's end: it came too slowly for {seconds} s")
                });
                retry = Some(AGAIN);
            }
        }
        let cleaned = clean(body, cut, &request.policy);
        if cleaned.text.trim().is_empty() {
            let why = if notes.is_empty() { "the log is empty".to_owned() } else { notes.join("; ") };
            return instead(request, &why, retry);
        }
        ReadResult { tail: told(request.source(), cleaned, notes, fewer), retry }
    }
}

/// Streams a log into a ring.
async fn pump(body: impl AsyncBufRead, ring: &mut Ring, limit: usize) -> End {
    let mut body = std::pin::pin!(body);
    loop {
        let length = match body.fill_buf().await {
            Ok([]) if ring.total >= limit => return End::TooLong,
            Ok([]) => return End::Whole,
            Ok(chunk) => {
                ring.push(chunk);
                chunk.len()
            }
            Err(_) => return End::Broken,
        };
        body.consume_unpin(length);
        if ring.total > limit {
            return End::TooLong;
        }
    }
}

/// The termination message, where a life left one, or nothing but the reason.
fn instead(request: &LogRequest, why: &str, retry: Option<Duration>) -> ReadResult {
    let message = request.termination_message.as_bytes();
    let cleaned = clean(message, message.len() > WHOLE_MESSAGE, &request.policy);
    let tail = if cleaned.text.trim().is_empty() {
        Tail::unavailable(why)
    } else {
        told(LogSource::TerminationMessage, cleaned, vec![why.to_owned()], false)
    };
    ReadResult { tail, retry }
}

fn told(source: LogSource, cleaned: Cleaned, mut notes: Vec<String>, fewer: bool) -> Tail {
    if cleaned.shortened || fewer {
        notes.push("earlier lines left out".to_owned());
    }
    if cleaned.lossy {
        notes.push("bytes that are no UTF-8 are shown as U+FFFD".to_owned());
    }
    Tail { source, text: cleaned.text, note: notes.join("; ") }
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures::{TryStreamExt, stream};

    use super::*;

    #[tokio::test]
    async fn a_stream_is_kept_as_far_as_it_came() {
        for (limit, breaks, kept, ends) in [
            (100, false, "a\nb\nc\n", "Whole"),
            (100, true, "a\nb\nc\n", "Broken"),
            (6, false, "a\nb\nc\n", "TooLong"),
            (3, false, "a\nb\n", "TooLong"),
        ] {
            let parts = ["a\n", "b\n", "c\n"].map(|part| Ok(part.as_bytes()));
            let end = breaks.then(|| Err(io::Error::from(io::ErrorKind::ConnectionReset)));
            let body = stream::iter(parts.into_iter().chain(end)).into_async_read();
            let mut ring = Ring::new(100);
            let end = pump(body, &mut ring, limit).await;
            assert_eq!((ring.bytes(), format!("{end:?}").as_str()), (kept.as_bytes(), ends));
        }
    }
}
