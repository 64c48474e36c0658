//! Owns what is known of nodes and of the pods on them: watched ones, and assumed ones that the API server
//! hasn't confirmed yet. Knows nothing of pods that look for a node (see [`crate::queue`]).
//!
//! Assumed pods never expire: the watch confirms them, or a failed binding forgets them.

mod rebuild;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use thiserror::Error;

use crate::names::{NodeName, PodUid};
use crate::node_object::NodeObject;
use crate::pod_info::PodInfo;
use crate::table::{NodeTable, NodeView};

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
    Confirmed {
        /// The pod as it was assumed.
        old: Arc<PodInfo>,
    },
    /// It was known on another node (`from`), assumed there or not: somebody else moved it.
    Moved {
        /// Where it was thought to be.
        from: NodeName,
        /// The pod before.
        old: Arc<PodInfo>,
    },
    /// It was known here.
    Updated {
        /// The pod before.
        old: Arc<PodInfo>,
    },
}

#[derive(Debug)]
struct CachedPod {
    pod: Arc<PodInfo>,
    node: NodeName,
    assumed: bool,
}

/// Nodes with the pods on them.
#[derive(Debug, Default)]
pub struct Cache {
    nodes: NodeTable,
    // Pods of nodes whose Node object is gone, or hasn't come yet; kept in case it comes.
    ghosts: HashMap<NodeName, BTreeMap<PodUid, Arc<PodInfo>>>,
    pods: HashMap<PodUid, CachedPod>,
    // Nodes with a pod that couldn't be taken in, whether there is a Node object or not.
    unread: HashMap<NodeName, PodUid>,
}

impl Cache {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// All nodes as they are now.
    pub const fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    /// The same, for a cycle, which may ask *what if*.
    pub(crate) const fn nodes_mut(&mut self) -> &mut NodeTable {
        &mut self.nodes
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
        let Some(known) = self.pods.get_mut(&pod.uid) else {
            self.place(pod, node.clone(), false);
            return PodSeen::Added;
        };
        let old = known.pod.clone();
        let seen = if known.node != *node {
            PodSeen::Moved {
                from: known.node.clone(),
                old,
            }
        } else if known.assumed {
            PodSeen::Confirmed { old }
        } else {
            PodSeen::Updated { old }
        };
        if known.node == *node && known.pod.equals_for_plugins(&pod) {
            known.assumed = false;
            known.pod = pod.clone();
            if let Some(id) = self.nodes.id(node) {
                self.nodes.refresh_pod(id, &pod);
            } else {
                let ghost = self.ghosts.entry(node.clone()).or_default();
                ghost.insert(pod.uid.clone(), pod);
            }
        } else {
            self.remove_pod(&pod.uid);
            self.place(pod, node.clone(), false);
        }
        seen
    }

    /// Takes a pod off its node, assumed or not.
    pub fn remove_pod(&mut self, uid: &PodUid) -> Option<Arc<PodInfo>> {
        let CachedPod { pod, node, .. } = self.pods.remove(uid)?;
        if let Some(id) = self.nodes.id(&node) {
            self.nodes.remove_pod(id, uid);
        } else if let Some(pods) = self.ghosts.get_mut(&node) {
            pods.remove(uid);
            if pods.is_empty() {
                self.ghosts.remove(&node);
            }
        }
        Some(pod)
    }

    /// Adds or changes a node; the object before, if there was one.
    pub fn set_node(&mut self, node: Arc<NodeObject>) -> Option<Arc<NodeObject>> {
        let name = node.name.clone();
        let old = self.nodes.set_node(node);
        if old.is_none()
            && let Some(id) = self.nodes.id(&name)
        {
            for pod in self.ghosts.remove(&name).unwrap_or_default().into_values() {
                self.nodes.add_pod(id, pod);
            }
            if let Some(pod) = self.unread.get(&name) {
                self.nodes.set_unread(id, Some(pod.clone()));
            }
        }
        old
    }

    /// Removes a node. Its pods stay known until they are removed themselves, or the node comes back.
    pub fn remove_node(&mut self, name: &NodeName) -> Option<Arc<NodeObject>> {
        let gone = self.nodes.remove_node(name)?;
        if !gone.pods().is_empty() {
            let pods = gone.pods().iter();
            let pods = pods.map(|pod| (pod.uid.clone(), pod.clone())).collect();
            self.ghosts.insert(name.clone(), pods);
        }
        Some(gone.node().clone())
    }

    /// Says which pod on a node couldn't be taken in, if there is one.
    pub(crate) fn set_unread(&mut self, node: &NodeName, pod: Option<PodUid>) {
        match pod.clone() {
            Some(pod) => self.unread.insert(node.clone(), pod),
            None => self.unread.remove(node),
        };
        if let Some(known) = self.nodes.by_name(node)
            && known.unread_pod() != pod.as_ref()
        {
            let id = known.id();
            self.nodes.set_unread(id, pod);
        }
    }

    /// A node with the pods on it.
    pub fn node(&self, name: &NodeName) -> Option<NodeView<'_>> {
        self.nodes.by_name(name)
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
        self.nodes.names()
    }

    /// How much there is, for metrics.
    pub fn size(&self) -> CacheSize {
        CacheSize {
            nodes: self.nodes.len(),
            pods: self.pods.len(),
            assumed_pods: self.pods.values().filter(|known| known.assumed).count(),
        }
    }

    fn place(&mut self, pod: Arc<PodInfo>, node: NodeName, assumed: bool) {
        if let Some(id) = self.nodes.id(&node) {
            self.nodes.add_pod(id, pod.clone());
        } else {
            let ghost = self.ghosts.entry(node.clone()).or_default();
            ghost.insert(pod.uid.clone(), pod.clone());
        }
        let uid = pod.uid.clone();
        self.pods.insert(uid, CachedPod { pod, node, assumed });
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
