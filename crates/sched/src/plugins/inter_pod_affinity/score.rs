//! Owns what is preferred: by a pod of its place, and of it by pods that are there.

use super::sums::PlaceSums;
use super::{InterPodAffinity, carried, namespace_labels};
use crate::context::Context;
use crate::counts::TermRole;
use crate::plugin::{MAX_NODE_SCORE, PreScore, PreScored, Score};
use crate::pod_info::PodInfo;
use crate::scope::InScope;
use crate::state::CycleState;
use crate::status::Verdict;
use crate::table::{NodeId, NodeTable, NodeView};

/// What each place is worth.
#[derive(Debug)]
struct Preferred(PlaceSums);

impl PreScore for InterPodAffinity {
    /// Nodes count that won't do themselves: they are near those that will.
    fn pre_score(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        _nodes: &[NodeId],
    ) -> Verdict<PreScored> {
        let affinity = &pod.needs.pod_affinity;
        let prefers_nothing = affinity.preferred.is_empty() && affinity.preferred_anti.is_empty();
        if prefers_nothing && self.args.ignore_preferred_terms_of_existing_pods {
            return Ok(PreScored::Skip);
        }
        let (table, namespaces) = (cx.nodes(), cx.objects().namespaces());
        let mut worth = PlaceSums::within(InScope::of(cx, state, pod));
        for known in carried(pod, namespace_labels(pod, namespaces), table) {
            let weight = match known.role() {
                TermRole::Required => self.args.hard_pod_affinity_weight,
                TermRole::Preferred(weight) => weight,
                TermRole::PreferredAnti(weight) => weight.saturating_neg(),
                TermRole::RequiredAnti => continue,
            };
            if weight != 0 {
                worth.add(table, &known.term().topology_key, known.counts(), weight);
            }
        }
        let preferred = affinity.preferred.iter().map(|it| (it, 1_i64));
        let preferred_anti = affinity.preferred_anti.iter().map(|it| (it, -1));
        let wishes = preferred.chain(preferred_anti).map(|(preferred, sign)| {
            let (term, weight) = (&preferred.term, preferred.weight.saturating_mul(sign));
            (self.set(term, namespaces), &*term.topology_key, weight)
        });
        let wishes: Vec<_> = wishes.collect();
        let (sets, keys) = (wishes.iter().map(|it| &it.0), wishes.iter().map(|it| it.1));
        table.prepare(sets, keys);
        for (set, key, weight) in &wishes {
            worth.add_set(table, key, set, *weight);
        }
        if !worth.is_touched() {
            return Ok(PreScored::Skip);
        }
        state.insert(Preferred(worth));
        Ok(PreScored::Proceed)
    }
}

impl Score for InterPodAffinity {
    fn score(&self, state: &CycleState, _pod: &PodInfo, node: NodeView<'_>) -> Verdict<i64> {
        let Preferred(worth) = state.require()?;
        Ok(worth.of_node(node.id()))
    }

    fn score_all(
        &self,
        state: &CycleState,
        _pod: &PodInfo,
        _table: &NodeTable,
        nodes: &[NodeId],
        scores: &mut Vec<i64>,
    ) -> Verdict {
        let Preferred(worth) = state.require()?;
        worth.of_nodes(nodes, scores);
        Ok(())
    }

    /// The best gets 100 and the worst 0; equal ones get 0 each.
    fn normalize(
        &self,
        _state: &CycleState,
        _pod: &PodInfo,
        _table: &NodeTable,
        _nodes: &[NodeId],
        scores: &mut [i64],
    ) -> Verdict {
        let worst = scores.iter().copied().min().unwrap_or(0);
        let best = scores.iter().copied().max().unwrap_or(0);
        let range = best.saturating_sub(worst);
        for score in scores {
            *score = if range > 0 {
                // In this order the last digit is kube-scheduler's.
                let share = score.saturating_sub(worst) as f64 / range as f64;
                (MAX_NODE_SCORE as f64 * share) as i64
            } else {
                0
            };
        }
        Ok(())
    }
}
