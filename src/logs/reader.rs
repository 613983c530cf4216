//! Reads logs through the API server, which proxies to the kubelets.
//!
//! A kubelet that is asked for the last lines *and* for a number of bytes returns the **first** bytes of those lines, so
//! no option returns the end of a log independently of the length of its lines. Therefore all of the last lines are
//! streamed through a [`TailBuffer`]. If they exceed [`ReadLimits::stream_bytes`], fewer lines are requested again. More
//! lines are requested than shown, because redaction of a line may depend on the lines before it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{AsyncBufRead, AsyncBufReadExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::LogParams};
use tokio::time::{Instant, timeout_at};

use crate::api::LogSource;

use super::{
    LogEnd, LogRead, LogRequest, Tail,
    clean::without_last_word,
    node_limiter::{NodeLimiter, Permit, UNRESPONSIVE_FOR},
    read_error::{ReadError, error_in},
};

/// How many lines are requested if the last lines exceeded the limit, and then if those did.
const FEWER_LINES: [usize; 2] = [16, 2];

/// The delay before an incomplete log is read again.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Bounds of a [`LogReader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Concurrent reads.
    pub concurrency: usize,
    /// Concurrent reads from one node.
    pub per_node: usize,
    /// The timeout of a read, not including the wait for a permit.
    pub timeout: Duration,
    /// The bytes of one response.
    pub stream_bytes: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { concurrency: 8, per_node: 2, timeout: Duration::from_secs(5), stream_bytes: 4 * 1024 * 1024 }
    }
}

/// The result of reading a log. An error is an end without a text, whose note names the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadResult {
    pub end: LogEnd,
    /// The delay after which another try may return more.
    pub retry: Option<Duration>,
}

impl ReadResult {
    /// A name from a closed set, for metrics.
    pub(crate) fn as_str(&self) -> &'static str {
        match (self.end.note.is_empty(), self.end.is_empty()) {
            (true, _) => "complete",
            (false, false) => "partial",
            (false, true) => "failed",
        }
    }
}

/// Reads logs with limited concurrency. Clones share the limits.
#[derive(Clone)]
pub struct LogReader {
    client: Client,
    limits: ReadLimits,
    node_limiter: Arc<NodeLimiter>,
}

/// How a stream ended.
#[derive(Debug)]
enum StreamEnd {
    Complete,
    /// At [`ReadLimits::stream_bytes`].
    TooLong,
    /// With an error.
    Broken,
    /// At [`ReadLimits::timeout`].
    TimedOut,
}

impl LogReader {
    #[must_use]
    pub fn new(client: Client, limits: ReadLimits) -> Self {
        let node_limiter = Arc::new(NodeLimiter::new(limits.concurrency, limits.per_node, UNRESPONSIVE_FOR));
        Self { client, limits, node_limiter }
    }

    /// How many logs are read concurrently.
    #[must_use]
    pub(crate) fn concurrency(&self) -> usize {
        self.limits.concurrency
    }

    /// Returns a permit to read from a node if there is one now.
    pub(crate) fn try_permit(&self, node: &Arc<str>) -> Option<Permit> {
        self.node_limiter.try_acquire(node)
    }

    /// Reads the log of a request, as it is shown.
    pub(crate) async fn tail(&self, request: &LogRequest) -> Tail {
        let mut tail = self.read(&request.read).await.end.show(&request.policy, &request.termination_message);
        if tail.source == LogSource::Current {
            tail.source = request.source();
        }
        tail
    }

    /// Reads the end of a log, after waiting for a permit.
    pub async fn read(&self, request: &LogRead) -> ReadResult {
        let permit = self.node_limiter.acquire(&request.node).await;
        self.read_with(permit, request).await
    }

    /// Reads the end of a log.
    ///
    /// A kubelet offers only the "present" and the "previous" instance. If the container was restarted after the request
    /// was made, the result is the log of another instance, so the caller must compare the
    /// [`ContainerInstance`](super::ContainerInstance) with the pod again.
    pub(crate) async fn read_with(&self, permit: Permit, request: &LogRead) -> ReadResult {
        let deadline = Instant::now() + self.limits.timeout;
        let (most, capacity) = (request.need.lines(), request.need.capacity());

        let mut lines = most;
        let mut fewer = FEWER_LINES.into_iter();
        loop {
            let mut buffer = TailBuffer::new(capacity);
            let end = match timeout_at(deadline, self.open(request, lines)).await {
                Err(_) => StreamEnd::TimedOut,
                Ok(Err(error)) => {
                    let error = ReadError::new(&error, request);
                    permit.record(!error.is_unresponsive);
                    return ReadResult { end: LogEnd::missing(error.note), retry: error.retry };
                }
                Ok(Ok(body)) => timeout_at(deadline, copy(body, &mut buffer, self.limits.stream_bytes))
                    .await
                    .unwrap_or(StreamEnd::TimedOut),
            };
            permit.record(!matches!(end, StreamEnd::TimedOut) || buffer.total > 0);
            if matches!(end, StreamEnd::TooLong)
                && let Some(next) = fewer.next()
            {
                lines = next;
                continue;
            }
            return self.result(request, &mut buffer, &end, lines, lines < most);
        }
    }

    async fn open(&self, request: &LogRead, lines: usize) -> kube::Result<impl AsyncBufRead + use<>> {
        let params = LogParams {
            container: Some(request.instance.container.to_string()),
            previous: request.previous,
            tail_lines: i64::try_from(lines).ok(),
            limit_bytes: i64::try_from(self.limits.stream_bytes).ok(),
            ..LogParams::default()
        };
        Api::<Pod>::namespaced(self.client.clone(), &request.namespace).log_stream(&request.pod, &params).await
    }

    fn result(
        &self,
        request: &LogRead,
        buffer: &mut TailBuffer,
        end: &StreamEnd,
        lines: usize,
        has_fewer: bool,
    ) -> ReadResult {
        let cut = buffer.may_be_cut(lines);
        let is_whole = !buffer.has_dropped();
        let mut body = buffer.bytes();
        let mut notes = Vec::new();
        let mut retry = None;
        match end {
            StreamEnd::Complete => {
                if let Some((at, error)) = error_in(body, is_whole) {
                    body = body.get(..at).unwrap_or_default();
                    notes.push(error.to_owned());
                }
            }
            StreamEnd::TooLong => notes.push(format!(
                "not the log's end: its last lines are longer than {} KiB",
                self.limits.stream_bytes / 1024
            )),
            StreamEnd::Broken => {
                notes.push("the connection broke before the log's end".to_owned());
                retry = Some(RETRY_DELAY);
            }
            StreamEnd::TimedOut => {
                let seconds = self.limits.timeout.as_secs_f32();
                notes.push(if body.is_empty() {
                    format!("no answer from the kubelet within {seconds} s")
                } else {
                    format!("not the log's end: it came too slowly for {seconds} s")
                });
                retry = Some(RETRY_DELAY);
            }
        }
        if !matches!(end, StreamEnd::Complete) {
            body = without_last_word(body);
        }
        let end = LogEnd {
            bytes: body.into(),
            read: request.need,
            is_cut: cut,
            has_fewer_lines: has_fewer,
            note: notes.join("; "),
        };
        ReadResult { end, retry }
    }
}

/// Copies a log into the buffer.
async fn copy(body: impl AsyncBufRead, buffer: &mut TailBuffer, limit: usize) -> StreamEnd {
    let mut body = std::pin::pin!(body);
    loop {
        let length = match body.fill_buf().await {
            Ok([]) if buffer.total >= limit => return StreamEnd::TooLong,
            Ok([]) => return StreamEnd::Complete,
            Ok(chunk) => {
                buffer.push(chunk);
                chunk.len()
            }
            Err(_) => return StreamEnd::Broken,
        };
        body.consume_unpin(length);
        if buffer.total > limit {
            return StreamEnd::TooLong;
        }
    }
}

/// The shortest record into which a runtime splits a long line, in bytes: that of CRI-O. Those of containerd and Docker
/// have 16 KiB. A kubelet counts each record as a line.
const MIN_RECORD: usize = 8 * 1024;

/// Keeps the last bytes that were pushed, and counts all.
#[derive(Debug)]
struct TailBuffer {
    bytes: VecDeque<u8>,
    capacity: usize,
    /// The number of bytes pushed.
    total: usize,
    /// The most lines that a kubelet may have counted, without the last one.
    records: usize,
    /// The length of the last, incomplete record.
    last: usize,
}

impl TailBuffer {
    fn new(capacity: usize) -> Self {
        Self { bytes: VecDeque::new(), capacity, total: 0, records: 0, last: 0 }
    }

    fn push(&mut self, chunk: &[u8]) {
        self.total += chunk.len();
        for part in chunk.split_inclusive(|&byte| byte == b'\n') {
            self.last += part.len();
            self.records += self.last / MIN_RECORD;
            self.last %= MIN_RECORD;
            if part.ends_with(b"\n") {
                self.records += 1;
                self.last = 0;
            }
        }
        let chunk = chunk.get(chunk.len().saturating_sub(self.capacity)..).unwrap_or_default();
        let excess = (self.bytes.len() + chunk.len()).saturating_sub(self.capacity);
        self.bytes.drain(..excess);
        self.bytes.extend(chunk);
    }

    /// Whether earlier bytes were dropped.
    fn has_dropped(&self) -> bool {
        self.total > self.bytes.len()
    }

    /// Whether the first line may be incomplete, if the kubelet was asked for this many lines.
    fn may_be_cut(&self, lines: usize) -> bool {
        self.has_dropped() || self.records + usize::from(self.last > 0) >= lines
    }

    fn bytes(&mut self) -> &[u8] {
        self.bytes.make_contiguous()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures::{TryStreamExt, stream};

    use super::*;

    #[tokio::test]
    async fn keeps_the_received_part_of_a_stream() {
        for (limit, breaks, kept, ends) in [
            (100, false, "a\nb\nc\n", "Complete"),
            (100, true, "a\nb\nc\n", "Broken"),
            (6, false, "a\nb\nc\n", "TooLong"),
            (3, false, "a\nb\n", "TooLong"),
        ] {
            let parts = ["a\n", "b\n", "c\n"].map(|part| Ok(part.as_bytes()));
            let end = breaks.then(|| Err(io::Error::from(io::ErrorKind::ConnectionReset)));
            let body = stream::iter(parts.into_iter().chain(end)).into_async_read();
            let mut buffer = TailBuffer::new(100);
            let end = copy(body, &mut buffer, limit).await;
            assert_eq!((buffer.bytes(), format!("{end:?}").as_str()), (kept.as_bytes(), ends));
        }
    }

    #[test]
    fn keeps_the_end() {
        let mut buffer = TailBuffer::new(8);
        for chunk in ["abc", "", "defgh"] {
            buffer.push(chunk.as_bytes());
        }
        assert!(buffer.bytes() == b"abcdefgh" && !buffer.has_dropped());
        buffer.push(b"i");
        assert!(buffer.bytes() == b"bcdefghi" && buffer.has_dropped() && buffer.total == 9);
        buffer.push(b"0123456789");
        assert_eq!(buffer.bytes(), b"23456789");
    }

    #[test]
    fn counts_each_record_of_a_long_line() {
        let may_be_cut = |parts: &[&[u8]], lines| {
            let mut buffer = TailBuffer::new(1 << 20);
            parts.iter().for_each(|part| buffer.push(part));
            buffer.may_be_cut(lines)
        };
        assert!(may_be_cut(&[b"a\nb\n"], 2) && !may_be_cut(&[b"a\nb\n"], 3));
        assert!(may_be_cut(&[b"a\n", b"b", b"c"], 2) && !may_be_cut(&[b"a\n", b"b", b"c"], 3));
        let long = vec![b'x'; MIN_RECORD];
        assert!(may_be_cut(&[&long, &long, b"\n"], 3) && !may_be_cut(&[&long, &long, b"\n"], 4));
        let mut small = TailBuffer::new(4);
        small.push(b"abcde");
        assert!(small.may_be_cut(1000), "the beginning was dropped");
    }
}
