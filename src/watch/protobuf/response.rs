//! Sends a request and reads its protobuf response.

use std::time::Duration;

use futures::StreamExt;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyDataStream, BodyExt, Limited};
use kube::{Client, client::Body, core::Status};
use tokio::time::timeout;

use crate::watch::collection::{Part, WatchEvent, WrongEncoding};

use super::{
    Decode,
    decode::{decode_event, decode_status},
    page::PageReader,
    wire::{Buffer, Malformed},
};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const ACCEPTED: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf, application/json");

/// The longest error response that is read, in bytes.
const STATUS_LIMIT: usize = 64 << 10;
/// How much may follow a list in its response, in bytes. Usually it is a few.
const REST_LIMIT: usize = 64 << 10;
/// How long to wait for it: a new connection costs less.
const REST_TIMEOUT: Duration = Duration::from_millis(100);
/// How many nested causes of an error are inspected.
const MAX_CAUSES: usize = 16;

/// A protobuf response that is being received.
pub(super) struct ProtobufResponse {
    body: BodyDataStream<Body>,
    buffer: Buffer,
    has_ended: bool,
}

/// The result of [`ProtobufResponse::receive`].
enum Received {
    Chunk,
    End,
    /// The connection was closed early or timed out.
    Cut,
}

/// Sends a request and waits for the headers of the response.
pub(super) async fn send(client: &Client, request: Request<Vec<u8>>) -> kube::Result<ProtobufResponse> {
    let mut request = request.map(Body::from);
    request.headers_mut().insert(header::ACCEPT, ACCEPTED);
    let response = client.send(request).await?;
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        return Err(kube::Error::Api(Box::new(error_status(head.status, body).await)));
    }
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind.starts_with(PROTOBUF) {
        let (body, buffer) = (body.into_data_stream(), Buffer::default());
        return Ok(ProtobufResponse { body, buffer, has_ended: false });
    }
    Err(if kind.starts_with(JSON) {
        kube::Error::Service(Box::new(WrongEncoding))
    } else {
        service_error(Malformed("a response of another content type"))
    })
}

/// The API server's Status for an error response. A proxy in front of it may send something else or nothing: then the
/// HTTP status is used.
async fn error_status(code: StatusCode, body: Body) -> Status {
    let body = Limited::new(body, STATUS_LIMIT).collect().await;
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    let status = decode_status(&bytes).or_else(|| serde_json::from_slice(&bytes).ok());
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

impl ProtobufResponse {
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
    pub(super) async fn next_event<D: Decode>(&mut self) -> Option<kube::Result<WatchEvent<D::Object>>> {
        while !self.has_ended {
            match self.buffer.take_frame() {
                Ok(Some(frame)) => return Some(decode_event::<D>(frame).map_err(service_error)),
                Ok(None) => {}
                Err(malformed) => return Some(Err(service_error(malformed))),
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

    /// The next part of a page.
    pub(super) async fn next_part<D: Decode>(&mut self, page: &mut PageReader) -> kube::Result<Part<D::Object>> {
        loop {
            if let Some(part) = page.next::<D>(&mut self.buffer).map_err(service_error)? {
                if matches!(part, Part::End { .. }) {
                    self.drain().await;
                }
                return Ok(part);
            }
            if !matches!(self.receive().await?, Received::Chunk) {
                return Err(service_error(Malformed("it ends early")));
            }
        }
    }
}

fn service_error(malformed: Malformed) -> kube::Error {
    kube::Error::Service(Box::new(malformed))
}
