//! What is said of needs: objects, nodes and changes, and what a pod or a Service says of its own. No I/O.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use pilotage_api::keys;
use pilotage_api::record::Record;
use pilotage_model::followed::{Kind, Need, selected};
use pilotage_sched_driver::publish::Regarding;

use super::super::kinds::Followed;
use super::super::selected::{LEFT_OUT, Selects};
use super::MOST_NAMED;

/// An object of the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    pub(in super::super) fn of<K: Followed>(object: &K) -> Option<Self> {
        let meta = object.meta();
        Some(Self {
            kind: K::KIND,
            namespace: meta.namespace.clone()?,
            name: meta.name.clone()?,
        })
    }
}

/// Something is needed at a node that wasn't, or isn't any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// These objects of one kind, at this node.
    At(Node, Arc<[Arc<Key>]>),
    /// This object doesn't follow this pod: too many others do.
    LeftOut(Arc<Key>, Regarding),
    /// All objects of one more kind are known from now on.
    All,
}

/// Name of a virtual node, which is kept once.
pub type Node = Arc<str>;

/// Where an object is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Pods of its namespace are left to be looked at, which may need it elsewhere.
    pub counting: bool,
}

/// Where a pod was sent: by its record, else, if Admiralty's scheduler bound it, by its binding.
pub(in super::super) fn node_of(pod: &Pod) -> Option<Node> {
    let annotations = pod.metadata.annotations.as_ref();
    if let Some(text) = annotations.and_then(|all| all.get(keys::GRANTED_TO)) {
        // Who writes records is the admission policy's affair; one that can't be read sends nothing anywhere.
        return text.parse().ok().map(|record: Record| record.node.into());
    }
    let spec = pod.spec.as_ref()?;
    let is_proxy = spec.scheduler_name.as_deref() == Some(keys::PROXY_SCHEDULER);
    let node = spec.node_name.as_deref().filter(|_| is_proxy)?;
    Some(node.into())
}

/// Of each kind as many as follow a pod that names them, and some of the others.
pub(super) fn few(named: &BTreeSet<Need>) -> (Vec<Need>, Vec<Need>) {
    let (mut few, mut others) = (Vec::new(), Vec::new());
    for kind in [Kind::ConfigMap, Kind::Secret] {
        let mut of_kind = named.iter().filter(|need| need.kind == kind).cloned();
        few.extend(of_kind.by_ref().take(MOST_NAMED));
        others.extend(of_kind.take(LEFT_OUT));
    }
    (few, others)
}

/// Which pods a Service selects; none, if it never follows.
pub(super) fn selects_of(service: &Service) -> Option<Selects> {
    match selected(service) {
        Ok(selector) => selector.map(Selects::Labelled),
        Err(_) => Some(Selects::Any),
    }
}
