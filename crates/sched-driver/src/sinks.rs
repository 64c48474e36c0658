//! What watched pods and nodes mean: the scheduler takes them in, then the observer is told.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use pilotage_sched::{NodeName, PodUid};

use crate::driver::Inner;
use crate::feed::Sink;

/// Takes pods.
pub(crate) struct PodSink {
    pub(crate) inner: Arc<Inner>,
}

impl Sink<Pod> for PodSink {
    fn applied(&mut self, pod: Arc<Pod>) {
        let seen = self
            .inner
            .core
            .with(|scheduler, now| scheduler.pod_applied(pod.clone(), now));
        match seen {
            Ok(change) => {
                let name = pod.metadata.name.as_deref();
                tracing::trace!(
                    namespace = pod.metadata.namespace,
                    name,
                    ?change,
                    "pod seen"
                );
            }
            Err(error) => tracing::error!(%error, "a pod is left out"),
        }
        self.inner.observer.pod_applied(&pod);
    }

    fn deleted(&mut self, namespace: &str, name: &str, uid: &str) {
        let gone = PodUid::from(uid);
        self.inner
            .core
            .with(|scheduler, now| scheduler.pod_deleted(&gone, now));
        self.inner.observer.pod_deleted(namespace, name, uid);
    }
}

/// Takes nodes.
pub(crate) struct NodeSink {
    pub(crate) inner: Arc<Inner>,
}

impl Sink<Node> for NodeSink {
    fn applied(&mut self, node: Arc<Node>) {
        if let Err(error) = self
            .inner
            .core
            .with(|scheduler, now| scheduler.node_applied(node.clone(), now))
        {
            tracing::error!(%error, "a node is left out");
        }
        self.inner.observer.node_applied(&node);
    }

    fn deleted(&mut self, _namespace: &str, name: &str, _uid: &str) {
        let gone = NodeName::from(name);
        self.inner
            .core
            .with(|scheduler, now| scheduler.node_deleted(&gone, now));
        self.inner.observer.node_deleted(name);
    }
}
