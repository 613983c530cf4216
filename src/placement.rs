//! Reads what shows why no node takes a pod: the nodes of the cluster.

use std::{sync::Arc, time::Duration};

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::{Client, Resource, core::Request};
use tokio::time::timeout;

use crate::{
    diagnosis::{ClusterNodes, NodeObject},
    watch::{
        collection::{PAGE_SIZE, Part, Selection},
        json::request_page,
    },
};

/// How long all requests of a read may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many nodes are read. Kubernetes supports clusters of up to 5,000. Of a larger one, nothing is said.
const NODES: usize = 5000;
/// After how many nodes other tasks may go on.
const NODES_AT_ONCE: usize = 50;
/// How long what was read is used, before it is read again.
pub(crate) const FRESH: Duration = Duration::from_secs(5 * 60);

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PlacementKey {
    Nodes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlacementFacts {
    Nodes(Arc<ClusterNodes>),
}

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlacementReading {
    Read(PlacementFacts),
    /// RBAC denies access. The right is optional, so nothing reports that.
    Denied,
    /// It could not be read for another reason.
    Unavailable,
}

impl PlacementKey {
    /// The namespace to which the request counts.
    pub(crate) fn namespace(&self) -> &str {
        match self {
            Self::Nodes => "",
        }
    }
}

pub(crate) async fn read(client: &Client, key: &PlacementKey) -> PlacementReading {
    let read = async {
        match key {
            PlacementKey::Nodes => nodes(client).await.map(PlacementFacts::Nodes),
        }
    };
    match timeout(TIMEOUT, read).await {
        Ok(Ok(facts)) => PlacementReading::Read(facts),
        Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => PlacementReading::Denied,
        Ok(Err(error)) => {
            tracing::debug!(?key, %error, "could not read what shows why no node takes a pod");
            PlacementReading::Unavailable
        }
        Err(_) => PlacementReading::Unavailable,
    }
}

/// The nodes, of which one at a time is held in memory. None if there are too many.
async fn nodes(client: &Client) -> kube::Result<Arc<ClusterNodes>> {
    let (mut nodes, mut next) = (ClusterNodes::default(), None::<String>);
    loop {
        let selection = Selection { page_size: PAGE_SIZE, ..Selection::default() };
        let request = Request::new(Node::url_path(&(), None)).list(&selection.list(next.as_deref()));
        let request = request.map_err(kube::Error::BuildRequest);
        let mut page = request_page(client.clone(), request, |node: NodeObject| node).await?;
        next = loop {
            match page.try_next().await? {
                Some(Part::Object(node)) => nodes.add(&node),
                Some(Part::End { token, .. }) => break token,
                None => break None,
            }
            if nodes.count() > NODES {
                return Ok(Arc::default());
            }
            if nodes.count() % NODES_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        };
        if next.is_none() {
            return Ok(Arc::new(nodes));
        }
    }
}
