//! A proxy to the API server that records requests and injects faults.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use kube::{Client, Config};
use orchestr_testbed::eventually;
use tokio::{
    io::AsyncBufReadExt,
    net::TcpListener,
    sync::watch,
    task::{AbortHandle, JoinSet},
};
use tokio_util::{
    codec::{FramedRead, LengthDelimitedCodec},
    io::StreamReader,
};

use crate::support::TIMEOUT;

type Body = UnsyncBoxBody<Bytes, std::io::Error>;
type Rule = dyn Fn(&ProxiedRequest) -> ProxyAction + Send + Sync;
type Mangle = dyn Fn(&str) -> String + Send + Sync;
type MangleBytes = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

#[derive(Clone, Debug)]
pub struct ProxiedRequest {
    pub method: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
}

impl ProxiedRequest {
    pub fn is_watch(&self) -> bool {
        self.query.get("watch").is_some_and(|value| value == "true" || value == "1")
    }

    /// Whether pods are listed or watched, of all namespaces or of one.
    pub fn is_of_pods(&self) -> bool {
        self.method == "GET" && self.path.ends_with("/pods")
    }

    /// Whether this starts a streamed list of pods (`sendInitialEvents`).
    pub fn is_streaming_list(&self) -> bool {
        self.is_of_pods() && self.query.contains_key("sendInitialEvents")
    }

    /// Whether this asks for the first page of a list of pods.
    pub fn is_first_page(&self) -> bool {
        self.is_of_pods() && !self.is_watch() && !self.query.contains_key("continue") && !self.is_of_version()
    }

    /// Whether this lists one object, for the present resource version.
    pub fn is_of_version(&self) -> bool {
        self.query.get("limit").is_some_and(|limit| limit == "1")
    }

    pub fn is_later_page(&self) -> bool {
        self.is_of_pods() && self.query.contains_key("continue")
    }

    /// Whether this watches pods from a known resource version.
    pub fn resumes_watch(&self) -> bool {
        self.is_of_pods() && self.is_watch() && !self.is_streaming_list()
    }

    /// Whether this writes `status.webhooks`, which records the state of deliveries.
    pub fn is_delivery_state_write(&self) -> bool {
        self.is_status_write() && self.query.get("fieldManager").is_some_and(|manager| manager == "orchestr-alerts")
    }

    pub fn is_status_write(&self) -> bool {
        self.path.contains("/orchestrs/") && self.path.ends_with("/status") && self.method != "GET"
    }
}

/// How the proxy handles a request.
#[derive(Clone, Default)]
pub enum ProxyAction {
    /// Forwards the request.
    #[default]
    Forward,
    /// Forwards the request for JSON only, and changes each line of the answer: an event of a watch, or a whole list.
    Mangle(Arc<Mangle>),
    /// Forwards the request, and changes the answer in protobuf: each event of a watch, or a whole list.
    MangleBytes(Arc<MangleBytes>),
    /// Delays the answer.
    AnswerLate(Duration),
    /// Delays the request.
    ForwardLate(Duration),
    /// Delays the last four bytes of the answer.
    EndLate(Duration),
    /// Forwards this many events of a watch, and delays the others.
    Stall(usize, Duration),
    /// Resets the connection in the middle of the answer.
    Cut,
    /// Never answers.
    Hang,
    /// Answers with a `Status` of this code and message; with code 0, with HTTP 503 and a `Status` without the code.
    Refuse(u16, &'static str),
    /// Answers with this content type and these bytes.
    Answer(&'static str, &'static [u8]),
}

/// The answers that are held back, on connections that stay open.
#[derive(Clone, Copy, Default)]
struct Silence {
    /// All answers.
    now: bool,
    /// The answers of all requests before this one, permanently.
    lost: usize,
}

/// A proxy on loopback. It stops when it is dropped.
pub struct Proxy {
    url: String,
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    upstream: Client,
    rule: Mutex<Arc<Rule>>,
    requests: Mutex<Vec<ProxiedRequest>>,
    silence: watch::Sender<Silence>,
    /// Counts the calls of `end_watches`.
    cuts: watch::Sender<u64>,
    /// The shift of the `Date` header in seconds.
    date_ahead: AtomicI64,
    /// Whether they end without the last chunk.
    breaks: AtomicBool,
    connections: AtomicUsize,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Forwards requests with the rights of `upstream`.
    pub async fn start(upstream: Client) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            upstream,
            rule: Mutex::new(Arc::new(|_| ProxyAction::Forward)),
            requests: Mutex::default(),
            silence: watch::Sender::new(Silence::default()),
            cuts: watch::Sender::new(0),
            date_ahead: AtomicI64::new(0),
            breaks: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
        });
        let task = tokio::spawn(serve(listener, Arc::clone(&shared))).abort_handle();
        Self { url, shared, task }
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new(self.url.parse().unwrap());
        // The client must not retry the proxy's own answers.
        config.default_retry = false;
        config
    }

    pub fn client(&self) -> Client {
        Client::try_from(self.config()).unwrap()
    }

    /// Sets how requests are handled from now on.
    pub fn rule(&self, rule: impl Fn(&ProxiedRequest) -> ProxyAction + Send + Sync + 'static) {
        *self.shared.rule.lock().unwrap() = Arc::new(rule);
    }

    /// Handles the requests that match like this from now on, and forwards all others.
    pub fn on(&self, matches: impl Fn(&ProxiedRequest) -> bool + Send + Sync + 'static, action: ProxyAction) {
        self.rule(move |request| if matches(request) { action.clone() } else { ProxyAction::Forward });
    }

    /// Holds back all answers from now on. Connections stay open.
    pub fn fall_silent(&self) {
        self.shared.silence.send_modify(|silence| silence.now = true);
    }

    /// Answers new requests from now on. Earlier ones stay without an answer.
    pub fn answer_newcomers(&self) {
        let lost = self.shared.requests.lock().unwrap().len();
        self.shared.silence.send_replace(Silence { now: false, lost });
    }

    /// Ends all watches, as an API server does from time to time.
    pub fn end_watches(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Breaks the connections of all watches, now and whenever they are ended.
    pub fn break_watches(&self) {
        self.shared.breaks.store(true, Ordering::SeqCst);
        self.end_watches();
    }

    /// Shifts the `Date` of all answers, as if the API server's clock were ahead by this many seconds.
    pub fn shift_dates(&self, seconds: i64) {
        self.shared.date_ahead.store(seconds, Ordering::SeqCst);
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// The requests so far that match.
    pub fn requests(&self, wanted: impl Fn(&ProxiedRequest) -> bool) -> Vec<ProxiedRequest> {
        self.shared.requests.lock().unwrap().iter().filter(|request| wanted(request)).cloned().collect()
    }

    pub fn count(&self, wanted: impl Fn(&ProxiedRequest) -> bool) -> usize {
        self.requests(wanted).len()
    }

    /// Waits for this many matching requests.
    pub async fn wait_for_requests(&self, what: &str, count: usize, wanted: impl Fn(&ProxiedRequest) -> bool) {
        eventually(what, TIMEOUT, async || match self.count(&wanted) {
            enough if enough >= count => Ok(()),
            few => Err(format!("there were {few} of {count}")),
        })
        .await
        .unwrap();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(&shared);
        let service = hyper::service::service_fn(move |request| {
            let shared = Arc::clone(&shared);
            let answer: BoxFuture<'static, _> = Box::pin(async move {
                let mut answer = answer(request, Arc::clone(&shared)).await?;
                let ahead = shared.date_ahead.load(Ordering::SeqCst);
                if ahead != 0 {
                    let date = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(ahead);
                    let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
                    answer.headers_mut().insert(header::DATE, date.parse().unwrap());
                }
                Ok::<_, std::io::Error>(answer)
            });
            answer
        });
        connections.spawn(async move {
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Body>, std::io::Error> {
    let (mut head, body) = request.into_parts();
    // Before the request is recorded, so that `end_watches` reaches every recorded request.
    let mut cuts = shared.cuts.subscribe();
    let request = ProxiedRequest {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes()).into_owned().collect(),
    };
    let rule = Arc::clone(&*shared.rule.lock().unwrap());
    let action = rule(&request);
    let number = {
        let mut all = shared.requests.lock().unwrap();
        all.push(request.clone());
        all.len() - 1
    };
    let mut late = Duration::ZERO;
    let mut forward_late = Duration::ZERO;
    let mut mangle_bytes = None;
    let mut end_late = None;
    let mut is_cut = false;
    let mut stall = None;
    let mangle = match action {
        ProxyAction::Forward => None,
        ProxyAction::EndLate(by) => {
            end_late = Some(by);
            None
        }
        ProxyAction::Stall(events, by) => {
            stall = Some((events, by));
            None
        }
        ProxyAction::Cut => {
            is_cut = true;
            None
        }
        ProxyAction::ForwardLate(by) => {
            forward_late = by;
            None
        }
        ProxyAction::AnswerLate(by) => {
            late = by;
            None
        }
        ProxyAction::Mangle(mangle) => {
            head.headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
            Some(mangle)
        }
        ProxyAction::MangleBytes(mangle) => {
            mangle_bytes = Some(mangle);
            None
        }
        ProxyAction::Hang => return std::future::pending().await,
        ProxyAction::Refuse(code, message) => {
            let reason = if code == 403 { "Forbidden" } else { "" };
            let status = serde_json::json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code, "reason": reason,
            });
            let mut refusal = Response::new(whole(status.to_string().into()));
            *refusal.status_mut() = if code == 0 { StatusCode::SERVICE_UNAVAILABLE } else { code.try_into().unwrap() };
            return Ok(refusal);
        }
        ProxyAction::Answer(kind, bytes) => {
            let mut answer = Response::new(whole(Bytes::from_static(bytes)));
            answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            return Ok(answer);
        }
    };
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    head.headers.remove(header::HOST);
    head.uri = head.uri.path_and_query().unwrap().as_str().parse().unwrap();
    tokio::time::sleep(forward_late).await;
    let mut silence = shared.silence.subscribe();
    let audible = move |silence: &Silence| !silence.now && number >= silence.lost;
    let upstream = shared.upstream.send(Request::from_parts(head, body.to_vec().into())).await;
    let (mut head, body) = upstream.map_err(std::io::Error::other)?.into_parts();
    let cut = async move { cuts.changed().await.is_ok() };
    tokio::time::sleep(late).await;
    let _ = silence.wait_for(audible).await;
    if let Some((events, by)) = stall {
        let reader = StreamReader::new(body.into_data_stream().map_err(std::io::Error::other));
        let frames = FramedRead::new(reader, LengthDelimitedCodec::new()).enumerate();
        let frames = frames.then(move |(number, event)| async move {
            if number == events {
                tokio::time::sleep(by).await;
            }
            let event = event?;
            Ok(Frame::data([&(event.len() as u32).to_be_bytes()[..], &event].concat().into()))
        });
        return Ok(Response::from_parts(head, StreamBody::new(frames).boxed_unsync()));
    }
    if is_cut {
        let mut bytes = body.collect_bytes().await.map_err(std::io::Error::other)?;
        bytes.truncate(bytes.len() / 2);
        let parts = [Ok(Frame::data(bytes)), Err(std::io::Error::other("cut"))];
        head.headers.remove(header::CONTENT_LENGTH);
        return Ok(Response::from_parts(head, StreamBody::new(futures::stream::iter(parts)).boxed_unsync()));
    }
    if let Some(late) = end_late {
        let mut bytes = body.collect_bytes().await.map_err(std::io::Error::other)?;
        let end = bytes.split_off(bytes.len().saturating_sub(4));
        let end = async move {
            tokio::time::sleep(late).await;
            end
        };
        let parts = futures::stream::iter([bytes]).chain(futures::stream::once(end));
        head.headers.remove(header::CONTENT_LENGTH);
        return Ok(Response::from_parts(head, StreamBody::new(parts.map(|part| Ok(Frame::data(part)))).boxed_unsync()));
    }
    if let Some(mangle) = mangle_bytes {
        head.headers.remove(header::CONTENT_LENGTH);
        return Ok(Response::from_parts(head, in_protobuf(body, request.is_watch(), mangle, cut.boxed()).await?));
    }
    let Some(mangle) = mangle else {
        let chunks = body.into_data_stream().map_err(std::io::Error::other).and_then(move |chunk| {
            let mut silence = silence.clone();
            async move {
                let _ = silence.wait_for(audible).await;
                Ok(Frame::data(chunk))
            }
        });
        let end = futures::stream::once(async move {
            // Without the end of the last chunk.
            let breaks = shared.breaks.load(Ordering::SeqCst);
            if breaks { Err(std::io::Error::other("broken")) } else { Ok(Frame::data(Bytes::new())) }
        });
        let chunks = chunks.take_until(cut.boxed()).chain(end);
        return Ok(Response::from_parts(head, StreamBody::new(chunks).boxed_unsync()));
    };
    head.headers.remove(header::CONTENT_LENGTH);
    if request.is_watch() {
        let lines = StreamReader::new(body.into_data_stream().map_err(std::io::Error::other)).lines();
        let mangled = lines_of(lines).map_ok(move |line| Frame::data(format!("{}\n", mangle(&line)).into()));
        let mangled = mangled.take_until(cut.boxed());
        Ok(Response::from_parts(head, StreamBody::new(mangled).boxed_unsync()))
    } else {
        let text = body.collect_bytes().await.map_err(std::io::Error::other)?;
        let mangled = mangle(&String::from_utf8_lossy(&text));
        Ok(Response::from_parts(head, whole(mangled.into())))
    }
}

async fn in_protobuf(
    body: kube::client::Body,
    is_watch: bool,
    mangle: Arc<MangleBytes>,
    cut: BoxFuture<'static, bool>,
) -> std::io::Result<Body> {
    if !is_watch {
        let bytes = body.collect_bytes().await.map_err(std::io::Error::other)?;
        return Ok(whole(mangle(&bytes).into()));
    }
    let reader = StreamReader::new(body.into_data_stream().map_err(std::io::Error::other));
    let mangled = FramedRead::new(reader, LengthDelimitedCodec::new()).map_ok(move |event| {
        let event = mangle(&event);
        Frame::data([&(event.len() as u32).to_be_bytes()[..], &event].concat().into())
    });
    Ok(StreamBody::new(mangled.take_until(cut)).boxed_unsync())
}

fn lines_of<R: tokio::io::AsyncBufRead + Unpin + Send + 'static>(
    lines: tokio::io::Lines<R>,
) -> impl futures::Stream<Item = std::io::Result<String>> + Send {
    futures::stream::unfold(lines, async |mut lines| Some((lines.next_line().await.transpose()?, lines))).boxed()
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// A port that accepts connections and never answers. It closes when it is dropped.
pub struct BlackHole {
    pub port: u16,
    task: AbortHandle,
}

impl BlackHole {
    pub async fn open() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            let mut taken = Vec::new();
            loop {
                taken.extend(listener.accept().await);
            }
        });
        Self { port, task: task.abort_handle() }
    }
}

impl Drop for BlackHole {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How long to wait before asserting that nothing has happened. Events take a fraction of it.
pub const SETTLE_TIME: Duration = Duration::from_secs(2);
