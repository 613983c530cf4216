//! The HTTP server of the fake kubelet.

use std::{convert::Infallible, io, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt, future, stream, stream::BoxStream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::StreamBody;
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::{
    kubelet::{Answer, LogRequest, State},
    logs::LogOptions,
};

/// The line that an endless log repeats.
const ENDLESS: &str = "the same line, again and again, for as long as somebody reads it\n";

type Parts = BoxStream<'static, io::Result<Bytes>>;
type Body = StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>;

pub(crate) async fn serve(listener: TcpListener, tls: TlsAcceptor, state: Arc<State>) {
    loop {
        // Accepting fails only if the process has run out of file descriptors. Retry, because other connections end.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let tls = tls.clone();
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            // Clients without a certificate of the test cluster, and clients that disconnect, are ignored.
            let Ok(stream) = tls.accept(stream).await else {
                return;
            };
            let service = service_fn(|request| respond(request, Arc::clone(&state)));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn respond(request: Request<Incoming>, state: Arc<State>) -> Result<Response<Body>, Infallible> {
    let Some(wanted) = parse(&request) else {
        return Ok(response(StatusCode::NOT_FOUND, one("404 page not found")));
    };
    let options = LogOptions::new(&wanted.query);
    let (answer, in_flight) = state.answer(wanted);
    let (status, parts) = match answer {
        Answer::Hanging => future::pending().await,
        Answer::Status(code, body) => {
            let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, one(body))
        }
        log => (StatusCode::OK, parts(log, options)),
    };
    // The request counts as in flight until its body is sent or the client disconnects.
    let counted = parts.inspect(move |_| {
        let _held = &in_flight;
    });
    Ok(response(status, counted.boxed()))
}

/// The body of an answer with a log, or with an error in place of the log.
fn parts(answer: Answer, options: LogOptions) -> Parts {
    let cut = |text: Vec<u8>| Bytes::from(options.cut(&text));
    match answer {
        Answer::Text(text) => one(cut(text)),
        Answer::Slow { text, chunk, every } => {
            let mut rest = cut(text);
            let parts =
                std::iter::from_fn(move || (!rest.is_empty()).then(|| rest.split_to(chunk.clamp(1, rest.len()))));
            let paced = stream::iter(parts).then(move |part| async move {
                tokio::time::sleep(every).await;
                Ok(part)
            });
            paced.boxed()
        }
        Answer::Stalling(text) => one(cut(text)).chain(stream::pending()).boxed(),
        Answer::Broken(text) => {
            let end = stream::once(async {
                // hyper flushes its buffer only when the body is pending, so yield once before the connection breaks.
                tokio::task::yield_now().await;
                Err(io::ErrorKind::ConnectionAborted.into())
            });
            one(cut(text)).chain(end).boxed()
        }
        Answer::Endless => {
            let part = Bytes::from(ENDLESS.repeat(1000));
            stream::repeat_with(move || Ok(part.clone())).boxed()
        }
        Answer::KubeletErrorText => {
            one("unable to retrieve container logs for containerd://c9d1e2f3a4b5968778695a4b3c2d1e0f")
        }
        // These have no log and are answered by the caller.
        Answer::Hanging | Answer::Status(..) | Answer::InTurn(_) => stream::empty().boxed(),
    }
}

/// `GET /containerLogs/NAMESPACE/POD/CONTAINER`, and nothing else.
fn parse<B>(request: &Request<B>) -> Option<LogRequest> {
    let mut path = request.uri().path().strip_prefix("/containerLogs/")?.split('/');
    let (Some(namespace), Some(pod), Some(container), None) = (path.next(), path.next(), path.next(), path.next())
    else {
        return None;
    };
    let query = request.uri().query().unwrap_or_default();
    (request.method() == Method::GET).then(|| LogRequest {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        container: container.to_owned(),
        query: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
    })
}

fn one(body: impl Into<Bytes>) -> Parts {
    stream::iter([Ok(body.into())]).boxed()
}

fn response(status: StatusCode, parts: Parts) -> Response<Body> {
    let mut response = Response::new(StreamBody::new(parts.map(|part| part.map(Frame::data)).boxed()));
    *response.status_mut() = status;
    response
}
