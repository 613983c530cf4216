//! Lists and watches of pods in protobuf, the API server's own encoding of its built-in types. It costs the API server
//! half of JSON's time in a list and a quarter in a watch, the network two thirds of its bytes, and us nearly nothing for
//! what is skipped (docs/performance.md).
//!
//! The events and their errors are those of kube's watcher, which knows JSON only. The format is that of apimachinery's
//! serializer `protobuf`: an envelope, `runtime.Unknown`, behind the magic bytes `k8s\0`, and in a watch a length of four
//! bytes before each event.

mod answer;
mod convert;
mod message;
mod page;
mod wire;

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::{
    Client, Resource,
    api::{ListParams, WatchParams},
    core::{Request, Status},
    runtime::watcher::{Error, Event, Result},
};

use super::SeenPod;

use self::{
    answer::{Answer, ask, ended},
    convert::Told,
    page::{Page, Part},
    wire::Buffer,
};

pub use self::answer::{NotProtobuf, SILENCE};

/// Lists and watches the pods of a namespace, or of all, and never ends. After an error it goes on where that is
/// possible, and lists anew where it is not; that it waits a while before is for its caller to see to.
///
/// With `streaming` the list is a streaming one, else it comes in pages of `page_size`. Where the answer is something else
/// than protobuf, the error is [`NotProtobuf`] in a [`kube::Error::Service`].
pub fn events(
    client: Client,
    namespace: Option<&str>,
    streaming: bool,
    page_size: u32,
) -> BoxStream<'static, Result<Event<SeenPod>>> {
    let path = ApiPod::url_path(&(), namespace);
    let source = Source { client, request: Request::new(path), streaming, page_size };
    stream::unfold((source, State::Empty), |(source, state)| async move {
        let mut state = state;
        loop {
            let (event, next) = source.step(state).await;
            state = next;
            if let Some(event) = event {
                return Some((event, (source, state)));
            }
        }
    })
    .boxed()
}

/// The pods of a page that has come whole. Only benches have any: [`events`] hands pods on while a page still comes.
#[doc(hidden)]
#[must_use]
pub fn read_page(bytes: &[u8]) -> Option<Vec<SeenPod>> {
    let (mut page, mut buffer, mut pods) = (Page::default(), Buffer::default(), Vec::new());
    buffer.push(bytes);
    loop {
        match page.next(&mut buffer).ok()?? {
            Part::Pod(seen) => pods.push(seen),
            Part::End { .. } => return Some(pods),
        }
    }
}

struct Source {
    client: Client,
    request: Request,
    streaming: bool,
    page_size: u32,
}

enum State {
    /// Nothing is known.
    Empty,
    /// In the middle of a page.
    Page { page: Page, answer: Answer },
    /// Before the next page.
    NextPage { token: String },
    /// In the initial events of a streaming list.
    Initial { answer: Answer },
    /// All is known as of this version, and no watch is open.
    Listed { resource_version: String },
    /// Being watched; all is known as of this version.
    Watching { answer: Answer, resource_version: String },
}

type Step = (Option<Result<Event<SeenPod>>>, State);

impl Source {
    async fn step(&self, state: State) -> Step {
        match state {
            State::Empty if self.streaming => {
                let params = WatchParams::streaming_lists();
                match self.watch(&params, "0").await {
                    Ok(answer) => (Some(Ok(Event::Init)), State::Initial { answer }),
                    Err(error) => (Some(Err(Error::WatchStartFailed(error))), State::Empty),
                }
            }
            State::Empty => match self.page(None).await {
                Ok(state) => (Some(Ok(Event::Init)), state),
                Err(error) => (Some(Err(Error::InitialListFailed(error))), State::Empty),
            },
            State::NextPage { token } => match self.page(Some(token)).await {
                Ok(state) => (None, state),
                Err(error) => (Some(Err(Error::InitialListFailed(error))), State::Empty),
            },
            State::Page { mut page, mut answer } => match answer.next_part(&mut page).await {
                Ok(Part::Pod(seen)) => (Some(Ok(Event::InitApply(seen))), State::Page { page, answer }),
                Ok(Part::End { token, resource_version }) => {
                    answer.finish().await;
                    match token {
                        Some(token) => (None, State::NextPage { token }),
                        None => (Some(Ok(Event::InitDone)), State::Listed { resource_version }),
                    }
                }
                Err(error) => (Some(Err(Error::InitialListFailed(error))), State::Empty),
            },
            State::Listed { resource_version } => match self.watch(&WatchParams::default(), &resource_version).await {
                Ok(answer) => (None, State::Watching { answer, resource_version }),
                Err(error) => {
                    let state = match &error {
                        kube::Error::Api(status) => after(status, resource_version),
                        _ => State::Listed { resource_version },
                    };
                    (Some(Err(Error::WatchStartFailed(error))), state)
                }
            },
            State::Initial { mut answer } => match answer.next_told().await {
                Ok(Some(Told::Applied(seen))) => (Some(Ok(Event::InitApply(seen))), State::Initial { answer }),
                Ok(Some(Told::Bookmark { resource_version, ends_list: true })) => {
                    (Some(Ok(Event::InitDone)), State::Watching { answer, resource_version })
                }
                // Nothing is deleted in a list.
                Ok(Some(Told::Bookmark { .. } | Told::Deleted(_))) => (None, State::Initial { answer }),
                Ok(Some(Told::Refused(status))) => (Some(Err(Error::WatchError(status))), State::Empty),
                Ok(None) => (Some(Err(Error::WatchFailed(ended()))), State::Empty),
                Err(error) => (Some(Err(Error::WatchFailed(error))), State::Empty),
            },
            State::Watching { mut answer, resource_version } => match answer.next_told().await {
                Ok(Some(Told::Applied(seen))) => told(answer, seen, Event::Apply),
                Ok(Some(Told::Deleted(seen))) => told(answer, seen, Event::Delete),
                Ok(Some(Told::Bookmark { resource_version, .. })) => {
                    (None, State::Watching { answer, resource_version })
                }
                Ok(Some(Told::Refused(status))) => {
                    let state = after(&status, resource_version);
                    (Some(Err(Error::WatchError(status))), state)
                }
                Ok(None) => (None, State::Listed { resource_version }),
                // What could not be read stood for a change, which only a list makes up for.
                Err(error @ kube::Error::Service(_)) => (Some(Err(Error::WatchFailed(error))), State::Empty),
                Err(error) => (Some(Err(Error::WatchFailed(error))), State::Listed { resource_version }),
            },
        }
    }

    async fn watch(&self, params: &WatchParams, resource_version: &str) -> kube::Result<Answer> {
        let request = self.request.watch(params, resource_version).map_err(kube::Error::BuildRequest)?;
        ask(&self.client, request).await
    }

    async fn page(&self, token: Option<String>) -> kube::Result<State> {
        let params = ListParams { continue_token: token, ..ListParams::default().limit(self.page_size) };
        let request = self.request.list(&params).map_err(kube::Error::BuildRequest)?;
        let answer = ask(&self.client, request).await?;
        Ok(State::Page { page: Page::default(), answer })
    }
}

/// Goes on from a pod that a watch has told.
fn told(answer: Answer, seen: SeenPod, event: impl Fn(SeenPod) -> Event<SeenPod>) -> Step {
    let resource_version = seen.resource_version.clone();
    if resource_version.is_empty() {
        // A watch that goes on from no version tells everything anew, but not what is gone.
        return (Some(Err(Error::NoResourceVersion)), State::Empty);
    }
    (Some(Ok(event(seen))), State::Watching { answer, resource_version })
}

/// Where to go on after a refusal: from the same version if it was not for the version's sake.
fn after(status: &Status, resource_version: String) -> State {
    match status.code {
        401 | 403 | 429 | 500.. => State::Listed { resource_version },
        _ => State::Empty,
    }
}

#[cfg(test)]
mod tests;
