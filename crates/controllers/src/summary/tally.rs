//! Nodes and what their pods ask for, kept up to date change by change: pure.
//!
//! Virtual nodes are left out: what runs behind them is another cluster's to tell.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use pilotage_api::keys;
use pilotage_api::summary::ResourceList;
use pilotage_model::virtual_node;
use pilotage_sched::PodInfo;
use pilotage_sched::resources::{ResourceName, ResourceSum, Resources};

use super::amounts;
use super::shapes::{self, Room};

/// What a cluster tells of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    /// Labels that all nodes have with one value.
    pub(crate) labels: BTreeMap<String, String>,
    /// Zones of the nodes, separated by commas; empty if none says its zone.
    pub(crate) zones: String,
    /// Sum of the nodes' capacity.
    pub(crate) capacity: ResourceList,
    /// Sum of what those let pods use that take any: a node that is cordoned or not ready gives no pod anything.
    pub(crate) allocatable: ResourceList,
    /// What is free on nodes that take pods.
    pub(crate) free: Free,
    /// Free room of the roomiest nodes.
    pub(crate) free_shapes: Vec<pilotage_api::summary::FreeShape>,
}

/// Free CPU (in thousandths) and memory (in bytes), and how much of them all nodes have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Free {
    milli_cpu: (i64, i64),
    memory: (i64, i64),
}

impl Free {
    /// Parts of the whole that a sum may move by before that alone is worth a write: it changes with every pod.
    const PARTS: i64 = 32;

    /// Whether who knows `other` knows this well enough.
    fn is_near(&self, other: &Self) -> bool {
        let near = |(one, all): (i64, i64), (two, then): (i64, i64)| {
            all == then && (one == two || one.abs_diff(two) < (all / Self::PARTS).unsigned_abs())
        };
        near(self.milli_cpu, other.milli_cpu) && near(self.memory, other.memory)
    }

    /// The amounts.
    pub(crate) fn list(&self) -> ResourceList {
        let amounts = [
            (ResourceName::Cpu, self.milli_cpu.0),
            (ResourceName::Memory, self.memory.0),
        ];
        amounts::of(amounts)
    }
}

impl Facts {
    /// Whether a summary that says `written` needn't be written again.
    pub(crate) fn is_told_by(&self, written: &Self) -> bool {
        let Self {
            labels,
            zones,
            capacity,
            allocatable,
            free,
            free_shapes,
        } = self;
        free.is_near(&written.free)
            && *labels == written.labels
            && *zones == written.zones
            && *capacity == written.capacity
            && *allocatable == written.allocatable
            && *free_shapes == written.free_shapes
    }
}

/// All nodes and the pods on them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    nodes: HashMap<String, NodeFacts>,
    /// By UID: where the pod is, and what it asks for.
    pods: HashMap<String, (String, Resources)>,
    /// By node; also of nodes that haven't been seen yet.
    used: HashMap<String, ResourceSum>,
    /// Something that facts are made of isn't as it was when they were [told](Self::told) last.
    changed: bool,
}

#[derive(Debug, PartialEq)]
struct NodeFacts {
    labels: BTreeMap<String, String>,
    capacity: Resources,
    allocatable: Resources,
    taking: Taking,
}

/// Whom a node takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taking {
    /// Pods without any toleration, too.
    All,
    /// Pods that tolerate its taints.
    Tolerating,
    /// No pod: it isn't ready, or it is cordoned.
    Nobody,
}

impl Tally {
    /// A node as it is now.
    pub(crate) fn node(&mut self, node: &Node) {
        let Some(name) = node.metadata.name.clone() else {
            return;
        };
        if virtual_node::is_ours(node) {
            self.no_node(&name);
            return;
        }
        let status = node.status.as_ref();
        let read = |list: Option<&ResourceList>| {
            // What can't be read is left out, as schedulers do.
            list.map(|list| Resources::parse(list, |_, _| {}))
                .unwrap_or_default()
        };
        let facts = NodeFacts {
            labels: labels(node),
            capacity: read(status.and_then(|status| status.capacity.as_ref())),
            allocatable: read(status.and_then(|status| status.allocatable.as_ref())),
            taking: taking(node),
        };
        // Most of what is told of nodes are heartbeats.
        if self.nodes.get(&name) != Some(&facts) {
            self.nodes.insert(name, facts);
            self.changed = true;
        }
    }

    /// A node that is gone.
    pub(crate) fn no_node(&mut self, name: &str) {
        self.changed |= self.nodes.remove(name).is_some();
    }

    /// A pod as it is now.
    pub(crate) fn pod(&mut self, pod: &Arc<Pod>) {
        let Some(uid) = pod.metadata.uid.clone() else {
            return;
        };
        // Should that panic, what was known of it stays.
        let info = PodInfo::parse(pod.clone()).ok();
        let takes = info.filter(|info| !info.terminal).and_then(|info| {
            let node = info.node_name.as_ref()?.as_str().to_owned();
            let mut asked = info.needs.requests.total.clone();
            asked.pods = 1;
            Some((node, asked))
        });
        if self.pods.get(&uid) == takes.as_ref() {
            return;
        }
        self.no_pod(&uid);
        let Some((node, asked)) = takes else {
            return;
        };
        self.used.entry(node.clone()).or_default().add(&asked);
        self.pods.insert(uid, (node, asked));
        self.changed = true;
    }

    /// A pod that is gone.
    pub(crate) fn no_pod(&mut self, uid: &str) {
        let Some((node, asked)) = self.pods.remove(uid) else {
            return;
        };
        self.changed = true;
        if let Some(used) = self.used.get_mut(&node) {
            used.subtract(&asked);
            if used.pods <= 0 {
                self.used.remove(&node);
            }
        }
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the cluster may tell something else than it did last.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed
    }

    /// Somebody has what the cluster tells now.
    pub(crate) fn told(&mut self) {
        self.changed = false;
    }

    /// What the cluster tells now. It looks at every node and pod.
    pub(crate) fn facts(&self) -> Facts {
        let (mut capacity, mut allocatable) = (ResourceSum::default(), ResourceSum::default());
        for node in self.nodes.values() {
            capacity.add(&node.capacity);
            if node.taking != Taking::Nobody {
                allocatable.add(&node.allocatable);
            }
        }
        let (capacity, allocatable) = (capacity.capped(), allocatable.capped());
        let capacities = amounts::list(&capacity);
        let rooms: Vec<_> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.taking == Taking::All)
            .filter_map(|(name, node)| match self.used.get(name) {
                Some(used) => Room::of(&used.left_of(&node.allocatable)),
                None => Room::of(&node.allocatable),
            })
            .collect();
        let sum = |amount: fn(&Room) -> i64| {
            let all = rooms.iter().map(amount);
            all.fold(0, i64::saturating_add)
        };
        Facts {
            labels: self.shared_labels(),
            zones: self.zones(),
            allocatable: amounts::allocatable(&allocatable, &capacities),
            capacity: capacities,
            free: Free {
                milli_cpu: (sum(Room::milli_cpu), allocatable.milli_cpu),
                memory: (sum(Room::memory), allocatable.memory),
            },
            free_shapes: shapes::of(&rooms),
        }
    }

    fn zones(&self) -> String {
        let zone = |node: &'_ NodeFacts| {
            let mut labels = keys::ZONE_LABELS.iter();
            labels.find_map(|key| node.labels.get(*key)).cloned()
        };
        let zones: BTreeSet<String> = self.nodes.values().filter_map(zone).collect();
        zones.into_iter().collect::<Vec<_>>().join(",")
    }

    fn shared_labels(&self) -> BTreeMap<String, String> {
        let mut nodes = self.nodes.values();
        let Some(first) = nodes.next() else {
            return BTreeMap::new();
        };
        let mut shared = first.labels.clone();
        for node in nodes {
            shared.retain(|key, value| node.labels.get(key) == Some(value));
        }
        shared
    }
}

/// A node's labels, with its provider as the scheme of its provider ID (`aws:///…`) says it, unless a label does.
fn labels(node: &Node) -> BTreeMap<String, String> {
    let mut labels = node.metadata.labels.clone().unwrap_or_default();
    let id = node
        .spec
        .as_ref()
        .and_then(|spec| spec.provider_id.as_deref());
    let scheme = id.and_then(|id| id.split_once("://"));
    let is_label =
        |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if let Some(scheme) = scheme.map(|(scheme, _)| scheme).filter(is_label) {
        labels
            .entry(keys::CLOUD_PROVIDER.to_owned())
            .or_insert_with(|| scheme.to_owned());
    }
    labels
}

fn taking(node: &Node) -> Taking {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == virtual_node::READY && condition.status == "True");
    let spec = node.spec.as_ref();
    let cordoned = spec.and_then(|spec| spec.unschedulable).unwrap_or_default();
    let taints = spec.and_then(|spec| spec.taints.as_ref());
    let tainted = taints
        .into_iter()
        .flatten()
        .any(|taint| taint.effect != "PreferNoSchedule");
    match (ready && !cordoned, tainted) {
        (false, _) => Taking::Nobody,
        (true, true) => Taking::Tolerating,
        (true, false) => Taking::All,
    }
}

#[cfg(test)]
#[path = "tally/tests.rs"]
mod tests;
