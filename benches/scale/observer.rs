//! Observes statuses with a watch, as any client would.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream::BoxStream};
use kube::{
    Api,
    runtime::watcher::{self, Event, watcher},
};
use orchestr::api::{Orchestr, OrchestrStatus};

use crate::{Outcome, cluster::Cluster, trouble};

/// A status, and when it was received.
pub struct Seen {
    pub name: String,
    pub at: Instant,
    pub status: OrchestrStatus,
}

pub struct Observer {
    events: BoxStream<'static, watcher::Result<Event<Orchestr>>>,
}

impl Observer {
    pub fn new(cluster: &Cluster) -> Self {
        let api: Api<Orchestr> = Api::all(cluster.client.clone());
        Self { events: watcher(api, watcher::Config::default()).boxed() }
    }

    /// The next status.
    pub async fn next(&mut self) -> Outcome<Seen> {
        loop {
            let event = self.events.next().await.ok_or_else(|| trouble("the watch ended".to_owned()))??;
            let at = Instant::now();
            if let Event::Apply(object) | Event::InitApply(object) = event
                && let Some(status) = object.status
            {
                return Ok(Seen { name: object.metadata.name.unwrap_or_default(), at, status });
            }
        }
    }

    /// Waits for the first status for which `wanted` is true.
    pub async fn until(
        &mut self,
        what: &str,
        patience: Duration,
        wanted: impl Fn(&str, &OrchestrStatus) -> bool,
    ) -> Outcome<Seen> {
        let mut last = None;
        let found = tokio::time::timeout(patience, async {
            loop {
                let seen = self.next().await?;
                if wanted(&seen.name, &seen.status) {
                    return Ok(seen);
                }
                last = Some(seen.status);
            }
        });
        match found.await {
            Ok(seen) => seen,
            Err(_) => {
                let last = last.map(|status| {
                    format!("{} of {} pods, {:?}", status.problematic_pod_count, status.watched_pods, status.conditions)
                });
                Err(trouble(format!("{what} was not seen within {patience:?}; last: {last:?}")))
            }
        }
    }
}
