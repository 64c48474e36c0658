//! Makes anew what follows from Node objects and pods, after a panic in the middle of a change.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Cache, CachedPod};
use crate::guard::caught;
use crate::names::{NodeName, PodUid};
use crate::node_object::NodeObject;
use crate::pod_info::PodInfo;
use crate::table::NodeTable;

impl Cache {
    /// Makes the table anew. The pods that can't be put on their nodes are left out, as if nobody had
    /// seen them.
    pub(crate) fn rebuild(&mut self) -> Vec<(Arc<PodInfo>, NodeName)> {
        let nodes: Vec<Arc<NodeObject>> = self.nodes.objects().cloned().collect();
        // In an order that doesn't depend on history.
        let mut pods: BTreeMap<PodUid, CachedPod> =
            std::mem::take(&mut self.pods).into_iter().collect();
        let mut left_out = Vec::new();
        while let Err(culprit) = self.refill(&nodes, &pods) {
            let culprit = pods.remove(&culprit);
            left_out.extend(culprit.map(|CachedPod { pod, node, .. }| (pod, node)));
        }
        left_out
    }

    /// The first pod that can't be put on its node, if there is one: then that node's sums can't be trusted.
    fn refill(
        &mut self,
        nodes: &[Arc<NodeObject>],
        pods: &BTreeMap<PodUid, CachedPod>,
    ) -> Result<(), PodUid> {
        *self = Self {
            nodes: NodeTable::in_place_of(&self.nodes),
            unread: std::mem::take(&mut self.unread),
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
