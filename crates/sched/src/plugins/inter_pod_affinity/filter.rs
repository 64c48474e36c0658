//! Owns what is required: of a pod's place by itself, and of it by pods that are there.

use std::sync::Arc;

use super::sums::{PlaceCounts, PlaceSums};
use super::{InterPodAffinity, carried, namespace_labels};
use crate::context::Context;
use crate::counts::{PodSet, TermRole};
use crate::labels::Labels;
use crate::objects::{Labelled, Store};
use crate::plugin::{Filter, PreFilter, PreFilterExtensions, PreFiltered};
use crate::pod_info::PodInfo;
use crate::refusals::{Refusals, RejectionId};
use crate::scope::InScope;
use crate::state::CycleState;
use crate::status::{PluginError, Rejection, RejectionKind, Status, Verdict};
use crate::table::{NodeId, NodeTable, NodeView};

/// Why a node won't do, in kube-scheduler's order.
#[derive(Clone, Copy, Debug)]
enum Why {
    /// None of the pods that the pod wants to be near is there.
    Lonely,
    /// A pod is there that the pod doesn't want near it.
    Crowded,
    /// A pod is there that doesn't want the pod near it.
    Unwanted,
}

impl Why {
    fn rejection(self) -> Rejection {
        let (kind, reason) = match self {
            // No eviction brings the other pod.
            Self::Lonely => (
                RejectionKind::UnschedulableAndUnresolvable,
                "node(s) didn't match pod affinity rules",
            ),
            Self::Crowded => (
                RejectionKind::Unschedulable,
                "node(s) didn't match pod anti-affinity rules",
            ),
            Self::Unwanted => (
                RejectionKind::Unschedulable,
                "node(s) didn't satisfy existing pods anti-affinity rules",
            ),
        };
        Rejection::new(kind, reason)
    }
}

/// Whom the pod's own required terms mean. The same throughout a cycle.
#[derive(Debug)]
struct Terms {
    /// The pods that all of its affinity terms mean, with the topology keys of these, each once.
    near: Option<(PodSet, Vec<String>)>,
    /// Whether it is one of those.
    near_itself: bool,
    /// The pods that each of its anti-affinity terms means, with the topology key of that.
    away_from: Vec<(PodSet, String)>,
    /// Labels of its namespace.
    namespace_labels: Labels,
}

impl Terms {
    fn of(plugin: &InterPodAffinity, pod: &PodInfo, namespaces: &Store<Labelled>) -> Self {
        let affinity = &pod.needs.pod_affinity;
        let near = (!affinity.required.is_empty()).then(|| {
            let terms = affinity.required.iter();
            let mut keys: Vec<String> = Vec::new();
            for term in terms.clone() {
                if !keys.contains(&term.topology_key) {
                    keys.push(term.topology_key.clone());
                }
            }
            let meant = terms.map(|term| plugin.meant(term, namespaces));
            (PodSet::all_of(meant.collect()), keys)
        });
        let away_from = affinity.required_anti.iter();
        let away_from =
            away_from.map(|term| (plugin.set(term, namespaces), term.topology_key.clone()));
        Self {
            near_itself: near.as_ref().is_some_and(|(set, _)| set.contains(pod)),
            near,
            away_from: away_from.collect(),
            namespace_labels: namespace_labels(pod, namespaces).clone(),
        }
    }
}

/// How many pods count at each place.
#[derive(Clone, Debug)]
struct Required {
    terms: Arc<Terms>,
    /// That the pod wants to be near.
    near: PlaceCounts,
    /// That it doesn't want near it.
    away_from: PlaceCounts,
    /// That don't want it near them.
    unwanted: PlaceCounts,
}

impl Required {
    fn of(terms: Terms, unwanted: PlaceCounts, table: &NodeTable, scope: InScope) -> Self {
        let sets = terms.near.iter().map(|(set, _)| set);
        let keys = terms.near.iter().flat_map(|(_, keys)| keys);
        let away = &terms.away_from;
        table.prepare(
            sets.chain(away.iter().map(|(set, _)| set)),
            keys.chain(away.iter().map(|(_, key)| key))
                .map(|key| &**key),
        );
        let mut near = PlaceSums::within(scope.clone());
        if let Some((set, keys)) = &terms.near {
            for key in keys {
                near.add_set(table, key, set, 1);
            }
        }
        let mut away_from = PlaceSums::within(scope);
        for (set, key) in &terms.away_from {
            away_from.add_set(table, key, set, 1);
        }
        Self {
            terms: Arc::new(terms),
            near: near.into(),
            away_from: away_from.into(),
            unwanted,
        }
    }

    /// Another pod comes to a node (`by` 1) or leaves it (-1).
    fn change(&mut self, pod: &PodInfo, other: &PodInfo, node: NodeView<'_>, by: i64) {
        let terms = self.terms.clone();
        for term in &other.needs.pod_affinity.required_anti {
            if term.matches(&pod.key.namespace, &terms.namespace_labels, pod.labels()) {
                self.unwanted.change(&term.topology_key, node, by);
            }
        }
        if let Some((set, keys)) = &terms.near
            && set.contains(other)
        {
            for key in keys {
                self.near.change(key, node, by);
            }
        }
        for (set, key) in &terms.away_from {
            if set.contains(other) {
                self.away_from.change(key, node, by);
            }
        }
    }

    /// Why a node won't do. Its labels are asked for only in a *what if*: to look at all rows takes time.
    fn refusal<'a>(&self, node: NodeId, labels: impl Fn() -> Option<&'a Labels>) -> Option<Why> {
        match self.near.all(node) {
            Some(true) => {}
            // The first of pods that want to be near each other has to go somewhere.
            Some(false) if self.near.is_empty() && self.terms.near_itself => {}
            _ => return Some(Why::Lonely),
        }
        if self.away_from.any(node) {
            return Some(Why::Crowded);
        }
        let unwanted = self.unwanted.any(node) || self.unwanted.any_elsewhere(labels);
        unwanted.then_some(Why::Unwanted)
    }
}

impl Required {
    /// Those of the nodes that may be refused; all others will do. Label by label, since that is fastest for many.
    fn suspects(&self, nodes: &[NodeId]) -> Vec<bool> {
        let mut suspects = vec![self.unwanted.is_elsewhere(); nodes.len()];
        let is_first = self.near.is_empty() && self.terms.near_itself;
        if is_first {
            // It only has to be at a place.
            self.near.mark_placeless(nodes, |at| suspects[at] = true);
        } else {
            self.near.mark_not_all(nodes, |at| suspects[at] = true);
        }
        self.away_from.mark_any(nodes, |at| suspects[at] = true);
        self.unwanted.mark_any(nodes, |at| suspects[at] = true);
        suspects
    }
}

impl PreFilter for InterPodAffinity {
    fn pre_filter(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        let (table, namespaces) = (cx.nodes(), cx.objects().namespaces());
        let carried = carried(pod, namespace_labels(pod, namespaces), table);
        let carried = carried.filter(|known| known.role() == TermRole::RequiredAnti);
        let carried: Vec<_> = carried.collect();
        let affinity = &pod.needs.pod_affinity;
        let requires_nothing = affinity.required.is_empty() && affinity.required_anti.is_empty();
        if requires_nothing && carried.is_empty() {
            return Ok(PreFiltered::Skip);
        }
        let scope = InScope::of(cx, state, pod);
        let mut unwanted = PlaceSums::within(scope.clone());
        for known in carried {
            unwanted.add(table, &known.term().topology_key, known.counts(), 1);
        }
        if requires_nothing && !unwanted.is_touched() {
            return Ok(PreFiltered::Skip);
        }
        let terms = Terms::of(self, pod, namespaces);
        state.insert(Required::of(terms, unwanted.into(), table, scope));
        Ok(PreFiltered::AllNodes)
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        Some(self)
    }
}

impl PreFilterExtensions for InterPodAffinity {
    fn add_pod(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        other: &PodInfo,
        node: NodeView<'_>,
    ) -> Verdict {
        if let Some(required) = state.get_mut::<Required>() {
            required.change(pod, other, node, 1);
        }
        Ok(())
    }

    fn remove_pod(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        other: &PodInfo,
        node: NodeView<'_>,
    ) -> Verdict {
        if let Some(required) = state.get_mut::<Required>() {
            required.change(pod, other, node, -1);
        }
        Ok(())
    }
}

impl Filter for InterPodAffinity {
    fn filter(&self, state: &CycleState, _pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        let required = state.require::<Required>()?;
        let refusal = required.refusal(node.id(), || Some(node.row().labels()));
        refusal.map_or(Ok(()), |why| Err(Status::Rejected(why.rejection())))
    }

    fn filter_all(
        &self,
        state: &CycleState,
        _pod: &PodInfo,
        table: &NodeTable,
        nodes: &[NodeId],
        refusals: &mut Refusals<'_>,
    ) -> Result<(), PluginError> {
        let required = match state.require::<Required>() {
            Ok(required) => required,
            // Without it nothing is said of any node.
            Err(status) => return refusals.note(0, Err(status)),
        };
        let mut kept: [Option<RejectionId>; 3] = [None; 3];
        for (at, suspect) in required.suspects(nodes).into_iter().enumerate() {
            if !suspect {
                continue;
            }
            let id = nodes[at];
            let labels = || table.get(id).map(|node| node.row().labels());
            if let Some(why) = required.refusal(id, labels) {
                let known = &mut kept[why as usize];
                let rejection = *known.get_or_insert_with(|| refusals.keep(why.rejection()));
                refusals.refuse(at, rejection);
            }
        }
        Ok(())
    }
}
