//! Owns what plugins read of a pod to judge nodes, parsed. Pods with equal needs are one class: what was said of a node
//! for one of them holds for all. Knows nothing of who the pod is.

use crate::host_ports::WantedPorts;
use crate::images::PodImages;
use crate::kubelet_features::KubeletFeatures;
use crate::node_affinity::{PreferredNodeTerm, RequiredNodeAffinity};
use crate::pod_affinity::PodAffinityTerms;
use crate::requests::PodRequests;
use crate::taints::Toleration;
use crate::topology_spread::SpreadConstraints;

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
    /// Its own topology spread constraints, if it states any.
    pub spread: Option<SpreadConstraints>,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
    /// Host ports that it wants.
    pub host_ports: WantedPorts,
    /// Images that it wants.
    pub images: PodImages,
    /// What its node's kubelet has to declare.
    pub needed_features: KubeletFeatures,
}
