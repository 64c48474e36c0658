//! How the scheduling loop reaches the edge: a cycle hands over its choice and waits; nodes come as soon as the
//! scheduler knows them, so that a ranking made for a node finds it there.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::core::v1::Node;
use pilotage_api::keys;
use pilotage_proxy::plugins::{GrantFailure, Grants};
use pilotage_sched_driver::Observer;
use tokio::sync::{mpsc, oneshot};

/// A choice that a cycle made, and where it waits for the end.
pub(super) struct Choice {
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) done: oneshot::Sender<Result<(), GrantFailure>>,
}

/// A change of a virtual node, which the scheduler has taken in.
pub(super) enum NodeEvent {
    /// It is new or changed.
    Applied(Arc<Node>),
    /// It is gone.
    Deleted(String),
}

/// Hands choices to the edge; the Bind plugin's port.
pub struct Port {
    choices: mpsc::UnboundedSender<Choice>,
}

/// Hands virtual nodes to the edge; the driver's observer.
pub struct NodeFeed {
    nodes: mpsc::UnboundedSender<NodeEvent>,
}

/// Where the edge finds what is handed to it.
pub struct Inbox {
    pub(super) choices: mpsc::UnboundedReceiver<Choice>,
    pub(super) nodes: mpsc::UnboundedReceiver<NodeEvent>,
}

/// Both ways to the edge, and the inbox to run it with.
pub fn connect() -> (Port, NodeFeed, Inbox) {
    let (choices, chosen) = mpsc::unbounded_channel();
    let (nodes, seen) = mpsc::unbounded_channel();
    let inbox = Inbox {
        choices: chosen,
        nodes: seen,
    };
    (Port { choices }, NodeFeed { nodes }, inbox)
}

impl Observer for NodeFeed {
    fn node_applied(&self, node: &Arc<Node>) {
        let labels = node.metadata.labels.as_ref();
        let provider = labels.and_then(|labels| labels.get(keys::PROVIDER));
        if provider.is_some_and(|provider| provider == keys::PROVIDER_VALUE) {
            // Without an edge nobody ranks.
            let _ = self.nodes.send(NodeEvent::Applied(node.clone()));
        }
    }

    fn node_deleted(&self, name: &str) {
        let _ = self.nodes.send(NodeEvent::Deleted(name.to_owned()));
    }
}

impl Grants for Port {
    fn grant<'a>(&'a self, uid: &'a str, node: &'a str) -> BoxFuture<'a, Result<(), GrantFailure>> {
        async move {
            let (done, end) = oneshot::channel();
            let choice = Choice {
                uid: uid.to_owned(),
                node: node.to_owned(),
                done,
            };
            self.choices
                .send(choice)
                .map_err(|_| GrantFailure::Ending)?;
            end.await.unwrap_or(Err(GrantFailure::Ending))
        }
        .boxed()
    }
}
