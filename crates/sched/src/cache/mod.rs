//! Owns what is known of nodes and of the pods on them: watched ones, and assumed ones that the API server
//! hasn't confirmed yet. Knows nothing of pods that look for a node (see [`crate::queue`]).
//!
//! Assumed pods never expire: the watch confirms them, or a failed binding forgets them.

mod order;
mod rebuild;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use thiserror::Error;

use self::order::NodeOrder;
use crate::names::{NodeName, PodUid};
use crate::node_info::NodeInfo;
use crate::node_object::NodeObject;
use crate::pod_info::PodInfo;
use crate::snapshot::Snapshot;

/// Why the cache refuses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CacheError {
    /// The pod is on a node already, assumed or watched.
    #[error("pod {uid} is on node {node:?} already")]
    Known {
        /// The pod.
        uid: PodUid,
        /// Where it is.
        node: NodeName,
    },
}

/// What a watched pod did to the cache.
#[derive(Clone, Debug)]
pub enum PodSeen {
    /// It is new.
    Added,
    /// It was assumed, and the API server confirms it.
    Confirmed,
    /// It was known on another node (`from`), assumed there or not: somebody else moved it.
    Moved {
        /// Where it was thought to be.
        from: NodeName,
    },
    /// It was known here.
    Updated {
        /// The pod before.
        old: Arc<PodInfo>,
    },
}

#[derive(Debug)]
enum Slot {
    Node(Arc<NodeInfo>),
    /// The Node object is gone, or hasn't come yet; its pods are kept in case it comes.
    Ghost(BTreeMap<PodUid, Arc<PodInfo>>),
}

#[derive(Debug)]
struct CachedPod {
    pod: Arc<PodInfo>,
    node: NodeName,
    assumed: bool,
}

/// Nodes with the pods on them.
///
/// Each [`NodeInfo`] is shared with the last snapshot and copied on the first change after it, so that a new
/// snapshot costs as much as what changed.
#[derive(Debug, Default)]
pub struct Cache {
    slots: HashMap<NodeName, Slot>,
    pods: HashMap<PodUid, CachedPod>,
    order: NodeOrder,
    // Nodes with a pod that couldn't be taken in, whether there is a Node object or not.
    unread: HashMap<NodeName, PodUid>,
    generation: u64,
    // Nodes whose contents changed since the last snapshot; `None` if nodes came, went or changed zone.
    dirty: Option<BTreeSet<NodeName>>,
    snapshot: Arc<Snapshot>,
}

impl Cache {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// All nodes as they are now. Cheap if little has changed since the last call.
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        match &mut self.dirty {
            Some(dirty) if dirty.is_empty() => {}
            Some(dirty) => {
                let changed = std::mem::take(dirty);
                let nodes = changed
                    .iter()
                    .filter_map(|name| info(&self.slots, name))
                    .cloned();
                Arc::make_mut(&mut self.snapshot).replace(nodes);
            }
            None => {
                let names = self.order.interleaved();
                let nodes = names
                    .filter_map(|name| info(&self.slots, name))
                    .cloned()
                    .collect();
                self.snapshot = Arc::new(Snapshot::new(nodes));
                self.dirty = Some(BTreeSet::new());
            }
        }
        self.snapshot.clone()
    }

    /// Puts a pod on a node before the API server knows.
    pub fn assume(&mut self, pod: Arc<PodInfo>, node: &NodeName) -> Result<(), CacheError> {
        if let Some(known) = self.pods.get(&pod.uid) {
            return Err(CacheError::Known {
                uid: pod.uid.clone(),
                node: known.node.clone(),
            });
        }
        self.place(pod, node.clone(), true);
        Ok(())
    }

    /// Takes an assumed pod back; `None` if it isn't assumed.
    pub fn forget(&mut self, uid: &PodUid) -> Option<Arc<PodInfo>> {
        if self.is_assumed(uid) {
            self.remove_pod(uid)
        } else {
            None
        }
    }

    /// Puts a watched pod on the node that it names, confirming or correcting what was assumed.
    pub fn set_pod(&mut self, pod: Arc<PodInfo>, node: &NodeName) -> PodSeen {
        let seen = match self.pods.get(&pod.uid) {
            None => PodSeen::Added,
            Some(known) if known.node != *node => PodSeen::Moved {
                from: known.node.clone(),
            },
            Some(known) if known.assumed => PodSeen::Confirmed,
            Some(known) => PodSeen::Updated {
                old: known.pod.clone(),
            },
        };
        self.remove_pod(&pod.uid);
        self.place(pod, node.clone(), false);
        seen
    }

    /// Takes a pod off its node, assumed or not.
    pub fn remove_pod(&mut self, uid: &PodUid) -> Option<Arc<PodInfo>> {
        let CachedPod { pod, node, .. } = self.pods.remove(uid)?;
        match self.slots.get_mut(&node) {
            Some(Slot::Node(_)) => {
                self.change(&node, |info| {
                    info.remove_pod(uid);
                });
            }
            Some(Slot::Ghost(pods)) => {
                pods.remove(uid);
                if pods.is_empty() {
                    self.slots.remove(&node);
                }
            }
            None => {}
        }
        Some(pod)
    }

    /// Adds or changes a node; the object before, if there was one.
    pub fn set_node(&mut self, node: Arc<NodeObject>) -> Option<Arc<NodeObject>> {
        let name = node.name.clone();
        if let Some(old) = info(&self.slots, &name).map(|info| info.node().clone()) {
            let (from, to) = (old.zone(), node.zone());
            if from != to {
                self.order.remove(&from, &name);
                self.order.insert(to, name.clone());
                self.dirty = None;
            }
            self.change(&name, |info| info.set_node(node));
            return Some(old);
        }
        self.order.insert(node.zone(), name.clone());
        let mut info = NodeInfo::new(node);
        if let Some(Slot::Ghost(pods)) = self.slots.remove(&name) {
            for pod in pods.into_values() {
                info.add_pod(pod);
            }
        }
        info.set_unread(self.unread.get(&name).cloned());
        self.generation = self.generation.saturating_add(1);
        info.set_generation(self.generation);
        self.slots.insert(name, Slot::Node(Arc::new(info)));
        self.dirty = None;
        None
    }

    /// Removes a node. Its pods stay known until they are removed themselves, or the node comes back.
    pub fn remove_node(&mut self, name: &NodeName) -> Option<Arc<NodeObject>> {
        let gone = info(&self.slots, name)?.clone();
        self.order.remove(&gone.node().zone(), name);
        self.slots.remove(name);
        if !gone.pods().is_empty() {
            let pods = gone
                .pods()
                .iter()
                .map(|pod| (pod.uid.clone(), pod.clone()))
                .collect();
            self.slots.insert(name.clone(), Slot::Ghost(pods));
        }
        self.dirty = None;
        Some(gone.node().clone())
    }

    /// Says which pod on a node couldn't be taken in, if there is one.
    pub(crate) fn set_unread(&mut self, node: &NodeName, pod: Option<PodUid>) {
        match pod.clone() {
            Some(pod) => self.unread.insert(node.clone(), pod),
            None => self.unread.remove(node),
        };
        if info(&self.slots, node).is_some_and(|info| info.unread_pod() != pod.as_ref()) {
            self.change(node, |info| info.set_unread(pod));
        }
    }

    /// A node with the pods on it.
    pub fn node(&self, name: &NodeName) -> Option<&Arc<NodeInfo>> {
        info(&self.slots, name)
    }

    /// A pod on a node, and the node.
    pub fn pod(&self, uid: &PodUid) -> Option<(&Arc<PodInfo>, &NodeName)> {
        self.pods.get(uid).map(|known| (&known.pod, &known.node))
    }

    /// Whether the pod is assumed and not confirmed yet.
    pub fn is_assumed(&self, uid: &PodUid) -> bool {
        self.pods.get(uid).is_some_and(|known| known.assumed)
    }

    /// UIDs of all pods on nodes, in no particular order.
    pub(crate) fn pod_uids(&self) -> impl Iterator<Item = &PodUid> {
        self.pods.keys()
    }

    /// Names of all nodes, in search order.
    pub(crate) fn node_names(&self) -> impl Iterator<Item = &NodeName> {
        self.order.interleaved()
    }

    /// How much there is, for metrics.
    pub fn size(&self) -> CacheSize {
        CacheSize {
            nodes: self.order.len(),
            pods: self.pods.len(),
            assumed_pods: self.pods.values().filter(|known| known.assumed).count(),
        }
    }

    fn place(&mut self, pod: Arc<PodInfo>, node: NodeName, assumed: bool) {
        match self.slots.get_mut(&node) {
            Some(Slot::Node(_)) => self.change(&node, |info| info.add_pod(pod.clone())),
            Some(Slot::Ghost(pods)) => {
                pods.insert(pod.uid.clone(), pod.clone());
            }
            None => {
                let pods = BTreeMap::from([(pod.uid.clone(), pod.clone())]);
                self.slots.insert(node.clone(), Slot::Ghost(pods));
            }
        }
        self.pods
            .insert(pod.uid.clone(), CachedPod { pod, node, assumed });
    }

    fn change(&mut self, name: &NodeName, with: impl FnOnce(&mut NodeInfo)) {
        let Some(Slot::Node(node)) = self.slots.get_mut(name) else {
            return;
        };
        self.generation = self.generation.saturating_add(1);
        let node = Arc::make_mut(node);
        with(node);
        node.set_generation(self.generation);
        if let Some(dirty) = &mut self.dirty {
            dirty.insert(name.clone());
        }
    }
}

fn info<'a>(slots: &'a HashMap<NodeName, Slot>, name: &NodeName) -> Option<&'a Arc<NodeInfo>> {
    match slots.get(name) {
        Some(Slot::Node(info)) => Some(info),
        _ => None,
    }
}

/// How much a cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSize {
    /// Nodes with a Node object.
    pub nodes: usize,
    /// Pods on nodes, assumed ones included.
    pub pods: usize,
    /// Pods assumed and not confirmed.
    pub assumed_pods: usize,
}

#[cfg(test)]
mod tests;
