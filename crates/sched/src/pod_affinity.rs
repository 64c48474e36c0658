//! Owns inter-pod affinity terms in parsed form. Knows nothing of nodes; what a term counts is the
//! plugin's business.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as core;

use crate::labels::{Labels, RequirementError, Selector};

/// A term: which pods, in which namespaces, over which topology.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightedPodAffinityTerm {
    /// 1 to 100.
    pub weight: i64,
    /// The term.
    pub term: PodAffinityTerm,
}

/// All inter-pod affinity of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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
    /// All of them, whatever they are for.
    pub fn all(&self) -> impl Iterator<Item = &PodAffinityTerm> {
        let preferred = self.preferred.iter().chain(&self.preferred_anti);
        let required = self.required.iter().chain(&self.required_anti);
        required.chain(preferred.map(|preferred| &preferred.term))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1 as core;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

    use super::{PodAffinityTerm, PodAffinityTerms};
    use crate::labels::{Labels, RequirementError};

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    fn selector(pairs: &[(&str, &str)]) -> LabelSelector {
        LabelSelector {
            match_labels: Some(labels(pairs)),
            match_expressions: None,
        }
    }

    #[test]
    fn which_pods_a_term_means() {
        let web = || Some(selector(&[("app", "web")]));
        let term = |namespaces: &[&str], namespace_selector, label_selector| {
            let term = core::PodAffinityTerm {
                namespaces: Some(namespaces.iter().map(|n| (*n).to_owned()).collect()),
                namespace_selector,
                label_selector,
                ..core::PodAffinityTerm::default()
            };
            PodAffinityTerm::parse(&term, "own").unwrap()
        };
        for (what, term, namespace, app, matches) in [
            (
                "own namespace by default",
                term(&[], None, web()),
                "own",
                "web",
                true,
            ),
            (
                "no other by default",
                term(&[], None, web()),
                "other",
                "web",
                false,
            ),
            ("named", term(&["other"], None, web()), "other", "web", true),
            (
                "own must be named then",
                term(&["other"], None, web()),
                "own",
                "web",
                false,
            ),
            (
                "by label",
                term(&[], Some(selector(&[("team", "x")])), web()),
                "other",
                "web",
                true,
            ),
            (
                "own isn't meant then",
                term(&[], Some(selector(&[("team", "y")])), web()),
                "own",
                "web",
                false,
            ),
            (
                "an empty selector means all",
                term(&[], Some(selector(&[])), web()),
                "other",
                "web",
                true,
            ),
            ("labels differ", term(&[], None, web()), "own", "db", false),
            (
                "no selector matches nothing",
                term(&[], None, None),
                "own",
                "web",
                false,
            ),
        ] {
            let found = term.matches(
                namespace,
                &labels(&[("team", "x")]),
                &labels(&[("app", app)]),
            );
            assert_eq!(found, matches, "{what}");
        }
    }

    #[test]
    fn each_list_goes_to_its_place_and_a_bad_selector_is_told() {
        let term = |key: &str| core::PodAffinityTerm {
            topology_key: key.into(),
            ..Default::default()
        };
        let weighted = |key: &str| core::WeightedPodAffinityTerm {
            weight: 7,
            pod_affinity_term: term(key),
        };
        let mut affinity = core::Affinity {
            pod_affinity: Some(core::PodAffinity {
                required_during_scheduling_ignored_during_execution: Some(vec![term("a")]),
                preferred_during_scheduling_ignored_during_execution: Some(vec![weighted("b")]),
            }),
            pod_anti_affinity: Some(core::PodAntiAffinity {
                required_during_scheduling_ignored_during_execution: Some(vec![term("c")]),
                preferred_during_scheduling_ignored_during_execution: Some(vec![weighted("d")]),
            }),
            node_affinity: None,
        };
        let terms = PodAffinityTerms::parse(&affinity, "own").unwrap();
        let keys = [
            &terms.required[0].topology_key,
            &terms.preferred[0].term.topology_key,
            &terms.required_anti[0].topology_key,
            &terms.preferred_anti[0].term.topology_key,
        ];
        assert_eq!(keys, ["a", "b", "c", "d"]);
        assert_eq!(terms.preferred[0].weight, 7);

        let mut bad = term("a");
        bad.label_selector = Some(LabelSelector {
            match_labels: None,
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: "k".into(),
                operator: "Near".into(),
                values: None,
            }]),
        });
        affinity
            .pod_affinity
            .get_or_insert_default()
            .required_during_scheduling_ignored_during_execution = Some(vec![bad]);
        let error = PodAffinityTerms::parse(&affinity, "own").unwrap_err();
        assert_eq!(error, RequirementError::Operator("Near".into()));
    }
}
