//! Programs that are built by the Go toolchain from a pinned `go.mod`, once, and kept in `target/`.

use std::{
    env,
    ffi::OsString,
    fs::{self, File, TryLockError},
    io::{Write, stderr},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use ring::digest::{Context, SHA256};
use tokio::sync::OnceCell;

use crate::{
    error::{Doing, Error, Result},
    process::{Env, Process, Program, run_dir, tail},
};

/// The interval between progress messages about a build.
const PROGRESS: Duration = Duration::from_secs(15);

/// The interval between two checks whether the build has ended.
const POLL: Duration = Duration::from_millis(250);

/// The time limit of a build, including a build by another process.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// How many builds are under way in this process.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// A build of this process, until it is dropped.
pub(crate) struct UnderWay(());

impl UnderWay {
    pub(crate) fn begin() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a build is under way in this process.
pub(crate) fn is_building() -> bool {
    UNDER_WAY.load(Ordering::Relaxed) > 0
}

/// Programs that share a `go.mod`.
pub(crate) struct GoTools {
    /// Their names in messages.
    pub names: &'static str,
    /// How long the build takes.
    pub takes: &'static str,
    /// An alternative to installing Go, as the end of a sentence; may be empty.
    pub instead: &'static str,
    /// The folder of go.mod, relative to this crate's folder.
    pub folder: &'static str,
    pub go_mod: &'static str,
    pub go_sum: &'static str,
    /// For each program: the package, the file name that Go gives it, and the file name to use instead.
    pub programs: &'static [(&'static str, &'static str, &'static str)],
    /// The build tags; may be empty.
    pub tags: &'static str,
    /// The linker flags, which may depend on go.mod.
    pub linker_flags: fn(go_mod: &str) -> String,
    /// The folder of the programs; set once they are built.
    pub built: OnceCell<PathBuf>,
}

impl GoTools {
    /// Returns the folder of the programs. They are built once for all processes and all builds of this crate.
    pub(crate) async fn built(&self) -> Result<&Path> {
        let built = self.built.get_or_try_init(|| async {
            let root = target_dir().join("testbed").join(self.key());
            let bin = root.join("bin");
            if !bin.is_dir() {
                self.build(&root, &bin).await?;
            }
            Ok(bin)
        });
        built.await.map(PathBuf::as_path)
    }

    /// A hash of all inputs of the build, which names its folder.
    fn key(&self) -> String {
        let mut hash = Context::new(&SHA256);
        hash.update((self.linker_flags)(self.go_mod).as_bytes());
        hash.update(format!("{:?}", self.programs).as_bytes());
        hash.update(self.tags.as_bytes());
        hash.update(self.go_mod.as_bytes());
        hash.update(self.go_sum.as_bytes());
        hash.finish().as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    async fn build(&self, root: &Path, bin: &Path) -> Result<()> {
        let _under_way = UnderWay::begin();
        fs::create_dir_all(root).doing(|| format!("make {}", root.display()))?;
        let path = root.join("lock");
        // The operating system releases the lock when the process ends for any reason.
        let lock = File::create(&path).doing(|| format!("make {}", path.display()))?;
        let mut progress = Progress::new(format!("waiting for another process that builds {}", self.names));
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if progress.is_over() => {
                    return Err(self.failed("is still under way in another process".to_owned(), String::new()));
                }
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
        self.go_build(root, bin).await
    }

    async fn go_build(&self, root: &Path, bin: &Path) -> Result<()> {
        let Some(go) = on_path("go") else {
            return Err(Error::NoGo { names: self.names, version: self.go_version(), instead: self.instead });
        };
        let run = run_dir(root, "build-")?;
        let out = run.join("bin");
        let mut args = self.arguments(&out);
        // A test may be running that needs none of the programs, and whose waits are bounded.
        let path = match on_path("nice") {
            Some(nice) => {
                args.splice(0..0, ["-n".into(), "15".into(), go.into_os_string()]);
                nice
            }
            None => go,
        };
        let program = Program {
            name: "go",
            path,
            args,
            env: Env::Inherit(&[("CGO_ENABLED", "0"), ("GOWORK", "off"), ("GOTMPDIR", "")]),
        };
        let go = Process::spawn(&run, program)?;
        let mut progress = Progress::new(format!("building {} with Go (once, {})", self.names, self.takes));
        let how = loop {
            tokio::select! {
                // Otherwise nothing is printed if Go ends immediately.
                biased;
                () = progress.wait() => {}
                how = go.ended() => break how,
            }
            if progress.is_over() {
                break format!("did not end within {} minutes", LIMIT.as_secs() / 60);
            }
        };
        drop(progress);
        for (_, from, to) in self.programs {
            // A program that Go could not build does not exist.
            if fs::rename(out.join(from), out.join(to)).is_err() {
                return Err(self.failed(how, tail(&run.join("go.log"))));
            }
        }
        fs::rename(&out, bin).doing(|| format!("move the programs to {}", bin.display()))
    }

    fn failed(&self, status: String, log: String) -> Error {
        Error::Build { names: self.names, version: self.go_version(), instead: self.instead, status, log }
    }

    fn go_version(&self) -> String {
        in_go_mod(self.go_mod, "go ").to_owned()
    }

    fn arguments(&self, out: &Path) -> Vec<OsString> {
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.folder);
        let mut folder = out.as_os_str().to_owned();
        folder.push("/");
        let mut args: Vec<OsString> = vec!["build".into(), "-C".into(), tools.into()];
        args.extend(["-mod=readonly", "-trimpath", "-tags", self.tags, "-ldflags"].map(OsString::from));
        args.extend([(self.linker_flags)(self.go_mod).into(), "-o".into(), folder]);
        args.extend(self.programs.iter().map(|(package, _, _)| package.into()));
        args
    }
}

/// A version in go.mod: the word after `prefix`.
pub(crate) fn in_go_mod<'a>(go_mod: &'a str, prefix: &str) -> &'a str {
    let mut lines = go_mod.lines().map(str::trim);
    lines.find_map(|line| line.strip_prefix(prefix)?.split_whitespace().next()).unwrap_or("unknown")
}

pub(crate) fn target_dir() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty()) {
        // Cargo resolves a relative path from the current folder. This assumes that cargo runs in the workspace's
        // folder.
        Some(dir) => workspace.join(dir),
        None => workspace.join("target"),
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// Prints a line of progress to standard error at each interval, and how long it took at the end. Several builds may be
/// under way.
struct Progress {
    what: String,
    since: Instant,
    last_printed: Option<Instant>,
}

impl Progress {
    fn new(what: String) -> Self {
        Self { what, since: Instant::now(), last_printed: None }
    }

    /// Whether the time limit has passed.
    fn is_over(&self) -> bool {
        self.since.elapsed() >= LIMIT
    }

    /// Waits for [`POLL`], and first prints the progress if it is due.
    async fn wait(&mut self) {
        if self.last_printed.is_none_or(|printed| printed.elapsed() >= PROGRESS) {
            self.last_printed = Some(Instant::now());
            self.print("…");
        }
        tokio::time::sleep(POLL).await;
    }

    fn print(&self, so_far: &str) {
        // Standard error may be closed. Unlike `eprintln!`, this is not captured by the test harness.
        let _ = writeln!(stderr().lock(), "{} {so_far} {}s", self.what, self.since.elapsed().as_secs());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.last_printed.is_some() {
            self.print("took");
        }
    }
}
