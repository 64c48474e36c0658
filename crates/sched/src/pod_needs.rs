//! Owns what plugins read of a pod to judge nodes, parsed. Pods with equal needs are one class: what was said of a node
//! for one of them holds for all. Knows nothing of who the pod is.

use std::collections::HashSet;
use std::sync::Arc;

use crate::host_ports::HostPort;
use crate::images::PodImages;
use crate::kubelet_features::KubeletFeatures;
use crate::node_affinity::{PreferredNodeTerm, RequiredNodeAffinity};
use crate::pod_affinity::PodAffinityTerms;
use crate::requests::PodRequests;
use crate::taints::Toleration;

/// What a pod needs of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodNeeds {
    /// What it asks for.
    pub requests: PodRequests,
    /// `spec.nodeSelector` and required node affinity.
    pub node_affinity: RequiredNodeAffinity,
    /// Preferred node affinity.
    pub preferred_nodes: Vec<PreferredNodeTerm>,
    /// Inter-pod affinity and anti-affinity.
    pub pod_affinity: PodAffinityTerms,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
    /// Host ports that it wants.
    pub host_ports: Vec<HostPort>,
    /// Images that it wants.
    pub images: PodImages,
    /// What its node's kubelet has to declare.
    pub needed_features: KubeletFeatures,
}

/// How many more than half of the needs must be unused before they are dropped.
const SLACK: usize = 64;

/// The needs of all pods that a scheduler knows, each once.
#[derive(Debug, Default)]
pub(crate) struct KnownNeeds {
    known: HashSet<Arc<PodNeeds>>,
    sweep_at: usize,
}

impl KnownNeeds {
    /// The one that is equal to these.
    pub(crate) fn shared(&mut self, needs: Arc<PodNeeds>) -> Arc<PodNeeds> {
        if let Some(known) = self.known.get(&needs) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            let used = self.known.len();
            self.sweep_at = used.saturating_mul(2).saturating_add(SLACK);
        }
        self.known.insert(needs.clone());
        needs
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{KnownNeeds, SLACK};
    use crate::test_objects::pod;

    #[test]
    fn equal_needs_are_one_and_unused_ones_are_dropped() {
        let mut all = KnownNeeds::default();
        let needs = |cpu: usize| {
            pod("a")
                .request("cpu", &cpu.to_string())
                .info()
                .needs
                .clone()
        };
        let one = all.shared(needs(1));
        let same = all.shared(pod("b").request("cpu", "1000m").info().needs.clone());
        assert!(Arc::ptr_eq(&one, &same));
        for cpu in 2..10 * SLACK {
            all.shared(needs(cpu));
        }
        assert!(all.known.len() <= 2 * SLACK, "{}", all.known.len());
        assert!(
            Arc::ptr_eq(&one, &all.shared(needs(1))),
            "it is still in use"
        );
    }
}
