//! Owns inter-pod affinity terms in parsed form. Knows nothing of nodes; what a term counts is the
//! plugin's business.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as core;

use crate::labels::{Labels, RequirementError, Selector};

/// A term: which pods, in which namespaces, over which topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAffinityTerm {
    /// Namespaces by name (the pod's own if the term names none at all).
    pub namespaces: BTreeSet<String>,
    /// Namespaces by label, beside those by name.
    pub namespace_selector: Selector,
    /// Pods by label.
    pub selector: Selector,
    /// The node label whose equal values make a place.
    pub topology_key: String,
}

impl PodAffinityTerm {
    fn parse(term: &core::PodAffinityTerm, own_namespace: &str) -> Result<Self, RequirementError> {
        let mut namespaces: BTreeSet<_> = term.namespaces.iter().flatten().cloned().collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.insert(own_namespace.to_owned());
        }
        Ok(Self {
            namespaces,
            namespace_selector: Selector::parse(term.namespace_selector.as_ref())?,
            selector: Selector::parse(term.label_selector.as_ref())?,
            topology_key: term.topology_key.clone(),
        })
    }

    /// Whether it means a pod of this namespace (whose own labels are `namespace_labels`) with these labels.
    pub fn matches(&self, namespace: &str, namespace_labels: &Labels, labels: &Labels) -> bool {
        (self.namespaces.contains(namespace) || self.namespace_selector.matches(namespace_labels))
            && self.selector.matches(labels)
    }
}

/// A preferred term with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedPodAffinityTerm {
    /// 1 to 100.
    pub weight: i64,
    /// The term.
    pub term: PodAffinityTerm,
}

/// All inter-pod affinity of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodAffinityTerms {
    /// Required affinity.
    pub required: Vec<PodAffinityTerm>,
    /// Required anti-affinity.
    pub required_anti: Vec<PodAffinityTerm>,
    /// Preferred affinity.
    pub preferred: Vec<WeightedPodAffinityTerm>,
    /// Preferred anti-affinity.
    pub preferred_anti: Vec<WeightedPodAffinityTerm>,
}

impl PodAffinityTerms {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.required.is_empty()
            && self.required_anti.is_empty()
            && self.preferred.is_empty()
            && self.preferred_anti.is_empty()
    }

    /// Reads the inter-pod part of an affinity of a pod in `namespace`.
    pub fn parse(affinity: &core::Affinity, namespace: &str) -> Result<Self, RequirementError> {
        let required = |terms: Option<&Vec<core::PodAffinityTerm>>| {
            let read = |term| PodAffinityTerm::parse(term, namespace);
            terms
                .into_iter()
                .flatten()
                .map(read)
                .collect::<Result<Vec<_>, _>>()
        };
        let preferred = |terms: Option<&Vec<core::WeightedPodAffinityTerm>>| {
            let read = |weighted: &core::WeightedPodAffinityTerm| {
                let weight = i64::from(weighted.weight);
                let term = PodAffinityTerm::parse(&weighted.pod_affinity_term, namespace)?;
                Ok(WeightedPodAffinityTerm { weight, term })
            };
            terms
                .into_iter()
                .flatten()
                .map(read)
                .collect::<Result<Vec<_>, _>>()
        };
        let mut terms = Self::default();
        if let Some(with) = &affinity.pod_affinity {
            terms.required = required(
                with.required_during_scheduling_ignored_during_execution
                    .as_ref(),
            )?;
            terms.preferred = preferred(
                with.preferred_during_scheduling_ignored_during_execution
                    .as_ref(),
            )?;
        }
        if let Some(anti) = &affinity.pod_anti_affinity {
            terms.required_anti = required(
                anti.required_during_scheduling_ignored_during_execution
                    .as_ref(),
            )?;
            terms.preferred_anti = preferred(
                anti.preferred_during_scheduling_ignored_during_execution
                    .as_ref(),
            )?;
        }
        Ok(terms)
    }
}
