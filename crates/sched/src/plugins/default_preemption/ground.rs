//! Owns the two ways to try a node without some of its pods: by the sums of its pods alone, where no filter looks at
//! more, and by a *what if*. They say the same, which a property holds.

use std::sync::Arc;

use super::victims::Ground;
use crate::context::{Context, WhatIf, expected_by_preemptor};
use crate::plugin::{Filter, FilterBySums, PodSums};
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::state::CycleState;
use crate::status::{Status, Verdict};
use crate::table::{NodeId, NodeView, Reads};

/// What a filter makes of pods that leave.
enum Kind<'a> {
    /// Nothing.
    Fixed,
    /// Their sums.
    Sums(&'a dyn FilterBySums),
    /// More than that.
    Any,
}

/// The filters that concern a pod, in order.
pub(super) struct Filters<'a> {
    each: Vec<(&'a dyn Filter, Kind<'a>)>,
    sums_suffice: bool,
}

impl<'a> Filters<'a> {
    pub(super) fn of(profile: &'a Profile, state: &CycleState) -> Self {
        let filters = profile.filters().iter().enumerate();
        let concerned = filters.filter(|(place, _)| !state.skipped_filters.contains(*place));
        let each = concerned.map(|(_, filter)| {
            let kind = match filter.by_sums() {
                Some(by_sums) => Kind::Sums(by_sums),
                None if filter.reads().intersects(Reads::PODS) => Kind::Any,
                None => Kind::Fixed,
            };
            (&**filter, kind)
        });
        let each = each.collect::<Vec<_>>();
        let mut pre_filters = profile.pre_filters().iter().enumerate();
        let followed = pre_filters.any(|(place, plugin)| {
            !state.skipped_pre_filters.contains(place) && plugin.extensions().is_some()
        });
        let any = each.iter().any(|(_, kind)| matches!(kind, Kind::Any));
        Self {
            each,
            sums_suffice: !any && !followed,
        }
    }

    /// Whether nothing but sums changes when pods leave.
    pub(super) const fn sums_suffice(&self) -> bool {
        self.sums_suffice
    }

    /// Whether some filter refuses the node even without all these pods. Then it needn't be tried; who refuses it
    /// first, and why, is another question.
    pub(super) fn refuse(&self, pod: &PodInfo, node: NodeView<'_>, gone: &PodSums) -> bool {
        self.each.iter().any(|(_, kind)| match kind {
            Kind::Sums(filter) => filter.filter_without(pod, node, gone).is_err(),
            Kind::Fixed | Kind::Any => false,
        })
    }
}

/// A node of which only the sums of its pods count.
pub(super) struct Sums<'a> {
    filters: &'a Filters<'a>,
    pod: &'a PodInfo,
    node: NodeView<'a>,
    gone: PodSums,
    /// The same where the pods come that are expected on the node.
    gone_and_come: Option<PodSums>,
    /// The first filter to which pods are nothing and that refuses the node: its place, and why.
    fixed: Option<(usize, Status)>,
}

impl<'a> Sums<'a> {
    pub(super) fn new(
        cx: &Context<'a>,
        filters: &'a Filters<'a>,
        state: &CycleState,
        pod: &'a PodInfo,
        node: NodeView<'a>,
    ) -> Self {
        let mut fixed = filters.each.iter().enumerate();
        let fixed = fixed.find_map(|(place, (filter, kind))| {
            let verdict = match kind {
                Kind::Fixed => filter.filter(state, pod, node),
                Kind::Sums(_) | Kind::Any => Ok(()),
            };
            Some((place, verdict.err()?.by(filter.name())))
        });
        let mut come = None;
        for other in expected_by_preemptor(cx.nominator(), pod, node) {
            come.get_or_insert_with(PodSums::default).subtract(other);
        }
        Self {
            filters,
            pod,
            node,
            gone: PodSums::default(),
            gone_and_come: come,
            fixed,
        }
    }

    fn judge(&self, gone: &PodSums) -> Verdict {
        let until = self.fixed.as_ref().map_or(usize::MAX, |(place, _)| *place);
        for (filter, kind) in self.filters.each.iter().take(until) {
            if let Kind::Sums(by_sums) = kind {
                let verdict = by_sums.filter_without(self.pod, self.node, gone);
                verdict.map_err(|status| status.by(filter.name()))?;
            }
        }
        match &self.fixed {
            Some((_, status)) => Err(status.clone()),
            None => Ok(()),
        }
    }
}

impl Ground for Sums<'_> {
    fn leave(&mut self, pod: &Arc<PodInfo>) -> Verdict {
        self.gone.add(pod);
        if let Some(gone) = &mut self.gone_and_come {
            gone.add(pod);
        }
        Ok(())
    }

    fn come_back(&mut self, pod: &Arc<PodInfo>) -> Verdict {
        self.gone.subtract(pod);
        if let Some(gone) = &mut self.gone_and_come {
            gone.subtract(pod);
        }
        Ok(())
    }

    fn takes_preemptor(&mut self) -> Verdict {
        if let Some(gone) = &self.gone_and_come {
            self.judge(gone)?;
        }
        self.judge(&self.gone)
    }
}

/// A node in a *what if*.
pub(super) struct Tried<'a, 'b> {
    pub(super) what_if: WhatIf<'a>,
    pub(super) state: CycleState,
    pub(super) pod: &'b PodInfo,
    pub(super) node: NodeId,
}

impl Ground for Tried<'_, '_> {
    fn leave(&mut self, pod: &Arc<PodInfo>) -> Verdict {
        let (what_if, state) = (&mut self.what_if, &mut self.state);
        what_if.remove_pod(state, self.pod, &pod.uid, self.node)
    }

    fn come_back(&mut self, pod: &Arc<PodInfo>) -> Verdict {
        let (what_if, state) = (&mut self.what_if, &mut self.state);
        what_if.add_pod(state, self.pod, pod, self.node)
    }

    fn takes_preemptor(&mut self) -> Verdict {
        let what_if = &mut self.what_if;
        what_if.filter_with_nominated(&self.state, self.pod, self.node)
    }
}
