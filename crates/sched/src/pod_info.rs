//! Owns a pod as the scheduler sees it: parsed once, shared by everything that looks at it.
//! Knows nothing of queues and caches.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use thiserror::Error;

use crate::disruption::Disruption;
use crate::host_ports::WantedPorts;
use crate::images;
use crate::kubelet_features::KubeletFeatures;
use crate::labels::{Labels, RequirementError};
use crate::names::{NodeName, ObjectKey, PodUid};
use crate::node_affinity::{NodeAffinityTerms, RequiredNodeAffinity};
use crate::pod_affinity::PodAffinityTerms;
use crate::pod_needs::PodNeeds;
use crate::quantity::QuantityError;
use crate::requests::pod_requests;
use crate::start_time::StartTime;
use crate::taints::Toleration;
use crate::topology_spread::SpreadConstraints;

/// Why an object can't be tracked at all: it has no identity. The API server never sends such a one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// No `metadata.name`.
    #[error("object has no name")]
    Name,
    /// No `metadata.uid`.
    #[error("object has no uid")]
    Uid,
}

/// Annotation of a pod of which an outline alone is known, since there is too much of it. No API server takes this key,
/// so that nobody else can write it.
pub const OUTLINE: &str = "outline:";

/// A malformed field. The rest of the object still counts; see [`PodInfo::defects`] and
/// [`crate::NodeObject::defects`] for what follows.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Defect {
    /// A quantity that isn't one.
    #[error("{path} {error}")]
    Quantity {
        /// Where.
        path: String,
        /// What is wrong.
        error: QuantityError,
    },
    /// A selector with an unknown operator or the wrong number of values.
    #[error("{path} {error}")]
    Selector {
        /// Where.
        path: &'static str,
        /// What is wrong.
        error: RequirementError,
    },
    /// A taint or toleration with an unknown effect or operator.
    #[error("{path} has an unknown effect or operator")]
    Taint {
        /// Where.
        path: String,
    },
    /// The object is known in [outline](OUTLINE) alone.
    #[error(
        "there is too much of it, or of the heavy pods of its namespace together, for all of it to be read"
    )]
    Outline,
}

/// A pod, parsed once. Immutable and shared (`Arc<PodInfo>`); a change makes a new one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PodInfo {
    /// `metadata.uid`.
    pub uid: PodUid,
    /// `metadata.namespace` and `metadata.name`.
    pub key: ObjectKey,
    /// `spec.nodeName`, if set.
    pub node_name: Option<NodeName>,
    /// `spec.schedulerName`: the profile's name.
    pub scheduler_name: Arc<str>,
    /// `spec.priority`; 0 if absent.
    pub priority: i32,
    /// `status.nominatedNodeName`, if set.
    pub nominated_node: Option<NodeName>,
    /// What plugins read of it to judge nodes, shared by equal pods once a scheduler has seen them.
    pub needs: Arc<PodNeeds>,
    /// Names of `spec.schedulingGates`.
    pub scheduling_gates: Vec<String>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether `status.phase` is Succeeded or Failed, so that it takes no room any more.
    pub terminal: bool,
    /// Whether it may evict others: `spec.preemptionPolicy` isn't Never.
    pub preempts: bool,
    /// How long it may take to end, in seconds (`spec.terminationGracePeriodSeconds`).
    pub grace_seconds: u32,
    /// Whether somebody has said that it has to go.
    pub disruption: Disruption,
    /// When its node began to run it.
    pub started: StartTime,
    /// `metadata.generation`; 0 if absent.
    pub generation: i64,
    pub(crate) labels: Arc<Labels>,
    // The object as it was read; not of pods on nodes, of which there are too many.
    pod: Option<Arc<Pod>>,
    defects: Vec<Defect>,
    claims: u64,
    rest: u64,
}

/// What Kubernetes gives a pod that says nothing.
const USUAL_GRACE: u32 = 30;
/// Ten years: more is taken for this.
const LONGEST_GRACE: u32 = 10 * 365 * 24 * 3600;

fn grace_seconds(spec: &PodSpec) -> u32 {
    let said = spec.termination_grace_period_seconds;
    said.map_or(USUAL_GRACE, |said| {
        u32::try_from(said.max(0)).map_or(LONGEST_GRACE, |said| said.min(LONGEST_GRACE))
    })
}

impl PodInfo {
    /// Reads a pod. Malformed fields become [`PodInfo::defects`].
    pub fn parse(pod: Arc<Pod>) -> Result<Self, IdentityError> {
        let meta = &pod.metadata;
        let uid = meta
            .uid
            .as_ref()
            .filter(|uid| !uid.is_empty())
            .ok_or(IdentityError::Uid)?;
        let name = meta.name.as_deref().ok_or(IdentityError::Name)?;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let mut defects = Vec::new();
        let annotations = meta.annotations.as_ref();
        if annotations.is_some_and(|all| all.contains_key(OUTLINE)) {
            defects.push(Defect::Outline);
        }
        let requests = pod_requests(&pod, &mut |path, error| {
            defects.push(Defect::Quantity { path, error });
        });
        let empty = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&empty);
        let affinity = spec.affinity.as_ref();
        let nodes = affinity
            .and_then(|affinity| affinity.node_affinity.as_ref())
            .map(NodeAffinityTerms::parse)
            .transpose()
            .unwrap_or_else(|error| {
                defects.push(Defect::Selector {
                    path: "spec.affinity.nodeAffinity",
                    error,
                });
                None
            })
            .unwrap_or_default();
        let pod_affinity = affinity
            .map(|affinity| PodAffinityTerms::parse(affinity, namespace))
            .transpose()
            .unwrap_or_else(|error| {
                defects.push(Defect::Selector {
                    path: "spec.affinity",
                    error,
                });
                None
            })
            .unwrap_or_default();
        let namespace: Arc<str> = namespace.into();
        let labels = Arc::new(meta.labels.clone().unwrap_or_default());
        let stated = spec.topology_spread_constraints.as_deref();
        let spread = SpreadConstraints::parse(stated.unwrap_or_default(), &namespace, &labels)
            .unwrap_or_else(|error| {
                defects.push(Defect::Selector {
                    path: "spec.topologySpreadConstraints",
                    error,
                });
                None
            });
        let mut tolerations = Vec::new();
        for (index, toleration) in spec.tolerations.iter().flatten().enumerate() {
            match Toleration::parse(toleration) {
                Some(toleration) => tolerations.push(toleration),
                None => defects.push(Defect::Taint {
                    path: format!("spec.tolerations[{index}]"),
                }),
            }
        }
        let status = pod.status.as_ref();
        let named = |name: Option<&String>| name.filter(|n| !n.is_empty()).map(NodeName::from);
        Ok(Self {
            uid: PodUid::from(uid),
            key: ObjectKey {
                namespace,
                name: name.into(),
            },
            node_name: named(spec.node_name.as_ref()),
            scheduler_name: spec
                .scheduler_name
                .as_deref()
                .unwrap_or("default-scheduler")
                .into(),
            priority: spec.priority.unwrap_or(0),
            nominated_node: named(status.and_then(|status| status.nominated_node_name.as_ref())),
            needs: Arc::new(PodNeeds {
                requests,
                node_affinity: RequiredNodeAffinity {
                    selector: spec.node_selector.clone().unwrap_or_default(),
                    terms: nodes.required,
                },
                preferred_nodes: nodes.preferred,
                pod_affinity,
                spread,
                tolerations,
                host_ports: WantedPorts::of(spec),
                images: images::wanted(spec),
                needed_features: KubeletFeatures::needed(spec),
            }),
            scheduling_gates: spec
                .scheduling_gates
                .iter()
                .flatten()
                .map(|gate| gate.name.clone())
                .collect(),
            deleting: meta.deletion_timestamp.is_some(),
            terminal: is_terminal(&pod),
            grace_seconds: grace_seconds(spec),
            preempts: spec.preemption_policy.as_deref() != Some("Never"),
            disruption: Disruption::of(status),
            started: StartTime::of(status),
            generation: meta.generation.unwrap_or(0),
            labels,
            claims: claims(&pod),
            rest: rest(meta),
            defects,
            pod: Some(pod),
        })
    }

    /// The pod as it was read. The scheduler doesn't keep it of pods on nodes: what plugins read of those is in this
    /// type's own fields.
    pub const fn pod(&self) -> Option<&Arc<Pod>> {
        self.pod.as_ref()
    }

    /// Keeps only what is read of a pod on a node.
    pub(crate) fn drop_object(&mut self) {
        self.pod = None;
    }

    /// Its labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Whether another version of it has claims of other names.
    pub(crate) const fn has_other_claims(&self, other: &Self) -> bool {
        self.claims != other.claims
    }

    /// Whether anything but status, labels and bookkeeping differs in another version of it. Our own status patches
    /// must not wake anybody.
    pub(crate) fn differs_otherwise(&self, other: &Self) -> bool {
        self.rest != other.rest || self.needs != other.needs
    }

    /// Whether plugins that look at nodes can't tell it from another version of the same pod.
    pub(crate) fn equals_for_plugins(&self, other: &Self) -> bool {
        self.needs == other.needs
            && self.labels() == other.labels()
            && self.priority == other.priority
            && self.deleting == other.deleting
    }

    /// Its malformed fields. A pod that looks for a node is rejected with them; one that has a node counts
    /// with what could be read.
    pub fn defects(&self) -> &[Defect] {
        &self.defects
    }
}

/// Stands for the names of a pod's generated claims.
fn claims(pod: &Pod) -> u64 {
    let mut hasher = DefaultHasher::new();
    let status = pod.status.as_ref();
    let claims = status.and_then(|status| status.resource_claim_statuses.as_ref());
    for claim in claims.into_iter().flatten() {
        (&claim.name, &claim.resource_claim_name).hash(&mut hasher);
    }
    hasher.finish()
}

/// Stands for what an event tells of beside what plugins read. The generation changes with the specification.
fn rest(meta: &ObjectMeta) -> u64 {
    let mut hasher = DefaultHasher::new();
    meta.generation.hash(&mut hasher);
    meta.annotations.hash(&mut hasher);
    meta.finalizers.hash(&mut hasher);
    for owner in meta.owner_references.iter().flatten() {
        owner.uid.hash(&mut hasher);
    }
    let deletion = meta.deletion_timestamp.as_ref();
    deletion.map(|time| time.0).hash(&mut hasher);
    hasher.finish()
}

/// Whether a pod is finished: it takes no room any more.
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    phase.is_some_and(|phase| matches!(phase, "Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_is_between_nothing_and_ten_years() {
        for (said, want) in [
            (None, USUAL_GRACE),
            (Some(i64::MIN), 0),
            (Some(0), 0),
            (Some(60), 60),
            (Some(i64::from(LONGEST_GRACE) + 1), LONGEST_GRACE),
            (Some(i64::MAX), LONGEST_GRACE),
        ] {
            let spec = PodSpec {
                termination_grace_period_seconds: said,
                ..PodSpec::default()
            };
            assert_eq!(grace_seconds(&spec), want, "{said:?}");
        }
    }
}
