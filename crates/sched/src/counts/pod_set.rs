//! Owns sets of pods by namespace and labels, as plugins count them. Knows nothing of nodes.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::anchored::Where;
use crate::labels::Selector;
use crate::pod_info::PodInfo;

/// Some of the cluster's namespaces, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// All of them.
    All,
    /// These.
    These(Arc<BTreeSet<Arc<str>>>),
}

impl Namespaces {
    /// This one alone.
    pub fn one(name: &Arc<str>) -> Self {
        Self::These(Arc::new(BTreeSet::from([name.clone()])))
    }

    /// Whether this one is among them.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(name),
        }
    }

    fn place(&self) -> Where<'_> {
        match self {
            Self::These(names) if names.len() == 1 => names
                .first()
                .map_or(Where::Several, |name| Where::Namespace(name)),
            _ => Where::Several,
        }
    }
}

impl Hash for Namespaces {
    /// Of thousands of names the first and the last stand for all, since sets of pods are looked up for each pod. Sets
    /// that share their names are compared by address first.
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::All => 0_usize.hash(state),
            Self::These(names) => (1_usize, names.len(), names.first(), names.last()).hash(state),
        }
    }
}

/// Pods of some namespaces with some labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selected {
    /// Their namespaces.
    pub namespaces: Namespaces,
    /// What selects them there.
    pub selector: Selector,
}

impl Selected {
    /// Whether a pod is one of them.
    pub fn contains(&self, pod: &PodInfo) -> bool {
        self.namespaces.contains(&pod.key.namespace) && self.selector.matches(pod.labels())
    }
}

/// Pods that all of some selections have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodSet {
    all_of: Vec<Selected>,
    terminating: bool,
}

impl PodSet {
    /// The pods that each of these selects, those that are being deleted included. Of no selection at all it is every
    /// pod.
    pub const fn all_of(selected: Vec<Selected>) -> Self {
        Self {
            all_of: selected,
            terminating: true,
        }
    }

    /// The pods that this selects, those that are being deleted left out.
    pub fn staying(selected: Selected) -> Self {
        Self {
            all_of: vec![selected],
            terminating: false,
        }
    }

    /// Whether a pod is one of them.
    pub fn contains(&self, pod: &PodInfo) -> bool {
        (self.terminating || !pod.deleting) && self.all_of.iter().all(|one| one.contains(pod))
    }

    /// By what it is found.
    pub(crate) fn anchor(&self) -> (Where<'_>, &Selector) {
        static EVERYTHING: Selector = Selector::All(Vec::new());
        match self.all_of.first() {
            Some(one) => (one.namespaces.place(), &one.selector),
            None => (Where::Several, &EVERYTHING),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Namespaces, PodSet, Selected};
    use crate::labels::{Requirement, Selector, Test};
    use crate::test_objects::pod;

    #[test]
    fn which_pods_are_in_a_set() {
        let has = |key: &str| Selected {
            namespaces: Namespaces::one(&"default".into()),
            selector: Selector::All(vec![Requirement {
                key: key.into(),
                test: Test::Exists,
            }]),
        };
        let everywhere = Selected {
            namespaces: Namespaces::All,
            ..has("app")
        };
        let both = PodSet::all_of(vec![has("app"), has("tier")]);
        let web = || pod("a").label("app", "web");
        let elsewhere = |pod: crate::test_objects::PodBuilder| {
            pod.edit(|pod| pod.metadata.namespace = Some("elsewhere".to_owned()))
        };
        for (what, set, pod, is_in) in [
            ("one of two", both.clone(), web(), false),
            ("both", both, web().label("tier", "front"), true),
            ("its namespace", PodSet::staying(has("app")), web(), true),
            (
                "another one",
                PodSet::staying(has("app")),
                elsewhere(web()),
                false,
            ),
            (
                "any",
                PodSet::staying(everywhere.clone()),
                elsewhere(web()),
                true,
            ),
            (
                "it goes",
                PodSet::staying(everywhere.clone()),
                web().deleting(),
                false,
            ),
            (
                "it still counts",
                PodSet::all_of(vec![everywhere]),
                web().deleting(),
                true,
            ),
            ("all pods", PodSet::all_of(vec![]), pod("b"), true),
        ] {
            assert_eq!(set.contains(&pod.info()), is_in, "{what}");
        }
    }
}
