//! Reads single Secrets: within the limits of all objects, and once for all webhooks that wait for the same one.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::time::timeout;

use crate::bounded::{RequestLimiter, RequestLimits};

/// The limits of all reads of Secrets.
const LIMITS: RequestLimits = RequestLimits { concurrency: 8, per_second: 50, burst: 100 };
const TIMEOUT: Duration = Duration::from_secs(10);

/// The values of a Secret by key.
pub(super) type Data = BTreeMap<String, Vec<u8>>;

/// Why a webhook cannot be used. The text names the Secret and the key, but no values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(pub String);

/// Why nothing is known about a Secret. Unlike [`Unusable`], this says nothing about the Secret itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// With a status code other than 403 and 404, such as 500 while the key service that decrypts Secrets is down.
    #[error("the API server answers {0} to requests for its Secrets")]
    Answered(u16),
    #[error("the API server does not answer requests for its Secrets")]
    NotAnswered,
}

/// A Secret as it was read.
#[derive(Clone)]
pub(super) struct ReadSecret {
    /// Its UID and resource version.
    pub version: String,
    pub data: Arc<Data>,
}

type Answer = Result<Result<ReadSecret, Unusable>, Unavailable>;
type Read = Shared<BoxFuture<'static, Answer>>;
type Queue = Arc<Mutex<HashMap<(String, String), WeakShared<BoxFuture<'static, Answer>>>>>;

pub(super) struct SecretReads {
    client: Client,
    limiter: RequestLimiter,
    /// The reads that wait for a permit, by namespace and name. A request that was sent is not shared, because its answer
    /// may be older than a change that its asker knows of.
    queue: Queue,
}

/// Removes a read from the queue when it begins, or when nobody waits for it any more.
struct Queued {
    queue: Queue,
    key: (String, String),
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

impl SecretReads {
    pub fn new(client: Client) -> Self {
        Self { client, limiter: RequestLimiter::new(LIMITS), queue: Queue::default() }
    }

    /// Reads a Secret. An error of the inner result says that it does not exist, or must not be read.
    pub fn get(&self, namespace: &str, name: &str) -> Read {
        let key = (namespace.to_owned(), name.to_owned());
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queued) = queue.get(&key).and_then(WeakShared::upgrade) {
            return queued;
        }
        let (client, limiter) = (self.client.clone(), self.limiter.clone());
        let queued = Queued { queue: Arc::clone(&self.queue), key: key.clone() };
        let (namespace, name) = key.clone();
        let read = async move {
            let permit = limiter.acquire(&namespace).await;
            drop(queued);
            let answer = get(client, &namespace, &name).await;
            drop(permit);
            answer
        };
        let read = read.boxed().shared();
        queue.extend(read.downgrade().map(|read| (key, read)));
        read
    }
}

async fn get(client: Client, namespace: &str, name: &str) -> Answer {
    let api: Api<Secret> = Api::namespaced(client, namespace);
    match timeout(TIMEOUT, api.get(name)).await {
        Ok(Ok(secret)) => {
            let metadata = secret.metadata;
            let version = [metadata.uid, metadata.resource_version].map(Option::unwrap_or_default).join(".");
            let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
            Ok(Ok(ReadSecret { version, data: Arc::new(data.collect()) }))
        }
        Ok(Err(kube::Error::Api(status))) if status.is_not_found() => Ok(Err(Unusable(format!(
            "Secret {namespace}/{name} does not exist: make it with `kubectl create secret generic`"
        )))),
        Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => Ok(Err(Unusable(format!(
            "may not get Secret {namespace}/{name}: a Role must allow the operator's service account to get it"
        )))),
        Ok(Err(kube::Error::Api(status))) => Err(Unavailable::Answered(status.code)),
        Ok(Err(_)) | Err(_) => Err(Unavailable::NotAnswered),
    }
}
