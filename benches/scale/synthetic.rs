//! The memory of the operator at a million pods, which no API server holds on a developer's machine: this bench serves them
//! itself. The bytes of the pods come from a real API server; only their names and UIDs are changed.

use std::{
    convert::Infallible,
    net::Ipv4Addr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{BufMut, Bytes, BytesMut};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use orchestr_testbed::{
    ControlPlane, Options,
    pods::{Shape, filler, filler_name},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch};

use crate::{Flags, Outcome, cluster::PROTOBUF, figures::Figures, process::Process, trouble};

const PODS: usize = 1_000_000;
/// The budget for the peak resident memory, in MiB.
const BUDGET: f64 = 160.0;
const TIMEOUT: Duration = Duration::from_secs(280);
/// Pods in a chunk of the response.
const CHUNK: usize = 64;
const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

type AnyBody = BoxBody<Bytes, Infallible>;

pub async fn run(flags: &Flags) -> Outcome {
    let shape = Shape { namespaces: 500, workloads: 2_000, ..Shape::default() };
    let templates = Arc::new(templates(&shape).await?);
    let pods = flags.most.unwrap_or(PODS);
    let mut figures = Figures::new("million")?;
    for pods in [pods / 10, pods] {
        let server = Server::start(Arc::clone(&templates), pods).await?;
        let process = Process::start(&flags.binary, &server.kubeconfig, &[], flags.log.as_deref())?;
        let status = server.status_of(pods).await?;
        let seconds = process.started.elapsed().as_secs_f64();
        let mut add = |name: &str, value: f64, unit: &str| figures.add("pods", pods, name, value, unit);
        add("exec to first full status", seconds, "s")?;
        add("problems", status["problematicPodCount"].as_f64().unwrap_or_default(), "")?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        add("settled resident memory", process.resident_mib()?, "MiB")?;
        add("processor time until settled", process.cpu()?.as_secs_f64(), "s")?;
        let budget = Some(BUDGET).filter(|_| pods == PODS);
        figures.add_budgeted("pods", pods, "peak resident memory", process.peak_mib()?, "MiB", budget)?;
        process.stop().await?;
    }
    figures.print();
    Ok(())
}

/// A pod in protobuf, and where it differs from other pods of its workload.
struct Template {
    bytes: Vec<u8>,
    /// Where the random part of its name begins.
    words: Vec<usize>,
    /// Where the last 12 digits of its UID begin.
    uids: Vec<usize>,
}

/// The lengths of these parts.
const WORD: usize = 5;
const UID: usize = 12;

/// One pod of each workload, as a real API server encodes it.
async fn templates(shape: &Shape) -> Outcome<Vec<Template>> {
    let plane = ControlPlane::start(Options::default()).await?;
    plane.load_at_rest((0..shape.workloads).map(|index| filler(index, shape))).await?;
    let client = plane.admin()?;
    stream::iter(0..shape.workloads).map(|index| template(&client, index, shape)).buffered(8).try_collect().await
}

async fn template(client: &Client, index: usize, shape: &Shape) -> Outcome<Template> {
    let (namespace, name) = filler_name(index, shape);
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let request = Request::get(path).header(header::ACCEPT, PROTOBUF).body(Body::empty())?;
    let bytes = client.send(request).await?.into_body().collect().await?.to_bytes().to_vec();
    let find = |text: &str, skipped: usize| -> Vec<usize> {
        let windows = bytes.windows(text.len()).enumerate();
        windows.filter(|(_, window)| *window == text.as_bytes()).map(|(at, _)| at + skipped).collect()
    };
    let uid = format!("0f111e50-0000-4000-8000-{index:012x}");
    let (words, uids) = (find(&name, name.len() - WORD), find(&uid, uid.len() - UID));
    if words.is_empty() || uids.is_empty() {
        return Err(trouble(format!("the API server's {namespace}/{name} lacks its name or UID")));
    }
    Ok(Template { bytes, words, uids })
}

impl Template {
    /// The event that adds pod number `index`.
    fn added(&self, index: usize) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let word = format!("{index:0WORD$x}");
        let uid = format!("{index:0UID$x}");
        for at in &self.words {
            bytes[*at..at + WORD].copy_from_slice(&word.as_bytes()[..WORD]);
        }
        for at in &self.uids {
            bytes[*at..at + UID].copy_from_slice(uid.as_bytes());
        }
        event("ADDED", &bytes)
    }
}

/// A frame of a watch in protobuf: the length, and a `WatchEvent`.
fn event(kind: &str, object: &[u8]) -> Vec<u8> {
    let event = [field(1, kind.as_bytes()), field(2, &field(1, object))].concat();
    [&u32::try_from(event.len()).unwrap_or(u32::MAX).to_be_bytes()[..], &event].concat()
}

/// The bookmark that ends a streaming list.
fn end_of_list() -> Vec<u8> {
    let annotation = [field(1, b"k8s.io/initial-events-end"), field(2, b"true")].concat();
    let metadata = [field(6, b"1"), field(12, &annotation)].concat();
    let type_meta = [field(1, b"v1"), field(2, b"Pod")].concat();
    let unknown = [field(1, &type_meta), field(2, &field(1, &metadata))].concat();
    event("BOOKMARK", &[b"k8s\0", &unknown[..]].concat())
}

/// A field of bytes in protobuf.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        field.push(length as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend_from_slice(content);
    field
}

/// An API server with one Orchestr object.
struct Server {
    kubeconfig: PathBuf,
    status: watch::Receiver<Value>,
    task: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct State {
    templates: Arc<Vec<Template>>,
    pods: usize,
    status: watch::Sender<Value>,
}

impl Server {
    async fn start(templates: Arc<Vec<Template>>, pods: usize) -> Outcome<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "bench",
            "clusters": [{"name": "bench", "cluster": {"server": format!("http://{}", listener.local_addr()?)}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
            "users": [{"name": "bench", "user": {}}],
        });
        std::fs::write(&kubeconfig, config.to_string())?;
        let (sender, status) = watch::channel(Value::Null);
        let state = Arc::new(State { templates, pods, status: sender });
        let task = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let state = Arc::clone(&state);
                let service = service_fn(move |request| answer(Arc::clone(&state), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(connection), service));
            }
        });
        Ok(Self { kubeconfig, status, task, _folder: folder })
    }

    /// Waits for a status that counts this many pods.
    async fn status_of(&self, pods: usize) -> Outcome<Value> {
        let mut status = self.status.clone();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let now = status.borrow_and_update().clone();
            if now["watchedPods"].as_u64() == Some(pods as u64) {
                return Ok(now);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            tokio::time::timeout(left, status.changed()).await.map_err(|_| {
                trouble(format!("no full status within {TIMEOUT:?}; the last counts {} pods", now["watchedPods"]))
            })??;
        }
    }
}

fn object() -> Value {
    json!({
        "apiVersion": "kopf.dev/v1", "kind": "Orchestr",
        "metadata": {"name": "cluster", "namespace": "bench", "uid": "1", "resourceVersion": "1", "generation": 1},
        "spec": {"alerts": {"checkRunningPods": true}},
    })
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<AnyBody>, Infallible> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let is_watch = query.contains("watch=");
    let metadata = json!({"resourceVersion": "1"});
    let response = match (request.method(), path.as_str()) {
        (&Method::GET, "/apis/kopf.dev/v1") => json_response(&json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "kopf.dev/v1",
            "resources": [{"name": "orchestrs", "singularName": "orchestr", "namespaced": true, "kind": "Orchestr", "verbs": []}],
        })),
        (&Method::GET, "/apis/kopf.dev/v1/orchestrs") if !is_watch => json_response(&json!({
            "apiVersion": "kopf.dev/v1", "kind": "OrchestrList", "metadata": metadata, "items": [object()],
        })),
        (&Method::GET, "/api/v1/pods") if is_watch => {
            let pods = query.contains("sendInitialEvents").then(|| pods(Arc::clone(&state.templates), state.pods));
            streaming(WATCH, stream::iter(pods).flatten().chain(stream::pending()))
        }
        (&Method::GET, _) if is_watch => streaming("application/json", stream::pending()),
        (&Method::PATCH, "/apis/kopf.dev/v1/namespaces/bench/orchestrs/cluster/status") => {
            let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let applied: Value = serde_json::from_slice(&body).unwrap_or_default();
            let mut written = object();
            written["status"] = applied["status"].clone();
            state.status.send_replace(applied["status"].clone());
            json_response(&written)
        }
        (&Method::GET, "/api/v1/events") => {
            json_response(&json!({"apiVersion": "v1", "kind": "EventList", "metadata": metadata, "items": []}))
        }
        // This server has no logs and no other resources.
        _ => {
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404});
            let mut response = json_response(&status);
            *response.status_mut() = http::StatusCode::NOT_FOUND;
            response
        }
    };
    Ok(response)
}

/// All pods, and the end of the list.
fn pods(templates: Arc<Vec<Template>>, count: usize) -> impl Stream<Item = Bytes> {
    let chunks = (0..count).step_by(CHUNK).map(move |first| {
        let mut chunk = BytesMut::new();
        for index in first..(first + CHUNK).min(count) {
            chunk.put_slice(&templates[index % templates.len()].added(index));
        }
        chunk.freeze()
    });
    stream::iter(chunks.chain([end_of_list().into()]))
}

fn json_response(value: &Value) -> Response<AnyBody> {
    let mut response = Response::new(Full::new(value.to_string().into()).boxed());
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

fn streaming(
    content_type: &'static str,
    chunks: impl Stream<Item = Bytes> + Send + Sync + 'static,
) -> Response<AnyBody> {
    let body = StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk))));
    let mut response = Response::new(BodyExt::boxed(body));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}
