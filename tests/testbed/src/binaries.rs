//! Where etcd, kube-apiserver and kubectl come from: `KUBEBUILDER_ASSETS`, or a build by Go that is kept in `target/`.

use std::{
    env,
    ffi::OsString,
    fs::{self, File, TryLockError},
    io::{IsTerminal, Write, stderr},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use crate::{
    error::{Doing, Error, Result},
    guardian::{Env, Guardian, Program, run_dir, tail},
};

const GO_MOD: &str = include_str!("../tools/go.mod");
const GO_SUM: &str = include_str!("../tools/go.sum");

/// The packages to build, and what their programs are called here.
const PROGRAMS: [(&str, &str, &str); 3] = [
    ("go.etcd.io/etcd/server/v3", "server", "etcd"),
    ("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver", "kube-apiserver"),
    ("k8s.io/kubernetes/cmd/kubectl", "kubectl", "kubectl"),
];

/// How often somebody who waits for a build is told that it goes on: on a terminal, and in a log.
const PROGRESS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15)];

/// How often is looked whether another process has built them.
const POLL: Duration = Duration::from_millis(250);

/// The programs of a control plane.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// etcd.
    pub etcd: PathBuf,
    /// The API server.
    pub kube_apiserver: PathBuf,
}

/// Finds etcd and kube-apiserver in `KUBEBUILDER_ASSETS` where that is set, and otherwise builds them, once, with Go.
///
/// # Errors
///
/// [`Error::Assets`] when the folder lacks one, [`Error::NoGo`] and [`Error::Build`] when they cannot be built.
pub async fn binaries() -> Result<Binaries> {
    let dir = match assets() {
        Some(dir) => {
            require(&dir, &["etcd", "kube-apiserver"])?;
            dir
        }
        None => built().await?,
    };
    Ok(Binaries { etcd: dir.join("etcd"), kube_apiserver: dir.join("kube-apiserver") })
}

/// Finds kubectl like [`binaries`].
///
/// # Errors
///
/// Like [`binaries`].
pub async fn kubectl() -> Result<PathBuf> {
    let dir = match assets() {
        Some(dir) => {
            require(&dir, &["kubectl"])?;
            dir
        }
        None => built().await?,
    };
    Ok(dir.join("kubectl"))
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

/// The folder of the programs as built by Go, once for all processes and all builds of this crate.
async fn built() -> Result<PathBuf> {
    static BUILT: OnceCell<PathBuf> = OnceCell::const_new();
    BUILT
        .get_or_try_init(|| async {
            let root = target_dir().join("testbed").join(key());
            let bin = root.join("bin");
            if !bin.is_dir() {
                build(&root, &bin).await?;
            }
            Ok(bin)
        })
        .await
        .cloned()
}

fn target_dir() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty()) {
        // Cargo reads a relative one from where it was called, which is the workspace here as in .ci/run.
        Some(dir) => workspace.join(dir),
        None => workspace.join("target"),
    }
}

/// Names a build by everything that goes into it.
fn key() -> String {
    let mut hash = Sha256::new();
    hash.update(linker_flags());
    hash.update(format!("{PROGRAMS:?}"));
    hash.update(GO_MOD);
    hash.update(GO_SUM);
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

async fn build(root: &Path, bin: &Path) -> Result<()> {
    fs::create_dir_all(root).doing(|| format!("make {}", root.display()))?;
    let path = root.join("lock");
    // The lock goes with its holder's process, however that ends.
    let lock = File::create(&path).doing(|| format!("make {}", path.display()))?;
    let mut progress = Progress::new("waiting for another process that builds etcd and kube-apiserver");
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) => progress.wait().await,
            Err(TryLockError::Error(source)) => {
                return Err(source).doing(|| format!("lock {}", path.display()));
            }
        }
    }
    drop(progress);
    if bin.is_dir() {
        return Ok(());
    }
    go_build(root, bin).await
}

async fn go_build(root: &Path, bin: &Path) -> Result<()> {
    let version = in_go_mod("go ").to_owned();
    let Some(go) = on_path("go") else {
        return Err(Error::NoGo { version });
    };
    let run = run_dir(root, "build-")?;
    let out = run.join("bin");
    let program = Program {
        name: "go",
        path: go,
        args: arguments(&out),
        env: Env::Inherit(&[("CGO_ENABLED", "0"), ("GOWORK", "off"), ("GOTMPDIR", "")]),
    };
    let go = Guardian::spawn(&run, program)?;
    let mut progress = Progress::new("building etcd and kube-apiserver with Go (once, about 4 minutes on 2 cores)");
    let how = loop {
        tokio::select! {
            how = go.ended() => break how,
            () = progress.wait() => {}
        }
    };
    drop(progress);
    for (_, from, to) in PROGRAMS {
        // What Go could not build is not there.
        if fs::rename(out.join(from), out.join(to)).is_err() {
            return Err(Error::Build { version, status: how, log: tail(&run.join("go.log")) });
        }
    }
    fs::rename(&out, bin).doing(|| format!("move the programs to {}", bin.display()))
}

/// A version in go.mod: what follows `prefix` on its line.
fn in_go_mod(prefix: &str) -> &'static str {
    let mut lines = GO_MOD.lines().map(str::trim);
    lines.find_map(|line| line.strip_prefix(prefix)?.split_whitespace().next()).unwrap_or("unknown")
}

/// A build outside its own repository does not know which version of Kubernetes it is.
fn linker_flags() -> String {
    let version = in_go_mod("k8s.io/kubernetes ");
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or(""), numbers.next().unwrap_or(""));
    let of = "k8s.io/component-base/version";
    format!("-s -w -X {of}.gitVersion={version} -X {of}.gitMajor={major} -X {of}.gitMinor={minor}")
}

fn arguments(out: &Path) -> Vec<OsString> {
    let tools = concat!(env!("CARGO_MANIFEST_DIR"), "/tools");
    let mut folder = out.as_os_str().to_owned();
    folder.push("/");
    let mut args: Vec<OsString> =
        ["build", "-C", tools, "-mod=readonly", "-trimpath", "-ldflags"].map(OsString::from).to_vec();
    args.extend([linker_flags().into(), "-o".into(), folder]);
    args.extend(PROGRAMS.map(|(package, _, _)| package.into()));
    args
}

fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// Tells on standard error that something goes on: on a terminal by one line that counts, elsewhere by a line now
/// and then.
struct Progress {
    what: &'static str,
    terminal: bool,
    since: Instant,
    told: Option<Instant>,
}

impl Progress {
    fn new(what: &'static str) -> Self {
        Self { what, terminal: stderr().is_terminal(), since: Instant::now(), told: None }
    }

    /// Waits a moment, and tells so if that is due.
    async fn wait(&mut self) {
        let [terminal, log] = PROGRESS;
        let every = if self.terminal { terminal } else { log };
        if self.told.is_none_or(|told| told.elapsed() >= every) {
            self.told = Some(Instant::now());
            let seconds = self.since.elapsed().as_secs();
            let (start, end) = if self.terminal { ("\r", "") } else { ("", "\n") };
            let mut stderr = stderr().lock();
            // Nobody may be reading.
            let _ = write!(stderr, "{start}{} … {seconds}s{end}", self.what);
            let _ = stderr.flush();
        }
        tokio::time::sleep(POLL).await;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal && self.told.is_some() {
            let _ = writeln!(stderr());
        }
    }
}
