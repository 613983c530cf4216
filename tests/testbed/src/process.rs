//! Programs that never outlive this process, however it ends.
//!
//! A destructor is not enough: none runs after SIGKILL, `std::process::exit`, an abort, or for a static. So each
//! program is run by a small shell script in a process group of its own (Ctrl-C does not reach it), which reads from a
//! pipe that only this process holds: the kernel closes the pipe when this process is gone, and the script ends its
//! program. The last script of a run removes the run's folder.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{ChildStdin, Command, ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
    thread::JoinHandle,
};

use tokio::sync::watch;

use crate::error::{Doing, Error, Result};

const SCRIPT: &str = include_str!("process.sh");

/// How much of a log an error shows.
const TAIL: usize = 4096;

/// A program to run.
pub(crate) struct Program {
    /// The name of its log, and of the file that marks it as running, in the run's folder.
    pub name: &'static str,
    pub path: PathBuf,
    pub args: Vec<OsString>,
    pub env: Env,
}

/// The environment of a program.
pub(crate) enum Env {
    /// Only `PATH`, because etcd and the API server also read settings from the environment, on which a test must not
    /// depend.
    Clean,
    /// This process's own, and these.
    Inherit(&'static [(&'static str, &'static str)]),
}

/// A running program. Dropping the value kills it and waits for its end.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    pid: u32,
    log: PathBuf,
    pipe: Mutex<Option<ChildStdin>>,
    /// How the program ended; `None` while it runs.
    ended: watch::Receiver<Option<String>>,
    thread: Option<JoinHandle<()>>,
}

/// Makes the folder of a run, which the last process of the run removes.
pub(crate) fn run_dir(parent: &Path, prefix: &str) -> Result<PathBuf> {
    let dir = tempfile::Builder::new()
        .prefix(prefix)
        .tempdir_in(parent)
        .doing(|| format!("make a folder in {}", parent.display()))?;
    fs::create_dir(dir.path().join("alive")).doing(|| "make a folder".to_owned())?;
    Ok(dir.keep())
}

impl Process {
    /// Starts `program`; its log is `NAME.log` in `run`, a folder from [`run_dir`].
    pub(crate) fn spawn(run: &Path, program: Program) -> Result<Self> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "process"])
            .arg(run)
            .arg(program.name)
            .arg(&program.path)
            .args(&program.args)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        match program.env {
            Env::Clean => {
                let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
                command.env_clear().env("PATH", path)
            }
            Env::Inherit(more) => command.envs(more.iter().copied()),
        };
        // Go, for instance, would leave its temporary files when it is killed.
        command.env("TMPDIR", run);
        let mut shell = command.spawn().doing(|| "start /bin/sh".to_owned())?;
        let pipe = shell.stdin.take();
        let mut lines = BufReader::new(shell.stdout.take().ok_or_else(|| Error::Program {
            program: program.name.to_owned(),
            what: "has no output".to_owned(),
            log: String::new(),
        })?)
        .lines();
        let log = run.join(program.name).with_extension("log");
        let Some(pid) = lines.next().and_then(|line| line.ok()?.parse().ok()) else {
            return Err(Error::Program {
                program: program.name.to_owned(),
                what: "could not be started".to_owned(),
                log: tail(&log),
            });
        };
        let (tell, ended) = watch::channel(None);
        // A thread, because a task would end with the runtime of the test that started a shared control plane.
        let thread = std::thread::spawn(move || {
            let status = lines.next().and_then(|line| line.ok()?.parse().ok());
            tell.send_replace(Some(describe(status)));
            // Reaps the shell. `drop` waits for this thread.
            let _ = shell.wait();
        });
        Ok(Self { name: program.name, pid, log, pipe: Mutex::new(pipe), ended, thread: Some(thread) })
    }

    /// The program's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends the program a signal, by name (`TERM`).
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        match pipe.as_mut() {
            Some(pipe) => writeln!(pipe, "{name}").doing(|| format!("signal {}", self.name)),
            None => Ok(()),
        }
    }

    /// Waits until the program has ended, and returns how it ended.
    pub(crate) async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => describe(None),
        }
    }

    /// An error about this program, with the end of its log.
    pub(crate) fn error(&self, what: impl Into<String>) -> Error {
        Error::Program { program: self.name.to_owned(), what: what.into(), log: tail(&self.log) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.pipe.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A shell reports a death by signal as 128 + the signal.
fn describe(status: Option<i32>) -> String {
    match status {
        None => "ended".to_owned(),
        Some(signal @ 129..) => format!("ended ({})", ExitStatus::from_raw(signal - 128)),
        Some(code) => format!("ended (exit status: {code})"),
    }
}

/// The end of a log, in whole lines if possible.
pub(crate) fn tail(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let end = &bytes[bytes.len().saturating_sub(TAIL)..];
    let text = String::from_utf8_lossy(end);
    let text = text.trim_end();
    match text.split_once('\n') {
        Some((_, whole)) if bytes.len() > TAIL => whole.to_owned(),
        _ => text.to_owned(),
    }
}
