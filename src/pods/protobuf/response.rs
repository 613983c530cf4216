//! Asking the API server, and what comes of its answer.

use std::time::Duration;

use futures::StreamExt;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyDataStream, BodyExt, Limited};
use kube::{Client, client::Body, core::Status};
use tokio::time::timeout;

use crate::{
    pods::WatchedPod,
    watch::list_watch::{WatchEvent, WrongEncoding},
};

use super::{
    convert::{status_in, told},
    page::{Page, Part},
    wire::{Buffer, Malformed},
};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const ACCEPTED: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf, application/json");

/// The longest refusal that is read, in bytes.
const REFUSAL_LIMIT: usize = 64 << 10;
/// What may follow a list in its answer, in bytes. It is a few.
const REST_LIMIT: usize = 64 << 10;
/// How long that is waited for: another connection costs less.
const REST_PATIENCE: Duration = Duration::from_millis(100);
/// How many causes of an error are looked at.
const CAUSES: usize = 16;
/// An answer in protobuf, as far as it has come.
pub(super) struct Answer {
    body: BodyDataStream<Body>,
    buffer: Buffer,
    has_ended: bool,
}

/// What comes next of an answer.
enum More {
    Chunk,
    End,
    /// The connection was cut, or was silent for too long.
    Cut,
}

/// Sends a request, and waits for its answer to begin.
pub(super) async fn ask(client: &Client, request: Request<Vec<u8>>) -> kube::Result<Answer> {
    let mut request = request.map(Body::from);
    request.headers_mut().insert(header::ACCEPT, ACCEPTED);
    let response = client.send(request).await?;
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        return Err(kube::Error::Api(Box::new(refusal(head.status, body).await)));
    }
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind.starts_with(PROTOBUF) {
        let (body, buffer) = (body.into_data_stream(), Buffer::default());
        return Ok(Answer { body, buffer, has_ended: false });
    }
    Err(if kind.starts_with(JSON) {
        kube::Error::Service(Box::new(WrongEncoding))
    } else {
        unreadable(Malformed("an answer of another content type"))
    })
}

/// What the API server says of a refusal. Something in front of it may say something else, or nothing: then the HTTP
/// status does.
async fn refusal(code: StatusCode, body: Body) -> Status {
    let body = Limited::new(body, REFUSAL_LIMIT).collect().await;
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    let status = status_in(&bytes).or_else(|| serde_json::from_slice(&bytes).ok());
    let mut status = status.unwrap_or_default();
    if status.code == 0 {
        status.code = code.as_u16();
    }
    if status.message.is_empty() {
        status.message = format!("HTTP {code}");
    }
    status
}

/// Whether a connection ended in the middle of an answer, as it does when an API server goes, or a proxy in front of it
/// or the connection itself has waited for long enough. Goes down to the cause, of which TLS and HTTP each add a layer.
fn is_cut(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source()).take(CAUSES);
    causes.any(|cause| {
        let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        matches!(kind, Some(std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::TimedOut))
            || cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message)
    })
}

impl Answer {
    /// Waits for more of it.
    async fn more(&mut self) -> kube::Result<More> {
        match self.body.next().await {
            Some(Ok(chunk)) => {
                self.buffer.push(&chunk);
                Ok(More::Chunk)
            }
            Some(Err(error)) if is_cut(&error) => Ok(More::Cut),
            Some(Err(error)) => Err(kube::Error::ReadEvents(std::io::Error::other(error))),
            None => Ok(More::End),
        }
    }

    /// What a watch sends next; nothing more once it has ended or was cut off.
    pub(super) async fn next_event(&mut self) -> Option<kube::Result<WatchEvent<WatchedPod>>> {
        while !self.has_ended {
            match self.buffer.take_frame() {
                Ok(Some(frame)) => return Some(told(frame).map_err(unreadable)),
                Ok(None) => {}
                Err(malformed) => return Some(Err(unreadable(malformed))),
            }
            match self.more().await {
                Ok(More::Chunk) => {}
                Ok(More::End) => {
                    self.has_ended = true;
                    return Some(Ok(WatchEvent::End));
                }
                Ok(More::Cut) => self.has_ended = true,
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }

    /// Reads what comes after a list, unless that takes long. A connection whose answer was not read to its end can't be
    /// used again.
    async fn finish(&mut self) {
        let rest = async {
            let mut rest = self.buffer.skip(usize::MAX);
            while rest < REST_LIMIT && matches!(self.more().await, Ok(More::Chunk)) {
                rest += self.buffer.skip(usize::MAX);
            }
        };
        // All is known by now that was asked for.
        let _ = timeout(REST_PATIENCE, rest).await;
    }

    /// The next part of a page.
    pub(super) async fn next_part(&mut self, page: &mut Page) -> kube::Result<Part> {
        loop {
            if let Some(part) = page.next(&mut self.buffer).map_err(unreadable)? {
                if matches!(part, Part::End { .. }) {
                    self.finish().await;
                }
                return Ok(part);
            }
            if !matches!(self.more().await?, More::Chunk) {
                return Err(unreadable(Malformed("it ends early")));
            }
        }
    }
}

fn unreadable(malformed: Malformed) -> kube::Error {
    kube::Error::Service(Box::new(malformed))
}
