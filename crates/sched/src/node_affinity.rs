//! Owns node selectors in parsed form: `nodeSelector`, required and preferred node affinity.
//! Knows a node only as name and labels.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as core;

use crate::labels::{HOSTNAME, Labels, Requirement, RequirementError, Test};

/// One term: labels and name must pass all of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeSelectorTerm {
    /// Requirements on the node's labels.
    pub labels: Vec<Requirement>,
    /// Requirements on `metadata.name`, the only field that the API allows.
    pub names: Vec<Requirement>,
}

impl NodeSelectorTerm {
    fn parse(term: &core::NodeSelectorTerm) -> Result<Self, RequirementError> {
        let read = |requirement: &core::NodeSelectorRequirement| {
            let values = requirement.values.as_deref().unwrap_or_default();
            Requirement::parse(&requirement.key, &requirement.operator, values, true)
        };
        let labels = term
            .match_expressions
            .iter()
            .flatten()
            .map(read)
            .collect::<Result<_, _>>()?;
        let names = term
            .match_fields
            .iter()
            .flatten()
            .map(|field| {
                let requirement = read(field)?;
                match (&requirement.test, field.key.as_str()) {
                    (Test::In(_) | Test::NotIn(_), "metadata.name") => Ok(requirement),
                    _ => Err(RequirementError::Operator(format!(
                        "{} {}",
                        field.key, field.operator
                    ))),
                }
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { labels, names })
    }

    /// An empty term: it matches no node.
    const fn empty() -> Self {
        Self {
            labels: Vec::new(),
            names: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.names.is_empty()
    }

    /// The keys of the labels that it reads.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &String> {
        self.labels.iter().map(|requirement| &requirement.key)
    }

    /// Whether it reads labels alone that nodes may share, so neither name nor hostname.
    fn reads_shared_labels(&self) -> bool {
        self.names.is_empty() && self.keys().all(|key| key != HOSTNAME)
    }

    /// Whether the node passes. An empty term matches no node, nor does one that names several nodes in one
    /// requirement: Kubernetes takes that for a mistake.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        !self.is_empty()
            && self.misnamed().is_none()
            && self.names.iter().all(|r| r.matches_value(Some(name)))
            && self.labels.iter().all(|r| r.matches(labels))
    }

    /// A requirement on the name that hasn't exactly one value.
    pub(crate) fn misnamed(&self) -> Option<RequirementError> {
        let mut wrong = self.names.iter().filter_map(|requirement| {
            let (operator, values) = match &requirement.test {
                Test::In(values) => ("In", values),
                Test::NotIn(values) => ("NotIn", values),
                _ => return None,
            };
            (values.len() != 1).then(|| RequirementError::Values(operator.to_owned()))
        });
        wrong.next()
    }

    /// The names that the term can match, if its fields pin them (`metadata.name In [...]`).
    fn pinned_names(&self) -> Option<BTreeSet<&str>> {
        let mut pinned: Option<BTreeSet<&str>> = None;
        for requirement in &self.names {
            if let Test::In(values) = &requirement.test {
                let values = values.iter().map(String::as_str).collect::<BTreeSet<_>>();
                pinned = Some(match pinned {
                    None => values,
                    Some(known) => &known & &values,
                });
            }
        }
        pinned
    }
}

/// Whether all terms read labels alone that nodes may share.
pub(crate) fn all_read_shared_labels<'a>(
    mut terms: impl Iterator<Item = &'a NodeSelectorTerm>,
) -> bool {
    terms.all(NodeSelectorTerm::reads_shared_labels)
}

/// What a node must be: all pairs of the selector, and one of the terms if there are any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequiredNodeAffinity {
    /// `spec.nodeSelector`.
    pub selector: Labels,
    /// Required terms, of which one must match; `None` when the pod has no required node affinity.
    pub terms: Option<Vec<NodeSelectorTerm>>,
}

impl RequiredNodeAffinity {
    /// The keys of the labels that it reads.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &String> {
        let terms = self.terms.iter().flatten();
        self.selector
            .keys()
            .chain(terms.flat_map(NodeSelectorTerm::keys))
    }

    /// Whether nothing is required.
    pub fn is_empty(&self) -> bool {
        self.selector.is_empty() && self.terms.is_none()
    }

    /// Whether it reads labels alone that nodes may share, so neither name nor hostname.
    pub(crate) fn reads_shared_labels(&self) -> bool {
        let terms = self.terms.iter().flatten();
        !self.selector.contains_key(HOSTNAME) && all_read_shared_labels(terms)
    }

    /// Whether the node will do.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.selector
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
            && self
                .terms
                .as_ref()
                .is_none_or(|terms| terms.iter().any(|t| t.matches(name, labels)))
    }

    /// The only nodes that can match, if *every* term pins names (as daemon sets' pods do). May be empty.
    pub fn pinned_names(&self) -> Option<BTreeSet<&str>> {
        let terms = self.terms.as_deref().filter(|terms| !terms.is_empty())?;
        let mut union = BTreeSet::new();
        for term in terms {
            union.extend(term.pinned_names()?);
        }
        Some(union)
    }
}

/// A preferred term with its weight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PreferredNodeTerm {
    /// 1 to 100; 0 for one that is off.
    pub weight: i64,
    /// What the node should be; an empty term matches no node.
    pub term: NodeSelectorTerm,
}

impl PreferredNodeTerm {
    /// Whether it reads labels alone that nodes may share, so neither name nor hostname.
    pub(crate) fn reads_shared_labels(&self) -> bool {
        self.term.reads_shared_labels()
    }

    /// The weight if the node matches, else 0.
    pub fn score(&self, name: &str, labels: &Labels) -> i64 {
        if self.term.matches(name, labels) {
            self.weight
        } else {
            0
        }
    }
}

/// A node affinity: required and preferred part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeAffinityTerms {
    /// Required terms; `None` if there is no required part.
    pub required: Option<Vec<NodeSelectorTerm>>,
    /// Preferred terms.
    pub preferred: Vec<PreferredNodeTerm>,
}

impl NodeAffinityTerms {
    /// Reads a node affinity of the API.
    pub fn parse(affinity: &core::NodeAffinity) -> Result<Self, RequirementError> {
        let required = affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()
            .map(|s| {
                s.node_selector_terms
                    .iter()
                    .map(NodeSelectorTerm::parse)
                    .collect()
            })
            .transpose()?;
        let preferred = affinity
            .preferred_during_scheduling_ignored_during_execution
            .iter()
            .flatten()
            .map(|term| {
                // Upstream doesn't read what is off. It stays in the list: a pod that prefers something is scored.
                let parsed = match term.weight {
                    0 => NodeSelectorTerm::empty(),
                    _ => NodeSelectorTerm::parse(&term.preference)?,
                };
                Ok(PreferredNodeTerm {
                    weight: i64::from(term.weight),
                    term: parsed,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            required,
            preferred,
        })
    }
}
