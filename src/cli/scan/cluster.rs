//! Reads pods from a cluster, a page at a time, or from several clusters concurrently.

use std::{collections::hash_map::Entry, sync::Arc, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::ListParams};
use serde::de::IgnoredAny;
use tokio::{
    sync::oneshot,
    task::spawn_blocking,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    cli::{
        Failure,
        api_error::{Grant, Permission},
        connect::{Cluster, Retries, connect},
        live::{ClusterView, Note},
        near::NearNames,
        process::runtime,
    },
    clock::ClusterClock,
    facts::get,
    namespaces::read_ownership as read_ownership_of,
    pods::{WatchedPod, selected_pods},
    render::document::Unchecked,
    watch::{PAGE_SIZE, collection::Selection, decode::Part},
};

use super::{
    collector::Collector,
    counted,
    filter::{Filter, LabelSelector, NamespacePattern, Namespaces},
    flags::ScanFlags,
    logs::{self, Logs},
    output::Progress,
    scanned::{Hints, Results, Scanned},
};

/// Concurrent reads of namespaces.
const CONCURRENT_READS: usize = 8;

/// How many clusters are scanned concurrently.
const CONCURRENT_CLUSTERS: usize = 64;
/// How long it may take to connect, at least: without a request, but with a credential plugin, which may be slow.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A cluster, and how long one request to it may take.
pub(super) struct Source {
    pub(super) cluster: Cluster,
    pub(super) timeout: Duration,
}

/// Scans the clusters of these contexts. One that hangs or fails does not delay the others.
pub(super) async fn scan_clusters(contexts: Vec<String>, flags: &ScanFlags, namespaces: &Namespaces) -> Results {
    let flags = Arc::new(flags.clone());
    let count = contexts.len();
    let scans = contexts.into_iter().enumerate().map(|(index, context)| {
        let (flags, namespaces) = (Arc::clone(&flags), namespaces.clone());
        async move {
            let scanned = scan_apart(context.clone(), flags, namespaces).await;
            (index, scanned.map_err(|why| Unchecked { context, why: why.to_string() }))
        }
    });
    let mut progress = Progress::new();
    let mut scans = stream::iter(scans).buffer_unordered(CONCURRENT_CLUSTERS);
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

/// Scans the cluster of a context, or the only cluster. `connected` is called before the first request, and `progress`
/// with the number of pods that were read.
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
    let thresholds = flags.thresholds.thresholds();
    let view = ClusterView::of(source.cluster.client.clone(), thresholds.restarted, source.timeout, Duration::MAX);
    let mut collector = Collector::new(view, thresholds, clock.now(), filter);
    collector.source = source.cluster.target.name().to_owned();
    read(&source, flags.selector.as_deref(), &clock, &mut collector, progress).await?;
    let mut notes = read_world(&source, &mut collector).await;
    flags.since.into_iter().for_each(|since| collector.leave_out_older(since));
    let unowned = read_ownership(&source, &mut collector).await;
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
    let hints = hints(&source, &collector).await;
    Ok(Scanned { context: context.map(str::to_owned), collector, logs, hints, notes })
}

/// What exists in the place of what problems say is missing.
async fn hints(source: &Source, collector: &Collector) -> Hints {
    let mut near = NearNames::new(source.cluster.client.clone());
    let mut hints = Hints::new();
    for (pod, finding) in &collector.problems {
        let explanation = &finding.explanation;
        let place = (pod.namespace.to_string(), explanation.message.clone());
        if let Entry::Vacant(entry) = hints.entry(place) {
            entry.insert(near.hint(&pod.namespace, explanation.cause, &explanation.message).await);
        }
    }
    hints.retain(|_, hint| !hint.is_empty());
    hints
}

/// Reads the pods of the collector's namespaces; `progress` is called after each page with the number of objects.
async fn read(
    source: &Source,
    selector: Option<&str>,
    clock: &ClusterClock,
    collector: &mut Collector,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Failure> {
    match collector.filter.namespaces.names() {
        Some(names) => {
            for name in &names {
                read_from(source, Some(name), selector, clock, collector, progress).await?;
            }
        }
        None => read_from(source, None, selector, clock, collector, progress).await?,
    }
    check_namespaces_exist(source, &collector.filter.namespaces).await
}

/// Fails if a name or pattern of `-n` matches no namespace, or if that cannot be checked: a namespace that does not exist
/// must not pass as healthy. Only names and patterns that matched no pod are checked.
pub(super) async fn check_namespaces_exist(source: &Source, namespaces: &Namespaces) -> Result<(), Failure> {
    let mut patterns: Vec<&NamespacePattern> = Vec::new();
    for wanted in namespaces.unmatched() {
        if !wanted.is_name() {
            patterns.push(wanted);
            continue;
        }
        let client = &source.cluster.client;
        match within(source, get::<Namespace, IgnoredAny>(client, None, wanted.text())).await? {
            Ok(Some(_)) => {}
            Ok(None) => return Err(Failure::new(format!("there is no namespace {:?}", wanted.text()))),
            Err(error) => return Err(unchecked(source, &error, "get", wanted)),
        }
    }
    let Some(first) = patterns.first().copied() else { return Ok(()) };
    let api: Api<Namespace> = Api::all(source.cluster.client.clone());
    let mut params = ListParams::default().limit(PAGE_SIZE);
    loop {
        let page = match within(source, api.list_metadata(&params)).await? {
            Ok(page) => page,
            Err(error) => return Err(unchecked(source, &error, "list", first)),
        };
        let names: Vec<_> = page.items.into_iter().filter_map(|namespace| namespace.metadata.name).collect();
        patterns.retain(|wanted| !names.iter().any(|name| wanted.matches(name)));
        match (patterns.first(), page.metadata.continue_.filter(|token| !token.is_empty())) {
            (None, _) => return Ok(()),
            (Some(wanted), None) => {
                return Err(Failure::new(format!("no namespace matches {:?}", wanted.text())));
            }
            (Some(_), Some(token)) => params.continue_token = Some(token),
        }
    }
}

fn unchecked(source: &Source, error: &kube::Error, verb: &'static str, wanted: &NamespacePattern) -> Failure {
    let namespace = Some(wanted.text()).filter(|_| wanted.is_name());
    let permission = Permission { verb, resource: "namespaces", namespace, grant: Grant::View };
    let why = source.cluster.target.describe_denied(error, &permission);
    let (name, what) = (wanted.text(), if wanted.is_name() { "it exists" } else { "any namespace matches it" });
    Failure::new(format!("found no pods in {name:?}, and cannot check whether {what}: {why}"))
}

async fn read_from(
    source: &Source,
    namespace: Option<&str>,
    selector: Option<&str>,
    clock: &ClusterClock,
    collector: &mut Collector,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Failure> {
    let permission = Permission { verb: "list", resource: "pods", namespace, grant: Grant::View };
    let selection = Selection { labels: selector.map(str::to_owned), ..Selection::default() };
    let pods = selected_pods(source.cluster.client.clone(), namespace, selection);
    let mut next: Option<String> = None;
    loop {
        let page = async {
            let mut parts = pods.page(next.as_deref()).await?;
            loop {
                match parts.try_next().await? {
                    Some(Part::Object(WatchedPod { pod })) => {
                        // Each response sets the clock, so the time is known from the first page on.
                        collector.now = clock.now();
                        match pod {
                            Ok(pod) => collector.add_pod(*pod),
                            Err(pod) => collector.add_undecodable(Some(&pod.namespace), &pod.name, None),
                        }
                    }
                    Some(Part::End { token, .. }) => return Ok::<_, kube::Error>(token),
                    None => return Ok(None),
                }
            }
        };
        next = match within(source, page).await? {
            Ok(token) => token,
            Err(error) => match continue_token(&error) {
                Some(token) => Some(token),
                None => return Err(source.cluster.target.describe_denied(&error, &permission)),
            },
        };
        progress(collector.objects);
        if next.is_none() {
            return Ok(());
        }
    }
}

/// How often is read what verdicts ask for, since an answer may lead to another question: a revision that sets the memory limit of
/// a container that is OOM-killed, to what the limit was before.
const ROUNDS: usize = 3;

/// Reads the Jobs that decide whether failed pods are problems, and the events that may explain problems. Returns notes
/// about what could not be read.
async fn read_world(source: &Source, collector: &mut Collector) -> Vec<String> {
    let mut notes = Vec::new();
    collector.judge();
    let jobs = collector.needed_jobs();
    'rounds: for _ in 0..ROUNDS {
        collector.view.read(std::iter::empty(), Instant::now());
        if !collector.view.is_reading() {
            break;
        }
        while collector.view.is_reading() {
            match collector.view.next().await {
                // The requests that follow might take as long.
                Some(Note::JobsFailed) => break 'rounds,
                Some(note @ Note::CronJobsDenied) => notes.push(note.as_str().to_owned()),
                _ => {}
            }
        }
        collector.judge();
    }
    let unread = jobs.iter().filter(|job| !collector.view.has_answer(job)).count();
    if unread > 0 {
        let jobs = counted(unread as u64, "Job");
        notes.push(format!("cannot read {jobs}: the failed pods are reported even if a retry has completed the Job"));
    }
    collector.judge();

    let namespaces = collector.troubled_namespaces();
    collector.view.read_only_events(namespaces.keys().map(String::as_str));
    let deadline = Instant::now() + source.timeout;
    while collector.view.is_reading() {
        match timeout_at(deadline, collector.view.next()).await {
            Ok(Some(note @ Note::EventsCut)) => notes.push(note.as_str().to_owned()),
            Ok(_) => {}
            Err(_timed_out) => break,
        }
    }
    let unread = namespaces.iter().filter(|(namespace, _)| !collector.view.has_listed(namespace));
    let unread: usize = unread.map(|(_, pods)| pods).sum();
    if unread > 0 {
        let pods = counted(unread as u64, "pod");
        notes.push(format!("cannot read the events of {pods}: causes that only events prove are missing"));
    }
    collector.judge();
    read_kills(collector, deadline).await;
    notes
}

/// Lists the events about kills that may explain what the others do not.
async fn read_kills(collector: &mut Collector, deadline: Instant) {
    collector.view.read_only_events(std::iter::empty());
    let mut has_read = false;
    while collector.view.is_reading() && timeout_at(deadline, collector.view.next()).await.is_ok() {
        has_read = true;
    }
    if has_read {
        collector.judge();
    }
}

/// Reads the annotations of the namespaces with problems. Returns of how many they could not be read.
async fn read_ownership(source: &Source, collector: &mut Collector) -> usize {
    let namespaces = collector.troubled_namespaces();
    let mut unread = namespaces.len();
    let mut reads = stream::iter(namespaces.into_keys())
        .map(async |namespace| {
            let read = within(source, read_ownership_of(&source.cluster.client, &namespace)).await;
            (namespace, read)
        })
        .buffer_unordered(CONCURRENT_READS);
    while let Some((namespace, read)) = reads.next().await {
        match read {
            Ok(Ok(ownership)) => {
                unread -= 1;
                collector.ownership.extend(ownership.map(|ownership| (namespace, *ownership)));
            }
            Ok(Err(_)) => {}
            // The requests that follow would take as long.
            Err(_timed_out) => break,
        }
    }
    unread
}

/// The token with which a list continues after its snapshot has expired, which takes some minutes. The API server sends it
/// with the error 410. The remaining pages may be newer than those before, which is good enough for a scan.
fn continue_token(error: &kube::Error) -> Option<String> {
    match error {
        kube::Error::Api(status) if status.code == 410 => status.metadata.as_ref()?.continue_.clone(),
        _ => None,
    }
}

async fn within<T>(source: &Source, response: impl Future<Output = T>) -> Result<T, Failure> {
    timeout(source.timeout, response).await.map_err(|_| timed_out(source))
}

fn timed_out(source: &Source) -> Failure {
    source.cluster.target.timed_out(source.timeout.as_secs_f32().ceil() as u64)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
    use kube::core::Status;

    use super::*;

    #[test]
    fn an_expired_list_continues_with_the_token_of_the_error() {
        let expired = |code: u16, token: &str| {
            let mut status = Status::failure("the provided continue parameter is too old", "Expired").with_code(code);
            status.metadata = Some(ListMeta { continue_: Some(token.to_owned()), ..ListMeta::default() });
            kube::Error::Api(status.boxed())
        };
        assert_eq!(continue_token(&expired(410, "further")), Some("further".to_owned()));
        assert_eq!(continue_token(&expired(500, "further")), None);
        assert_eq!(continue_token(&kube::Error::Api(Status::failure("gone", "Gone").with_code(410).boxed())), None);
    }
}
