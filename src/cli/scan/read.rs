//! Reads and checks the pods of a cluster or of a file.

use std::{
    fs::File,
    io::{self, BufReader},
    path::Path,
    time::Duration,
};

use jiff::Timestamp;

use crate::{
    cli::{
        Failure,
        connect::{Retries, connect},
        live::ClusterView,
    },
    clock::ClusterClock,
};

use super::{
    ScanFlags,
    cluster::{self, Source},
    collector::{Collector, Filter},
    counted, file,
    logs::{self, Logs},
    namespaces::Namespaces,
    progress::Progress,
    scanned::Scanned,
    selector::LabelSelector,
};

/// The size of the read buffer for a file, in bytes.
const BUFFER_SIZE: usize = 256 * 1024;

/// Scans the cluster of a context, or the only cluster. `connected` is called before the first request, and `progress` with the
/// number of pods that were read.
pub(super) async fn scan_cluster(
    flags: &ScanFlags,
    context: Option<&str>,
    namespaces: Namespaces,
    connected: impl FnOnce(),
    progress: &mut dyn FnMut(u64),
) -> Result<Scanned, Failure> {
    let mut cluster = connect(&flags.clusters.connection(context), Retries::InTheClient).await?;
    connected();
    let clock = ClusterClock::default();
    cluster.client = clock.wrap_client(cluster.client, |_, _, _| {});
    let source = Source { cluster, timeout: flags.clusters.timeout(context.is_some()) };
    // The API server evaluates the label selector.
    let filter = Filter { namespaces, selector: LabelSelector::default() };
    let view = ClusterView::of(source.cluster.client.clone(), source.timeout, Duration::ZERO);
    let mut collector = Collector::with(view, flags.thresholds.thresholds(), clock.now(), filter);
    collector.source = source.cluster.target.name().to_owned();
    cluster::read(&source, flags.selector.as_deref(), &clock, &mut collector, progress).await?;
    let mut notes = cluster::read_world(&source, &mut collector).await;
    flags.since.into_iter().for_each(|since| collector.leave_out_older(since));
    let unowned = cluster::read_ownership(&source, &mut collector).await;
    let logs = match flags.logs {
        true => logs::read(&source.cluster, &collector, flags.log_timeout.unwrap_or(logs::TIMEOUT)).await,
        false => Logs::default(),
    };
    if unowned > 0 {
        let namespaces = counted(unowned as u64, "namespace");
        notes.push(format!(
            "cannot read the annotations of {namespaces}: the severity and team that they set are missing"
        ));
    }
    Ok(Scanned { context: context.map(str::to_owned), collector, logs, notes })
}

pub(super) fn scan_file(path: &Path, flags: &ScanFlags, filter: Filter) -> Result<Scanned, Failure> {
    let now = flags.at.unwrap_or_else(Timestamp::now);
    let mut collector = Collector::new(flags.thresholds.thresholds(), now, filter);
    let mut progress = Progress::new();
    let is_stdin = path == Path::new("-");
    let result = if is_stdin {
        file::read(io::stdin().lock(), &mut collector, &mut |pods| progress.update(pods))
    } else {
        File::open(path).map_err(Into::into).and_then(|file| {
            file::read(BufReader::with_capacity(BUFFER_SIZE, file), &mut collector, &mut |pods| progress.update(pods))
        })
    };
    drop(progress);
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    collector.source.clone_from(&name);
    result.map_err(|error| Failure::new(format!("cannot read pods from {name}: {error}")))?;
    if let Some(wanted) = collector.namespaces().unmatched().next() {
        return Err(Failure::new(format!("{name} contains no pods of namespace {:?}", wanted.text())));
    }
    collector.apply_cron_jobs();
    collector.assess_again();
    flags.since.into_iter().for_each(|since| collector.leave_out_older(since));
    Ok(Scanned { context: None, collector, logs: Logs::default(), notes: Vec::new() })
}
