//! Serves `/metrics`, `/livez` and `/readyz`.
//!
//! Everyone who reaches the port may send requests, so connections are limited in number, size and time. If there are too
//! many, the oldest of the client that has most is closed: connections of others must not fail the probes of the kubelet.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    net::{IpAddr, TcpListener},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{AbortHandle, yield_now},
    time::{sleep, timeout},
};

use crate::{
    metrics::{Format, Metrics, Unhealthy},
    watchdog::Heartbeat,
};

/// The most connections.
const CONNECTIONS: usize = 16;
/// The most pages of metrics that are being sent. A page may take more than a megabyte.
const PAGES: usize = 3;
/// How long a connection may last, and how long its request may take to arrive.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes and headers of a request.
const REQUEST_BYTES: usize = 16 * 1024;
const REQUEST_HEADERS: usize = 64;
/// The pause after an error of the socket, such as too many open files.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);

struct Pages {
    metrics: Metrics,
    heartbeat: Heartbeat,
    permits: Arc<Semaphore>,
}

/// Serves until the future is dropped.
///
/// # Errors
/// If the socket cannot be used.
pub async fn serve(listener: TcpListener, metrics: &Metrics, heartbeat: &Heartbeat) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let pages = Arc::new(Pages {
        metrics: metrics.clone(),
        heartbeat: heartbeat.clone(),
        permits: Arc::new(Semaphore::new(PAGES)),
    });
    let mut connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let pages = Arc::clone(&pages);
                connections.add(peer.ip(), tokio::spawn(answer(stream, pages)).abort_handle());
                // The request has often arrived already. Without this, connections that are accepted after it could have it
                // closed before it is read.
                yield_now().await;
            }
            Err(_) => sleep(ACCEPT_DELAY).await,
        }
    }
}

/// The open connections and their clients, the oldest first. They are closed with this value.
#[derive(Default)]
struct Connections(VecDeque<(IpAddr, AbortHandle)>);

impl Connections {
    /// Adds a connection. If there are too many, the oldest one of the client that has most is closed.
    fn add(&mut self, client: IpAddr, connection: AbortHandle) {
        self.0.retain(|(_, connection)| !connection.is_finished());
        self.0.push_back((client, connection));
        if self.0.len() <= CONNECTIONS {
            return;
        }
        let count = |client: IpAddr| self.0.iter().filter(|(other, _)| *other == client).count();
        let most = self.0.iter().map(|(client, _)| count(*client)).max();
        let oldest = self.0.iter().position(|(client, _)| Some(count(*client)) == most);
        if let Some((_, oldest)) = oldest.and_then(|oldest| self.0.remove(oldest)) {
            oldest.abort();
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.0.iter().for_each(|(_, connection)| connection.abort());
    }
}

/// Answers one request.
async fn answer(stream: TcpStream, pages: Arc<Pages>) {
    // Held until the page is sent.
    let permit = Mutex::new(None);
    let service = service_fn(|request| {
        let response = pages.respond(&request, &permit);
        async { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(REQUEST_BYTES)
        .max_headers(REQUEST_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A client may end or break the connection, which is not an error of the server.
    let _ = timeout(CONNECTION_TIMEOUT, connection).await;
}

impl Pages {
    fn respond<B>(&self, request: &Request<B>, permit: &Mutex<Option<OwnedSemaphorePermit>>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed");
        }
        match request.uri().path() {
            "/livez" => match self.heartbeat.is_alive() {
                true => text(StatusCode::OK, "ok"),
                false => text(StatusCode::SERVICE_UNAVAILABLE, Unhealthy::NotAlive),
            },
            "/readyz" => match self.metrics.readiness() {
                Ok(()) => text(StatusCode::OK, "ok"),
                Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, reason),
            },
            "/metrics" => {
                let Ok(own) = Arc::clone(&self.permits).try_acquire_owned() else {
                    return text(StatusCode::SERVICE_UNAVAILABLE, "too many pages are being sent");
                };
                *permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
                self.page(request)
            }
            _ => text(StatusCode::NOT_FOUND, "there are /metrics, /livez and /readyz"),
        }
    }

    fn page<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        let format = Format::accepted(accept.unwrap_or_default());
        match self.metrics.page(format) {
            Ok(page) => response(StatusCode::OK, format.content_type(), page),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "a value cannot be encoded"),
        }
    }
}

fn text(status: StatusCode, message: impl std::fmt::Display) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", format!("{message}\n"))
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests;
