//! The Node that stands for a target cluster: its labels, taint, readiness and room.
//!
//! Made in three pieces, since three rules apply to them: what is set once at creation, what we own of metadata and
//! spec by server-side apply (labels, taints and annotations that others put there stay), and what we own of the
//! status. Must not know how a target is reached or when anything is written.

mod kubelet;
mod quiet;
mod readiness;
mod shown;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSystemInfo, Taint};
use pilotage_api::keys;
use pilotage_api::summary::{FreeShape, ResourceList};
use serde_json::{Value, json};

pub use self::kubelet::{BadAddress, KubeletAddress, KubeletEndpoint};
pub use self::quiet::tell_labels;
pub use self::readiness::{REACHED, READY, Readiness, condition, reached, was_reached};
pub use self::shown::{
    ExcludedLabels, ExcludedLabelsError, has_several_huge_page_sizes, shown_labels,
    shown_resources, shown_shapes, shown_zones,
};

/// Label with a node's operating system.
const OS: &str = "kubernetes.io/os";
/// Label with a node's processor architecture.
const ARCH: &str = "kubernetes.io/arch";

/// Which target a virtual node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetName<'a> {
    /// Namespace of a `Target`; `None` for a `ClusterTarget`.
    pub namespace: Option<&'a str>,
    /// Name.
    pub name: &'a str,
}

impl TargetName<'_> {
    /// Name of the node.
    pub fn node(&self) -> String {
        pilotage_api::names::virtual_node(self.namespace, self.name)
    }

    /// The labels that say which target it is; they are the same for all of a node's life.
    fn labels(&self) -> BTreeMap<String, String> {
        let mut labels: BTreeMap<String, String> = keys::VIRTUAL_NODE_LABELS
            .iter()
            .chain(&[(keys::PROVIDER, keys::PROVIDER_VALUE)])
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        // A label value has at most 63 characters, a name may have 253: then the name of the node must do.
        let mut insert = |key: &str, value: &str| {
            if value.len() <= 63 {
                labels.insert(key.to_owned(), value.to_owned());
            }
        };
        match self.namespace {
            Some(namespace) => {
                insert(keys::TARGET_NAMESPACE, namespace);
                insert(keys::TARGET_NAME, self.name);
            }
            None => insert(keys::CLUSTER_TARGET_NAME, self.name),
        }
        labels
    }
}

/// The taint of every virtual node, which only proxies tolerate.
pub fn taint() -> Taint {
    Taint {
        key: keys::PROVIDER.to_owned(),
        value: Some(keys::PROVIDER_VALUE.to_owned()),
        effect: "NoSchedule".to_owned(),
        time_added: None,
    }
}

/// Whether `taint` is the one of [`taint`]; when it was added plays no part.
pub fn is_our_taint(taint: &Taint) -> bool {
    let ours = self::taint();
    (&taint.key, &taint.value, &taint.effect) == (&ours.key, &ours.value, &ours.effect)
}

/// Whether a node is a virtual node of ours: it has our label, or, if somebody took that off, the provider ID of its
/// birth.
pub fn is_ours(node: &Node) -> bool {
    let label = node
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(keys::PROVIDER));
    let id = node
        .spec
        .as_ref()
        .and_then(|spec| spec.provider_id.as_deref());
    let name = node.metadata.name.as_deref().unwrap_or_default();
    label.is_some_and(|label| label == keys::PROVIDER_VALUE) || id == Some(&provider_id(name))
}

fn provider_id(node: &str) -> String {
    format!("{}://{node}", keys::PROVIDER_VALUE)
}

/// The Node to create.
///
/// It has the labels that stay for life and no others: what is created isn't owned by way of apply, so that a later
/// apply without it would leave it there.
///
/// The taint list belongs to everybody, so it is only given here and later added to, never applied. The provider ID
/// keeps cloud controllers, which look for a machine behind each node that isn't ready and delete nodes without one,
/// from taking the node for one of theirs; it can't be changed afterwards.
pub fn create(target: TargetName<'_>) -> Value {
    let name = target.node();
    let mut node = apply(target, &BTreeMap::new(), Published::default(), false);
    node["spec"] = json!({
        "taints": [taint()],
        "providerID": provider_id(&name),
    });
    node
}

/// What a target publishes of itself beside its labels and its size, and how what its pods use is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Published<'a> {
    /// What is free, summed over its nodes.
    pub free: Option<&'a ResourceList>,
    /// Free room of its roomiest nodes.
    pub free_shapes: Option<&'a [FreeShape]>,
    /// Zones of its nodes, separated by commas.
    pub zones: Option<&'a str>,
    /// Whether a kubelet answers for the node.
    pub has_kubelet: bool,
}

/// What we own of the node's metadata and spec, for server-side apply; `labels` are those of the target that may be
/// told.
///
/// `unschedulable` is only mentioned when it is set: a person's cordon stays.
pub fn apply(
    target: TargetName<'_>,
    labels: &BTreeMap<String, String>,
    published: Published<'_>,
    unschedulable: bool,
) -> Value {
    let (mut all, quiet) = quiet::split(target, labels);
    // Ours win: a shared label must not make the node look like another.
    all.extend(target.labels());
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": target.node(), "labels": all },
    });
    if !quiet.is_empty() {
        node["metadata"]["annotations"][keys::LABELS] = json!(quiet).to_string().into();
    }
    let Published {
        free,
        free_shapes,
        zones,
        has_kubelet,
    } = published;
    if let Some(free) = free {
        node["metadata"]["annotations"][keys::FREE] = json!(free).to_string().into();
    }
    if let Some(shapes) = free_shapes {
        node["metadata"]["annotations"][keys::FREE_SHAPES] = json!(shapes).to_string().into();
    }
    if let Some(zones) = zones {
        node["metadata"]["annotations"][keys::ZONES] = zones.into();
    }
    if has_kubelet {
        let path = format!("/metrics/resource/{}", target.node());
        node["metadata"]["annotations"][keys::RESOURCE_METRICS_PATH] = path.into();
    }
    if unschedulable {
        node["spec"] = json!({ "unschedulable": true });
    }
    node
}

/// What we own of the node's status, for server-side apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Status<'a> {
    /// Sum of the target's nodes.
    pub capacity: &'a ResourceList,
    /// Sum of what they let pods use.
    pub allocatable: &'a ResourceList,
    /// Version of Pilotage.
    pub version: &'a str,
    /// The labels that are shown, which tell operating system and architecture.
    pub labels: &'a BTreeMap<String, String>,
    /// Where logs and shells of its pods are asked for, if anybody answers there.
    pub kubelet: Option<&'a KubeletEndpoint>,
}

impl Status<'_> {
    /// The status of the node `name` with these conditions.
    pub fn apply(&self, name: &str, conditions: &[NodeCondition]) -> Value {
        let mut node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": name },
            "status": {
                "capacity": self.capacity,
                "allocatable": self.allocatable,
                "conditions": conditions,
                "nodeInfo": self.info(),
            },
        });
        if let Some(kubelet) = self.kubelet {
            node["status"]["addresses"] = json!(kubelet.addresses());
            node["status"]["daemonEndpoints"] = json!(kubelet.endpoints());
        }
        node
    }

    fn info(&self) -> NodeSystemInfo {
        let label = |key: &str, otherwise: &str| {
            self.labels
                .get(key)
                .cloned()
                .unwrap_or_else(|| otherwise.to_owned())
        };
        NodeSystemInfo {
            operating_system: label(OS, "linux"),
            architecture: label(ARCH, ""),
            kubelet_version: format!("v1.36.0-pilotage-{}", self.version),
            os_image: "Pilotage (a cluster, not a machine)".to_owned(),
            ..NodeSystemInfo::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    use super::*;

    const TARGET: TargetName<'static> = TargetName {
        namespace: Some("default"),
        name: "c2",
    };

    pub(super) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect()
    }

    pub(super) fn resources(pairs: &[(&str, &str)]) -> ResourceList {
        pairs
            .iter()
            .map(|(key, value)| ((*key).into(), Quantity((*value).into())))
            .collect()
    }

    #[test]
    fn a_new_node_has_name_labels_taint_and_a_provider_of_its_own() {
        let node = create(TARGET);
        assert_eq!(
            node,
            json!({
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": "admiralty-default-c2",
                    "labels": {
                        "type": "virtual-kubelet",
                        "kubernetes.io/role": "cluster",
                        "alpha.service-controller.kubernetes.io/exclude-balancer": "true",
                        "node.kubernetes.io/exclude-from-external-load-balancers": "true",
                        "virtual-kubelet.io/provider": "admiralty",
                        "multicluster.admiralty.io/target-namespace": "default",
                        "multicluster.admiralty.io/target-name": "c2",
                    },
                },
                "spec": {
                    "taints": [{
                        "key": "virtual-kubelet.io/provider",
                        "value": "admiralty",
                        "effect": "NoSchedule",
                    }],
                    "providerID": "admiralty://admiralty-default-c2",
                },
            })
        );
    }

    #[test]
    fn our_nodes_are_known_by_label_or_birth() {
        let ours = create(TARGET);
        let mut unlabelled = ours.clone();
        unlabelled["metadata"]["labels"] = json!({});
        let stranger = json!({ "metadata": { "name": "admiralty-default-c2" }, "spec": {} });
        for (node, want) in [(ours, true), (unlabelled, true), (stranger, false)] {
            assert_eq!(
                is_ours(&serde_json::from_value(node.clone()).unwrap()),
                want,
                "{node}"
            );
        }
    }

    #[test]
    fn a_cluster_target_has_its_own_label_and_names_too_long_for_a_label_have_none() {
        let cluster = TargetName {
            namespace: None,
            name: "c2",
        };
        let labels =
            apply(cluster, &BTreeMap::new(), Published::default(), false)["metadata"]["labels"]
                .clone();
        assert_eq!(labels[keys::CLUSTER_TARGET_NAME], "c2");
        assert_eq!(labels.get(keys::TARGET_NAME), None);
        let long = "x".repeat(64);
        let long = TargetName {
            namespace: None,
            name: &long,
        };
        let labels =
            apply(long, &BTreeMap::new(), Published::default(), false)["metadata"]["labels"]
                .clone();
        assert_eq!(labels.get(keys::CLUSTER_TARGET_NAME), None);
    }

    #[test]
    fn a_shared_label_can_not_pass_for_one_of_ours() {
        let node = apply(
            TARGET,
            &map(&[("tier", "gold"), ("type", "metal")]),
            Published::default(),
            false,
        );
        let labels = &node["metadata"]["labels"];
        assert_eq!(
            (&labels["tier"], &labels["type"]),
            (&json!("gold"), &json!("virtual-kubelet"))
        );
    }

    #[test]
    fn what_is_applied_later_mentions_no_taint_and_no_cordon_unless_it_is_set() {
        let shapes = [FreeShape {
            nodes: 2,
            free: resources(&[("cpu", "4")]),
        }];
        let free = resources(&[("cpu", "9")]);
        let published = Published {
            free: Some(&free),
            free_shapes: Some(&shapes),
            zones: Some("a,b"),
            has_kubelet: true,
        };
        let node = apply(TARGET, &BTreeMap::new(), published, false);
        assert_eq!(node.get("spec"), None);
        assert_eq!(
            node["metadata"]["annotations"],
            json!({
                keys::FREE: r#"{"cpu":"9"}"#,
                keys::FREE_SHAPES: r#"[{"free":{"cpu":"4"},"nodes":2}]"#,
                keys::ZONES: "a,b",
                keys::RESOURCE_METRICS_PATH: "/metrics/resource/admiralty-default-c2",
            })
        );
        assert_eq!(
            apply(TARGET, &BTreeMap::new(), Published::default(), true)["spec"],
            json!({ "unschedulable": true })
        );
    }

    #[test]
    fn the_status_tells_room_and_kind_of_machine() {
        let (capacity, labels) = (resources(&[("cpu", "4")]), map(&[(ARCH, "arm64")]));
        let status = Status {
            capacity: &capacity,
            allocatable: &capacity,
            version: "0.1.0",
            labels: &labels,
            kubelet: None,
        };
        let readiness = Readiness {
            ready: true,
            reason: "r".into(),
            message: "m".into(),
        };
        let ready = readiness.condition(None, jiff::Timestamp::UNIX_EPOCH);
        let value = status.apply("n", &[ready]);
        assert_eq!(value["status"]["allocatable"], json!({ "cpu": "4" }));
        assert_eq!(value["status"]["nodeInfo"]["architecture"], "arm64");
        assert_eq!(value["status"]["nodeInfo"]["operatingSystem"], "linux");
        // The node itself must be one that the types can read.
        serde_json::from_value::<Node>(value).unwrap();
    }
}
