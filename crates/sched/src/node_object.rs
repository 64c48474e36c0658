//! Owns a Node object as the scheduler sees it: parsed once, shared. Knows nothing of the pods on it.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use k8s_openapi::api::core::v1::Node;

use crate::images::{self, NodeImage};
use crate::kubelet_features::KubeletFeatures;
use crate::labels::Labels;
use crate::names::NodeName;
use crate::pod_info::{Defect, IdentityError};
use crate::resources::Resources;
use crate::taints::Taint;

/// A Node, parsed once. Immutable and shared (`Arc<NodeObject>`); a change makes a new one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeObject {
    /// `metadata.name`.
    pub name: NodeName,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `status.images`, each name once, by name.
    pub images: Vec<NodeImage>,
    /// `status.declaredFeatures`, as far as pods may need them.
    pub features: KubeletFeatures,
    pub(crate) digests: Digests,
    labels: Labels,
    defects: Vec<Defect>,
}

/// What events tell of and no plugin here reads, as numbers that differ if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digests {
    /// Types and states of the conditions, without the times that each heartbeat changes.
    pub(crate) conditions: u64,
    pub(crate) annotations: u64,
    /// All declared features.
    pub(crate) features: u64,
}

impl Digests {
    fn of(node: &Node) -> Self {
        let status = node.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let conditions = conditions.into_iter().flatten();
        let conditions = conditions.map(|it| (&it.type_, &it.status));
        Self {
            conditions: digest(conditions.collect::<Vec<_>>()),
            annotations: digest(node.metadata.annotations.as_ref()),
            features: digest(status.and_then(|status| status.declared_features.as_ref())),
        }
    }
}

fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl NodeObject {
    /// Reads a Node. Malformed fields become [`NodeObject::defects`].
    pub fn parse(node: &Node) -> Result<Self, IdentityError> {
        let name = node.metadata.name.as_deref().ok_or(IdentityError::Name)?;
        let name = NodeName::from(name);
        let mut defects = Vec::new();
        let allocatable = node
            .status
            .as_ref()
            .and_then(|status| status.allocatable.as_ref())
            .map(|list| {
                Resources::parse(list, |name, error| {
                    let path = format!("status.allocatable[{name}]");
                    defects.push(Defect::Quantity { path, error });
                })
            })
            .unwrap_or_default();
        let mut taints = Vec::new();
        let spec = node.spec.as_ref();
        for (index, taint) in spec
            .and_then(|s| s.taints.as_ref())
            .into_iter()
            .flatten()
            .enumerate()
        {
            match Taint::parse(taint) {
                Some(taint) => taints.push(taint),
                None => defects.push(Defect::Taint {
                    path: format!("spec.taints[{index}]"),
                }),
            }
        }
        let unschedulable = spec.and_then(|spec| spec.unschedulable).unwrap_or(false);
        let status = node.status.as_ref();
        let features = status.and_then(|status| status.declared_features.as_deref());
        let features = features.unwrap_or_default();
        Ok(Self {
            name,
            allocatable,
            taints,
            unschedulable,
            images: images::on_node(node),
            features: KubeletFeatures::declared(features),
            digests: Digests::of(node),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            defects,
        })
    }

    /// Its labels.
    pub const fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Whether plugins can't tell it from another version of the same node.
    pub(crate) fn equals_for_plugins(&self, other: &Self) -> bool {
        self.labels() == other.labels()
            && self.allocatable == other.allocatable
            && self.taints == other.taints
            && self.unschedulable == other.unschedulable
            && self.images == other.images
            && self.features == other.features
            && self.defects == other.defects
    }

    /// Its malformed fields. No pod is placed on a node that has any: what is wrong with it could be the
    /// very thing that keeps pods away.
    pub fn defects(&self) -> &[Defect] {
        &self.defects
    }

    /// Region and zone, by which the search order is interleaved.
    pub fn zone(&self) -> Zone {
        let label = |keys: [&str; 2]| {
            keys.iter()
                .find_map(|key| self.labels().get(*key))
                .cloned()
                .unwrap_or_default()
        };
        Zone {
            region: label([
                "topology.kubernetes.io/region",
                "failure-domain.beta.kubernetes.io/region",
            ]),
            zone: label([
                "topology.kubernetes.io/zone",
                "failure-domain.beta.kubernetes.io/zone",
            ]),
        }
    }
}

/// A failure domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Zone {
    /// Its region; empty if the node has no such label.
    pub region: String,
    /// The zone in it; empty if the node has no such label.
    pub zone: String,
}

#[cfg(test)]
mod tests {
    use crate::test_objects::node;

    #[test]
    fn zones_come_from_either_label() {
        let zone = |builder: crate::test_objects::NodeBuilder| {
            let zone = builder.object().zone();
            format!("{}/{}", zone.region, zone.zone)
        };
        let stable = node("n")
            .label("topology.kubernetes.io/region", "r")
            .label("topology.kubernetes.io/zone", "z")
            .label("failure-domain.beta.kubernetes.io/zone", "old");
        assert_eq!(zone(stable), "r/z");
        assert_eq!(
            zone(node("n").label("failure-domain.beta.kubernetes.io/zone", "old")),
            "/old"
        );
        assert_eq!(zone(node("n")), "/");
    }

    #[test]
    fn malformed_fields_are_told_and_the_rest_counts() {
        let node = node("n")
            .allocatable("cpu", "4 cores")
            .allocatable("memory", "1Ki")
            .taint("a", "", "NoSchedule")
            .taint("b", "", "Sometimes")
            .object();
        let defects = node
            .defects()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>();
        let expected = [
            "status.allocatable[cpu] has an unknown suffix",
            "spec.taints[1] has an unknown effect or operator",
        ];
        assert_eq!(defects, expected);
        assert_eq!((node.allocatable.memory, node.taints.len()), (1024, 1));
    }
}
