//! Scans several clusters concurrently.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use tokio::{
    sync::oneshot,
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use crate::cli::{Failure, process::runtime};

use super::{
    cluster::scan_cluster,
    filter::Namespaces,
    flags::ScanFlags,
    output::Progress,
    scanned::{Results, Scanned, Unscanned},
};

/// How many clusters are scanned concurrently.
const CONCURRENCY: usize = 64;
/// How long it may take to connect, at least: without a request, but with a credential plugin, which may be slow.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Scans the clusters of these contexts. One that hangs or fails does not delay the others.
pub(super) async fn scan_clusters(contexts: Vec<String>, flags: &ScanFlags, namespaces: &Namespaces) -> Results {
    let flags = Arc::new(flags.clone());
    let count = contexts.len();
    let scans = contexts.into_iter().enumerate().map(|(index, context)| {
        let (flags, namespaces) = (Arc::clone(&flags), namespaces.clone());
        async move {
            let scanned = scan_apart(context.clone(), flags, namespaces).await;
            (index, scanned.map_err(|why| Unscanned { context, why }))
        }
    });
    let mut progress = Progress::new();
    let mut scans = stream::iter(scans).buffer_unordered(CONCURRENCY);
    let mut clusters = Vec::with_capacity(count);
    while let Some(cluster) = scans.next().await {
        clusters.push(cluster);
        progress.show(|| format!("checked {} of {count} clusters…", clusters.len()));
    }
    clusters.sort_by_key(|(index, _)| *index);
    Results { are_named: true, clusters: clusters.into_iter().map(|(_, cluster)| cluster).collect() }
}

/// Scans a cluster on a thread of its own. A credential plugin that hangs, or a resolver, blocks its thread: then this
/// thread is given up, and ends with the process.
async fn scan_apart(context: String, flags: Arc<ScanFlags>, namespaces: Namespaces) -> Result<Scanned, Failure> {
    let timeout = flags.clusters.timeout(true).max(CONNECT_TIMEOUT);
    let deadline = Instant::now() + timeout;
    let (connected, is_connected) = oneshot::channel();
    let scan = spawn_blocking(move || {
        let runtime = runtime()?;
        let mut progress = |_| {};
        let scan = scan_cluster(&flags, Some(&context), namespaces, || _ = connected.send(()), &mut progress);
        let scanned = runtime.block_on(scan);
        // A resolver that hangs must not hold back the result.
        runtime.shutdown_background();
        scanned
    });
    let late =
        || Failure::new(format!("no credentials within {} s: does its credential plugin hang?", timeout.as_secs_f32()));
    // If the scan failed before it was connected, the reason is in its result.
    timeout_at(deadline, is_connected).await.map_err(|_| late())?.ok();
    scan.await.unwrap_or_else(|_| Err(Failure::new("the scan ended unexpectedly")))
}
