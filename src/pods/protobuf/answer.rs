//! Asking the API server, and what comes of its answer.

use std::time::Duration;

use futures::StreamExt;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyDataStream, BodyExt, Limited};
use kube::{Client, client::Body, core::Status};
use tokio::time::{Instant, timeout};

use super::{
    convert::{Told, status_in, told},
    page::{Page, Part},
    wire::{Buffer, Malformed},
};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const ACCEPTED: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf, application/json");

/// How long an answer may be silent before it counts as lost. An API server sends bookmarks to a watch about once a
/// minute, whether or not anything happens; the first of them after two minutes (seen with 1.36).
pub const SILENCE: Duration = Duration::from_secs(150);
/// The longest refusal that is read, in bytes.
const REFUSAL_LIMIT: usize = 64 << 10;
/// What may follow a list in its answer, in bytes. It is a few.
const REST_LIMIT: usize = 64 << 10;
/// How long that is waited for: another connection costs less.
const REST_PATIENCE: Duration = Duration::from_millis(100);
/// How many causes of an error are looked at.
const CAUSES: usize = 16;
/// A watch that ends within this time and has told nothing is an error, as in client-go's reflector: it would be opened
/// again at once, and so on.
const SHORT: Duration = Duration::from_secs(1);

/// What answered does not speak protobuf: no API server, but perhaps something in front of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pods did not come as the protobuf that was asked for")]
pub struct NotProtobuf;

/// An answer in protobuf, as far as it has come.
pub(super) struct Answer {
    body: BodyDataStream<Body>,
    buffer: Buffer,
    began: Instant,
    has_told: bool,
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
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind.starts_with(PROTOBUF) {
        let (body, buffer) = (body.into_data_stream(), Buffer::default());
        return Ok(Answer { body, buffer, began: Instant::now(), has_told: false });
    }
    Err(if kind.starts_with(JSON) {
        kube::Error::Service(Box::new(NotProtobuf))
    } else {
        unreadable(Malformed("an answer of another content type"))
    })
}

/// What the API server says of a refusal. Something in front of it may say something else, or nothing: then the HTTP
/// status does.
async fn refusal(code: StatusCode, body: Body) -> Status {
    let body = timeout(SILENCE, Limited::new(body, REFUSAL_LIMIT).collect()).await;
    let bytes = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
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
/// has waited for long enough. Goes down to the cause, of which TLS and HTTP each add a layer.
fn is_cut(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source()).take(CAUSES);
    causes.any(|cause| {
        let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        kind == Some(std::io::ErrorKind::UnexpectedEof)
            || cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message)
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
            Some(Err(error)) if is_cut(&error) => Ok(false),
            Some(Err(error)) => Err(kube::Error::ReadEvents(std::io::Error::other(error))),
            None => Ok(false),
        }
    }

    /// What a watch tells next; nothing more where it has ended.
    pub(super) async fn next_told(&mut self) -> kube::Result<Option<Told>> {
        loop {
            if let Some(frame) = self.buffer.take_frame().map_err(unreadable)? {
                self.has_told = true;
                return told(frame).map(Some).map_err(unreadable);
            }
            if !self.more().await? {
                let is_short = !self.has_told && self.began.elapsed() < SHORT;
                return if is_short { Err(ended()) } else { Ok(None) };
            }
        }
    }

    /// Reads what comes after a list, unless that takes long. A connection whose answer was not read to its end can't be
    /// used again.
    pub(super) async fn finish(mut self) {
        let rest = async {
            let mut rest = self.buffer.skip(usize::MAX);
            while rest < REST_LIMIT && self.more().await.unwrap_or(false) {
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
                return Ok(part);
            }
            if !self.more().await? {
                return Err(unreadable(Malformed("it ends early")));
            }
        }
    }
}

/// That a watch ended before it had told anything.
pub(super) fn ended() -> kube::Error {
    kube::Error::ReadEvents(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "it ended at once"))
}

fn unreadable(malformed: Malformed) -> kube::Error {
    kube::Error::Service(Box::new(malformed))
}
