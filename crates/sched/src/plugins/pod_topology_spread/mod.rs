//! Spreads pods over places: nodes with equal values of a label. As in kube-scheduler 1.36.3
//! (`plugins/podtopologyspread`).
//!
//! What the table of nodes counts by node is summed up by place once a cycle, for the nodes that count for this very
//! pod.
//!
//! Of pods that a default constraint keeps waiting, hints say more than upstream's: they can't see the Services that
//! make its selector.

mod alike;
mod args;
mod hard;
mod hints;
mod included;
mod soft;
mod sums;

use std::sync::Arc;

pub use self::args::{DefaultConstraint, SpreadArgs, SpreadArgsError, SpreadDefaults};
use self::hard::{Hard, Misplaced};
use self::soft::{Ranked, Soft};
use crate::context::Context;
use crate::labels::{Requirement, Selector};
use crate::objects::Kind;
use crate::plugin::{
    Filter, Plugin, PreFilter, PreFilterExtensions, PreFiltered, PreScore, PreScored, Score,
};
use crate::pod_info::PodInfo;
use crate::refusals::{Refusals, RejectionId};
use crate::scope::InScope;
use crate::state::CycleState;
use crate::status::{PluginError, PluginName, Reason, Rejection, RejectionKind, Status, Verdict};
use crate::table::{NodeId, NodeTable, NodeView};
use crate::taints::Comparison;
use crate::topology_spread::{SpreadConstraint, WhenUnsatisfiable};

/// Name of the plugin.
pub const POD_TOPOLOGY_SPREAD: PluginName = "PodTopologySpread";

const SKEWED: Reason = Reason::fixed("node(s) didn't match pod topology spread constraints");
const NO_LABEL: Reason =
    Reason::fixed("node(s) didn't match pod topology spread constraints (missing required label)");

/// Topology spread constraints.
#[derive(Clone, Debug)]
pub struct PodTopologySpread {
    defaults: Vec<DefaultConstraint>,
    // Whether these are the system's own, which rank nodes without a label, too.
    by_system: bool,
    comparison: Comparison,
}

impl Default for PodTopologySpread {
    /// With the system's defaults.
    fn default() -> Self {
        Self {
            // They are in order.
            defaults: SpreadDefaults::System.checked().unwrap_or_default(),
            by_system: true,
            comparison: Comparison::default(),
        }
    }
}

impl PodTopologySpread {
    /// With arguments, and with or without tolerations that compare integers.
    pub fn new(args: SpreadArgs, comparison: Comparison) -> Result<Self, SpreadArgsError> {
        Ok(Self {
            by_system: args.defaults == SpreadDefaults::System,
            defaults: args.defaults.checked()?,
            comparison,
        })
    }

    fn has_defaults(&self, when: WhenUnsatisfiable) -> bool {
        self.defaults
            .iter()
            .any(|constraint| constraint.when == when)
    }

    /// The constraints of one kind that a pod has, its own or default ones; `None` if there are none.
    fn constraints(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        when: WhenUnsatisfiable,
    ) -> Option<Arc<[SpreadConstraint]>> {
        if let Some(own) = &pod.needs.spread {
            let own = own.of(when);
            return (!own.is_empty()).then(|| own.clone());
        }
        if !self.has_defaults(when) {
            return None;
        }
        let alike = match state.get::<Alike>() {
            Some(known) => known.clone(),
            None => Alike(alike::selector(pod, cx.objects())),
        };
        if alike.0.is_empty() {
            state.insert(alike);
            return None;
        }
        let selector = Selector::All(alike.0.clone());
        state.insert(alike);
        let rules = self.defaults.iter().filter(|it| it.when == when);
        let made = rules.map(|DefaultConstraint { rule, .. }| {
            SpreadConstraint::new(rule.clone(), &pod.key.namespace, selector.clone())
        });
        Some(made.collect())
    }
}

/// What the pods have that a pod without constraints is spread with.
#[derive(Clone, Debug)]
struct Alike(Vec<Requirement>);

impl From<Misplaced> for Rejection {
    fn from(why: Misplaced) -> Self {
        match why {
            Misplaced::NoLabel => Self::new(RejectionKind::UnschedulableAndUnresolvable, NO_LABEL),
            Misplaced::Skewed => Self::new(RejectionKind::Unschedulable, SKEWED),
        }
    }
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> PluginName {
        POD_TOPOLOGY_SPREAD
    }

    fn wants(&self) -> &'static [Kind] {
        if self.defaults.is_empty() {
            &[]
        } else {
            alike::KINDS
        }
    }
}

impl PreFilter for PodTopologySpread {
    fn pre_filter(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        let hard = self.constraints(cx, state, pod, WhenUnsatisfiable::DoNotSchedule);
        let Some(hard) = hard else {
            return Ok(PreFiltered::Skip);
        };
        let scope = InScope::of(cx, state, pod);
        state.insert(Hard::count(hard, pod, cx.nodes(), self.comparison, scope));
        Ok(PreFiltered::AllNodes)
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        Some(self)
    }
}

impl PodTopologySpread {
    fn change(
        &self,
        state: &mut CycleState,
        (pod, other): (&PodInfo, &PodInfo),
        node: NodeView<'_>,
        pods: i32,
    ) -> Verdict {
        if state.require::<Hard>()?.concerns(pod, other)
            && let Some(hard) = state.get_mut::<Hard>()
        {
            hard.change(pod, other, node, pods, self.comparison);
        }
        Ok(())
    }
}

impl PreFilterExtensions for PodTopologySpread {
    fn add_pod(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        other: &PodInfo,
        node: NodeView<'_>,
    ) -> Verdict {
        self.change(state, (pod, other), node, 1)
    }

    fn remove_pod(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        other: &PodInfo,
        node: NodeView<'_>,
    ) -> Verdict {
        self.change(state, (pod, other), node, -1)
    }
}

impl Filter for PodTopologySpread {
    fn filter(&self, state: &CycleState, _pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        let checked = state.require::<Hard>()?.check(node.id());
        checked.map_err(|why| Status::Rejected(why.into()))
    }

    fn filter_all(
        &self,
        state: &CycleState,
        _pod: &PodInfo,
        _table: &NodeTable,
        nodes: &[NodeId],
        refusals: &mut Refusals<'_>,
    ) -> Result<(), PluginError> {
        let hard = match state.require::<Hard>() {
            Ok(hard) => hard,
            Err(status) => return refusals.note(0, Err(status)),
        };
        let (mut no_label, mut skewed): (Option<RejectionId>, Option<RejectionId>) = (None, None);
        hard.violations(nodes, |at, why| {
            let kept = match why {
                Misplaced::NoLabel => &mut no_label,
                Misplaced::Skewed => &mut skewed,
            };
            let id = *kept.get_or_insert_with(|| refusals.keep(why.into()));
            refusals.refuse(at, id);
        });
        Ok(())
    }
}

impl PreScore for PodTopologySpread {
    fn pre_score(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        nodes: &[NodeId],
    ) -> Verdict<PreScored> {
        let soft = self.constraints(cx, state, pod, WhenUnsatisfiable::ScheduleAnyway);
        let Some(soft) = soft else {
            return Ok(PreScored::Skip);
        };
        let scope = InScope::of(cx, state, pod);
        let ranked = Ranked {
            pod,
            table: cx.nodes(),
            nodes,
            scope: &scope,
            needs_all_labels: pod.needs.spread.is_some() || !self.by_system,
        };
        state.insert(Soft::count(&soft, ranked, self.comparison));
        Ok(PreScored::Proceed)
    }
}

impl Score for PodTopologySpread {
    fn score(&self, state: &CycleState, _pod: &PodInfo, node: NodeView<'_>) -> Verdict<i64> {
        Ok(state.require::<Soft>()?.raw(node.id()))
    }

    fn score_all(
        &self,
        state: &CycleState,
        _pod: &PodInfo,
        _table: &NodeTable,
        nodes: &[NodeId],
        scores: &mut Vec<i64>,
    ) -> Verdict {
        let soft = state.require::<Soft>()?;
        soft.raw_all(nodes, scores);
        Ok(())
    }

    fn normalize(
        &self,
        state: &CycleState,
        _pod: &PodInfo,
        _table: &NodeTable,
        nodes: &[NodeId],
        scores: &mut [i64],
    ) -> Verdict {
        state.require::<Soft>()?.normalize(nodes, scores);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
