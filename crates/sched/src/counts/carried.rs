//! Owns the inter-pod terms that pods on nodes carry: equal terms are one, with how many pods of each node carry it.
//! Knows nothing of what a term does to a pod that it means.

use std::collections::HashMap;

use super::anchored::{Anchored, SelectorId, Where};
use super::counters::{PodCounts, one_less, one_more};
use crate::labels::{Labels, Selector};
use crate::pod_affinity::{PodAffinityTerm, PodAffinityTerms};
use crate::pod_info::PodInfo;
use crate::table::NodeId;

/// What a pod has its term for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TermRole {
    /// Required affinity.
    Required,
    /// Required anti-affinity.
    RequiredAnti,
    /// Preferred affinity, with its weight.
    Preferred(i64),
    /// Preferred anti-affinity, with its weight.
    PreferredAnti(i64),
}

/// A term that pods on nodes have.
#[derive(Clone, Debug)]
pub struct CarriedTerm {
    term: PodAffinityTerm,
    role: TermRole,
    counts: PodCounts,
}

impl CarriedTerm {
    /// The term, with its owners' namespace among its namespaces if that is meant.
    pub const fn term(&self) -> &PodAffinityTerm {
        &self.term
    }

    /// What they have it for.
    pub const fn role(&self) -> TermRole {
        self.role
    }

    /// How many pods of each node have it, in ascending order; nodes with none are left out.
    pub fn counts(&self) -> &[(NodeId, u32)] {
        &self.counts
    }
}

/// All terms of pods on nodes.
#[derive(Debug, Default)]
pub struct CarriedTerms {
    ids: HashMap<PodAffinityTerm, Vec<(TermRole, SelectorId)>>,
    terms: Vec<Option<CarriedTerm>>,
    free: Vec<SelectorId>,
    anchored: Anchored,
}

impl CarriedTerms {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The terms that mean a pod of this namespace, whose own labels are `namespace_labels`, with these labels; in no
    /// particular order.
    pub fn meaning<'a>(
        &'a self,
        namespace: &'a str,
        namespace_labels: &'a Labels,
        labels: &'a Labels,
    ) -> impl Iterator<Item = &'a CarriedTerm> {
        let found = if self.is_empty() {
            Vec::new()
        } else {
            self.anchored.find(namespace, labels)
        };
        let terms = found.into_iter();
        let terms = terms.filter_map(|id| self.terms.get(id as usize)?.as_ref());
        terms.filter(move |known| known.term.matches(namespace, namespace_labels, labels))
    }

    /// A pod came to a node.
    pub(super) fn pod_came(&mut self, node: NodeId, pod: &PodInfo) {
        for (term, role) in terms_of(&pod.needs.pod_affinity) {
            one_more(self.counts(term, role), node);
        }
    }

    /// A pod left a node.
    pub(super) fn pod_went(&mut self, node: NodeId, pod: &PodInfo) {
        for (term, role) in terms_of(&pod.needs.pod_affinity) {
            let counts = self.counts(term, role);
            one_less(counts, node);
            if counts.is_empty() {
                self.forget(term, role);
            }
        }
    }

    fn counts(&mut self, term: &PodAffinityTerm, role: TermRole) -> &mut PodCounts {
        let known = self.ids.get(term).into_iter().flatten();
        let known = known.copied().find(|(its, _)| *its == role);
        let id = known.map_or_else(|| self.insert(term, role), |(_, id)| id);
        let slot = &mut self.terms[id as usize];
        let new = || CarriedTerm {
            term: term.clone(),
            role,
            counts: PodCounts::new(),
        };
        &mut slot.get_or_insert_with(new).counts
    }

    fn insert(&mut self, term: &PodAffinityTerm, role: TermRole) -> SelectorId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.terms.push(None);
            u32::try_from(self.terms.len().saturating_sub(1)).unwrap_or(u32::MAX)
        });
        self.ids.entry(term.clone()).or_default().push((role, id));
        self.anchored.insert(place(term), &term.selector, id);
        id
    }

    fn forget(&mut self, term: &PodAffinityTerm, role: TermRole) {
        let Some(roles) = self.ids.get_mut(term) else {
            return;
        };
        let Some(at) = roles.iter().position(|(its, _)| *its == role) else {
            return;
        };
        let (_, id) = roles.swap_remove(at);
        if roles.is_empty() {
            self.ids.remove(term);
        }
        self.anchored.remove(place(term), &term.selector, id);
        self.terms[id as usize] = None;
        self.free.push(id);
    }

    /// Each term with its role and counts, in an order of its own.
    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<String> {
        let all = self.terms.iter().flatten();
        let mut all: Vec<_> = all.map(|known| format!("{known:?}")).collect();
        all.sort();
        all
    }
}

fn place(term: &PodAffinityTerm) -> Where<'_> {
    let by_name_alone = term.namespace_selector == Selector::Nothing;
    match term.namespaces.first() {
        Some(name) if by_name_alone && term.namespaces.len() == 1 => Where::Namespace(name),
        _ => Where::Several,
    }
}

fn terms_of(all: &PodAffinityTerms) -> impl Iterator<Item = (&PodAffinityTerm, TermRole)> {
    let required = all.required.iter().map(|term| (term, TermRole::Required));
    let anti = all.required_anti.iter();
    let anti = anti.map(|term| (term, TermRole::RequiredAnti));
    let preferred = all.preferred.iter();
    let preferred = preferred.map(|it| (&it.term, TermRole::Preferred(it.weight)));
    let preferred_anti = all.preferred_anti.iter();
    let preferred_anti = preferred_anti.map(|it| (&it.term, TermRole::PreferredAnti(it.weight)));
    required.chain(anti).chain(preferred).chain(preferred_anti)
}
