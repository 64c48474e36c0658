//! Whoever wants to know what the driver does: the edge of a protocol, for one.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use pilotage_sched::{Failure, NodeName, PodInfo};

/// Is told about watched pods and about attempts, in order for each pod. Called without any lock, from
/// the driver's own tasks: be quick, hand longer work to a task of yours.
pub trait Observer: Send + Sync + 'static {
    /// A pod was seen, new or changed, after the scheduler took it in. Of pods that the driver
    /// follows itself, what scheduling never looks at isn't there: managed fields, and the containers' commands,
    /// environments, probes and mounts. Labels and annotations are whole.
    fn pod_applied(&self, _pod: &Arc<Pod>) {}

    /// A pod is gone, or over (`Succeeded`, `Failed`).
    fn pod_deleted(&self, _namespace: &str, _name: &str, _uid: &str) {}

    /// A node was seen, new or changed, after the scheduler took it in; labels and annotations are whole.
    fn node_applied(&self, _node: &Arc<Node>) {}

    /// A node is gone.
    fn node_deleted(&self, _name: &str) {}

    /// A pod has a node now, which is taken but not bound; `held` says that Permit holds it.
    fn assumed(&self, _pod: &Arc<PodInfo>, _node: &NodeName, _held: bool) {}

    /// An attempt failed: the search, Permit, or the binding. The pod is back in the queue, unless
    /// [`Failure::aftermath`] says otherwise.
    fn failed(&self, _failure: &Failure) {}

    /// Whether a failed attempt is worth an event and a condition on the pod. An edge that knows that the
    /// pod is about to be deleted spares its API server two writes.
    fn publishes(&self, _failure: &Failure) -> bool {
        true
    }

    /// Whether the driver writes the condition of a pod whose attempt failed. An edge that writes the same pods does it
    /// in its own order, lest each write makes the version old that the next one names.
    fn writes_status(&self, _failure: &Failure) -> bool {
        true
    }

    /// Whether a pod that was bound gets an event: it costs a request a pod.
    fn tells_bound(&self, _pod: &Arc<PodInfo>) -> bool {
        true
    }

    /// What the event of a pod that was bound says besides: an edge that knows how it came to its node spares it an
    /// event of its own.
    fn story(&self, _pod: &Arc<PodInfo>) -> Option<String> {
        None
    }

    /// A pod was bound.
    fn bound(&self, _pod: &Arc<PodInfo>, _node: &NodeName) {}
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}
