//! The state machine of a list and a watch, whatever the encoding. It asks for one thing after another, and decides
//! where to go on after an error: with the next page, from the last resource version, or with a new list. How long to
//! wait before that is [`ListWatch::delay`]'s answer.
//!
//! A watch that resumes after an interruption has a backlog, and nothing in the protocol marks its end. So such a watch
//! is asked to end after a few seconds: an API server sends a bookmark two seconds before, and ends the response in any
//! case. Either comes after the backlog.

use std::time::Duration;

use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use kube::{
    api::WatchParams,
    core::Status,
    runtime::watcher::{Error, Result},
};
use tokio::time::{Instant, timeout};

use crate::backoff::Backoff;

use super::WatchUpdate;

/// How long a response may be silent before its connection counts as lost.
pub const SILENCE: Duration = Duration::from_secs(150);
/// How long a watch lasts, in seconds: less than [`SILENCE`]. An API server before 1.34 sends no bookmarks as long as
/// nothing happens and etcd, too, is silent, which by default it is for ten minutes; but it ends a watch in time.
const LENGTH: u32 = 120;
/// How long a watch lasts that begins with a list, in seconds: the list may take as long.
const STREAMING_LENGTH: u32 = 290;
/// How long a watch lasts that catches up, in seconds.
const CATCH_UP_LENGTH: u32 = 3;
/// How long the end of such a watch may be overdue.
const CATCH_UP_PATIENCE: Duration = Duration::from_secs(8);
/// A watch that has told nothing for so long before it ends in time has no backlog left.
const IDLE: Duration = Duration::from_secs(1);
/// How many watches may fail to catch up before everything is listed instead.
const CATCH_UPS: u32 = 5;
/// The longest interruption that leaves nothing to catch up with but what any watch lags behind.
const GAP: Duration = Duration::from_secs(1);
/// A watch that ends within this time and has told nothing is an error, as in client-go's reflector: otherwise it would
/// be opened again immediately, and so on.
const SHORT: Duration = Duration::from_secs(1);
/// A watch that stays open for so long was worth its list.
const LIVED: Duration = Duration::from_secs(30);

/// What answered does not speak the encoding that was asked for: no API server, but perhaps something in front of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the response came in another encoding than was asked for")]
pub struct WrongEncoding;

/// A collection of objects in some encoding. A [`WrongEncoding`] is wrapped in a [`kube::Error::Service`].
pub trait Collection: Send + Sync {
    /// The type of its objects.
    type Object: Send + 'static;

    /// Asks for a page of a list: the first, or the one that a token stands for.
    fn page<'a>(&'a self, token: Option<&str>) -> BoxFuture<'a, kube::Result<Parts<Self::Object>>>;

    /// Opens a watch.
    fn watch<'a>(
        &'a self,
        params: &WatchParams,
        resource_version: &str,
    ) -> BoxFuture<'a, kube::Result<WatchEvents<Self::Object>>>;
}

/// What a page holds. Its last part is [`Part::End`].
pub type Parts<K> = BoxStream<'static, kube::Result<Part<K>>>;

/// What a watch sends.
pub type WatchEvents<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

/// A part of a page.
pub enum Part<K> {
    /// An object.
    Object(K),
    /// The end of the page. The list is complete as of this version unless there is a token for the next page.
    End {
        /// Stands for the next page.
        token: Option<String>,
        /// The list's.
        resource_version: String,
    },
}

/// What a watch sends.
pub enum WatchEvent<K> {
    /// An object was made or changed, or is part of the list.
    Applied {
        /// The object.
        object: K,
        /// Its version.
        resource_version: String,
    },
    /// An object was deleted.
    Deleted {
        /// The object.
        object: K,
        /// The version of its deletion.
        resource_version: String,
    },
    /// Everything up to this version was sent.
    Bookmark {
        /// The version.
        resource_version: String,
        /// Whether it ends the initial events of a streaming list.
        ends_list: bool,
    },
    /// The watch can't go on.
    Refused(Box<Status>),
    /// The response ended as it should. A stream that ends without was cut off, or does not show it.
    End,
}

/// A list and a watch.
pub struct ListWatch<K> {
    collection: Box<dyn Collection<Object = K>>,
    state: State<K>,
    /// Whether lists are streamed.
    pub streaming: bool,
    /// When everything that had happened was known last; absent since a failure.
    heard: Option<Instant>,
    /// Watches in a row that failed to catch up.
    catch_ups: u32,
    /// Whether a list has begun since the last new one was put off.
    has_listed: bool,
    /// Between requests that fail.
    retry: Backoff,
    /// Between lists that no watch followed which lived.
    relist: Backoff,
}

enum State<K> {
    /// Nothing is known.
    Empty,
    /// In the middle of a page.
    Page { token: Option<String>, parts: Parts<K> },
    /// Before the next page.
    NextPage { token: String },
    /// In the initial events of a streaming list.
    Initial { events: WatchEvents<K>, opened: Instant },
    /// All is known as of this version, and no watch is open.
    Listed { resource_version: String },
    /// A watch is open; all is known as of its version.
    Watching(Watching<K>),
}

struct Watching<K> {
    events: WatchEvents<K>,
    resource_version: String,
    opened: Instant,
    /// How long it is to last, in seconds.
    length: u32,
    /// When the last event came.
    told: Option<Instant>,
    /// Whether there may be a backlog.
    is_behind: bool,
}

type Step<K> = (Option<Result<WatchUpdate<K>>>, State<K>);

impl<K: Send + 'static> ListWatch<K> {
    /// A source that has asked for nothing yet.
    #[must_use]
    pub fn new(collection: Box<dyn Collection<Object = K>>, streaming: bool) -> Self {
        Self {
            collection,
            state: State::Empty,
            streaming,
            heard: None,
            catch_ups: 0,
            has_listed: false,
            retry: Backoff::new(Duration::from_millis(250), Duration::from_secs(10)),
            relist: Backoff::new(Duration::from_millis(250), Duration::from_secs(60)),
        }
    }

    /// Begins with another collection, and with a new list.
    pub fn begin_with(&mut self, collection: Box<dyn Collection<Object = K>>) {
        self.collection = collection;
        self.state = State::Empty;
    }

    /// Whether a list begins next.
    #[must_use]
    pub fn is_at_beginning(&self) -> bool {
        matches!(self.state, State::Empty)
    }

    /// Whether a streaming list is asked for next, or comes.
    #[must_use]
    pub fn is_streaming(&self) -> bool {
        matches!(self.state, State::Initial { .. }) || self.streaming && self.is_at_beginning()
    }

    /// How long to wait after an error. Requests that fail come ever less often until one succeeds, and lists until a
    /// watch has lived.
    pub fn delay(&mut self) -> Duration {
        let retry = self.retry.next_delay();
        if self.is_at_beginning() && std::mem::take(&mut self.has_listed) {
            retry.max(self.relist.next_delay())
        } else {
            retry
        }
    }

    /// All that happens, without delays: errors are part of it.
    pub fn into_stream(self) -> BoxStream<'static, Result<WatchUpdate<K>>> {
        stream::unfold(self, |mut source| async move {
            loop {
                if let Some(change) = source.step().await {
                    return Some((change, source));
                }
            }
        })
        .boxed()
    }

    /// Asks or waits for the next thing.
    pub async fn step(&mut self) -> Option<Result<WatchUpdate<K>>> {
        let state = std::mem::replace(&mut self.state, State::Empty);
        let (change, state) = self.next(state).await;
        if matches!(change, Some(Err(_))) {
            self.heard = None;
        }
        self.state = state;
        change
    }

    async fn next(&mut self, state: State<K>) -> Step<K> {
        match state {
            State::Empty if self.streaming => {
                let params = WatchParams::streaming_lists().timeout(STREAMING_LENGTH);
                match watch(&*self.collection, &params, "0").await {
                    Ok(events) => self.relisting(State::Initial { events, opened: Instant::now() }),
                    Err(error) => (Some(Err(Error::WatchStartFailed(error))), State::Empty),
                }
            }
            State::Empty => match page(&*self.collection, None).await {
                Ok(state) => self.relisting(state),
                Err(error) => (Some(Err(Error::InitialListFailed(error))), State::Empty),
            },
            State::NextPage { token } => match page(&*self.collection, Some(token.clone())).await {
                Ok(state) => (None, state),
                Err(error) => failed_page(Some(token), error),
            },
            State::Page { token, mut parts } => match within(SILENCE, parts.next()).await {
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
                Ok(None) => failed_page(token, ended()),
                Ok(Some(Err(error))) | Err(error) => failed_page(token, error),
            },
            State::Initial { mut events, opened } => match within(SILENCE, events.next()).await {
                Ok(Some(Ok(WatchEvent::Applied { object, .. }))) => {
                    (Some(Ok(WatchUpdate::Listed(object))), State::Initial { events, opened })
                }
                Ok(Some(Ok(WatchEvent::Deleted { object, .. }))) => {
                    (Some(Ok(WatchUpdate::Deleted(object))), State::Initial { events, opened })
                }
                Ok(Some(Ok(WatchEvent::Bookmark { resource_version, ends_list: true }))) => {
                    let (length, told, is_behind) = (STREAMING_LENGTH, Some(Instant::now()), false);
                    self.synced(State::Watching(Watching { events, resource_version, opened, length, told, is_behind }))
                }
                Ok(Some(Ok(WatchEvent::Bookmark { .. }))) => (None, State::Initial { events, opened }),
                Ok(Some(Ok(WatchEvent::Refused(status)))) => (Some(Err(Error::WatchError(status))), State::Empty),
                Ok(Some(Ok(WatchEvent::End)) | None) => (Some(Err(Error::WatchFailed(ended()))), State::Empty),
                Ok(Some(Err(error))) | Err(error) => (Some(Err(Error::WatchFailed(error))), State::Empty),
            },
            State::Listed { resource_version } => self.open(resource_version).await,
            State::Watching(watching) => self.watching(watching).await,
        }
    }

    fn relisting(&mut self, state: State<K>) -> Step<K> {
        self.has_listed = true;
        (Some(Ok(WatchUpdate::Relisting)), state)
    }

    fn synced(&mut self, state: State<K>) -> Step<K> {
        self.caught_up();
        (Some(Ok(WatchUpdate::Synced)), state)
    }

    fn caught_up(&mut self) {
        self.heard = Some(Instant::now());
        self.catch_ups = 0;
        self.retry.reset();
    }

    /// Opens a watch where the list or the last watch ended.
    async fn open(&mut self, resource_version: String) -> Step<K> {
        let is_behind = self.heard.is_none_or(|heard| heard.elapsed() > GAP);
        if is_behind && self.catch_ups >= CATCH_UPS {
            self.catch_ups = 0;
            return (Some(Err(Error::WatchFailed(never_caught_up()))), State::Empty);
        }
        let length = if is_behind { CATCH_UP_LENGTH } else { LENGTH };
        match watch(&*self.collection, &WatchParams::default().timeout(length), &resource_version).await {
            Ok(events) => {
                self.catch_ups += u32::from(is_behind);
                let opened = Instant::now();
                let change = if is_behind { WatchUpdate::Behind } else { WatchUpdate::CaughtUp };
                let watching = Watching { events, resource_version, opened, length, told: None, is_behind };
                (Some(Ok(change)), State::Watching(watching))
            }
            Err(error) => {
                let state = match &error {
                    kube::Error::Api(status) => after(status, resource_version),
                    _ => State::Listed { resource_version },
                };
                (Some(Err(Error::WatchStartFailed(error))), state)
            }
        }
    }

    async fn watching(&mut self, mut watching: Watching<K>) -> Step<K> {
        let patience = if watching.is_behind { CATCH_UP_PATIENCE } else { SILENCE };
        let event = timeout(patience, watching.events.next()).await;
        if watching.opened.elapsed() >= LIVED {
            self.relist.reset();
        }
        match event {
            Ok(Some(Ok(WatchEvent::Applied { object, resource_version }))) => {
                self.told(watching, resource_version, WatchUpdate::Applied(object))
            }
            Ok(Some(Ok(WatchEvent::Deleted { object, resource_version }))) => {
                self.told(watching, resource_version, WatchUpdate::Deleted(object))
            }
            Ok(Some(Ok(WatchEvent::Bookmark { resource_version, .. }))) => {
                let change = watching.is_behind.then_some(Ok(WatchUpdate::CaughtUp));
                self.caught_up();
                (change, State::Watching(Watching { resource_version, is_behind: false, ..watching }))
            }
            Ok(Some(Ok(WatchEvent::Refused(status)))) => {
                let state = after(&status, watching.resource_version);
                (Some(Err(Error::WatchError(status))), state)
            }
            // What can't be read stood for a change, which only a list makes up for.
            Ok(Some(Err(error))) if loses_an_event(&error) => (Some(Err(Error::WatchFailed(error))), State::Empty),
            Ok(Some(Err(error))) => {
                (Some(Err(Error::WatchFailed(error))), State::Listed { resource_version: watching.resource_version })
            }
            Ok(Some(Ok(WatchEvent::End))) => self.ended(watching, true),
            Ok(None) => {
                // What comes when it was to end is no accident.
                let length = Duration::from_secs(watching.length.saturating_sub(1).into());
                let in_order = watching.opened.elapsed() >= length;
                self.ended(watching, in_order)
            }
            // Nothing may have happened. If the connection is lost, the next request shows it.
            Err(_) => (None, State::Listed { resource_version: watching.resource_version }),
        }
    }

    fn told(&mut self, watching: Watching<K>, resource_version: String, change: WatchUpdate<K>) -> Step<K> {
        if resource_version.is_empty() {
            // A watch that resumes from no version sends everything again, but not what is gone.
            return (Some(Err(Error::NoResourceVersion)), State::Empty);
        }
        let now = Instant::now();
        if !watching.is_behind {
            self.heard = Some(now);
        }
        (Some(Ok(change)), State::Watching(Watching { resource_version, told: Some(now), ..watching }))
    }

    /// A watch has ended, as it should or by a connection that was cut.
    fn ended(&mut self, watching: Watching<K>, in_order: bool) -> Step<K> {
        let Watching { resource_version, opened, told, is_behind, .. } = watching;
        let state = State::Listed { resource_version };
        if told.is_none() && opened.elapsed() < SHORT {
            return (Some(Err(Error::WatchFailed(ended()))), state);
        }
        if !in_order {
            return (None, state);
        }
        let idle = told.unwrap_or(opened).elapsed();
        if is_behind && idle < IDLE {
            return (None, state);
        }
        self.caught_up();
        (is_behind.then_some(Ok(WatchUpdate::CaughtUp)), state)
    }
}

async fn page<K: Send + 'static>(
    collection: &dyn Collection<Object = K>,
    token: Option<String>,
) -> kube::Result<State<K>> {
    let parts = within(SILENCE, collection.page(token.as_deref())).await??;
    Ok(State::Page { token, parts })
}

async fn watch<K: Send + 'static>(
    collection: &dyn Collection<Object = K>,
    params: &WatchParams,
    resource_version: &str,
) -> kube::Result<WatchEvents<K>> {
    within(SILENCE, collection.watch(params, resource_version)).await?
}

async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> kube::Result<T> {
    timeout(limit, work).map(|result| result.map_err(|_| silent())).await
}

/// A page that failed is asked for again, unless its token is refused: then the list begins again.
fn failed_page<K>(token: Option<String>, error: kube::Error) -> Step<K> {
    let is_final = match &error {
        kube::Error::Api(status) => !is_passing(status),
        kube::Error::Service(error) => error.is::<WrongEncoding>(),
        _ => false,
    };
    let state = token.filter(|_| !is_final).map_or(State::Empty, |token| State::NextPage { token });
    (Some(Err(Error::InitialListFailed(error))), state)
}

/// Where to go on after a refusal: from the same version if it was not refused for the version's sake.
fn after<K>(status: &Status, resource_version: String) -> State<K> {
    if is_passing(status) { State::Listed { resource_version } } else { State::Empty }
}

/// Whether a refusal has nothing to do with what was asked for in particular.
fn is_passing(status: &Status) -> bool {
    matches!(status.code, 401 | 403 | 405 | 406 | 429 | 500..)
}

/// Whether a watch that resumes after this error would do so without an event that it should have sent. kube takes an
/// event that it can't read for a `Status`, whose fields are all optional.
pub(super) fn loses_an_event(error: &kube::Error) -> bool {
    matches!(error, kube::Error::SerdeError(_) | kube::Error::Api(_) | kube::Error::Service(_))
}

/// That a watch ended before it had told anything.
fn ended() -> kube::Error {
    kube::Error::ReadEvents(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the response ended early"))
}

fn silent() -> kube::Error {
    let text = format!("the server sent nothing for {} s", SILENCE.as_secs());
    kube::Error::ReadEvents(std::io::Error::new(std::io::ErrorKind::TimedOut, text))
}

fn never_caught_up() -> kube::Error {
    kube::Error::ReadEvents(std::io::Error::other("the server does not show when it has sent all that was missed"))
}
