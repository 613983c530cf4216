//! Limits how often workloads are read in all, and shares the reads between namespaces. Without it, somebody who writes
//! events could have the operator send as many requests.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::bounded::TokenBucket;

/// The average time between two reads.
const INTERVAL: Duration = Duration::from_millis(250);
/// How many reads may begin together after a quiet time.
const BURST: u32 = 20;

#[derive(Debug, Default)]
pub(super) struct ReadRate {
    all: TokenBucket,
    /// When the last read of a workload in each namespace began.
    begun: HashMap<String, Instant>,
}

impl ReadRate {
    /// The earliest time at which a read may begin, if there is one.
    pub(super) fn next(&self) -> Option<Instant> {
        self.all.available_at((BURST - 1) * INTERVAL)
    }

    /// Whether a read may begin now.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.next().is_none_or(|next| next <= now)
    }

    /// When the last read in a namespace began. The namespace with the earliest one is next.
    pub(super) fn last_begun(&self, namespace: &str) -> Option<Instant> {
        self.begun.get(namespace).copied()
    }

    pub(super) fn begin(&mut self, namespace: &str, now: Instant) {
        self.all.take(INTERVAL, (BURST - 1) * INTERVAL, now);
        self.begun.insert(namespace.to_owned(), now);
    }

    /// Forgets the namespaces that have no workloads.
    pub(super) fn retain(&mut self, has_workloads: impl Fn(&str) -> bool) {
        self.begun.retain(|namespace, _| has_workloads(namespace));
    }
}
