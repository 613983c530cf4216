//! Scans several clusters concurrently.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use futures::{StreamExt, stream};
use tokio::{
    sync::oneshot,
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use crate::cli::{
    Failure,
    connect::{ConnectionFlags, contexts},
    duration::duration,
    runtime,
};

use super::{
    ScanFlags,
    cluster::scan_cluster,
    namespaces::Namespaces,
    progress::Progress,
    scanned::{Results, Scanned, Unscanned},
};

/// How many clusters are scanned concurrently.
const CONCURRENCY: usize = 64;
/// How long a request to one of several clusters may take by default: those that hang must not delay the others.
const TIMEOUT: Duration = Duration::from_secs(4);
/// The same for the only cluster.
const TIMEOUT_OF_ONE: Duration = Duration::from_secs(60);
/// How long it may take to connect, at least: without a request, but with a credential plugin, which may be slow.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which clusters to scan.
#[derive(Clone, Debug, Args)]
pub(super) struct ClusterFlags {
    /// The kubeconfig file; by default $KUBECONFIG, ~/.kube/config, or the pod's own service account
    #[arg(long, env = "ORCHESTR_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// A context in the kubeconfig, its current context by default; may be repeated to check several clusters
    #[arg(long, env = "ORCHESTR_CONTEXT", value_name = "NAME")]
    context: Vec<String>,

    /// Check the clusters of all contexts in the kubeconfig
    #[arg(long, conflicts_with = "filename")]
    all_contexts: bool,

    /// How long a cluster may take to answer a request; 60s by default, or 4s if there are several clusters
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    request_timeout: Option<Duration>,
}

impl ClusterFlags {
    /// The contexts to scan. Absent if there is only one cluster, which results do not name.
    pub(super) fn contexts(&self) -> Result<Option<Vec<String>>, Failure> {
        let mut names = self.context.clone();
        if self.all_contexts {
            names.extend(contexts(self.kubeconfig.as_deref())?);
        } else if names.len() < 2 {
            return Ok(None);
        }
        let mut unique: Vec<String> = Vec::new();
        for name in names {
            if !unique.contains(&name) {
                unique.push(name);
            }
        }
        Ok(Some(unique))
    }

    /// The connection to a context, or to the only cluster.
    pub(super) fn connection(&self, context: Option<&str>) -> ConnectionFlags {
        let context = context.map(str::to_owned).or_else(|| self.context.first().cloned());
        ConnectionFlags { kubeconfig: self.kubeconfig.clone(), context }
    }

    pub(super) fn timeout(&self, is_one_of_several: bool) -> Duration {
        self.request_timeout.unwrap_or(if is_one_of_several { TIMEOUT } else { TIMEOUT_OF_ONE })
    }
}

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

/// Scans a cluster on a thread of its own. A credential plugin that hangs, or a resolver, blocks its thread: then this thread is
/// given up, and ends with the process.
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
