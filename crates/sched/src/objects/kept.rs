//! Owns what stays of an object beside pods and nodes: what plugins read of it, parsed. All else goes with the object.
//! Kinds that no plugin reads yet stay whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::Metadata;
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, ReplicationController, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::Kind;
use crate::labels::{Labels, Requirement, Selector};

impl Kind {
    /// The fields that stay of such an object beside namespace and name, as JSON pointers; `None` if all do.
    pub const fn fields(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Namespace => Some(&["/metadata/labels"]),
            Self::Service | Self::ReplicationController | Self::ReplicaSet | Self::StatefulSet => {
                Some(&["/spec/selector"])
            }
            Self::PodDisruptionBudget => Some(&[
                "/spec/selector",
                "/status/disruptedPods",
                "/status/disruptionsAllowed",
            ]),
            _ => None,
        }
    }
}

/// What stays of an object of type `O`.
pub(super) trait Kept<O> {
    /// Reads the object.
    fn of(object: &Arc<O>) -> Arc<Self>;

    /// The object's labels, if they stay.
    fn labels(&self) -> Option<&Labels> {
        None
    }
}

/// A kind that no plugin reads yet.
impl<O: Metadata<Ty = ObjectMeta>> Kept<O> for O {
    fn of(object: &Arc<O>) -> Arc<O> {
        object.clone()
    }

    fn labels(&self) -> Option<&Labels> {
        self.metadata().labels.as_ref()
    }
}

/// What stays of a Namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Labelled {
    /// `metadata.labels`.
    pub labels: Labels,
}

impl Kept<Namespace> for Labelled {
    fn of(object: &Arc<Namespace>) -> Arc<Self> {
        let labels = object.metadata.labels.clone().unwrap_or_default();
        Arc::new(Self { labels })
    }

    fn labels(&self) -> Option<&Labels> {
        Some(&self.labels)
    }
}

/// What stays of a Service and of a `ReplicationController`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PairSelector {
    /// `spec.selector`: labels that its pods have. Empty if it selects none.
    pub pairs: Labels,
}

impl Kept<Service> for PairSelector {
    fn of(object: &Arc<Service>) -> Arc<Self> {
        let selector = object.spec.as_ref().and_then(|spec| spec.selector.clone());
        let pairs = selector.unwrap_or_default();
        Arc::new(Self { pairs })
    }
}

impl Kept<ReplicationController> for PairSelector {
    fn of(object: &Arc<ReplicationController>) -> Arc<Self> {
        let selector = object.spec.as_ref().and_then(|spec| spec.selector.clone());
        let pairs = selector.unwrap_or_default();
        Arc::new(Self { pairs })
    }
}

/// What stays of a `ReplicaSet` and of a `StatefulSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetSelector {
    /// `spec.selector`. Empty if it can't be read.
    pub requirements: Vec<Requirement>,
}

impl Kept<ReplicaSet> for SetSelector {
    fn of(object: &Arc<ReplicaSet>) -> Arc<Self> {
        let selector = object.spec.as_ref().map(|spec| &spec.selector);
        let requirements = requirements(selector);
        Arc::new(Self { requirements })
    }
}

impl Kept<StatefulSet> for SetSelector {
    fn of(object: &Arc<StatefulSet>) -> Arc<Self> {
        let selector = object.spec.as_ref().map(|spec| &spec.selector);
        let requirements = requirements(selector);
        Arc::new(Self { requirements })
    }
}

/// What stays of a `PodDisruptionBudget`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budget {
    /// `spec.selector`. Empty if it selects nothing: there is none, it is empty, or it can't be read.
    pub selector: Vec<Requirement>,
    /// `status.disruptionsAllowed`.
    pub allowed: i32,
    /// `status.disruptedPods`: the names of pods whose eviction the API server has counted already.
    pub disrupted: BTreeSet<String>,
}

impl Kept<PodDisruptionBudget> for Budget {
    fn of(object: &Arc<PodDisruptionBudget>) -> Arc<Self> {
        let spec = object.spec.as_ref();
        let status = object.status.as_ref();
        let allowed = status.and_then(|status| status.disruptions_allowed);
        let disrupted = status.and_then(|status| status.disrupted_pods.as_ref());
        Arc::new(Self {
            selector: requirements(spec.and_then(|spec| spec.selector.as_ref())),
            allowed: allowed.unwrap_or(0),
            disrupted: disrupted
                .into_iter()
                .flat_map(BTreeMap::keys)
                .cloned()
                .collect(),
        })
    }
}

fn requirements(selector: Option<&LabelSelector>) -> Vec<Requirement> {
    match Selector::parse(selector) {
        Ok(Selector::All(requirements)) => requirements,
        Ok(Selector::Nothing) | Err(_) => Vec::new(),
    }
}
