//! Reads from the API server with the rights of the caller, within bounds, and remembers what could not be read.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{
    Client, Resource,
    api::{GetParams, ListParams},
    core::{Request, request},
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use tokio::{
    sync::{Mutex, Semaphore, SemaphorePermit},
    time::{Instant, timeout},
};

use crate::{
    api::{Cause, is_object_name},
    cli::near::NearNames,
    logs::LogPolicy,
    render::safe::printable,
    watch::read_body,
};

/// The most requests, and how many are sent concurrently.
const REQUESTS: usize = 30;
const CONCURRENT: usize = 6;
/// How long one request may take, and all together.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
const TOTAL: Duration = Duration::from_secs(30);
/// The largest responses that are read, in bytes. etcd stores objects of up to 1.5 MiB.
const OBJECT_BYTES: usize = 4 << 20;
const LIST_BYTES: usize = 32 << 20;
/// The most sentences about what could not be read that are kept.
const UNREAD: usize = 50;

/// The requests of one explanation.
pub(super) struct Reader<'a> {
    client: &'a Client,
    pub(super) namespace: &'a str,
    /// The time of the API server.
    pub(super) now: Timestamp,
    pub(super) log_policy: Arc<LogPolicy>,
    deadline: Instant,
    permits: Semaphore,
    requests: Cell<usize>,
    unread: RefCell<Vec<String>>,
    near: Mutex<NearNames>,
}

/// The result of reading one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read<T> {
    Found(T),
    /// No such object exists.
    Missing,
    /// It could not be read. The reader remembers why.
    Unread,
}

/// The first objects of a list.
#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub(super) struct Page<T> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Option<Vec<T>>,
}

impl<T> Page<T> {
    /// The token of the next page, if there is one.
    pub(super) fn next(&self) -> Option<String> {
        self.metadata.continue_.clone().filter(|token| !token.is_empty())
    }

    pub(super) fn into_items(self) -> Vec<T> {
        self.items.unwrap_or_default()
    }
}

impl<T> Read<T> {
    pub(super) fn found(self) -> Option<T> {
        match self {
            Self::Found(object) => Some(object),
            Self::Missing | Self::Unread => None,
        }
    }

    /// Whether the object exists, if that is known.
    pub(super) fn exists(&self) -> Option<bool> {
        match self {
            Self::Found(_) => Some(true),
            Self::Missing => Some(false),
            Self::Unread => None,
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(client: &'a Client, namespace: &'a str, now: Timestamp, log_policy: Arc<LogPolicy>) -> Self {
        Self {
            client,
            namespace,
            now,
            log_policy,
            deadline: Instant::now() + TOTAL,
            permits: Semaphore::new(CONCURRENT),
            // The object itself was read before.
            requests: Cell::new(1),
            unread: RefCell::new(Vec::new()),
            near: Mutex::new(NearNames::new(client.clone())),
        }
    }

    pub(super) fn client(&self) -> &Client {
        self.client
    }

    /// What exists in the place of what the sentence about this cause says is missing; may be empty. A right that is missing is
    /// not noted: nothing else depends on it.
    pub(super) async fn hint(&self, cause: Cause, sentence: &str) -> String {
        self.near.lock().await.hint(self.namespace, cause, sentence).await
    }

    /// Waits until fewer than [`CONCURRENT`] requests are under way. Returns a permit to hold during the next one, and how
    /// long it may take; none if all time or all requests are used up.
    pub(super) async fn begin(&self) -> Result<(SemaphorePermit<'_>, Duration), String> {
        let permit = self.permits.acquire().await.map_err(|_| "the reads have ended".to_owned())?;
        if self.requests.get() >= REQUESTS {
            return Err(format!("the limit of {REQUESTS} requests is reached"));
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("the time limit of {} s is reached", TOTAL.as_secs()));
        }
        self.requests.set(self.requests.get() + 1);
        Ok((permit, left.min(TIMEOUT)))
    }

    /// Remembers that something was not read.
    pub(super) fn not_read(&self, what: &str, why: &str) {
        let sentence = printable(&format!("{what} ({why})"));
        let mut unread = self.unread.borrow_mut();
        if unread.len() < UNREAD && !unread.contains(&sentence) {
            unread.push(sentence);
        }
    }

    /// What was not read, and why.
    pub(super) fn into_unread(self) -> Vec<String> {
        self.unread.into_inner()
    }

    /// Reads an object in the reader's namespace as a `T`.
    pub(super) async fn get<K: Resource<DynamicType = ()>, T: DeserializeOwned>(&self, name: &str) -> Read<T> {
        self.object::<K, T>(Some(self.namespace), name, false).await
    }

    /// Reads an object that belongs to no namespace.
    pub(super) async fn get_cluster_wide<K>(&self, name: &str) -> Read<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        self.object::<K, K>(None, name, false).await
    }

    /// Reads the metadata of an object only, so that the values of a Secret never leave the API server.
    pub(super) async fn metadata<K: Resource<DynamicType = ()>>(&self, name: &str) -> Read<IgnoredAny> {
        self.object::<K, IgnoredAny>(Some(self.namespace), name, true).await
    }

    async fn object<K, T>(&self, namespace: Option<&str>, name: &str, metadata_only: bool) -> Read<T>
    where
        K: Resource<DynamicType = ()>,
        T: DeserializeOwned,
    {
        // The API server does not check all names in a pod, and no such object can exist.
        if !is_object_name(name) {
            return Read::Missing;
        }
        let request = Request::new(K::url_path(&(), namespace));
        let request = match metadata_only {
            true => request.get_metadata(name, &GetParams::default()),
            false => request.get(name, &GetParams::default()),
        };
        match self.read(request, OBJECT_BYTES, denied::<K>("get", namespace)).await {
            Ok(Some(object)) => Read::Found(object),
            Ok(None) => Read::Missing,
            Err(why) => {
                self.not_read(&format!("{} {name}", K::kind(&())), &why);
                Read::Unread
            }
        }
    }

    /// Lists objects in the reader's namespace, at most one page. `what` is the list in a sentence.
    pub(super) async fn list<K: Resource<DynamicType = ()>, T: DeserializeOwned>(
        &self,
        what: &str,
        params: &ListParams,
    ) -> Option<Page<T>> {
        let namespace = Some(self.namespace);
        let request = Request::new(K::url_path(&(), namespace)).list(params);
        let page = self.read(request, LIST_BYTES, denied::<K>("list", namespace)).await;
        let page = page.and_then(|page| page.ok_or("the API server does not have this resource".to_owned()));
        page.inspect_err(|why| self.not_read(what, why)).ok()
    }

    /// The response to a request; absent if it is 404. The error is why there is none.
    async fn read<T: DeserializeOwned>(
        &self,
        request: Result<http::Request<Vec<u8>>, request::Error>,
        limit: usize,
        denied: String,
    ) -> Result<Option<T>, String> {
        let request = request.map_err(|_| "the request is invalid")?;
        let (_permit, within) = self.begin().await?;
        let response = timeout(within, read_body(self.client, request, limit)).await;
        let response = response.map_err(|_| format!("no response within {} s", within.as_secs().max(1)))?;
        // The messages of errors may quote the response, so they are not shown.
        let why = match response {
            Ok(Some(bytes)) => match serde_json::from_slice(&bytes) {
                Ok(object) => return Ok(Some(object)),
                Err(_) => "the response cannot be decoded".to_owned(),
            },
            Ok(None) => format!("the response is larger than {} MiB", limit >> 20),
            Err(kube::Error::Api(status)) => match status.code {
                404 => return Ok(None),
                403 => denied,
                401 => "the API server rejects the credentials".to_owned(),
                code => format!("the API server returned {code}"),
            },
            Err(kube::Error::ReadEvents(_)) => "the connection was closed".to_owned(),
            Err(_) => "the API server cannot be reached".to_owned(),
        };
        Err(why)
    }
}

/// What RBAC refuses, such as `not allowed: get secrets in shop`.
fn denied<K: Resource<DynamicType = ()>>(verb: &str, namespace: Option<&str>) -> String {
    let group = K::group(&());
    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
    let place = namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
    format!("not allowed: {verb} {}{group}{place}", K::plural(&()))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn begins_no_more_requests_than_may_be_under_way() {
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap();
        let reader = Reader::new(&client, "shop", Timestamp::UNIX_EPOCH, Arc::default());
        let mut begun = Vec::new();
        for _ in 0..CONCURRENT {
            begun.push(reader.begin().await.unwrap());
        }
        assert!(reader.begin().now_or_never().is_none());
        begun.pop();
        assert!(reader.begin().now_or_never().is_some());
    }
}
