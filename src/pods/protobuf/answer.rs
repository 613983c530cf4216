//! Asking the API server, and what comes of its answer.

use std::time::Duration;

use futures::StreamExt;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyDataStream, BodyExt, Limited};
use kube::{
    Client,
    client::Body,
    core::{Status, response::StatusSummary},
};
use tokio::time::timeout;

use super::{
    convert::{Told, status_in, told},
    page::{Page, Part},
    wire::{Buffer, Malformed},
};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const ACCEPTED: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf, application/json");

/// How long an answer may be silent before it counts as lost. A watch brings bookmarks about once a minute; the first of
/// them after two minutes (seen with 1.36).
const SILENCE: Duration = Duration::from_secs(150);
/// The longest refusal that is read, in bytes.
const REFUSAL_LIMIT: usize = 64 << 10;

/// What answered does not speak protobuf: no API server, but perhaps something in front of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pods did not come as the protobuf that was asked for")]
pub struct NotProtobuf;

/// An answer in protobuf, as far as it has come.
pub(super) struct Answer {
    body: BodyDataStream<Body>,
    buffer: Buffer,
}

/// Sends a request, and waits for its answer to begin.
pub(super) async fn ask(client: &Client, request: Request<Vec<u8>>) -> kube::Result<Answer> {
    let mut request = request.map(Body::from);
    request.headers_mut().insert(header::ACCEPT, ACCEPTED);
    let response = timeout(SILENCE, client.send(request)).await.map_err(|_| silent())??;
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        return Err(kube::Error::Api(Box::new(refusal(head.status, body).await)));
    }
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with(PROTOBUF)) {
        return Err(kube::Error::Service(Box::new(NotProtobuf)));
    }
    Ok(Answer { body: body.into_data_stream(), buffer: Buffer::default() })
}

/// What the API server says of a refusal; something in front of it may say nothing that can be read.
async fn refusal(code: StatusCode, body: Body) -> Status {
    let body = timeout(SILENCE, Limited::new(body, REFUSAL_LIMIT).collect()).await;
    let bytes = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
    let status = status_in(&bytes).or_else(|| serde_json::from_slice(&bytes).ok());
    status.unwrap_or_else(|| Status {
        status: Some(StatusSummary::Failure),
        code: code.as_u16(),
        message: format!("HTTP {code}"),
        ..Status::default()
    })
}

fn silent() -> kube::Error {
    kube::Error::ReadEvents(std::io::Error::new(
        std::io::ErrorKind::TimedOut,
        format!("nothing was heard for {} s", SILENCE.as_secs()),
    ))
}

impl Answer {
    /// Waits for more of it. Returns false where it has ended.
    async fn more(&mut self) -> kube::Result<bool> {
        match timeout(SILENCE, self.body.next()).await.map_err(|_| silent())? {
            Some(Ok(chunk)) => {
                self.buffer.push(&chunk);
                Ok(true)
            }
            Some(Err(error)) => Err(kube::Error::ReadEvents(std::io::Error::other(error))),
            None => Ok(false),
        }
    }

    /// What a watch tells next; nothing more where it has ended.
    pub(super) async fn next_told(&mut self) -> kube::Result<Option<Told>> {
        loop {
            if let Some(frame) = self.buffer.take_frame().map_err(unreadable)? {
                return told(frame).map(Some).map_err(unreadable);
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// The next part of a page.
    pub(super) async fn next_part(&mut self, page: &mut Page) -> kube::Result<Part> {
        loop {
            if let Some(part) = page.next(&mut self.buffer).map_err(unreadable)? {
                return Ok(part);
            }
            if !self.more().await? {
                return Err(unreadable(Malformed("it ends early")));
            }
        }
    }
}

fn unreadable(malformed: Malformed) -> kube::Error {
    kube::Error::Service(Box::new(malformed))
}
