//! The Jobs that decide whether failed pods are problems.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::Instant;

use crate::{
    cli::scan::cluster::{Source, read_job},
    diagnosis::JobFacts,
};

/// Concurrent reads.
const CONCURRENCY: usize = 8;
/// When a Job that has not ended is read again.
const READ_AGAIN: Duration = Duration::from_secs(15);

/// What is known about a Job.
#[derive(Clone, Debug)]
pub(super) enum KnownJob {
    /// It could not be read: its failed pods are problems.
    Unread,
    Read(Arc<JobFacts>),
}

/// A Job that a failed pod belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NeededJob {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

type Read = (String, KnownJob);

#[derive(Default)]
pub(super) struct Jobs<'a> {
    /// By UID.
    pub(super) known: HashMap<String, KnownJob>,
    /// When each was read last, or a read was started.
    read_at: HashMap<String, Instant>,
    reads: FuturesUnordered<BoxFuture<'a, Read>>,
}

impl<'a> Jobs<'a> {
    /// Starts to read those of the needed Jobs that are not known, or may have changed, and forgets all others.
    pub(super) fn read(&mut self, source: &'a Source, needed: &[NeededJob], now: Instant) {
        let is_needed = |uid: &String| needed.iter().any(|job| job.uid == *uid);
        if self.known.len() > needed.len() {
            self.known.retain(|uid, _| is_needed(uid));
            self.read_at.retain(|uid, _| is_needed(uid));
        }
        for NeededJob { namespace, name, uid } in needed {
            if self.reads.len() >= CONCURRENCY {
                return;
            }
            let has_ended =
                matches!(self.known.get(uid), Some(KnownJob::Read(job)) if job.complete || job.failed.is_some());
            if has_ended || self.read_at.get(uid).is_some_and(|at| now < *at + READ_AGAIN) {
                continue;
            }
            self.read_at.insert(uid.clone(), now);
            let (namespace, name, uid) = (namespace.clone(), name.clone(), uid.clone());
            let read = async move {
                let known = match read_job(source, namespace, name).await {
                    Ok(Some(job)) if job.metadata.uid.as_ref() == Some(&uid) => {
                        KnownJob::Read(Arc::new(JobFacts::of(&job)))
                    }
                    Ok(_) | Err(_) => KnownJob::Unread,
                };
                (uid, known)
            };
            self.reads.push(read.boxed());
        }
    }

    /// Waits for the next result, forever if no read is under way.
    pub(super) async fn next(&mut self) {
        match self.reads.next().await {
            Some((uid, known)) => _ = self.known.insert(uid, known),
            None => std::future::pending().await,
        }
    }

    /// When a Job is to be read again.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let ended = |uid: &String| matches!(self.known.get(uid), Some(KnownJob::Read(job)) if job.complete || job.failed.is_some());
        let next = self.read_at.iter().filter(|(uid, _)| !ended(uid)).map(|(_, at)| *at + READ_AGAIN).min();
        next.map(|next| next.max(now))
    }
}
