//! Receives the response of a list or a watch, and decodes each object as soon as it is complete, while the rest still
//! arrives: kube would hold a whole page in memory, its text and its objects. What the response contains is in its content
//! type.

use std::{pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{AsyncReadExt, StreamExt};
use http::{Request, StatusCode, header};
use http_body_util::{BodyDataStream, BodyExt, Limited};
use kube::{Client, client::Body, core::Status};
use tokio::time::timeout;

use super::{
    buffer::{Buffer, Malformed},
    decode::{Decoder, Part, WatchEvent},
    json::{self, JsonPage},
    protobuf::{self, PageReader},
};

/// The longest error response that is read, in bytes.
const STATUS_LIMIT: usize = 64 << 10;
/// How much may follow a list in its response, in bytes. Usually it is a few.
const REST_LIMIT: usize = 64 << 10;
/// How long to wait for it: a new connection costs less.
const REST_TIMEOUT: Duration = Duration::from_millis(100);
/// How many nested causes of an error are inspected.
const MAX_CAUSES: usize = 16;

/// A response that is being received.
pub(super) struct Response<K> {
    body: BodyDataStream<Body>,
    buffer: Buffer,
    encoding: Encoding,
    decoder: Arc<Decoder<K>>,
    has_ended: bool,
}

/// The encoding of a response, and the position in a page.
enum Encoding {
    Json(JsonPage),
    Protobuf(PageReader),
}

/// The result of [`Response::receive`].
enum Received {
    Chunk,
    End,
    /// The connection was closed early or timed out.
    Cut,
}

impl<K> Response<K> {
    /// Sends a request and waits for the headers of the response.
    pub(super) async fn new(
        client: &Client,
        request: Request<Vec<u8>>,
        decoder: Arc<Decoder<K>>,
    ) -> kube::Result<Self> {
        let response = client.send(request.map(Body::from)).await?;
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            return Err(kube::Error::Api(Box::new(error_status(head.status, body).await)));
        }
        let kind = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let encoding = match &decoder.from_protobuf {
            Some(_) if kind.starts_with("application/vnd.kubernetes.protobuf") => {
                Encoding::Protobuf(PageReader::default())
            }
            Some(_) if !kind.starts_with("application/json") => {
                return Err(Malformed("a response of another content type").into());
            }
            _ => Encoding::Json(JsonPage::default()),
        };
        let (body, buffer) = (body.into_data_stream(), Buffer::default());
        Ok(Self { body, buffer, encoding, decoder, has_ended: false })
    }

    /// Waits for the next chunk.
    async fn receive(&mut self) -> kube::Result<Received> {
        match self.body.next().await {
            Some(Ok(chunk)) => {
                self.buffer.push(&chunk);
                Ok(Received::Chunk)
            }
            Some(Err(error)) if is_cut(&error) => Ok(Received::Cut),
            Some(Err(error)) => Err(kube::Error::ReadEvents(std::io::Error::other(error))),
            None => Ok(Received::End),
        }
    }

    /// The next event of a watch. Returns none once the response has ended or was cut off.
    pub(super) async fn next_event(&mut self) -> Option<kube::Result<WatchEvent<K>>> {
        while !self.has_ended {
            if let Some(event) = self.take_event().transpose() {
                return Some(event);
            }
            match self.receive().await {
                Ok(Received::Chunk) => {}
                Ok(Received::End) => {
                    self.has_ended = true;
                    return Some(Ok(WatchEvent::End));
                }
                Ok(Received::Cut) => self.has_ended = true,
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }

    /// Takes an event out of the buffer, if it has arrived.
    fn take_event(&mut self) -> kube::Result<Option<WatchEvent<K>>> {
        match (&self.encoding, &self.decoder.from_protobuf) {
            (Encoding::Protobuf(_), Some(decoder)) => {
                let Some(frame) = self.buffer.take_frame()? else { return Ok(None) };
                Ok(Some(protobuf::decode_event(frame, decoder)?))
            }
            _ => {
                let Some(line) = self.buffer.take_line()? else { return Ok(None) };
                json::decode_event(&line, &*self.decoder.from_json).map(Some).map_err(kube::Error::SerdeError)
            }
        }
    }

    /// The next part of a page.
    pub(super) async fn next_part(&mut self) -> kube::Result<Part<K>> {
        loop {
            if let Some(part) = self.take_part()? {
                if matches!(part, Part::End { .. }) {
                    self.drain().await;
                }
                return Ok(part);
            }
            match (self.receive().await?, &self.encoding) {
                (Received::Chunk, _) => {}
                // Only then is a page in JSON known to be complete.
                (Received::End, Encoding::Json(page)) => return page.end().map_err(kube::Error::SerdeError),
                _ => return Err(Malformed("it ends early").into()),
            }
        }
    }

    /// Takes a part of a page out of the buffer, if it has arrived.
    fn take_part(&mut self) -> kube::Result<Option<Part<K>>> {
        match (&mut self.encoding, &self.decoder.from_protobuf) {
            (Encoding::Protobuf(page), Some(decoder)) => Ok(page.next(&mut self.buffer, decoder)?),
            (Encoding::Json(page), _) => {
                let Some(object) = page.next(&mut self.buffer)? else { return Ok(None) };
                let decoded = (self.decoder.from_json)(&object).map_err(kube::Error::SerdeError)?;
                Ok(Some(Part::Object(decoded.object)))
            }
            (Encoding::Protobuf(_), None) => Ok(None),
        }
    }

    /// Reads to the end of the response, unless that takes long. Otherwise its connection cannot be reused.
    async fn drain(&mut self) {
        let rest = async {
            let mut rest = self.buffer.skip(usize::MAX);
            while rest < REST_LIMIT && matches!(self.receive().await, Ok(Received::Chunk)) {
                rest += self.buffer.skip(usize::MAX);
            }
        };
        // The list is already complete, so a timeout is not an error.
        let _ = timeout(REST_TIMEOUT, rest).await;
    }
}

/// Sends a request and reads the body of its answer. None if it has more than `limit` bytes; kube would read all of it.
pub(crate) async fn read_body(
    client: &Client,
    request: Request<Vec<u8>>,
    limit: usize,
) -> kube::Result<Option<Vec<u8>>> {
    let mut body = pin!(client.request_stream(request).await?.take(limit as u64 + 1));
    let mut bytes = Vec::new();
    body.read_to_end(&mut bytes).await.map_err(kube::Error::ReadEvents)?;
    Ok((bytes.len() <= limit).then_some(bytes))
}

/// The API server's Status for an error response. A proxy in front of it may send something else or nothing: then the
/// HTTP status is used.
async fn error_status(code: StatusCode, body: Body) -> Status {
    let body = Limited::new(body, STATUS_LIMIT).collect().await;
    let bytes: Bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    let status = protobuf::decode_status(&bytes).or_else(|| serde_json::from_slice(&bytes).ok());
    let mut status = status.unwrap_or_default();
    if status.code == 0 {
        status.code = code.as_u16();
    }
    if status.message.is_empty() {
        status.message = format!("HTTP {code}");
    }
    status
}

/// Whether a connection ended in the middle of a response. This is normal when an API server shuts down, or when a proxy
/// or the connection itself times out. The cause is nested, because TLS and HTTP each add a layer.
fn is_cut(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source()).take(MAX_CAUSES);
    causes.any(|cause| {
        let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        matches!(kind, Some(std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::TimedOut))
            || cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message)
    })
}
