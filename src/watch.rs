//! A list and a watch that go on: a watcher, kube's or that of pods in protobuf, with what it leaves to its
//! users. It falls back to pages where the server has no streaming lists and to JSON where it has no
//! protobuf, backs off, tells a refused right from an outage, and begins anew after a refusal, so that the
//! recovery is seen, and after an event that can't be read, whose loss nothing else would mend.
//!
//! That a connection has gone silent is for its client to notice: see [`expect_signs_of_life`].

use std::{fmt::Debug, time::Duration};

use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Api, Client, Resource,
    core::Status,
    runtime::watcher::{self, watcher},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};

use crate::{
    backoff::Backoff,
    config::StreamingLists,
    pods::{
        JsonPod, SeenPod,
        protobuf::{self, NotProtobuf, SILENCE},
    },
};

/// Objects in one page of a paged list. Smaller pages cost round trips, larger ones memory where they come in
/// JSON: kube holds a page's bytes twice while it is decoded.
const PAGE_SIZE: u32 = 500;

/// The longest text of a server's refusal that is passed on, in bytes.
const REFUSAL_LIMIT: usize = 512;

/// Has connections given up that have fallen silent. Otherwise one whose other end has vanished is
/// noticed after five minutes while it is watched, and never while a list is awaited.
pub fn expect_signs_of_life(config: &mut kube::Config) {
    config.read_timeout = Some(SILENCE);
    // Silence counts from a request, not from when its connection was last used.
    config.reset_reader_on_write = true;
}

/// What happens to a watched collection.
#[derive(Debug)]
pub enum Change<K> {
    /// A new list begins: what it doesn't name by the time of [`Change::Synced`] is gone.
    Relisting,
    /// An object of that list.
    Listed(K),
    /// That list is complete.
    Synced,
    /// An object was made or changed.
    Applied(K),
    /// An object was deleted.
    Deleted(K),
    /// The server refuses the list or the watch. Its own words, which name the verb and the resource.
    Denied(String),
    /// Something else went wrong. What was known stands, and the watch goes on by itself.
    Failed(String),
}

/// Watches a collection for ever, in JSON.
pub fn watch<K>(api: Api<K>, lists: StreamingLists) -> BoxStream<'static, Change<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    Watch::begin(lists, move |way| in_json(api.clone(), way))
}

/// Watches the pods of a namespace, or of all, for ever: in protobuf, and where that is not to be had, in JSON.
pub fn watch_pods(
    client: Client,
    namespace: Option<String>,
    lists: StreamingLists,
) -> BoxStream<'static, Change<SeenPod>> {
    Watch::begin(lists, move |way| match (way.protobuf, &namespace) {
        (true, namespace) => protobuf::events(client.clone(), namespace.as_deref(), way.streaming, PAGE_SIZE),
        (false, Some(namespace)) => pods_in_json(Api::namespaced(client.clone(), namespace), way),
        (false, None) => pods_in_json(Api::all(client.clone()), way),
    })
}

fn pods_in_json(api: Api<JsonPod>, way: Way) -> Events<SeenPod> {
    let events = in_json(api, way).map_ok(|event| match event {
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitApply(pod) => watcher::Event::InitApply(pod.seen),
        watcher::Event::InitDone => watcher::Event::InitDone,
        watcher::Event::Apply(pod) => watcher::Event::Apply(pod.seen),
        watcher::Event::Delete(pod) => watcher::Event::Delete(pod.seen),
    });
    events.boxed()
}

type Events<K> = BoxStream<'static, watcher::Result<watcher::Event<K>>>;

/// How objects come.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// In a streaming list rather than in pages.
    streaming: bool,
    /// In protobuf rather than in JSON, where there is a choice.
    protobuf: bool,
}

fn in_json<K>(api: Api<K>, way: Way) -> Events<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let config = watcher::Config::default().page_size(PAGE_SIZE);
    let config = if way.streaming { config.streaming_lists() } else { config };
    watcher(api, config).boxed()
}

struct Watch<K> {
    open: Box<dyn Fn(Way) -> Events<K> + Send>,
    events: Events<K>,
    way: Way,
    may_fall_back: bool,
    backoff: Backoff,
    pause: Option<Instant>,
}

impl<K: Send + 'static> Watch<K> {
    fn begin(lists: StreamingLists, open: impl Fn(Way) -> Events<K> + Send + 'static) -> BoxStream<'static, Change<K>> {
        let way = Way { streaming: lists != StreamingLists::Never, protobuf: true };
        let state = Self {
            events: open(way),
            open: Box::new(open),
            way,
            may_fall_back: lists == StreamingLists::Auto,
            backoff: Backoff::new(Duration::from_millis(250), Duration::from_secs(10)),
            pause: None,
        };
        stream::unfold(state, |mut watch| async move {
            let change = watch.next().await;
            Some((change, watch))
        })
        .boxed()
    }

    async fn next(&mut self) -> Change<K> {
        loop {
            if let Some(until) = self.pause.take() {
                sleep_until(until).await;
            }
            let error = match self.events.next().await {
                Some(Ok(event)) => return self.change(event),
                Some(Err(error)) => error,
                // Watchers never end; were one to, a new one begins where this one did.
                None => {
                    self.restart();
                    continue;
                }
            };
            match api_status(&error) {
                Some(status) if self.way.streaming && self.may_fall_back && refuses_streaming(status) => {
                    tracing::info!("no streaming lists on this server: reading pages");
                    self.way.streaming = false;
                    self.events = (self.open)(self.way);
                }
                None if self.way.protobuf && is_not_protobuf(&error) => {
                    tracing::info!("no protobuf from this server: reading JSON");
                    self.way.protobuf = false;
                    self.events = (self.open)(self.way);
                }
                Some(status) if status.is_forbidden() => {
                    let refusal = bounded(&status.message);
                    self.restart();
                    return Change::Denied(refusal);
                }
                _ if loses_an_event(&error) => self.restart(),
                _ => self.pause = Some(Instant::now() + self.backoff.next_delay()),
            }
            return Change::Failed(describe(&error));
        }
    }

    fn change(&mut self, event: watcher::Event<K>) -> Change<K> {
        match event {
            // Not yet a sign of success: kube's watcher says it before it has asked the server for pages.
            watcher::Event::Init => Change::Relisting,
            watcher::Event::InitApply(object) => Change::Listed(object),
            watcher::Event::InitDone => {
                self.backoff.reset();
                Change::Synced
            }
            watcher::Event::Apply(object) => {
                self.backoff.reset();
                Change::Applied(object)
            }
            watcher::Event::Delete(object) => {
                self.backoff.reset();
                Change::Deleted(object)
            }
        }
    }

    /// A watcher whose *watch* was refused goes on silently once it is allowed; one that starts over
    /// tells by its list.
    fn restart(&mut self) {
        self.pause = Some(Instant::now() + self.backoff.next_delay());
        self.events = (self.open)(self.way);
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

fn is_not_protobuf(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Service(error))
        | watcher::Error::WatchStartFailed(kube::Error::Service(error)) => error.is::<NotProtobuf>(),
        _ => false,
    }
}

/// Whether a watch that goes on after this error would go on without an event that it should have told.
/// kube takes an event that it can't read for a `Status`, whose fields are all optional.
fn loses_an_event(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchFailed(kube::Error::SerdeError(_) | kube::Error::Api(_)))
}

/// What went wrong, without what a response held: bodies of pods and objects may stand in it.
fn describe(error: &watcher::Error) -> String {
    match (api_status(error), error) {
        _ if loses_an_event(error) => "an event that is not one".to_owned(),
        (Some(status), _) => bounded(&status.message),
        (None, watcher::Error::InitialListFailed(kube::Error::SerdeError(_))) => "a list that is not one".to_owned(),
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
