//! A fake kubelet that serves only container logs, as scripted by a test.
//!
//! The API server takes its address and port from its Node object, and proxies
//! `GET /api/v1/namespaces/NS/pods/NAME/log` to its `/containerLogs/NS/NAME/CONTAINER` with the same options. The API
//! server answers these requests itself, without asking a kubelet:
//!
//! | if | the API server answers |
//! |---|---|
//! | the pod does not exist | 404 `pods "x" not found` |
//! | the container is not in the pod's spec | 400 `container x is not valid for pod y` |
//! | no container is named and there are several | 400 `a container name must be specified for pod y, choose one of: …` |
//! | the pod is not scheduled | 200 with an empty body |
//! | the node does not exist | 404 `pods "n" not found`, with the node's name |
//! | `tailLines` < 0 or `limitBytes` < 1 | 422 |
//!
//! The API server does not read the pod's status: the kubelet itself must answer that a container is waiting or has no
//! previous instance ([`Answer::Status`] with 400). The API server forwards answers below 400 unchanged. It turns the
//! others into a `Status` object with the same code, with the kubelet's message for 400 and 500, and with a message of
//! its own for 404. If the connection to the kubelet breaks, the client receives a log that seems complete. If the
//! kubelet stalls, the API server holds back the last kilobytes.

use std::{
    collections::{BTreeMap, HashMap},
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use serde_json::json;
use tokio::{
    net::TcpListener,
    sync::{oneshot, watch},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    control_plane::ControlPlane,
    error::{Doing, Error, Result},
    kubelet_server,
    wait::eventually,
};

/// The kubelet's answer to a request for a container's log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Answer {
    /// A log of any bytes. As a real kubelet does, the server sends the first `limitBytes` of its last `tailLines`
    /// lines.
    Text(Vec<u8>),
    /// The same, in parts with pauses.
    Slow {
        /// The log.
        text: Vec<u8>,
        /// Bytes in each part.
        chunk: usize,
        /// The pause before each part.
        every: Duration,
    },
    /// The same, but the response never ends and its connection stays open.
    Stalling(Vec<u8>),
    /// The same, but the connection breaks before the end of the HTTP response.
    Broken(Vec<u8>),
    /// No answer, on a connection that stays open.
    Hanging,
    /// Lines without end; ignores `limitBytes`.
    Endless,
    /// An HTTP status and a body. A real kubelet answers 400 if there is no such log, 404 if it does not run the pod,
    /// and 500 if it fails.
    Status(u16, String),
    /// 200 with the kubelet's error message in place of the log. A real kubelet sends the response headers before it
    /// asks the container runtime, so a later error can only go into the body.
    KubeletErrorText,
    /// These answers in turn; the last one is repeated.
    InTurn(Vec<Answer>),
}

impl Answer {
    /// A log.
    pub fn text(text: impl Into<Vec<u8>>) -> Self {
        Self::Text(text.into())
    }

    /// The answer of a real kubelet for a container that has no log yet (`ContainerCreating`, `PodInitializing`,
    /// `CreateContainerConfigError`…).
    pub fn waiting_to_start(pod: &str, container: &str, reason: &str) -> Self {
        let what = match reason {
            "ErrImagePull" => "image can't be pulled",
            "ImagePullBackOff" => "trying and failing to pull image",
            other => other,
        };
        Self::Status(400, format!("container \"{container}\" in pod \"{pod}\" is waiting to start: {what}"))
    }

    /// The answer of a real kubelet to a request for the previous instance of a container that was never restarted.
    pub fn no_previous(pod: &str, container: &str) -> Self {
        Self::Status(400, format!("previous terminated container \"{container}\" in pod \"{pod}\" not found"))
    }
}

/// A request for a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRequest {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// `tailLines`, `limitBytes`, `previous`, `timestamps`, `stream`…
    pub query: BTreeMap<String, String>,
}

impl LogRequest {
    /// Whether the log of the container's previous instance is requested.
    pub fn previous(&self) -> bool {
        self.query.get("previous").is_some_and(|value| value == "true")
    }
}

/// A kubelet on loopback, registered as a Node. It stops when it is dropped; the Node stays, like that of a dead machine.
#[derive(Debug)]
pub struct Kubelet {
    node: String,
    port: u16,
    state: Arc<State>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Kubelet {
    /// Starts a kubelet and registers its Node. An existing Node with that name is replaced.
    pub async fn start(plane: &ControlPlane, node_name: &str) -> Result<Self> {
        let tls = TlsAcceptor::from(Arc::new(tls(plane)?));
        let doing = || "start a kubelet".to_owned();
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing(doing)?;
        listener.set_nonblocking(true).doing(doing)?;
        let port = listener.local_addr().doing(doing)?.port();
        let state = Arc::new(State::default());
        let (stop, stopped) = oneshot::channel();
        // Its own runtime, because a test's runtime ends with the test.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().doing(doing)?;
        let served = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else {
                    return;
                };
                tokio::select! {
                    () = kubelet_server::serve(listener, tls, served) => {}
                    _ = stopped => {}
                }
            });
        });
        let kubelet = Self { node: node_name.to_owned(), port, state, stop: Some(stop), thread: Some(thread) };
        kubelet.register(plane, node_name).await?;
        Ok(kubelet)
    }

    /// Registers another Node for this kubelet. An existing Node with that name is replaced.
    pub async fn register(&self, plane: &ControlPlane, node_name: &str) -> Result<()> {
        register(plane, node_name, self.port).await
    }

    /// The name of its first Node.
    pub fn node_name(&self) -> &str {
        &self.node
    }

    /// Sets the answer for a container's current or previous instance. Without it, the answer is 404.
    pub fn script(&self, namespace: &str, pod: &str, container: &str, previous: bool, answer: Answer) {
        let key =
            Life { namespace: namespace.to_owned(), pod: pod.to_owned(), container: container.to_owned(), previous };
        self.state.lock().script.insert(key, answer);
    }

    /// Sets the answer for containers without a script.
    pub fn script_default(&self, answer: Answer) {
        self.state.lock().default = Some(answer);
    }

    /// Every request so far, oldest first.
    pub fn requests(&self) -> Vec<LogRequest> {
        self.state.lock().requests.clone()
    }

    /// The requests so far for one pod, oldest first.
    pub fn requests_for(&self, namespace: &str, pod: &str) -> Vec<LogRequest> {
        let mut requests = self.requests();
        requests.retain(|request| request.namespace == namespace && request.pod == pod);
        requests
    }

    /// Waits for at least `count` requests, and returns all of them.
    /// Returns [`Error::Timeout`] when there are not that many within `timeout`.
    pub async fn wait_for_requests(&self, count: usize, timeout: Duration) -> Result<Vec<LogRequest>> {
        let what = format!("the kubelet's request number {count}");
        eventually(&what, timeout, async || {
            let requests = self.requests();
            if requests.len() < count {
                return Err(format!("there were {}", requests.len()));
            }
            Ok(requests)
        })
        .await
    }

    /// Requests that are neither answered completely nor cancelled by the client.
    pub fn in_flight(&self) -> usize {
        *self.state.in_flight.borrow()
    }

    /// The maximum number of concurrent requests.
    pub fn peak_in_flight(&self) -> usize {
        self.state.lock().peak
    }

    /// Waits until no request is in flight.
    pub async fn wait_until_idle(&self, timeout: Duration) -> Result<()> {
        let mut in_flight = self.state.in_flight.subscribe();
        match tokio::time::timeout(timeout, in_flight.wait_for(|count| *count == 0)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Timeout {
                what: "that no log is being read".to_owned(),
                after: timeout,
                last: format!("{} are", self.in_flight()),
            }),
        }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The current or previous instance of a container.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Life {
    namespace: String,
    pod: String,
    container: String,
    previous: bool,
}

#[derive(Debug, Default)]
struct Script {
    script: HashMap<Life, Answer>,
    default: Option<Answer>,
    requests: Vec<LogRequest>,
    peak: usize,
}

/// The state that the server and its owner share.
#[derive(Debug, Default)]
pub(crate) struct State {
    script: Mutex<Script>,
    in_flight: watch::Sender<usize>,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request and returns its answer.
    pub(crate) fn answer(self: &Arc<Self>, request: LogRequest) -> (Answer, InFlight) {
        let mut script = self.lock();
        let life = Life {
            previous: request.previous(),
            namespace: request.namespace.clone(),
            pod: request.pod.clone(),
            container: request.container.clone(),
        };
        let unknown = format!("pod \"{}\" does not exist", request.pod);
        script.requests.push(request);
        self.in_flight.send_modify(|count| *count += 1);
        script.peak = script.peak.max(*self.in_flight.borrow());
        let answer = match script.script.get_mut(&life) {
            Some(answer) => next(answer),
            None => script.default.as_mut().map_or(Answer::Status(404, unknown), next),
        };
        (answer, InFlight(Arc::clone(self)))
    }
}

/// The next of several answers in turn.
fn next(answer: &mut Answer) -> Answer {
    match answer {
        Answer::InTurn(answers) if answers.len() > 1 => next(&mut answers.remove(0)),
        Answer::InTurn(answers) => answers.first_mut().map_or(Answer::Text(Vec::new()), next),
        other => other.clone(),
    }
}

/// Counts a request for as long as it is being answered.
pub(crate) struct InFlight(Arc<State>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.send_modify(|count| *count -= 1);
    }
}

/// Like a real kubelet, requires a client certificate of the cluster's authority.
fn tls(plane: &ControlPlane) -> Result<ServerConfig> {
    let trouble = |error: &dyn std::fmt::Display| Error::Certificate(error.to_string());
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(plane.pki.ca_der.clone())).map_err(|error| trouble(&error))?;
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| trouble(&error))?;
    let own = plane.pki.server("system:node")?;
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| trouble(&error))?
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![CertificateDer::from(own.cert_der)], PrivatePkcs8KeyDer::from(own.key_der).into())
        .map_err(|error| trouble(&error))
}

async fn register(plane: &ControlPlane, name: &str, port: u16) -> Result<()> {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}],
            "nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12.0", "kubeProxyVersion": "", "kubeletVersion": "v1.36.3", "machineID": "",
                "operatingSystem": "linux", "osImage": "Debian GNU/Linux 13 (trixie)", "systemUUID": ""
            }
        }
    }))?;
    let nodes = Api::<Node>::all(plane.admin()?);
    match nodes.create(&PostParams::default(), &node).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            nodes.delete(name, &DeleteParams::default()).await?;
            nodes.create(&PostParams::default(), &node).await?;
        }
        other => drop(other?),
    }
    Ok(())
}
