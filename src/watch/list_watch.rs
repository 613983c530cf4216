//! The state machine of a list and watch, independent of the encoding. It sends one request after another, and decides
//! how to continue after an error: with the next page, from the last resource version, or with a new list.
//! `ListWatch::delay` returns how long to wait first.
//!
//! A watch that resumes after an interruption starts with a backlog, whose end the protocol does not mark. Such a watch
//! therefore requests a timeout of a few seconds: the API server sends a bookmark two seconds before the timeout, and
//! ends the response at the timeout. Both follow the backlog.
//!
//! A cluster whose etcd was restored from a backup is in an earlier state than the one that was received, and resource
//! versions continue from that of the backup. A watch of a version that is still to come waits for it in silence, and the
//! API server closes it regularly at its timeout: nothing in it shows that everything is different. So after an
//! interruption, the present version is requested as well. It can only be lower in a cluster that went back. Versions of
//! another cluster at the same address may be higher, so the UID of `kube-system` is compared as well.

use std::time::Duration;

use futures::{
    FutureExt, StreamExt,
    future::join,
    stream::{self, BoxStream},
};
use kube::{
    api::WatchParams,
    core::Status,
    runtime::watcher::{Error, Result},
};
use tokio::time::{Instant, timeout};

use crate::{backoff::Backoff, status_apply::is_older};

use super::{
    collection::{Collection, Parts, WatchEvents},
    decode::{Decoded, Part, WatchEvent, WatchUpdate},
};

/// How long a response may be silent before its connection counts as lost.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(150);
/// The timeout of a watch in seconds. It is shorter than [`READ_TIMEOUT`], because an API server before 1.34 may send no
/// bookmarks for ten minutes when nothing happens, but always ends a watch at its timeout.
const WATCH_TIMEOUT: u32 = 120;
/// The timeout of a watch that begins with a streaming list, in seconds. It includes the list.
const STREAMING_TIMEOUT: u32 = 290;
/// The timeout of a watch that catches up, in seconds.
const CATCH_UP_TIMEOUT: u32 = 3;
/// How long such a watch may be silent before its connection counts as lost.
const CATCH_UP_READ_TIMEOUT: Duration = Duration::from_secs(8);
/// How long the request for the present version may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// A watch that was idle for this long before its timeout has no backlog left.
const IDLE: Duration = Duration::from_secs(1);
/// How many watches in a row may fail to catch up before a new list.
const MAX_CATCH_UPS: u32 = 5;
/// After a shorter interruption, a watch does not need to catch up.
const MAX_GAP: Duration = Duration::from_secs(1);
/// A watch that ends within this time without any event is an error, as in client-go's reflector. Otherwise it would be
/// reopened immediately, in a loop.
const SHORT_WATCH: Duration = Duration::from_secs(1);
/// A watch that stays open for this long resets the backoff between lists.
const LONG_WATCH: Duration = Duration::from_secs(30);

/// Lists a collection, then watches it.
pub struct ListWatch<K> {
    collection: Collection<K>,
    state: State<K>,
    /// Whether the next list is streamed.
    pub(super) streaming: bool,
    /// Whether an interruption is over, and the cluster could not be asked whether it went back meanwhile.
    is_unverified: bool,
    /// The cluster of the last list, if it can be identified.
    cluster: Option<String>,
    /// When the known state was last complete; absent after a failure.
    last_current: Option<Instant>,
    /// Watches in a row that failed to catch up.
    catch_ups: u32,
    /// Whether a list was started since `relist` last delayed one.
    has_listed: bool,
    /// The delay between requests that fail.
    retry: Backoff,
    /// The delay between lists, if no watch in between stayed open.
    relist: Backoff,
}

enum State<K> {
    /// Before a list.
    Empty,
    /// In the middle of a page.
    Page { token: Option<String>, parts: Parts<K> },
    /// Before the next page.
    NextPage { token: String },
    /// In a streaming list.
    StreamingList { events: WatchEvents<K>, opened: Instant },
    /// All objects are known as of this version, and no watch is open.
    Listed { resource_version: String },
    /// All objects are known as of this version, and a watch is open.
    Watching(OpenWatch<K>),
}

struct OpenWatch<K> {
    events: WatchEvents<K>,
    resource_version: String,
    opened: Instant,
    /// The requested timeout, in seconds.
    timeout: u32,
    last_event: Option<Instant>,
    /// Whether events of a backlog may follow.
    is_behind: bool,
}

type Step<K> = (Option<Result<WatchUpdate<K>>>, State<K>);

impl<K: Send + 'static> ListWatch<K> {
    #[must_use]
    pub fn new(collection: Collection<K>, streaming: bool) -> Self {
        Self {
            collection,
            state: State::Empty,
            streaming,
            is_unverified: false,
            cluster: None,
            last_current: None,
            catch_ups: 0,
            has_listed: false,
            retry: Backoff::new(Duration::from_millis(250), Duration::from_secs(10)),
            relist: Backoff::new(Duration::from_millis(250), Duration::from_secs(60)),
        }
    }

    /// Whether the next request starts a list.
    pub(super) fn is_at_beginning(&self) -> bool {
        matches!(self.state, State::Empty)
    }

    /// Whether a streaming list is under way or comes next.
    pub(super) fn is_streaming(&self) -> bool {
        matches!(self.state, State::StreamingList { .. }) || self.streaming && self.is_at_beginning()
    }

    /// How long to wait after an error. The delay between failing requests grows until one succeeds, and the delay between
    /// lists grows until a watch stays open for [`LONG_WATCH`].
    pub(super) fn delay(&mut self) -> Duration {
        let retry = self.retry.next_delay();
        if self.is_at_beginning() && std::mem::take(&mut self.has_listed) {
            retry.max(self.relist.next_delay())
        } else {
            retry
        }
    }

    /// All updates and errors, without delays after errors.
    pub fn into_stream(self) -> BoxStream<'static, Result<WatchUpdate<K>>> {
        stream::unfold(self, |mut source| async move {
            loop {
                if let Some(update) = source.step().await {
                    return Some((update, source));
                }
            }
        })
        .boxed()
    }

    /// Sends the next request or waits for the next event. Many steps have nothing to report.
    pub(super) async fn step(&mut self) -> Option<Result<WatchUpdate<K>>> {
        let state = std::mem::replace(&mut self.state, State::Empty);
        let (update, state) = self.next(state).await;
        if matches!(update, Some(Err(_) | Ok(WatchUpdate::WentBack))) {
            self.last_current = None;
        }
        self.state = state;
        update
    }

    async fn next(&mut self, state: State<K>) -> Step<K> {
        match state {
            State::Empty if self.streaming => {
                let params = WatchParams::streaming_lists().timeout(STREAMING_TIMEOUT);
                // Without a version, the list is at least as new as the request. With "0" it may come from the cache of an API
                // server that lags behind, and be older than what was received before.
                let list = request_watch(&self.collection, &params, "");
                let (cluster, list) = join(cluster_of(&self.collection), list).await;
                self.cluster = cluster;
                match list {
                    Ok(events) => self.relisting(State::StreamingList { events, opened: Instant::now() }),
                    Err(error) => (Some(Err(Error::WatchStartFailed(error))), State::Empty),
                }
            }
            State::Empty => {
                let (cluster, list) = join(cluster_of(&self.collection), request_page(&self.collection, None)).await;
                self.cluster = cluster;
                match list {
                    Ok(state) => self.relisting(state),
                    Err(error) => (Some(Err(Error::InitialListFailed(error))), State::Empty),
                }
            }
            State::NextPage { token } => match request_page(&self.collection, Some(token.clone())).await {
                Ok(state) => (None, state),
                Err(error) => failed_page(Some(token), error),
            },
            State::Page { token, mut parts } => match within(READ_TIMEOUT, parts.next()).await {
                Ok(Some(Ok(Part::Object(object)))) => {
                    (Some(Ok(WatchUpdate::Listed(object))), State::Page { token, parts })
                }
                Ok(Some(Ok(Part::End { token: Some(token), .. }))) => {
                    self.retry.reset();
                    (None, State::NextPage { token })
                }
                Ok(Some(Ok(Part::End { token: None, resource_version }))) => {
                    self.synced(State::Listed { resource_version })
                }
                Ok(None) => failed_page(token, ended_early()),
                Ok(Some(Err(error))) | Err(error) => failed_page(token, error),
            },
            State::StreamingList { mut events, opened } => match within(READ_TIMEOUT, events.next()).await {
                Ok(Some(Ok(WatchEvent::Applied(Decoded { object, .. })))) => {
                    (Some(Ok(WatchUpdate::Listed(object))), State::StreamingList { events, opened })
                }
                Ok(Some(Ok(WatchEvent::Deleted(Decoded { object, .. })))) => {
                    (Some(Ok(WatchUpdate::Deleted(object))), State::StreamingList { events, opened })
                }
                Ok(Some(Ok(WatchEvent::Bookmark { resource_version, ends_list: true }))) => {
                    self.synced(State::Watching(OpenWatch {
                        events,
                        resource_version,
                        opened,
                        timeout: STREAMING_TIMEOUT,
                        last_event: Some(Instant::now()),
                        is_behind: false,
                    }))
                }
                Ok(Some(Ok(WatchEvent::Bookmark { .. }))) => (None, State::StreamingList { events, opened }),
                Ok(Some(Ok(WatchEvent::Error(status)))) => (Some(Err(Error::WatchError(status))), State::Empty),
                Ok(Some(Ok(WatchEvent::End)) | None) => (Some(Err(Error::WatchFailed(ended_early()))), State::Empty),
                Ok(Some(Err(error))) | Err(error) => (Some(Err(Error::WatchFailed(error))), State::Empty),
            },
            State::Listed { resource_version } => self.open(resource_version).await,
            State::Watching(watch) => self.next_event(watch).await,
        }
    }

    fn relisting(&mut self, state: State<K>) -> Step<K> {
        self.has_listed = true;
        self.is_unverified = false;
        (Some(Ok(WatchUpdate::Relisting)), state)
    }

    fn synced(&mut self, state: State<K>) -> Step<K> {
        self.caught_up();
        (Some(Ok(WatchUpdate::Synced)), state)
    }

    fn caught_up(&mut self) {
        self.last_current = Some(Instant::now());
        self.catch_ups = 0;
        self.retry.reset();
    }

    /// Opens a watch from the resource version where the list or the last watch ended.
    async fn open(&mut self, resource_version: String) -> Step<K> {
        let is_late = self.last_current.is_none_or(|time| time.elapsed() > MAX_GAP);
        if is_late && self.catch_ups >= MAX_CATCH_UPS {
            self.catch_ups = 0;
            return (Some(Err(Error::WatchFailed(never_caught_up()))), State::Empty);
        }
        let is_behind = is_late || self.is_unverified;
        let timeout = if is_behind { CATCH_UP_TIMEOUT } else { WATCH_TIMEOUT };
        let params = WatchParams::default().timeout(timeout);
        let opened = request_watch(&self.collection, &params, &resource_version).await;
        self.catch_ups += u32::from(is_late && opened.is_ok());
        let is_doubtful = match &opened {
            Ok(_) => is_behind,
            Err(kube::Error::Api(status)) => is_too_large(status),
            Err(_) => false,
        };
        if is_doubtful {
            match has_gone_back(&self.collection, self.cluster.as_deref(), &resource_version).await {
                Ok(false) => self.is_unverified = false,
                Ok(true) => return self.went_back(),
                // An overloaded API server may refuse lists and still serve watches. The next watch begins soon, and asks again.
                Err(_) if opened.is_ok() => self.is_unverified = true,
                Err(error) => return (Some(Err(Error::WatchStartFailed(error))), State::Listed { resource_version }),
            }
        }
        match opened {
            Ok(events) => {
                let update = if is_behind { WatchUpdate::Behind } else { WatchUpdate::CaughtUp };
                let opened = Instant::now();
                let watch = OpenWatch { events, resource_version, opened, timeout, last_event: None, is_behind };
                (Some(Ok(update)), State::Watching(watch))
            }
            Err(error) => {
                let state = match &error {
                    kube::Error::Api(status) => state_after(status, resource_version),
                    _ => State::Listed { resource_version },
                };
                (Some(Err(Error::WatchStartFailed(error))), state)
            }
        }
    }

    async fn next_event(&mut self, mut watch: OpenWatch<K>) -> Step<K> {
        let read_timeout = if watch.is_behind { CATCH_UP_READ_TIMEOUT } else { READ_TIMEOUT };
        let event = timeout(read_timeout, watch.events.next()).await;
        if watch.opened.elapsed() >= LONG_WATCH {
            self.relist.reset();
        }
        match event {
            Ok(Some(Ok(WatchEvent::Applied(Decoded { object, resource_version })))) => {
                self.changed(watch, resource_version, WatchUpdate::Applied(object))
            }
            Ok(Some(Ok(WatchEvent::Deleted(Decoded { object, resource_version })))) => {
                self.changed(watch, resource_version, WatchUpdate::Deleted(object))
            }
            Ok(Some(Ok(WatchEvent::Bookmark { resource_version, .. }))) => {
                if is_older(&resource_version, &watch.resource_version) {
                    return self.went_back();
                }
                let update = watch.is_behind.then_some(Ok(WatchUpdate::CaughtUp));
                self.caught_up();
                (update, State::Watching(OpenWatch { resource_version, is_behind: false, ..watch }))
            }
            Ok(Some(Ok(WatchEvent::Error(status)))) => {
                let state = state_after(&status, watch.resource_version);
                (Some(Err(Error::WatchError(status))), state)
            }
            // The malformed event was a change. Only a new list can replace it.
            Ok(Some(Err(error))) if loses_an_event(&error) => (Some(Err(Error::WatchFailed(error))), State::Empty),
            Ok(Some(Err(error))) => {
                (Some(Err(Error::WatchFailed(error))), State::Listed { resource_version: watch.resource_version })
            }
            Ok(Some(Ok(WatchEvent::End))) => self.ended(watch, true),
            Ok(None) => {
                // At its timeout, a watch ends regularly.
                let timeout = Duration::from_secs(watch.timeout.saturating_sub(1).into());
                let is_regular = watch.opened.elapsed() >= timeout;
                self.ended(watch, is_regular)
            }
            // Perhaps nothing has changed in the cluster. If the connection is lost, the next request will fail.
            Err(_) => (None, State::Listed { resource_version: watch.resource_version }),
        }
    }

    /// The watch continues with a new list.
    fn went_back(&mut self) -> Step<K> {
        self.is_unverified = false;
        (Some(Ok(WatchUpdate::WentBack)), State::Empty)
    }

    fn changed(&mut self, watch: OpenWatch<K>, resource_version: String, update: WatchUpdate<K>) -> Step<K> {
        if resource_version.is_empty() {
            // A watch that resumed without a version would send all objects again, but no deletions.
            return (Some(Err(Error::NoResourceVersion)), State::Empty);
        }
        if is_older(&resource_version, &watch.resource_version) {
            return self.went_back();
        }
        let now = Instant::now();
        if !watch.is_behind {
            self.last_current = Some(now);
        }
        (Some(Ok(update)), State::Watching(OpenWatch { resource_version, last_event: Some(now), ..watch }))
    }

    /// Continues after a watch has ended, regularly or because its connection was cut.
    fn ended(&mut self, watch: OpenWatch<K>, is_regular: bool) -> Step<K> {
        let OpenWatch { resource_version, opened, last_event, is_behind, .. } = watch;
        let state = State::Listed { resource_version };
        if last_event.is_none() && opened.elapsed() < SHORT_WATCH {
            return (Some(Err(Error::WatchFailed(ended_early()))), state);
        }
        if !is_regular {
            return (None, state);
        }
        let idle = last_event.unwrap_or(opened).elapsed();
        if is_behind && idle < IDLE {
            return (None, state);
        }
        self.caught_up();
        (is_behind.then_some(Ok(WatchUpdate::CaughtUp)), state)
    }
}

/// The cluster of a collection, if it can be identified in time.
async fn cluster_of<K: Send + 'static>(collection: &Collection<K>) -> Option<String> {
    within(PROBE_TIMEOUT, collection.cluster()).await.ok().flatten()
}

/// Whether the present version of a collection is older than this one, or it belongs to another cluster.
async fn has_gone_back<K: Send + 'static>(
    collection: &Collection<K>,
    cluster: Option<&str>,
    resource_version: &str,
) -> kube::Result<bool> {
    if let Some(known) = cluster
        && cluster_of(collection).await.is_some_and(|present| present != known)
    {
        return Ok(true);
    }
    match within(PROBE_TIMEOUT, collection.version()).await.flatten() {
        Ok(present) => Ok(is_older(&present, resource_version)),
        // A watch needs no right to list.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(false),
        Err(error) => Err(error),
    }
}

async fn request_page<K: Send + 'static>(collection: &Collection<K>, token: Option<String>) -> kube::Result<State<K>> {
    let parts = within(READ_TIMEOUT, collection.page(token.as_deref())).await??;
    Ok(State::Page { token, parts })
}

async fn request_watch<K: Send + 'static>(
    collection: &Collection<K>,
    params: &WatchParams,
    resource_version: &str,
) -> kube::Result<WatchEvents<K>> {
    within(READ_TIMEOUT, collection.watch(params, resource_version)).await?
}

async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> kube::Result<T> {
    timeout(limit, work).map(|result| result.map_err(|_| timed_out())).await
}

/// Requests a page that failed again, unless the error is permanent: then the list starts again.
fn failed_page<K>(token: Option<String>, error: kube::Error) -> Step<K> {
    let is_permanent = matches!(&error, kube::Error::Api(status) if !is_temporary(status));
    let state = token.filter(|_| !is_permanent).map_or(State::Empty, |token| State::NextPage { token });
    (Some(Err(Error::InitialListFailed(error))), state)
}

/// Continues after an error: from the same resource version, unless that may have caused the error.
fn state_after<K>(status: &Status, resource_version: String) -> State<K> {
    if is_temporary(status) { State::Listed { resource_version } } else { State::Empty }
}

/// Whether an error does not depend on the continue token or resource version of the request.
fn is_temporary(status: &Status) -> bool {
    matches!(status.code, 401 | 403 | 405 | 406 | 429 | 500..)
}

/// Whether the API server says that it has not reached a version yet: `Too large resource version: 950, current: 900`.
fn is_too_large(status: &Status) -> bool {
    status.code == 504 && status.message.contains("Too large resource version")
}

/// Whether this error stands for an event that a resumed watch would not send again.
pub(super) fn loses_an_event(error: &kube::Error) -> bool {
    matches!(error, kube::Error::SerdeError(_) | kube::Error::Api(_) | kube::Error::Service(_))
}

fn ended_early() -> kube::Error {
    kube::Error::ReadEvents(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the response ended early"))
}

fn timed_out() -> kube::Error {
    let text = format!("the server sent nothing for {} s", READ_TIMEOUT.as_secs());
    kube::Error::ReadEvents(std::io::Error::new(std::io::ErrorKind::TimedOut, text))
}

fn never_caught_up() -> kube::Error {
    kube::Error::ReadEvents(std::io::Error::other("the watch never catches up with the missed events"))
}
