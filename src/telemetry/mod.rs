//! How the operator is observed: its own log, the metrics and probes, and the heartbeat webhook.
//!
//! Metrics, probes and heartbeat have a thread and a runtime of their own, so that neither waits for the other: a slow
//! scraper delays no status, and a stuck event loop fails its liveness probe.

pub mod api_requests;
pub mod heartbeat;
pub mod logging;
mod page;
pub mod panics;
mod process;
pub mod server;

use std::{io, net::TcpListener, thread};

use tokio::runtime::Builder;

use crate::{metrics::Metrics, watchdog::Heartbeat};

use self::heartbeat::HeartbeatWebhook;

/// What to start.
pub struct Telemetry {
    /// The socket of metrics and probes.
    pub listener: Option<TcpListener>,
    pub heartbeat_webhook: Option<HeartbeatWebhook>,
    pub metrics: Metrics,
    /// Of the event loop.
    pub heartbeat: Heartbeat,
}

/// Serves metrics and probes, and pings the heartbeat webhook, on a thread of its own until the process ends.
///
/// # Errors
/// When the thread cannot be started.
pub fn start(telemetry: Telemetry) -> io::Result<()> {
    let Telemetry { listener, heartbeat_webhook, metrics, heartbeat } = telemetry;
    if listener.is_none() && heartbeat_webhook.is_none() {
        return Ok(());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        runtime.block_on(async {
            let pings = async {
                if let Some(webhook) = heartbeat_webhook {
                    heartbeat::run(webhook, metrics.clone(), heartbeat.clone()).await;
                }
            };
            let served = async {
                if let Some(listener) = listener
                    && let Err(error) = server::serve(listener, &metrics, &heartbeat).await
                {
                    tracing::error!(%error, "cannot serve metrics and probes");
                }
            };
            tokio::join!(pings, served);
        });
    };
    thread::Builder::new().name("telemetry".to_owned()).spawn(run).map(drop)
}
