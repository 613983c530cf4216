//! A webhook receiver on loopback that follows a script and records its requests.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{oneshot, watch},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    error::{Doing, Result},
    pki::Pki,
    wait::eventually,
};

/// The maximum size of a request in bytes.
const LIMIT: usize = 1024 * 1024;

/// How to answer a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Answers with this status and a short body.
    Status(u16),
    /// Answers with this status and this header.
    Header(u16, &'static str, String),
    /// Answers with this status and this body.
    Body(u16, String),
    /// Keeps the connection open without an answer until it is [released](Receiver::release).
    Hang,
    /// Closes the connection instead of an answer.
    Close,
    /// Answers 200 and closes the connection in the middle of the body.
    BreakInBody,
    /// Answers 200 with an endless body.
    Endless,
    /// Denies an `AdmissionReview` of the API server with this message.
    DenyAdmission(&'static str),
}

/// A received request.
#[derive(Debug, Clone)]
pub struct Received {
    /// When it was complete.
    pub at: Instant,
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    /// How it was answered.
    pub reply: Reply,
}

impl Received {
    /// A header's value; empty if absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The receiver. It stops when it is dropped.
#[derive(Debug)]
pub struct Receiver {
    port: u16,
    ca_pem: Option<String>,
    state: Arc<State>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

type RuleFn = dyn Fn(&Received) -> Reply + Send + Sync;

#[derive(Clone)]
struct Rule(Arc<RuleFn>);

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rule")
    }
}

#[derive(Debug)]
struct State {
    script: Mutex<VecDeque<Reply>>,
    /// The answer to requests whose body contains a text.
    refusal: Mutex<Option<(String, Reply)>>,
    /// Decides the answers to requests that no script answers.
    rule: Mutex<Option<Rule>>,
    received: Mutex<Vec<Received>>,
    connections: Mutex<usize>,
    /// The bytes of each endless body that were written until the client disconnected.
    cut: Mutex<Vec<usize>>,
    /// Whether accepted connections are left unread.
    held: watch::Sender<bool>,
    /// How often hanging requests were released.
    released: watch::Sender<u64>,
}

impl Receiver {
    /// A receiver that speaks HTTP and answers 200 to everything.
    pub async fn start() -> Result<Self> {
        Self::serve(None, None).await
    }

    /// The same over HTTPS, with its own certificate authority and a certificate for localhost and 127.0.0.1.
    pub async fn start_tls() -> Result<Self> {
        let pki = Pki::new()?;
        let pair = pki.server("receiver")?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.key_der));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| {
                config.with_no_client_auth().with_single_cert(vec![CertificateDer::from(pair.cert_der)], key)
            })
            .map_err(io::Error::other)
            .doing(|| "set up the receiver's TLS".to_owned())?;
        Self::serve(Some(TlsAcceptor::from(Arc::new(config))), Some(pki.ca_pem)).await
    }

    async fn serve(tls: Option<TlsAcceptor>, ca_pem: Option<String>) -> Result<Self> {
        let doing = || "start a receiver".to_owned();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").doing(doing)?;
        listener.set_nonblocking(true).doing(doing)?;
        let port = listener.local_addr().doing(doing)?.port();
        let state = Arc::new(State {
            script: Mutex::default(),
            refusal: Mutex::default(),
            rule: Mutex::default(),
            received: Mutex::default(),
            connections: Mutex::default(),
            cut: Mutex::default(),
            held: watch::Sender::new(false),
            released: watch::Sender::new(0),
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().doing(doing)?;
        let shared = Arc::clone(&state);
        // On its own thread, so that it answers while the runtime of a test is busy.
        let thread = std::thread::spawn(move || {
            runtime.block_on(async move {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                tokio::select! {
                    () = accept(listener, tls, shared) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Self { port, ca_pem, state, stop: Some(stop), thread: Some(thread) })
    }

    /// Its URL with this path.
    pub fn url(&self, path: &str) -> String {
        let scheme = if self.ca_pem.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}{path}", self.port)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate of its authority; empty for HTTP.
    pub fn ca_pem(&self) -> &str {
        self.ca_pem.as_deref().unwrap_or_default()
    }

    /// Sets the answers to the next requests. Later ones are answered with 200.
    pub fn then(&self, replies: impl IntoIterator<Item = Reply>) {
        lock(&self.state.script).extend(replies);
    }

    /// Gives this answer to every request whose body contains a text, until [`accept`](Self::accept).
    pub fn refuse(&self, text: &str, reply: Reply) {
        *lock(&self.state.refusal) = Some((text.to_owned(), reply));
    }

    /// Ends what [`refuse`](Self::refuse) began.
    pub fn accept(&self) {
        *lock(&self.state.refusal) = None;
    }

    /// Answers every request by this rule, unless [`then`](Self::then) has set the answer.
    pub fn rule(&self, rule: impl Fn(&Received) -> Reply + Send + Sync + 'static) {
        *lock(&self.state.rule) = Some(Rule(Arc::new(rule)));
    }

    /// Leaves accepted connections unread from now on, or continues with them.
    pub fn hold(&self, held: bool) {
        self.state.held.send_replace(held);
    }

    /// Answers 200 to the requests that hang.
    pub fn release(&self) {
        self.state.released.send_modify(|count| *count += 1);
    }

    /// All requests so far.
    pub fn received(&self) -> Vec<Received> {
        lock(&self.state.received).clone()
    }

    /// The number of accepted connections.
    pub fn connections(&self) -> usize {
        *lock(&self.state.connections)
    }

    /// The bytes of each endless body that were written until the client disconnected, including socket buffers.
    pub fn cut(&self) -> Vec<usize> {
        lock(&self.state.cut).clone()
    }

    /// Waits for a number of requests, and returns all requests so far.
    pub async fn wait_for(&self, count: usize, timeout: Duration) -> Result<Vec<Received>> {
        eventually(&format!("the receiver has {count} requests"), timeout, async || {
            let received = self.received();
            if received.len() >= count { Ok(received) } else { Err(format!("it has {}", received.len())) }
        })
        .await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, state: Arc<State>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        *lock(&state.connections) += 1;
        let (tls, state) = (tls.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            let mut held = state.held.subscribe();
            let _ = held.wait_for(|held| !*held).await;
            // Clients may disconnect.
            let _ = match tls {
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => answer(stream, &state).await,
                    Err(error) => Err(error),
                },
                None => answer::<TcpStream>(stream, &state).await,
            };
        });
    }
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, state: &State) -> io::Result<()> {
    let mut released = state.released.subscribe();
    released.mark_unchanged();
    let mut received = read(&mut stream).await?;
    let review = received.json();
    let refusal = lock(&state.refusal).clone();
    let refusal = refusal.filter(|(text, _)| String::from_utf8_lossy(&received.body).contains(text.as_str()));
    let scripted = || lock(&state.script).pop_front();
    let rule = lock(&state.rule).clone();
    let by_rule = || rule.map(|rule| (rule.0)(&received));
    let reply = refusal.map(|(_, reply)| reply).or_else(scripted).or_else(by_rule).unwrap_or(Reply::Status(200));
    received.reply = reply.clone();
    lock(&state.received).push(received);
    let with_body = |status: u16, header: &str, body: &str| {
        format!(
            "HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n{header}Connection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let plain = |status: u16, header: &str| with_body(status, header, if status == 204 { "" } else { "ok" });
    match reply {
        Reply::Status(status) => stream.write_all(plain(status, "").as_bytes()).await?,
        Reply::Header(status, name, value) => {
            stream.write_all(plain(status, &format!("{name}: {value}\r\n")).as_bytes()).await?;
        }
        Reply::Body(status, body) => stream.write_all(with_body(status, "", &body).as_bytes()).await?,
        Reply::Hang => {
            let _ = released.changed().await;
            stream.write_all(plain(200, "").as_bytes()).await?;
        }
        Reply::Close => {}
        Reply::DenyAdmission(message) => {
            let response = serde_json::json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": {"uid": review["request"]["uid"], "allowed": false, "status": {"message": message}},
            })
            .to_string();
            let head =
                "HTTP/1.1 200 Scripted\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ";
            stream.write_all(format!("{head}{}\r\n\r\n{response}", response.len()).as_bytes()).await?;
        }
        Reply::BreakInBody => stream.write_all(b"HTTP/1.1 200 Scripted\r\nContent-Length: 100\r\n\r\nhalf").await?,
        Reply::Endless => {
            stream.write_all(b"HTTP/1.1 200 Scripted\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
            let chunk = format!("{:x}\r\n{}\r\n", 1000, "x".repeat(1000));
            let mut written = 0;
            while stream.write_all(chunk.as_bytes()).await.is_ok() {
                written += chunk.len();
            }
            lock(&state.cut).push(written);
            return Ok(());
        }
    }
    stream.flush().await?;
    stream.shutdown().await
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Received> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > LIMIT || stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let mut body = bytes.split_off(head + 4);
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let headers: BTreeMap<_, _> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").and_then(|value| value.parse().ok()).unwrap_or_default();
    while body.len() < length.min(LIMIT) {
        if stream.read_buf(&mut body).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let (method, path) = (method.to_owned(), path.to_owned());
    Ok(Received { at: Instant::now(), method, path, headers, body, reply: Reply::Close })
}
