//! What is to be done about one virtual node: pure.
//!
//! The node is made after our finalizer stands on its Target, and goes after the last of its proxies: the pod garbage
//! collector fails all pods of a node that is gone. What isn't known (a summary that can't be read, the connection
//! right after a start) leaves what stands as it is. For a Target that never could be connected, since others of its
//! namespace are older, none is made.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilotage_api::summary::ResourceList;
use pilotage_api::{ClusterSummary, bounds, keys, limits};
use pilotage_clusters::{Connection, TargetObject};
use pilotage_model::virtual_node::{
    self, ExcludedLabels, KubeletEndpoint, Published, REACHED, READY, Readiness, Status,
    TargetName, is_our_taint, shown_labels, shown_resources, shown_shapes, shown_zones,
};
use serde_json::Value;

/// All that a decision rests on.
pub struct Observed<'a> {
    /// Which target the node stands for.
    pub name: TargetName<'a>,
    /// The target's object; `None` if it is gone and only the node is left.
    pub target: Option<&'a TargetObject>,
    /// Whether a node may be made for it that isn't there.
    pub has_turn: bool,
    /// Its connection; of no meaning without a target.
    pub connection: &'a Connection,
    /// What the target says of itself; `None`: not known now.
    pub summary: Option<&'a ClusterSummary>,
    /// Whether this cluster's own nodes have huge pages of several sizes.
    pub several_huge_page_sizes: bool,
    /// The node in this cluster.
    pub node: NodeState<'a>,
    /// Pods bound to it; `None`: not known, or not looked for since nothing is being removed.
    pub bound: Option<&'a [std::sync::Arc<Pod>]>,
    /// Where logs and shells of its pods are asked for.
    pub kubelet: Option<&'a KubeletEndpoint>,
    /// Version of Pilotage.
    pub version: &'a str,
    /// This moment.
    pub now: Timestamp,
}

/// What is known of the node.
#[derive(Clone, Copy)]
pub enum NodeState<'a> {
    /// Nothing yet.
    Unknown,
    /// There is none.
    Absent,
    /// It is there.
    There(&'a Node),
}

/// What was written last, so that the same isn't written again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// UID of the node that the others are about.
    pub uid: Option<String>,
    /// Metadata and spec as applied.
    pub applied: Option<Value>,
    /// Status as applied, without times.
    pub status: Option<StatusKey>,
}

/// What makes one status another.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusKey {
    capacity: ResourceList,
    allocatable: ResourceList,
    readiness: Readiness,
    reached: bool,
    labels: BTreeMap<String, String>,
    kubelet: Option<KubeletEndpoint>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Put our finalizer on the target's object.
    AddFinalizer,
    /// Create the node.
    Create(Value),
    /// Put our taint back, beside those that are there.
    AddTaint {
        /// The whole list.
        taints: Vec<Taint>,
        /// Version of the node that the list was read from.
        resource_version: String,
    },
    /// Apply metadata and spec.
    Apply(Value),
    /// Apply the status.
    ApplyStatus {
        /// What to apply.
        value: Value,
        /// What to remember of it.
        key: Box<StatusKey>,
    },
    /// Delete a proxy.
    DeleteProxy {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// Delete node and lease, if a live read finds no proxy either.
    RemoveNode {
        /// UID of the node.
        uid: String,
    },
    /// Take our finalizer off the target's object.
    RemoveFinalizer,
}

/// What to do now, in this order. What follows from it is decided when it has been seen to happen.
pub fn decide(observed: &Observed<'_>, memory: &Memory) -> Vec<Step> {
    match observed.target {
        Some(target) if !target.is_deleting() => keep(observed, target, memory),
        target => remove(observed, target, memory),
    }
}

fn keep(observed: &Observed<'_>, target: &TargetObject, memory: &Memory) -> Vec<Step> {
    // A node that is there stays, whoever made it: pods may be on it.
    if !observed.has_turn && !matches!(observed.node, NodeState::There(_)) {
        return Vec::new();
    }
    if !has_finalizer(target) {
        return vec![Step::AddFinalizer];
    }
    let node = match observed.node {
        NodeState::Unknown => return Vec::new(),
        NodeState::Absent => {
            return vec![Step::Create(virtual_node::create(observed.name))];
        }
        NodeState::There(node) => node,
    };
    let mut steps = Vec::new();
    // Without a summary, what an earlier one said stays, unless it is a label that now must not be shown.
    if let Some(summary) = observed.summary {
        let zones = zones(summary, target);
        // Nobody but ourselves reads these, so huge pages of all sizes may be there.
        let free = summary
            .free
            .as_ref()
            .map(|free| shown_resources(free, true));
        let shapes = summary.free_shapes.as_deref().map(shown_shapes);
        let published = Published {
            free: free.as_ref(),
            free_shapes: shapes.as_deref(),
            zones: zones.as_deref(),
            has_kubelet: observed.kubelet.is_some(),
        };
        let wanted = virtual_node::apply(observed.name, &labels(observed), published, false);
        apply_if_new(wanted, node, memory, &mut steps);
    } else if !shows_own_labels(observed.name, node) {
        steps.push(Step::Apply(virtual_node::apply(
            observed.name,
            &labels(observed),
            Published::default(),
            false,
        )));
    }
    steps.extend(mend_taint(node));
    steps.extend(status(
        observed,
        readiness(observed.connection),
        node,
        memory,
    ));
    steps
}

fn remove(observed: &Observed<'_>, target: Option<&TargetObject>, memory: &Memory) -> Vec<Step> {
    // What the target says of itself is of no use any more, and nothing of it may be in the way.
    let observed = &Observed {
        summary: None,
        ..*observed
    };
    let node = match observed.node {
        NodeState::Unknown => return Vec::new(),
        NodeState::Absent => {
            let held = target.is_some_and(has_finalizer);
            return if held {
                vec![Step::RemoveFinalizer]
            } else {
                Vec::new()
            };
        }
        NodeState::There(node) => node,
    };
    let mut steps = Vec::new();
    let wanted = virtual_node::apply(observed.name, &BTreeMap::new(), Published::default(), true);
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    if !cordoned {
        // First of all: no new pod.
        steps.push(Step::Apply(wanted));
    }
    steps.extend(mend_taint(node));
    let readiness = match target {
        Some(_) => readiness(observed.connection),
        None => Some(not_ready(
            "TargetRemoved",
            "the Target of this virtual node is gone",
        )),
    };
    steps.extend(status(observed, readiness, node, memory));
    if !cordoned {
        return steps;
    }
    let Some(bound) = observed.bound else {
        return steps;
    };
    let proxies: Vec<&Pod> = bound
        .iter()
        .map(AsRef::as_ref)
        .filter(|pod| is_proxy(pod))
        .collect();
    if proxies.is_empty() {
        steps.extend(
            node.metadata
                .uid
                .clone()
                .map(|uid| Step::RemoveNode { uid }),
        );
        return steps;
    }
    for pod in proxies {
        let meta = &pod.metadata;
        if let (None, Some(namespace), Some(name), Some(uid)) = (
            &meta.deletion_timestamp,
            &meta.namespace,
            &meta.name,
            &meta.uid,
        ) {
            steps.push(Step::DeleteProxy {
                namespace: namespace.clone(),
                name: name.clone(),
                uid: uid.clone(),
            });
        }
    }
    steps
}

/// Whether a pod is one that the webhook made a proxy. A `DaemonSet`'s pod on a virtual node is none: nothing runs
/// behind it.
pub fn is_proxy(pod: &Pod) -> bool {
    is_made_proxy(&pod.metadata)
}

/// [`is_proxy`], of a pod of which only that is known.
pub(crate) fn is_made_proxy(pod: &ObjectMeta) -> bool {
    let annotations = pod.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(keys::SOURCE_POD_MANIFEST))
}

fn has_finalizer(target: &TargetObject) -> bool {
    target
        .finalizers
        .iter()
        .any(|finalizer| finalizer == keys::VIRTUAL_NODE_GONE)
}

/// The shared labels that may be shown.
fn labels(observed: &Observed<'_>) -> BTreeMap<String, String> {
    let shared = observed
        .summary
        .and_then(|summary| summary.metadata.labels.as_ref());
    let (Some(shared), Some(target)) = (shared, observed.target) else {
        return BTreeMap::new();
    };
    let excluded = ExcludedLabels::parse(target.excluded_labels_regexp.as_deref());
    shown_labels(shared, &excluded.unwrap_or(ExcludedLabels::All))
}

/// The zones that may be told.
fn zones(summary: &ClusterSummary, target: &TargetObject) -> Option<String> {
    let zones = summary.metadata.annotations.as_ref()?.get(keys::ZONES)?;
    let excluded = ExcludedLabels::parse(target.excluded_labels_regexp.as_deref());
    shown_zones(zones, &excluded.unwrap_or(ExcludedLabels::All))
}

fn apply_if_new(wanted: Value, node: &Node, memory: &Memory, steps: &mut Vec<Step>) {
    let same = memory.uid == node.metadata.uid && memory.applied.as_ref() == Some(&wanted);
    if !same || !shows(&wanted, node) {
        steps.push(Step::Apply(wanted));
    }
}

/// Whether the labels and annotations of `wanted` stand on the node.
fn shows(wanted: &Value, node: &Node) -> bool {
    let all = |wanted: &Value, there: Option<&BTreeMap<String, String>>| {
        wanted
            .as_object()
            .into_iter()
            .flatten()
            .all(|(key, value)| {
                there.and_then(|there| there.get(key)).map(String::as_str) == value.as_str()
            })
    };
    let meta = &wanted["metadata"];
    all(&meta["labels"], node.metadata.labels.as_ref())
        && all(&meta["annotations"], node.metadata.annotations.as_ref())
}

fn shows_own_labels(name: TargetName<'_>, node: &Node) -> bool {
    shows(
        &virtual_node::apply(name, &BTreeMap::new(), Published::default(), false),
        node,
    )
}

fn mend_taint(node: &Node) -> Option<Step> {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.clone())
        .unwrap_or_default();
    if taints.iter().any(is_our_taint) {
        return None;
    }
    let resource_version = node.metadata.resource_version.clone()?;
    let taints = taints.into_iter().chain([virtual_node::taint()]).collect();
    Some(Step::AddTaint {
        taints,
        resource_version,
    })
}

/// What the connection means for the node; `None`: not known yet, so nothing is said.
fn readiness(connection: &Connection) -> Option<Readiness> {
    match connection {
        Connection::Connecting => None,
        Connection::Connected { .. } => Some(Readiness {
            ready: true,
            reason: "TargetConnected".to_owned(),
            message: "the API server of the target answers".to_owned(),
        }),
        Connection::Lost { reason, .. } => Some(not_ready(
            "TargetLost",
            &format!("{}: {reason}", reason.word()),
        )),
    }
}

fn not_ready(reason: &str, message: &str) -> Readiness {
    Readiness {
        ready: false,
        reason: reason.to_owned(),
        message: bounds::cut(message, limits::MESSAGE).to_owned(),
    }
}

fn status(
    observed: &Observed<'_>,
    readiness: Option<Readiness>,
    node: &Node,
    memory: &Memory,
) -> Option<Step> {
    let current = node.status.as_ref();
    let ready = virtual_node::condition(node, READY);
    let readiness = match (readiness, ready) {
        (Some(readiness), _) => readiness,
        // An earlier process knew; this one doesn't yet.
        (None, Some(_)) => return None,
        (None, None) => not_ready("TargetConnecting", "the target hasn't been reached yet"),
    };
    let was_ready = ready.is_some_and(|ready| ready.status == "True");
    let labels = labels(observed);
    let several = observed.several_huge_page_sizes;
    let shown =
        |told: Option<&ResourceList>, stands: Option<&ResourceList>| match (observed.summary, told)
        {
            (Some(_), told) => told
                .map(|told| shown_resources(told, several))
                .unwrap_or_default(),
            (None, _) => stands.cloned().unwrap_or_default(),
        };
    let capacity = shown(
        observed
            .summary
            .and_then(|summary| summary.capacity.as_ref()),
        current.and_then(|status| status.capacity.as_ref()),
    );
    let allocatable = shown(
        observed
            .summary
            .and_then(|summary| summary.allocatable.as_ref()),
        current.and_then(|status| status.allocatable.as_ref()),
    );
    let key = StatusKey {
        capacity,
        allocatable,
        reached: readiness.ready || virtual_node::was_reached(node) || was_ready,
        readiness,
        labels,
        kubelet: observed.kubelet.cloned(),
    };
    let kubelet_told = observed
        .kubelet
        .is_none_or(|kubelet| current.is_some_and(|status| kubelet.is_told_by(status)));
    let told = kubelet_told
        && ready.is_some_and(|ready| key.readiness.is_told_by(ready))
        && key.reached == virtual_node::was_reached(node);
    if told && memory.uid == node.metadata.uid && memory.status.as_ref() == Some(&key) {
        return None;
    }
    let value = render(observed, &key, node);
    Some(Step::ApplyStatus {
        value,
        key: Box::new(key),
    })
}

fn render(observed: &Observed<'_>, key: &StatusKey, node: &Node) -> Value {
    let status = Status {
        capacity: &key.capacity,
        allocatable: &key.allocatable,
        version: observed.version,
        labels: &key.labels,
        kubelet: key.kubelet.as_ref(),
    };
    let stands = |type_| virtual_node::condition(node, type_);
    let mut conditions = vec![key.readiness.condition(stands(READY), observed.now)];
    if key.reached {
        conditions.push(virtual_node::reached(stands(REACHED), observed.now));
    }
    status.apply(&observed.name.node(), &conditions)
}

#[cfg(test)]
#[path = "decide/tests.rs"]
mod tests;
