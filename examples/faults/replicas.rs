//! Three replicas of the operator as processes of their own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::process::{Child, Command};

use super::{
    Result,
    cluster::{LEASE, SYSTEM},
    schedule::Who,
};

const COUNT: usize = 3;
/// How long a replica may take to end after SIGTERM before it is killed, as by a kubelet.
const GRACE: Duration = Duration::from_secs(15);

pub struct Replicas {
    /// `None` between the end of a replica and its next start.
    programs: Vec<Option<Child>>,
    /// The programs that take turns: this one, and possibly another version.
    versions: Vec<PathBuf>,
    starts: usize,
    kubeconfig: PathBuf,
    logs: PathBuf,
    /// The leader, as far as it could be read.
    leader: usize,
    /// How often a replica has ended by itself, such as at a start without an API server.
    pub ended: usize,
}

impl Replicas {
    pub fn start(versions: Vec<PathBuf>, kubeconfig: &Path, logs: &Path) -> Result<Self> {
        let (kubeconfig, logs) = (kubeconfig.to_owned(), logs.to_owned());
        let mut replicas = Self { programs: Vec::new(), versions, starts: 0, kubeconfig, logs, leader: 0, ended: 0 };
        for index in 0..COUNT {
            let program = replicas.run(index)?;
            replicas.programs.push(Some(program));
        }
        Ok(replicas)
    }

    fn run(&mut self, index: usize) -> Result<Child> {
        let log = fs::File::options().create(true).append(true).open(self.log(index))?;
        let version = &self.versions[self.starts % self.versions.len()];
        self.starts += 1;
        let child = Command::new(version)
            .args(["run", "--leader-elect", "--lease-name", LEASE, "--lease-namespace", SYSTEM])
            .args(["--webhook-allow-http", "--webhook-allow-loopback", "--log-format", "json"])
            .env_clear()
            .env("HOME", "/nonexistent")
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOSTNAME", format!("replica-{index}"))
            .envs(std::env::var_os("ORCHESTR_LOG").map(|filter| ("ORCHESTR_LOG", filter)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        Ok(child)
    }

    fn log(&self, index: usize) -> PathBuf {
        self.logs.join(format!("replica-{index}.log"))
    }

    /// The index of a replica; of the last known leader if the API server does not say who leads.
    pub async fn index(&mut self, who: Who, client: &Client) -> usize {
        let Who::Replica(index) = who else {
            let leases = Api::<Lease>::namespaced(client.clone(), SYSTEM);
            let lease = tokio::time::timeout(Duration::from_secs(2), leases.get(LEASE)).await;
            let holder = lease.ok().and_then(|lease| lease.ok()).and_then(|lease| lease.spec?.holder_identity);
            let index = holder.and_then(|holder| holder.strip_prefix("replica-")?.split('_').next()?.parse().ok());
            self.leader = index.filter(|index| *index < COUNT).unwrap_or(self.leader);
            return self.leader;
        };
        index
    }

    /// Sends a signal by name.
    pub async fn signal(&self, index: usize, signal: &str) -> Result<()> {
        if let Some(pid) = self.programs[index].as_ref().and_then(Child::id) {
            Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().await?;
        }
        Ok(())
    }

    /// Kills a replica. It stays down until it is [started](Self::start_again).
    pub async fn kill(&mut self, index: usize) -> Result<()> {
        if let Some(mut program) = self.programs[index].take() {
            program.kill().await?;
        }
        Ok(())
    }

    /// Waits for the end of a replica that was asked to end, and starts it again.
    pub async fn start_again(&mut self, index: usize) -> Result<()> {
        if let Some(program) = &mut self.programs[index] {
            let _ = tokio::time::timeout(GRACE, program.wait()).await;
        }
        self.kill(index).await?;
        self.programs[index] = Some(self.run(index)?);
        Ok(())
    }

    /// Starts those again that have ended by themselves, as a kubelet does, except for this one.
    pub fn revive(&mut self, except: Option<usize>) -> Result<()> {
        for index in (0..COUNT).filter(|index| Some(*index) != except) {
            let has_ended = match &mut self.programs[index] {
                Some(program) => program.try_wait()?.is_some(),
                None => false,
            };
            if has_ended {
                self.ended += 1;
                self.programs[index] = Some(self.run(index)?);
            }
        }
        Ok(())
    }

    /// The lines of the logs that no fault explains.
    pub fn bad_lines(&self) -> Vec<String> {
        let logs = (0..COUNT).map(|index| fs::read_to_string(self.log(index)).unwrap_or_default());
        let is_bad = |line: &&str| line.contains("panicked");
        logs.flat_map(|log| log.lines().filter(is_bad).map(str::to_owned).collect::<Vec<_>>()).collect()
    }
}
