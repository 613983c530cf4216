//! etcd and an API server on loopback.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::{
    api::{
        core::v1::{Namespace, ServiceAccount},
        rbac::v1::ClusterRole,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};

use crate::{
    binaries::{Binaries, binaries},
    error::{Doing, Error, Result},
    pki::{Pair, Pki},
    port,
    process::{Process, run_dir},
    programs,
    wait::eventually,
};

/// The limit for a program to become ready. It usually takes 3 s, but much longer on a busy machine with 150,000 pods.
const READY: Duration = Duration::from_secs(180);

/// The limit for a program to stop before it is killed.
pub(crate) const STOP: Duration = Duration::from_secs(10);

/// The interval between two checks for readiness.
const POLL: Duration = Duration::from_millis(25);

/// The number of starts if another process takes the port after it was picked.
const STARTS: u32 = 5;

/// The error of etcd and of the API server for a port in use.
const TAKEN: &str = "address already in use";

/// Options of a control plane.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether the API server streams lists (the `WatchList` feature). Default: true.
    pub streaming_lists: bool,
    /// Whether requests are recorded for [`ControlPlane::audit_log`]. Default: false.
    pub audit_log: bool,
    /// Further arguments for the API server. They override the default ones.
    pub extra_api_server_args: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { streaming_lists: true, audit_log: false, extra_api_server_args: Vec::new() }
    }
}

/// etcd and an API server on loopback, with RBAC, their own certificates, and all data in a temporary folder.
///
/// Both end with this value, and with this process however it ends. They are not bound to a tokio runtime, so a static
/// one ([`shared`](crate::shared)) serves all tests of a program.
pub struct ControlPlane {
    pub(crate) run: PathBuf,
    pub(crate) pki: Pki,
    pub(crate) admin: Pair,
    pub(crate) binaries: Binaries,
    options: Options,
    url: String,
    pub(crate) uri: http::Uri,
    port: u16,
    pub(crate) etcd_port: u16,
    admin_kubeconfig: PathBuf,
    /// Before etcd, so that it is dropped first: an API server without etcd is slow to end.
    api_server: Mutex<Option<Process>>,
    pub(crate) etcd: Mutex<Option<Process>>,
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlPlane").field("url", &self.url).finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// Starts a control plane and waits until it is ready. It takes about 3 s, and some minutes the first time, when the
    /// programs are built.
    /// Fails if the programs are missing and cannot be built, or if one does not start; then with the end of its log.
    pub async fn start(options: Options) -> Result<Self> {
        let binaries = binaries().await?;
        let mut starts = 0;
        loop {
            starts += 1;
            match Self::start_on_picked_ports(binaries.clone(), options.clone()).await {
                Err(Error::Program { log, .. }) if log.contains(TAKEN) && starts < STARTS => {}
                other => return other,
            }
        }
    }

    async fn start_on_picked_ports(binaries: Binaries, options: Options) -> Result<Self> {
        let (port, etcd_port) = (port::pick()?, port::pick()?);
        let run = run_dir(&std::env::temp_dir(), "orchestr-testbed-")?;
        let begun = prepare(&run, &options).and_then(|pki| {
            let etcd = Process::spawn(&run, programs::etcd(&run, &binaries, etcd_port))?;
            Ok((pki, etcd))
        });
        let (pki, etcd) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                // No process was started that would remove the folder.
                let _ = fs::remove_dir_all(&run);
                return Err(error);
            }
        };
        until_listening(&etcd, etcd_port).await?;

        let url = format!("https://127.0.0.1:{port}");
        let mut plane = Self {
            admin: pki.client("admin", "system:masters")?,
            admin_kubeconfig: PathBuf::new(),
            uri: url.parse().map_err(|error: http::uri::InvalidUri| kube::Error::HttpError(error.into()))?,
            url,
            run,
            pki,
            binaries,
            options,
            port,
            etcd_port,
            api_server: Mutex::new(None),
            etcd: Mutex::new(Some(etcd)),
        };
        plane.admin_kubeconfig = plane.kubeconfig_for("admin", &plane.admin_config())?;
        plane.start_api_server().await?;
        plane.ensure_service_account("default", "default").await?;
        aggregate_roles(plane.admin()?).await?;
        Ok(plane)
    }

    /// The URL of the API server, which a restart does not change.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The administrator's kubeconfig. It is deleted with the control plane.
    pub fn admin_kubeconfig(&self) -> &Path {
        &self.admin_kubeconfig
    }

    /// The process ID of the API server, unless it is stopped.
    pub fn api_server_pid(&self) -> Option<u32> {
        self.lock().as_ref().map(Process::pid)
    }

    /// The process ID of etcd, unless it is stopped.
    pub fn etcd_pid(&self) -> Option<u32> {
        self.etcd.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Process::pid)
    }

    /// Stops the API server as an upgrade does (SIGTERM); etcd stays. It may take seconds: open watches are drained.
    pub async fn stop_api_server(&self) -> Result<()> {
        let api_server = self.take_api_server()?;
        api_server.signal("TERM")?;
        // If it has not stopped in time, dropping the value kills it.
        let _ = tokio::time::timeout(STOP, api_server.ended()).await;
        drop_elsewhere(api_server).await;
        Ok(())
    }

    /// Stops the API server as a power cut does (SIGKILL); etcd stays.
    pub async fn kill_api_server(&self) -> Result<()> {
        drop_elsewhere(self.take_api_server()?).await;
        Ok(())
    }

    /// Sends the API server a signal by name: after `STOP` it accepts connections and answers nothing, until `CONT`.
    pub fn signal_api_server(&self, name: &str) -> Result<()> {
        match self.lock().as_ref() {
            Some(api_server) => api_server.signal(name),
            None => Err(Error::ApiServer("stopped")),
        }
    }

    /// Starts the API server again, on the same port and the same data, and waits until it is ready.
    /// Fails if it is running already, or if it does not start; then with the end of its log.
    pub async fn start_api_server(&self) -> Result<()> {
        if self.lock().is_some() {
            return Err(Error::ApiServer("running"));
        }
        let api_server = Process::spawn(
            &self.run,
            programs::api_server(&self.run, &self.binaries, &self.options, self.port, self.etcd_port),
        )?;
        let client = self.impatient_admin()?;
        let ready = async {
            while client.request_text(get("/readyz")?).await.is_err() {
                tokio::time::sleep(POLL).await;
            }
            Ok::<_, Error>(())
        };
        tokio::select! {
            ready = tokio::time::timeout(READY, ready) => match ready {
                Ok(ready) => ready?,
                Err(_) => return Err(api_server.error(format!("was not ready within {READY:?}"))),
            },
            how = api_server.ended() => return Err(api_server.error(how)),
        }
        *self.lock() = Some(api_server);
        Ok(())
    }

    /// Stops the API server as an upgrade does, and starts it again on the same port and the same data.
    pub async fn restart_api_server(&self) -> Result<()> {
        self.stop_api_server().await?;
        self.start_api_server().await
    }

    /// Creates a namespace with a unique name that starts with `prefix`.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        let namespace = serde_json::from_value(serde_json::json!({
            "metadata": {"generateName": format!("{prefix}-")}
        }))?;
        let api = Api::<Namespace>::all(self.admin()?);
        let made = api.create(&PostParams::default(), &namespace).await?;
        let name = made.metadata.name.unwrap_or_default();
        self.ensure_service_account(&name, "default").await?;
        Ok(name)
    }

    /// Creates a namespace and its default service account, unless they exist.
    pub async fn ensure_namespace(&self, name: &str) -> Result<()> {
        let namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": name}}))?;
        let api = Api::<Namespace>::all(self.admin()?);
        unless_there(api.create(&PostParams::default(), &namespace).await)?;
        self.ensure_service_account(name, "default").await
    }

    /// Creates a service account unless it exists. The API server rejects pods in a namespace without the account
    /// `default`, which no controller creates here.
    pub async fn ensure_service_account(&self, namespace: &str, name: &str) -> Result<()> {
        let account: ServiceAccount = serde_json::from_value(serde_json::json!({"metadata": {"name": name}}))?;
        let api = Api::<ServiceAccount>::namespaced(self.admin()?, namespace);
        let begun = Instant::now();
        loop {
            match unless_there(api.create(&PostParams::default(), &account).await) {
                // The API server creates this namespace only after it is ready.
                Err(error) if is(&error, 404) && namespace == "default" && begun.elapsed() < READY => {
                    tokio::time::sleep(POLL).await;
                }
                other => return other,
            }
        }
    }

    /// Installs a CRD, and waits until its objects are served. May run concurrently.
    pub async fn install(&self, crd: &CustomResourceDefinition) -> Result<()> {
        let client = self.admin()?;
        let crds = Api::<CustomResourceDefinition>::all(client.clone());
        crds.patch(&crd.name_any(), &PatchParams::apply("tests").force(), &Patch::Apply(crd)).await?;
        let version = crd.spec.versions.first().map_or("", |version| &version.name);
        let path = format!("/apis/{}/{version}/{}?limit=1", crd.spec.group, crd.spec.names.plural);
        eventually("the API server serves the objects", READY, async || {
            let list = get(&path).map_err(|error| error.to_string())?;
            client.request_text(list).await.map(drop).map_err(|error| error.to_string())
        })
        .await
    }

    /// The API server's own metrics, as text.
    pub async fn metrics(&self) -> Result<String> {
        Ok(self.admin()?.request_text(get("/metrics")?).await?)
    }

    /// The audit events of all requests so far, oldest first: `verb`, `user.username`, `userAgent`, `objectRef`,
    /// `requestURI`, `responseStatus.code`, `stage`. A request that lasts, like a watch, has two: `ResponseStarted` and
    /// `ResponseComplete`.
    /// Fails when [`Options::audit_log`] was not set.
    pub fn audit_log(&self) -> Result<Vec<serde_json::Value>> {
        let path = self.run.join("audit.log");
        let text = fs::read_to_string(&path).doing(|| format!("read {}", path.display()))?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let parse = |line| serde_json::from_str(line).map_err(Error::from);
        whole.lines().map(parse).collect()
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.api_server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_api_server(&self) -> Result<Process> {
        self.lock().take().ok_or(Error::ApiServer("stopped"))
    }

    /// A client without retries, for polling.
    fn impatient_admin(&self) -> Result<Client> {
        let mut config = self.admin_config();
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(2));
        config.read_timeout = Some(Duration::from_secs(5));
        Ok(Client::try_from(config)?)
    }
}

/// Writes the certificates and the audit policy.
fn prepare(run: &Path, options: &Options) -> Result<Pki> {
    let pki = Pki::new()?;
    pki.write(run)?;
    if options.audit_log {
        let policy = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}"#;
        fs::write(run.join("audit.yaml"), policy).doing(|| "write the audit policy".to_owned())?;
    }
    Ok(pki)
}

pub(crate) async fn until_listening(program: &Process, port: u16) -> Result<()> {
    let listening = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::select! {
        listening = tokio::time::timeout(READY, listening) => {
            listening.map_err(|_| program.error(format!("did not listen within {READY:?}")))
        }
        how = program.ended() => Err(program.error(how)),
    }
}

/// Fills in the aggregated roles `view`, `edit` and `admin`, as the controller manager would.
async fn aggregate_roles(client: Client) -> Result<()> {
    let api = Api::<ClusterRole>::all(client);
    let mut roles = api.list(&ListParams::default()).await?.items;
    // Each role includes the one before it.
    for name in ["view", "edit", "admin"] {
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{name}");
        let parts = roles.iter().filter(|role| role.labels().contains_key(&label));
        let rules: Vec<_> = parts.flat_map(|role| role.rules.clone().unwrap_or_default()).collect();
        let Some(role) = roles.iter_mut().find(|role| role.name_any() == name) else {
            continue;
        };
        role.rules = Some(rules);
        *role = api.replace(name, &PostParams::default(), role).await?;
    }
    Ok(())
}

/// Dropping a process waits for its end; that must not block other tasks.
pub(crate) async fn drop_elsewhere(process: Process) {
    let _ = tokio::task::spawn_blocking(move || drop(process)).await;
}

pub(crate) fn get(path: &str) -> Result<http::Request<Vec<u8>>> {
    http::Request::get(path).body(Vec::new()).map_err(|error| kube::Error::HttpError(error).into())
}

fn unless_there<T>(created: kube::Result<T>) -> Result<()> {
    match created.map_err(Error::from) {
        Err(error) if !is(&error, 409) => Err(error),
        _ => Ok(()),
    }
}

fn is(error: &Error, code: u16) -> bool {
    matches!(error, Error::Kube(error) if matches!(&**error, kube::Error::Api(status) if status.code == code))
}
