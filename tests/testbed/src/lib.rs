//! A real control plane on loopback, for tests, the demo and the benches: etcd and an API server, and a kubelet of our
//! own for logs. For development only, never shipped.
//!
//! ```no_run
//! # async fn example() -> orchestr_testbed::Result<()> {
//! let plane = orchestr_testbed::shared().await;
//! let namespace = plane.namespace("example").await?;
//! let client = plane.admin()?;
//! # Ok(()) }
//! ```

mod access;
mod alertmanager;
pub mod attacks;
mod backup;
mod binaries;
pub mod book;
mod control_plane;
mod earlier;
mod error;
mod etcd;
pub mod fixtures;
mod go;
mod http_get;
mod kubelet;
mod kubelet_server;
mod logs;
pub mod messages;
pub mod objects;
mod pki;
pub mod pods;
mod port;
mod process;
mod programs;
mod prometheus;
mod receiver;
mod table;
mod wait;

pub use access::{KubectlOutput, ServiceAccountAccess};
pub use alertmanager::Alertmanager;
pub use backup::Backup;
pub use binaries::{Binaries, binaries, build_all, helm, kubectl, kubernetes_minor};
pub use control_plane::{ControlPlane, Options};
pub use earlier::{EARLIER, earlier_version};
pub use error::{Error, Result};
pub use etcd::Writer;
pub use kubelet::{Answer, Kubelet, LogRequest};
pub use logs::LogOptions;
pub use prometheus::{Prometheus, PromtoolOutput, free_port, page, promtool};
pub use receiver::{Received, Receiver, Reply};
pub use table::{Row, Table};
pub use wait::{eventually, finish, until};

/// The control plane that all tests of a program share, each in its own namespaces. The first call starts it, after
/// [`build_all`].
///
/// # Panics
///
/// If it cannot be started, with the reason.
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub async fn shared() -> &'static ControlPlane {
    // A failure is kept too, so that the other tests fail immediately.
    static SHARED: tokio::sync::OnceCell<Result<ControlPlane>> = tokio::sync::OnceCell::const_new();
    let start = async || {
        build_all().await;
        ControlPlane::start(Options::default()).await
    };
    match SHARED.get_or_init(start).await {
        Ok(plane) => plane,
        Err(error) => panic!("{error}"),
    }
}
