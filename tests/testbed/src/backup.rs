//! Backups of etcd, and their restoration.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::PoisonError,
    time::Duration,
};

use crate::{
    control_plane::{ControlPlane, STOP, drop_elsewhere, until_listening},
    error::{Doing, Error, Result},
    process::Process,
    programs,
};

/// A copy of the data of etcd. It is deleted with the control plane.
#[derive(Debug)]
pub struct Backup(PathBuf);

impl ControlPlane {
    /// Takes a backup of the whole cluster. etcd is stopped for that, for less than a second.
    /// Fails if the files cannot be copied, or if etcd does not start again; then with the end of its log.
    pub async fn back_up(&self) -> Result<Backup> {
        let (data, backup) =
            (self.run.join("etcd"), tempfile::tempdir_in(&self.run).doing(|| "make a folder".to_owned())?);
        self.without_etcd(|| copy_folder(&data, &backup.path().join("etcd"))).await?;
        Ok(Backup(backup.keep()))
    }

    /// Puts the cluster back to the state of a backup, as an administrator does who restores etcd: while the API server is
    /// stopped. What was written since is lost, and resource versions continue from those of the backup.
    pub async fn restore(&self, backup: &Backup) -> Result<()> {
        if self.lock().is_some() {
            return Err(Error::ApiServer("running"));
        }
        let data = self.run.join("etcd");
        self.without_etcd(|| {
            fs::remove_dir_all(&data).doing(|| format!("remove {}", data.display()))?;
            copy_folder(&backup.0.join("etcd"), &data)
        })
        .await
    }

    /// Kills etcd as a power cut does, and starts it again after this time.
    pub async fn interrupt_etcd(&self, down: Duration) -> Result<()> {
        let alive = self.keep_folder()?;
        if let Some(etcd) = self.take_etcd() {
            drop_elsewhere(etcd).await;
        }
        tokio::time::sleep(down).await;
        self.start_etcd(&alive).await
    }

    /// Stops etcd, does `work`, and starts etcd again.
    async fn without_etcd(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let alive = self.keep_folder()?;
        if let Some(etcd) = self.take_etcd() {
            etcd.signal("TERM")?;
            let _ = tokio::time::timeout(STOP, etcd.ended()).await;
            drop_elsewhere(etcd).await;
        }
        work()?;
        self.start_etcd(&alive).await
    }

    /// The last program that ends removes the run's folder, unless another one seems to be alive.
    fn keep_folder(&self) -> Result<PathBuf> {
        let alive = self.run.join("alive").join("restart-of-etcd");
        fs::write(&alive, "").doing(|| format!("write {}", alive.display()))?;
        Ok(alive)
    }

    fn take_etcd(&self) -> Option<Process> {
        self.etcd.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    async fn start_etcd(&self, alive: &Path) -> Result<()> {
        let etcd = Process::spawn(&self.run, programs::etcd(&self.run, &self.binaries, self.etcd_port))?;
        until_listening(&etcd, self.etcd_port).await?;
        *self.etcd.lock().unwrap_or_else(PoisonError::into_inner) = Some(etcd);
        fs::remove_file(alive).doing(|| format!("remove {}", alive.display()))
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let doing = || format!("copy {}", from.display());
    fs::create_dir(to).doing(doing)?;
    for entry in fs::read_dir(from).doing(doing)? {
        let entry = entry.doing(doing)?;
        let to = to.join(entry.file_name());
        if entry.file_type().doing(doing)?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to).doing(doing)?;
        }
    }
    Ok(())
}
