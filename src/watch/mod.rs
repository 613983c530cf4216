//! A resilient list-and-watch stream. It falls back from streaming lists to pages and from one encoding to another,
//! backs off, and distinguishes a right that is missing from an outage.

pub(crate) mod json;
pub mod list_watch;

use std::{fmt::Debug, time::Duration};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{Api, Resource, core::Status, runtime::watcher};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};

use crate::config::StreamingLists;

use self::{
    json::Json,
    list_watch::{Collection, ListWatch, SILENCE, WrongEncoding, loses_an_event},
};

/// Objects in one page of a paged list. Smaller pages cost round trips, larger ones memory if they come in JSON: kube
/// holds a page's bytes twice while it is decoded.
pub(crate) const PAGE_SIZE: u32 = 500;

/// The longest text of a server's refusal that is passed on, in bytes.
const REFUSAL_LIMIT: usize = 512;

/// How long requests must be refused, without one that is not, before the right counts as lost: an API server that
/// starts may refuse everything until its authorizer is ready.
const CONFIRMATION: Duration = Duration::from_secs(5);

/// How many streaming lists may fail before pages are read instead.
const STREAMING_TRIES: u32 = 3;
/// How long pages are read then.
const STREAMING_PAUSE: Duration = Duration::from_secs(3600);

/// Drops connections that have been silent for too long. Otherwise one whose other end has vanished is
/// noticed after five minutes while it is watched, and never while a list is awaited.
pub fn set_read_timeout(config: &mut kube::Config) {
    config.read_timeout = Some(SILENCE);
    // Silence counts from a request, not from when its connection was last used.
    config.reset_reader_on_write = true;
}

/// What happens to a watched collection.
#[derive(Debug)]
pub enum WatchUpdate<K> {
    /// A new list begins: what it doesn't name by the time of [`WatchUpdate::Synced`] is gone.
    Relisting,
    /// An object of that list.
    Listed(K),
    /// That list is complete.
    Synced,
    /// An object was made or changed.
    Applied(K),
    /// An object was deleted.
    Deleted(K),
    /// The watch is open again, and begins with what was missed.
    Behind,
    /// Nothing that was missed is left.
    CaughtUp,
    /// The server refuses the list or the watch. Its own words, which name the verb and the resource.
    Denied(String),
    /// Something else went wrong. What was known stands, and the watch goes on by itself.
    Failed(String),
}

/// Watches a collection for ever, in JSON.
pub fn watch<K>(api: Api<K>, lists: StreamingLists) -> BoxStream<'static, WatchUpdate<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    watch_either(Box::new(Json { api, map: |object| object }), None, lists)
}

/// Watches a collection for ever: the first, or if its encoding is not to be had, the second.
pub(crate) fn watch_either<K: Send + 'static>(
    collection: Box<dyn Collection<Object = K>>,
    otherwise: Option<Box<dyn Collection<Object = K>>>,
    lists: StreamingLists,
) -> BoxStream<'static, WatchUpdate<K>> {
    let watch = Watch {
        source: ListWatch::new(collection, lists != StreamingLists::Never),
        otherwise,
        may_fall_back: lists == StreamingLists::Auto,
        streaming_failures: 0,
        streaming_again: None,
        refused: None,
        pause: None,
    };
    stream::unfold(watch, |mut watch| async move {
        let change = watch.next().await;
        Some((change, watch))
    })
    .boxed()
}

struct Watch<K> {
    source: ListWatch<K>,
    otherwise: Option<Box<dyn Collection<Object = K>>>,
    may_fall_back: bool,
    /// Streaming lists in a row that failed.
    streaming_failures: u32,
    /// When one is tried again.
    streaming_again: Option<Instant>,
    /// Since when everything is refused.
    refused: Option<Instant>,
    pause: Option<Instant>,
}

impl<K: Send + 'static> Watch<K> {
    async fn next(&mut self) -> WatchUpdate<K> {
        loop {
            if let Some(until) = self.pause.take() {
                sleep_until(until).await;
            }
            if self.source.is_at_beginning() && self.streaming_again.is_some_and(|at| at <= Instant::now()) {
                self.streaming_again = None;
                self.source.streaming = true;
            }
            let was_streaming = self.source.is_streaming();
            match self.source.step().await {
                None => {}
                Some(Ok(change)) => {
                    self.refused = None;
                    if matches!(change, WatchUpdate::Synced) {
                        self.streaming_failures = 0;
                    }
                    return change;
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
            return self.refused(bounded(&status.message), now);
        }
        if is_wrong_encoding(error)
            && let Some(otherwise) = self.otherwise.take()
        {
            tracing::info!("no protobuf from this server: reading JSON");
            self.source.begin_with(otherwise);
        } else if was_streaming && self.may_fall_back && self.gives_up_streaming(error, status, now) {
            self.source.streaming = false;
        } else {
            self.pause = Some(now + self.source.delay());
        }
        WatchUpdate::Failed(describe(error))
    }

    fn refused(&mut self, refusal: String, now: Instant) -> WatchUpdate<K> {
        let since = *self.refused.get_or_insert(now);
        if now.saturating_duration_since(since) >= CONFIRMATION {
            self.pause = Some(now + self.source.delay());
            WatchUpdate::Denied(refusal)
        } else {
            self.pause = Some(now + CONFIRMATION / 2);
            WatchUpdate::Failed(refusal)
        }
    }

    fn gives_up_streaming(&mut self, error: &watcher::Error, status: Option<&Status>, now: Instant) -> bool {
        if status.is_some_and(refuses_streaming) {
            tracing::info!("no streaming lists on this server: reading pages");
            return true;
        }
        // Without an answer, pages would fail as well.
        let is_answer = match status {
            Some(status) => !matches!(status.code, 401 | 429),
            None => matches!(error, watcher::Error::WatchFailed(_)),
        };
        self.streaming_failures += u32::from(is_answer);
        if self.streaming_failures < STREAMING_TRIES {
            return false;
        }
        tracing::warn!(error = describe(error), "streaming lists fail again and again: reading pages");
        self.streaming_failures = 0;
        self.streaming_again = Some(now + STREAMING_PAUSE);
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

/// A server without streaming lists answers 422: `sendInitialEvents: Forbidden: sendInitialEvents is
/// forbidden for watch unless the WatchList feature gate is enabled`.
fn refuses_streaming(status: &Status) -> bool {
    status.is_invalid() || status.code == 400
}

fn is_wrong_encoding(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Service(error))
        | watcher::Error::WatchStartFailed(kube::Error::Service(error)) => error.is::<WrongEncoding>(),
        _ => false,
    }
}

/// What went wrong, without what a response held: bodies of pods and objects may stand in it.
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
    text[..text.floor_char_boundary(REFUSAL_LIMIT)].to_owned()
}
