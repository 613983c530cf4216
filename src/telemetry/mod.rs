//! How the operator is observed: its own log, the metrics and probes, and the heartbeat webhook.
//!
//! Metrics, probes and heartbeat have a thread and a runtime of their own, so that neither waits for the other: a slow
//! scraper delays no status, and a stuck event loop fails its liveness probe.

pub mod api_requests;
pub mod heartbeat;
pub mod logging;
pub mod server;

use std::{io, net::TcpListener, thread};

use tokio::runtime::Builder;

use crate::{metrics::Metrics, watchdog::Heartbeat};

use self::heartbeat::HeartbeatWebhook;

/// Serves metrics and probes, and pings the heartbeat webhook, on a thread of its own until the process ends. `heartbeat` is that
/// of the event loop.
///
/// # Errors
/// When the thread cannot be started.
pub fn start(
    listener: Option<TcpListener>,
    webhook: Option<HeartbeatWebhook>,
    metrics: Metrics,
    heartbeat: Heartbeat,
) -> io::Result<()> {
    if listener.is_none() && webhook.is_none() {
        return Ok(());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        runtime.block_on(async {
            let pings = async {
                if let Some(webhook) = webhook {
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

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpStream,
        time::Duration,
    };

    use super::*;

    #[tokio::test]
    async fn answers_while_the_thread_of_the_event_loop_is_stuck() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (metrics, heartbeat) = (Metrics::default(), Heartbeat::default());
        let own = heartbeat.clone();
        start(Some(listener), None, metrics, own).unwrap();
        // Blocks the only thread of this runtime, as a stuck event loop does.
        let get = || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            response
        };
        assert!(get().starts_with("HTTP/1.1 200 OK"));
        heartbeat.set_late(true);
        assert!(get().starts_with("HTTP/1.1 503 Service Unavailable"));
    }
}
