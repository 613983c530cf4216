//! Which nodes and claims are known that show why no node takes a pod. They are read again while one of the objects has such a
//! pod.

use std::{collections::HashSet, sync::Arc, time::Duration};

use arcstr::ArcStr;
use tokio::time::Instant;

use crate::{
    api::NamespacedName,
    diagnosis::{ClaimFacts, ClusterNodes},
    placement::{FRESH, PlacementFacts, PlacementKey, PlacementReading},
    pods::Pod,
};

use super::shared_reads::{Answer, Requests, SharedKey, SharedReads};

/// When it is tried again after an error.
const RETRY: Duration = Duration::from_secs(60);

impl SharedKey for PlacementKey {
    type Scope = String;

    fn scope(&self) -> String {
        self.namespace().to_owned()
    }

    fn namespace(&self) -> &str {
        self.namespace()
    }
}

pub(super) type Placement = SharedReads<PlacementKey, PlacementFacts>;

impl Placement {
    /// Stores the result of a read. Returns the objects that wait for it.
    pub(super) fn read(
        &mut self,
        key: &PlacementKey,
        reading: PlacementReading,
        now: Instant,
    ) -> HashSet<NamespacedName> {
        let answer = match reading {
            PlacementReading::Read(facts) => Answer::Fresh(facts, FRESH),
            // The right is optional, so nothing reports that it is missing.
            PlacementReading::Denied => Answer::Denied(String::new()),
            PlacementReading::Unavailable => Answer::Failed(Some(RETRY)),
        };
        self.answered(key, answer, now)
    }
}

impl Requests<'_, PlacementKey, PlacementFacts> {
    pub(super) fn nodes(&mut self) -> Option<Arc<ClusterNodes>> {
        match self.ask(PlacementKey::Nodes)? {
            PlacementFacts::Nodes(nodes) => Some(nodes),
            PlacementFacts::Claim(_) => None,
        }
    }

    /// What is known of the claims of a pod.
    pub(super) fn claims(&mut self, pod: &Pod) -> Vec<(ArcStr, Arc<ClaimFacts>)> {
        let mut known = Vec::new();
        for (name, key) in PlacementKey::claims(pod) {
            if let Some(PlacementFacts::Claim(claim)) = self.ask(key) {
                known.push((name, claim));
            }
        }
        known
    }
}
