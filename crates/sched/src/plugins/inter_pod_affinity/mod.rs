//! Puts pods near other pods, or away from them: by what they require and prefer themselves, and by what pods that are
//! there already require and prefer of them. As in kube-scheduler 1.36.3 (`plugins/interpodaffinity`).
//!
//! `matchLabelKeys` and `mismatchLabelKeys` are part of a term's label selector when a scheduler sees it: the API
//! server puts them there.

mod filter;
mod hints;
mod namespaces;
mod score;
mod sums;

use thiserror::Error;

use self::namespaces::SelectedNamespaces;
use crate::counts::{CarriedTerm, PodSet, Selected};
use crate::labels::Labels;
use crate::names::ObjectKey;
use crate::objects::{Kind, Labelled, Store};
use crate::plugin::Plugin;
use crate::pod_affinity::PodAffinityTerm;
use crate::pod_info::PodInfo;
use crate::status::PluginName;
use crate::table::NodeTable;

/// Name of the plugin.
pub const INTER_POD_AFFINITY: PluginName = "InterPodAffinity";

/// What `InterPodAffinity` can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterPodAffinityArgs {
    /// What it is worth to a pod to be where another one requires its like: 0 (nothing) to 100.
    pub hard_pod_affinity_weight: i64,
    /// Whether preferences of pods on nodes count only for pods that have preferences, too.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> Self {
        Self {
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
        }
    }
}

/// A `hardPodAffinityWeight` that isn't one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("hardPodAffinityWeight {0} isn't within 0..=100")]
pub struct HardPodAffinityWeightError(pub i64);

/// Inter-pod affinity and anti-affinity.
#[derive(Debug, Default)]
pub struct InterPodAffinity {
    args: InterPodAffinityArgs,
    selected: SelectedNamespaces,
}

impl InterPodAffinity {
    /// With arguments.
    pub fn new(args: InterPodAffinityArgs) -> Result<Self, HardPodAffinityWeightError> {
        let weight = args.hard_pod_affinity_weight;
        if !(0..=100).contains(&weight) {
            return Err(HardPodAffinityWeightError(weight));
        }
        Ok(Self {
            args,
            selected: SelectedNamespaces::default(),
        })
    }

    /// The pods that a term of the pod which is scheduled means. Those that are being deleted count as long as they are
    /// there.
    fn set(&self, term: &PodAffinityTerm, namespaces: &Store<Labelled>) -> PodSet {
        PodSet::all_of(vec![self.meant(term, namespaces)])
    }

    fn meant(&self, term: &PodAffinityTerm, namespaces: &Store<Labelled>) -> Selected {
        Selected {
            namespaces: self.selected.by(term, namespaces),
            selector: term.selector.clone(),
        }
    }
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> PluginName {
        INTER_POD_AFFINITY
    }

    fn wants(&self) -> &'static [Kind] {
        &[Kind::Namespace]
    }
}

/// The labels of a pod's namespace; of one that isn't known, none.
fn namespace_labels<'a>(pod: &PodInfo, namespaces: &'a Store<Labelled>) -> &'a Labels {
    static NONE: Labels = Labels::new();
    let key = ObjectKey {
        namespace: "".into(),
        name: pod.key.namespace.clone(),
    };
    let namespace = namespaces.get(&key);
    namespace.map_or(&NONE, |namespace| &namespace.labels)
}

/// The terms of pods on nodes that mean a pod.
fn carried<'a>(
    pod: &'a PodInfo,
    namespace_labels: &'a Labels,
    table: &'a NodeTable,
) -> impl Iterator<Item = &'a CarriedTerm> {
    let terms = table.carried_terms();
    terms.meaning(&pod.key.namespace, namespace_labels, pod.labels())
}

#[cfg(test)]
mod tests;
