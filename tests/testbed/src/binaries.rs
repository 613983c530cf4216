//! Finds or builds the programs. Those of a control plane come from `KUBEBUILDER_ASSETS`, or are built with Go and kept
//! in `target/`. The other programs are always built.
//!
//! A test that needs one of them first builds all of them ([`build_all`]): minutes of compiling in the middle of a run would
//! take the processors from other tests, whose waits are bounded.

use std::{
    env,
    path::{Path, PathBuf},
};

use futures::{StreamExt, stream};
use tokio::sync::OnceCell;

use crate::{
    error::{Error, Result},
    go::{GoTools, UnderWay, in_go_mod},
};

static CONTROL_PLANE: GoTools = GoTools {
    names: "etcd and kube-apiserver",
    takes: "about 4 minutes on 2 cores",
    instead: ", or set KUBEBUILDER_ASSETS to a folder that has both programs",
    folder: "tools",
    go_mod: include_str!("../tools/go.mod"),
    go_sum: include_str!("../tools/go.sum"),
    programs: &[
        ("go.etcd.io/etcd/server/v3", "server", "etcd"),
        ("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver", "kube-apiserver"),
        ("k8s.io/kubernetes/cmd/kubectl", "kubectl", "kubectl"),
    ],
    tags: "",
    linker_flags: of_kubernetes,
    built: OnceCell::const_new(),
};

/// The API servers of older Kubernetes, by their minor version. They use the same etcd as the current one.
static OLD_API_SERVERS: [(&str, GoTools); 3] = [
    (
        "1.30",
        old_api_server(
            "tools/kubernetes-1.30",
            include_str!("../tools/kubernetes-1.30/go.mod"),
            include_str!("../tools/kubernetes-1.30/go.sum"),
        ),
    ),
    (
        "1.32",
        old_api_server(
            "tools/kubernetes-1.32",
            include_str!("../tools/kubernetes-1.32/go.mod"),
            include_str!("../tools/kubernetes-1.32/go.sum"),
        ),
    ),
    (
        "1.34",
        old_api_server(
            "tools/kubernetes-1.34",
            include_str!("../tools/kubernetes-1.34/go.mod"),
            include_str!("../tools/kubernetes-1.34/go.sum"),
        ),
    ),
];

const fn old_api_server(folder: &'static str, go_mod: &'static str, go_sum: &'static str) -> GoTools {
    GoTools {
        names: "an older kube-apiserver",
        takes: "about 3 minutes on 2 cores",
        instead: "",
        folder,
        go_mod,
        go_sum,
        programs: &[("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver", "kube-apiserver")],
        tags: "",
        linker_flags: of_kubernetes,
        built: OnceCell::const_new(),
    }
}

/// How many builds run at the same time: one links while the other compiles. Each takes up to 2 GiB.
const CONCURRENT_BUILDS: usize = 2;

/// The minor version of the API server in [`CONTROL_PLANE`].
const NEWEST: u32 = 36;
/// The environment variable that selects the version of the API server: one of [`OLD_API_SERVERS`]; the newest by default.
const VERSION: &str = "ORCHESTR_TEST_KUBERNETES";

/// Sets the version of Kubernetes, which its own build scripts would set otherwise.
fn of_kubernetes(go_mod: &str) -> String {
    let version = in_go_mod(go_mod, "k8s.io/kubernetes ");
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or(""), numbers.next().unwrap_or(""));
    let of = "k8s.io/component-base/version";
    format!("-s -w -X {of}.gitVersion={version} -X {of}.gitMajor={major} -X {of}.gitMinor={minor}")
}

static ALERTMANAGER: GoTools = GoTools {
    names: "Alertmanager",
    takes: "about half a minute on 2 cores",
    instead: "",
    folder: "tools/alertmanager",
    go_mod: include_str!("../tools/alertmanager/go.mod"),
    go_sum: include_str!("../tools/alertmanager/go.sum"),
    programs: &[("github.com/prometheus/alertmanager/cmd/alertmanager", "alertmanager", "alertmanager")],
    tags: "",
    linker_flags: |_| "-s -w".to_owned(),
    built: OnceCell::const_new(),
};

/// Without the discovery of targets in clouds, which takes most of the time to build. promtool, which is enough to check
/// rules, is not built apart: it has more packages (1,112, with a client of Kubernetes) than Prometheus (1,035), and both
/// together have 1,275.
static PROMETHEUS: GoTools = GoTools {
    names: "Prometheus and promtool",
    takes: "about 3 minutes on 2 cores",
    instead: "",
    folder: "tools/prometheus",
    go_mod: include_str!("../tools/prometheus/go.mod"),
    go_sum: include_str!("../tools/prometheus/go.sum"),
    programs: &[
        ("github.com/prometheus/prometheus/cmd/prometheus", "prometheus", "prometheus"),
        ("github.com/prometheus/prometheus/cmd/promtool", "promtool", "promtool"),
    ],
    tags: "remove_all_sd",
    linker_flags: |_| "-s -w".to_owned(),
    built: OnceCell::const_new(),
};

static HELM: GoTools = GoTools {
    names: "Helm",
    takes: "about two minutes on 2 cores",
    instead: "",
    folder: "tools/helm",
    go_mod: include_str!("../tools/helm/go.mod"),
    go_sum: include_str!("../tools/helm/go.sum"),
    programs: &[("helm.sh/helm/v4/cmd/helm", "helm", "helm")],
    tags: "",
    linker_flags: |_| "-s -w".to_owned(),
    built: OnceCell::const_new(),
};

/// The programs of a control plane.
#[derive(Debug, Clone)]
pub struct Binaries {
    pub etcd: PathBuf,
    pub kube_apiserver: PathBuf,
}

/// Builds all programs that tests may need, once. [`eventually`](crate::eventually), [`finish`](crate::finish) and
/// [`until`](crate::until) begin to count their time when no build is under way.
///
/// Errors are left to whoever needs the program that could not be built.
pub async fn build_all() {
    static BUILT: OnceCell<()> = OnceCell::const_new();
    let build = async || {
        let _under_way = UnderWay::begin();
        let control_plane = assets().is_none().then_some(&CONTROL_PLANE);
        let old = old_version().ok().flatten();
        let all = control_plane.into_iter().chain(old).chain([&HELM, &PROMETHEUS, &ALERTMANAGER]);
        let built = |tools: &'static GoTools| async move {
            let _ = tools.built().await;
        };
        stream::iter(all).for_each_concurrent(CONCURRENT_BUILDS, built).await;
    };
    BUILT.get_or_init(build).await;
}

/// Finds etcd and kube-apiserver in `KUBEBUILDER_ASSETS`. If that is not set, builds them once with Go. With
/// `ORCHESTR_TEST_KUBERNETES=1.32`, the API server of that version is always built.
/// Returns [`Error::Assets`] if the folder lacks a program, [`Error::Version`] if the version is not supported, [`Error::NoGo`]
/// or [`Error::Build`] if the programs cannot be built.
pub async fn binaries() -> Result<Binaries> {
    let dir = match assets() {
        Some(dir) => {
            require(&dir, &["etcd", "kube-apiserver"])?;
            dir
        }
        None => CONTROL_PLANE.built().await?.to_owned(),
    };
    let kube_apiserver = match old_version()? {
        Some(old) => old.built().await?.join("kube-apiserver"),
        None => dir.join("kube-apiserver"),
    };
    Ok(Binaries { etcd: dir.join("etcd"), kube_apiserver })
}

/// Finds kubectl like [`binaries`].
pub async fn kubectl() -> Result<PathBuf> {
    let dir = match assets() {
        Some(dir) => {
            require(&dir, &["kubectl"])?;
            dir
        }
        None => CONTROL_PLANE.built().await?.to_owned(),
    };
    Ok(dir.join("kubectl"))
}

/// Builds Alertmanager, once, with Go.
pub(crate) async fn alertmanager() -> Result<PathBuf> {
    build_all().await;
    Ok(ALERTMANAGER.built().await?.join("alertmanager"))
}

/// Builds Helm, once, with Go.
pub async fn helm() -> Result<PathBuf> {
    build_all().await;
    Ok(HELM.built().await?.join("helm"))
}

/// Builds Prometheus and promtool, once, with Go, and returns their folder.
pub(crate) async fn prometheus() -> Result<PathBuf> {
    build_all().await;
    PROMETHEUS.built().await.map(Path::to_owned)
}

/// The minor version of the API server.
#[must_use]
pub fn kubernetes_minor() -> u32 {
    let version = env::var(VERSION).unwrap_or_default();
    version.strip_prefix("1.").and_then(|minor| minor.parse().ok()).unwrap_or(NEWEST)
}

/// The older API server that [`VERSION`] names.
fn old_version() -> Result<Option<&'static GoTools>> {
    let Some(version) = env::var(VERSION).ok().filter(|version| !version.is_empty()) else { return Ok(None) };
    match OLD_API_SERVERS.iter().find(|(known, _)| *known == version) {
        Some((_, old)) => Ok(Some(old)),
        None => Err(Error::Version { version, known: OLD_API_SERVERS.iter().map(|(known, _)| *known).collect() }),
    }
}

fn assets() -> Option<PathBuf> {
    env::var_os("KUBEBUILDER_ASSETS").filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

fn require(dir: &Path, programs: &[&str]) -> Result<()> {
    let missing: Vec<&str> = programs.iter().copied().filter(|program| !dir.join(program).is_file()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Assets { dir: dir.to_owned(), missing: missing.join(" and no ") })
}
