//! Makes anew what follows from Node objects and pods, after a panic in the middle of a change.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Cache, CachedPod, Slot};
use crate::guard::caught;
use crate::names::PodUid;
use crate::node_object::NodeObject;

impl Cache {
    /// Makes sums, order and snapshot anew. A pod that can't be put on its node is left out, as if nobody had seen it.
    pub(crate) fn rebuild(&mut self) {
        let nodes: Vec<Arc<NodeObject>> = self
            .slots
            .values()
            .filter_map(|slot| match slot {
                Slot::Node(info) => Some(info.node().clone()),
                Slot::Ghost(_) => None,
            })
            .collect();
        // In an order that doesn't depend on history.
        let mut pods: BTreeMap<PodUid, CachedPod> =
            std::mem::take(&mut self.pods).into_iter().collect();
        while let Err(culprit) = self.refill(&nodes, &pods) {
            pods.remove(&culprit);
        }
    }

    /// The first pod that can't be put on its node, if there is one: then that node's sums can't be trusted.
    fn refill(
        &mut self,
        nodes: &[Arc<NodeObject>],
        pods: &BTreeMap<PodUid, CachedPod>,
    ) -> Result<(), PodUid> {
        *self = Self {
            // Equal generations of a node mean equal contents.
            generation: self.generation,
            ..Self::default()
        };
        for node in nodes {
            self.set_node(node.clone());
        }
        for (uid, CachedPod { pod, node, assumed }) in pods {
            caught(|| self.place(pod.clone(), node.clone(), *assumed)).map_err(|_| uid.clone())?;
        }
        Ok(())
    }
}
