//! Pods from the cluster, a page at a time.

use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::Namespace},
    apimachinery::pkg::apis::meta::v1::ListMeta,
};
use kube::{
    Api,
    api::{GetParams, ListParams},
    core::{Request, Resource},
};
use serde::Deserialize;
use tokio::time::timeout;

use crate::{
    cli::{
        Failure,
        api_error::{Grant, Permission},
        connect::Cluster,
    },
    clock::ClusterClock,
    pods::{JsonPod, WatchedPod},
};

use super::{
    namespaces::{Namespaces, Wanted},
    tally::Tally,
};

/// Pods in a page. kubectl's own size: pages of thousands take the API server as long, and memory.
const PAGE: u32 = 500;
/// How long a page, or one Job, may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How many Jobs are read at once.
const JOBS_AT_ONCE: usize = 8;

#[derive(Deserialize)]
struct Page {
    metadata: ListMeta,
    #[serde(default)]
    items: Option<Vec<WatchedPod>>,
}

/// Reads the pods of these namespaces, or all, into the tally; `progress` is called after each page.
pub(super) async fn read(
    cluster: &Cluster,
    selector: Option<&str>,
    clock: &ClusterClock,
    tally: &mut Tally,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Failure> {
    match tally.namespaces().names() {
        Some(names) => {
            for name in &names {
                read_from(cluster, Some(name), selector, clock, tally, progress).await?;
            }
        }
        None => read_from(cluster, None, selector, clock, tally, progress).await?,
    }
    find_missing(cluster, tally.namespaces()).await
}

/// Fails if no namespace is meant by one of those that were named, or if that can't be known: what was not there to be
/// looked at must not pass for healthy.
async fn find_missing(cluster: &Cluster, namespaces: &Namespaces) -> Result<(), Failure> {
    // Of the others pods were seen.
    let mut patterns: Vec<&Wanted> = Vec::new();
    for wanted in namespaces.unseen() {
        if !wanted.is_name() {
            patterns.push(wanted);
            continue;
        }
        let request = Request::new(Namespace::url_path(&(), None));
        let request = request.get(wanted.text(), &GetParams::default()).map_err(Failure::new)?;
        match within(cluster, cluster.client.request_text(request)).await? {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {
                return Err(Failure::new(format!("there is no namespace {:?}", wanted.text())));
            }
            Err(error) => return Err(unknown(cluster, &error, "get", wanted)),
        }
    }
    let Some(first) = patterns.first().copied() else { return Ok(()) };
    let api: Api<Namespace> = Api::all(cluster.client.clone());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = match within(cluster, api.list_metadata(&params)).await? {
            Ok(page) => page,
            Err(error) => return Err(unknown(cluster, &error, "list", first)),
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

fn unknown(cluster: &Cluster, error: &kube::Error, verb: &'static str, wanted: &Wanted) -> Failure {
    let namespace = Some(wanted.text()).filter(|_| wanted.is_name());
    let permission = Permission { verb, resource: "namespaces", namespace, grant: Grant::View };
    let why = cluster.target.describe_denied(error, &permission);
    let (name, what) = (wanted.text(), if wanted.is_name() { "it exists" } else { "any namespace matches it" });
    Failure::new(format!("no pods were found in {name:?}, and it cannot be known whether {what}: {why}"))
}

async fn read_from(
    cluster: &Cluster,
    namespace: Option<&str>,
    selector: Option<&str>,
    clock: &ClusterClock,
    tally: &mut Tally,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Failure> {
    let permission = Permission { verb: "list", resource: "pods", namespace, grant: Grant::View };
    let path = JsonPod::url_path(&(), namespace);
    let mut params = ListParams { label_selector: selector.map(str::to_owned), ..ListParams::default().limit(PAGE) };
    loop {
        let request = Request::new(path.as_str()).list(&params).map_err(Failure::new)?;
        let next = match within(cluster, cluster.client.request_text(request)).await? {
            Ok(text) => {
                let page: Page = serde_json::from_str(&text)
                    .map_err(|error| cluster.target.describe(&kube::Error::SerdeError(error)))?;
                // The first response has set the clock.
                tally.judge_as_of(clock.now());
                for seen in page.items.into_iter().flatten() {
                    match seen.pod {
                        Ok(pod) => tally.pod(*pod),
                        Err(unreadable) => tally.unreadable(Some(&unreadable.namespace), &unreadable.name, None),
                    }
                }
                progress(tally.objects());
                page.metadata.continue_
            }
            Err(error) => match resume(&error) {
                Some(token) => Some(token),
                None => return Err(cluster.target.describe_denied(&error, &permission)),
            },
        };
        match next.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}

/// Reads the Jobs that decide about failed pods. Gives how many of them could not be read: their pods
/// stay problems.
pub(super) async fn read_jobs(cluster: &Cluster, tally: &mut Tally) -> usize {
    let jobs = tally.jobs();
    let mut answers =
        stream::iter(jobs).map(|(namespace, name)| job(cluster, namespace, name)).buffer_unordered(JOBS_AT_ONCE);
    let mut unread = 0;
    while let Some(answer) = answers.next().await {
        match answer {
            Some(job) => tally.job(&job),
            None => unread += 1,
        }
    }
    tally.settle_jobs();
    unread
}

/// A Job; none where it can't be read, an empty one where it is gone.
async fn job(cluster: &Cluster, namespace: String, name: String) -> Option<Job> {
    let request = Request::new(Job::url_path(&(), Some(&namespace)));
    let request = request.get(&name, &GetParams::default()).ok()?;
    match within(cluster, cluster.client.request_text(request)).await.ok()? {
        Ok(text) => serde_json::from_str(&text).ok(),
        Err(kube::Error::Api(status)) if status.code == 404 => Some(Job::default()),
        Err(_) => None,
    }
}

/// Where to go on when the list's snapshot is gone (it lasts some minutes): the API server tells with its
/// refusal. What follows may be newer than what came before, which a scan can bear.
fn resume(error: &kube::Error) -> Option<String> {
    match error {
        kube::Error::Api(status) if status.code == 410 => status.metadata.as_ref()?.continue_.clone(),
        _ => None,
    }
}

async fn within<T>(cluster: &Cluster, answer: impl Future<Output = T>) -> Result<T, Failure> {
    timeout(TIMEOUT, answer).await.map_err(|_| cluster.target.timed_out(TIMEOUT.as_secs()))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_list_goes_on_where_the_refusal_says() {
        let answer = |code: u16, token: &str| {
            let mut status = Status::failure("the provided continue parameter is too old", "Expired").with_code(code);
            status.metadata = Some(ListMeta { continue_: Some(token.to_owned()), ..ListMeta::default() });
            kube::Error::Api(status.boxed())
        };
        assert_eq!(resume(&answer(410, "further")), Some("further".to_owned()));
        assert_eq!(resume(&answer(500, "further")), None);
        assert_eq!(resume(&kube::Error::Api(Status::failure("gone", "Gone").with_code(410).boxed())), None);
    }
}
