//! Runs the operator in its own process, and reads its memory and processor time from the kernel.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{Outcome, trouble};

/// The clock ticks of a second in `/proc/PID/stat`: always 100 on the common architectures of Linux.
const TICKS: f64 = 100.0;

/// A running operator; it ends when this is dropped.
pub struct Process {
    child: Child,
    /// The time just before it was started.
    pub started: Instant,
}

impl Process {
    pub fn start(binary: &Path, kubeconfig: &Path, flags: &[&str], log: Option<&Path>) -> Outcome<Self> {
        let stderr = match log {
            Some(path) => Stdio::from(fs::File::create(path)?),
            None => Stdio::null(),
        };
        let mut command = Command::new(binary);
        command
            .arg("run")
            .args(flags)
            .env_clear()
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        // For experiments with an allocator's settings.
        command.envs(std::env::vars().filter(|(name, _)| {
            ["MALLOC_", "GLIBC_TUNABLES", "MIMALLOC_", "TOKIO_"].iter().any(|prefix| name.starts_with(prefix))
        }));
        let started = Instant::now();
        Ok(Self { child: command.spawn()?, started })
    }

    /// The peak resident memory, in MiB.
    pub fn peak_mib(&self) -> Outcome<f64> {
        self.status("VmHWM:")
    }

    /// The resident memory, in MiB.
    pub fn resident_mib(&self) -> Outcome<f64> {
        self.status("VmRSS:")
    }

    /// The anonymous part of the resident memory, in MiB: without the program's code and other files.
    pub fn anonymous_mib(&self) -> Outcome<f64> {
        self.status("RssAnon:")
    }

    fn status(&self, field: &str) -> Outcome<f64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok());
        kib.map(|kib| kib / 1024.0).ok_or_else(|| trouble(format!("no {field} of the operator")))
    }

    /// The processor time used so far.
    pub fn cpu(&self) -> Outcome<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The program's name is in parentheses and may contain spaces. `utime` and `stime` are the 12th and 13th field
        // after it.
        let fields: Vec<&str> = text.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
        let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
        let (user, system) = (ticks(11), ticks(12));
        let ticks = user.zip(system).ok_or_else(|| trouble("no processor time of the operator".to_owned()))?;
        Ok(Duration::from_secs_f64((ticks.0 + ticks.1) / TICKS))
    }

    /// Stops the operator with SIGTERM, as Kubernetes does, and fails unless it exits successfully.
    pub async fn stop(mut self) -> Outcome {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return if status.success() { Ok(()) } else { Err(trouble(format!("the operator ended: {status}"))) };
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(trouble("the operator did not stop".to_owned()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
