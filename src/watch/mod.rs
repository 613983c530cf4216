//! A resilient list-and-watch stream. It backs off after errors, falls back from streaming lists to pages, reads
//! protobuf or JSON, and distinguishes a missing permission from an outage.
//!
//! kube's `watcher` does not do it: it reads JSON only, does not tell when a backlog ends, and notices neither a cluster that
//! was restored to an earlier state nor which object it could not decode.

mod buffer;
pub mod collection;
pub(crate) mod decode;
mod json;
pub mod list_watch;
pub(crate) mod message;
pub(crate) mod protobuf;
mod response;

use std::time::Duration;

use clap::ValueEnum;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{Api, Resource, core::Status, runtime::watcher};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};

pub use self::decode::WatchUpdate;
pub(crate) use self::{collection::PAGE_SIZE, decode::WENT_BACK, list_watch::READ_TIMEOUT, response::read_body};

use self::{
    collection::{Collection, Selection},
    decode::Decoder,
    list_watch::{ListWatch, loses_an_event},
};

/// The longest error text that is passed on, in bytes.
const ERROR_LIMIT: usize = 512;

/// How many streaming lists in a row may fail before the fallback to pages.
const STREAMING_TRIES: u32 = 3;
/// How long the fallback to pages lasts.
const STREAMING_PAUSE: Duration = Duration::from_secs(3600);

/// When to stream the initial list of pods (`WatchList`, on by default from Kubernetes 1.34). A streamed list takes a
/// fraction of the memory of a list in pages, on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StreamingLists {
    /// Stream the list if the API server supports it, otherwise request pages
    #[default]
    Auto,
    /// Always stream the list; if the API server does not support it, no pods are read
    Always,
    /// Always request pages
    Never,
}

/// Drops connections that have been idle for too long. Otherwise a connection whose peer has vanished is noticed only
/// after five minutes during a watch, and never during a list.
pub fn set_read_timeout(config: &mut kube::Config) {
    config.read_timeout = Some(READ_TIMEOUT);
    // The timeout starts with each request, not with the last use of the connection.
    config.reset_reader_on_write = true;
}

/// Watches the objects of an API in JSON. The stream never ends.
pub(crate) fn watch<K>(
    api: Api<K>,
    lists: StreamingLists,
    forbidden_confirmation: Duration,
) -> BoxStream<'static, WatchUpdate<K>>
where
    K: Resource + DeserializeOwned + Send + 'static,
{
    let (path, decoder) = (api.resource_url().to_owned(), Decoder::json(|object: K| object));
    let collection = Collection::new(api.into_client(), &path, Selection::default(), decoder);
    watch_collection(collection, lists, forbidden_confirmation)
}

/// Watches a collection. The stream never ends.
pub(crate) fn watch_collection<K: Send + 'static>(
    collection: Collection<K>,
    lists: StreamingLists,
    forbidden_confirmation: Duration,
) -> BoxStream<'static, WatchUpdate<K>> {
    let watch = Watch {
        list_watch: ListWatch::new(collection, lists != StreamingLists::Never),
        may_use_pages: lists == StreamingLists::Auto,
        streaming_failures: 0,
        retry_streaming_at: None,
        forbidden_confirmation,
        forbidden_since: None,
        resume_at: None,
    };
    stream::unfold(watch, |mut watch| async move {
        let update = watch.next().await;
        Some((update, watch))
    })
    .boxed()
}

struct Watch<K> {
    list_watch: ListWatch<K>,
    may_use_pages: bool,
    /// Streaming lists in a row that failed.
    streaming_failures: u32,
    retry_streaming_at: Option<Instant>,
    forbidden_confirmation: Duration,
    /// Since when every request has been forbidden.
    forbidden_since: Option<Instant>,
    /// The end of the delay after an error.
    resume_at: Option<Instant>,
}

impl<K: Send + 'static> Watch<K> {
    async fn next(&mut self) -> WatchUpdate<K> {
        loop {
            if let Some(until) = self.resume_at.take() {
                sleep_until(until).await;
            }
            if self.list_watch.is_at_beginning() && self.retry_streaming_at.is_some_and(|at| at <= Instant::now()) {
                self.retry_streaming_at = None;
                self.list_watch.streaming = true;
            }
            let was_streaming = self.list_watch.is_streaming();
            match self.list_watch.step().await {
                None => {}
                Some(Ok(update)) => {
                    self.forbidden_since = None;
                    match update {
                        WatchUpdate::Synced => self.streaming_failures = 0,
                        WatchUpdate::WentBack => self.resume_at = Some(Instant::now() + self.list_watch.delay()),
                        _ => {}
                    }
                    return update;
                }
                Some(Err(error)) => return self.failed(&error, was_streaming),
            }
        }
    }

    fn failed(&mut self, error: &watcher::Error, was_streaming: bool) -> WatchUpdate<K> {
        let now = Instant::now();
        let status = api_status(error);
        if let Some(status) = status
            && (status.is_forbidden() || status.code == 403)
        {
            return self.forbidden(bounded(&status.message), now);
        }
        if was_streaming && self.may_use_pages && self.gives_up_streaming(error, status, now) {
            self.list_watch.streaming = false;
        } else {
            self.resume_at = Some(now + self.list_watch.delay());
        }
        WatchUpdate::Failed(describe(error))
    }

    fn forbidden(&mut self, message: String, now: Instant) -> WatchUpdate<K> {
        let since = *self.forbidden_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= self.forbidden_confirmation {
            self.resume_at = Some(now + self.list_watch.delay());
            WatchUpdate::Denied(message)
        } else {
            self.resume_at = Some(now + self.forbidden_confirmation / 2);
            WatchUpdate::Failed(message)
        }
    }

    fn gives_up_streaming(&mut self, error: &watcher::Error, status: Option<&Status>, now: Instant) -> bool {
        if status.is_some_and(does_not_support_streaming) {
            tracing::info!("the API server does not support streaming lists: falling back to pages");
            return true;
        }
        // Only a response counts: without one, pages would fail as well.
        let has_response = match status {
            Some(status) => !matches!(status.code, 401 | 429),
            None => matches!(error, watcher::Error::WatchFailed(_)),
        };
        self.streaming_failures += u32::from(has_response);
        if self.streaming_failures < STREAMING_TRIES {
            return false;
        }
        tracing::warn!(error = describe(error), "streaming lists keep failing: falling back to pages");
        self.streaming_failures = 0;
        self.retry_streaming_at = Some(now + STREAMING_PAUSE);
        true
    }
}

fn api_status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

/// Without the WatchList feature gate, an API server responds with 422: `sendInitialEvents: Forbidden: sendInitialEvents
/// is forbidden for watch unless the WatchList feature gate is enabled`.
fn does_not_support_streaming(status: &Status) -> bool {
    status.is_invalid() || status.code == 400
}

/// Describes an error without quoting the response, which may contain pods and objects.
fn describe(error: &watcher::Error) -> String {
    match (api_status(error), error) {
        (_, watcher::Error::WatchFailed(error)) if loses_an_event(error) => {
            "received a malformed watch event".to_owned()
        }
        (Some(status), _) => bounded(&status.message),
        (None, watcher::Error::InitialListFailed(kube::Error::SerdeError(_))) => "received a malformed list".to_owned(),
        (None, error) => {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                let cause_text = cause.to_string();
                if !text.contains(&cause_text) {
                    text = format!("{text}: {cause_text}");
                }
                source = cause.source();
            }
            bounded(&text)
        }
    }
}

fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(ERROR_LIMIT)].to_owned()
}
