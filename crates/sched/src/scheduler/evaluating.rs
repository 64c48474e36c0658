//! Owns questions about a pod that take nothing: on the table as it is, and as it would be if pods that are on their
//! way had come.

use std::sync::Arc;

use super::{EvaluateError, Scheduler};
use crate::coming::Coming;
use crate::context::{Cycle, Surroundings};
use crate::cycle::{self, Evaluation};
use crate::names::NodeName;
use crate::plugins::{RULE_LIMIT, too_many};
use crate::pod_affinity::PodAffinityTerms;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::state::CycleState;
use crate::table::{NodeTable, WhatIfTable};
use crate::topology_spread::WhenUnsatisfiable;

impl Scheduler {
    /// Filter and score of all nodes for a pod, taking nothing; scores count what is `coming` as taken. The pod
    /// needn't be known; its own `schedulerName` doesn't matter.
    pub fn evaluate(
        &mut self,
        profile: &str,
        pod: &PodInfo,
        coming: Arc<Coming>,
    ) -> Result<Evaluation, EvaluateError> {
        let profile = self.profile(profile)?;
        let around = Surroundings {
            nominator: &self.nominator,
            waiting: &self.waiting,
            objects: &self.objects,
        };
        let mut state = CycleState::new();
        state.insert(coming);
        ask(&profile, self.cache.nodes_mut(), around, state, pod)
    }

    /// The same as it would be if each of these pods were on the node that it is expected on. `None` if that changes
    /// nothing for this pod: whatever of other pods it looks at isn't expected anywhere, or it is refused for having
    /// too many rules. Pods that are on nodes already stay where they are.
    pub fn evaluate_expecting<'a>(
        &mut self,
        profile: &str,
        pod: &PodInfo,
        expected: impl IntoIterator<Item = (&'a str, &'a Arc<PodInfo>)>,
    ) -> Result<Option<Evaluation>, EvaluateError> {
        let profile = self.profile(profile)?;
        let mut mandatory = profile.pre_filters().iter();
        if mandatory.any(|plugin| plugin.name() == RULE_LIMIT) && too_many(pod).is_some() {
            return Ok(None);
        }
        let around = Surroundings {
            nominator: &self.nominator,
            waiting: &self.waiting,
            objects: &self.objects,
        };
        let expected: Vec<_> = expected
            .into_iter()
            .filter(|(_, other)| other.uid != pod.uid && matters(pod, other))
            .filter(|(_, other)| self.cache.pod(&other.uid).is_none())
            .collect();
        let mut what_if = WhatIfTable::new(self.cache.nodes_mut());
        let mut is_other = false;
        for (node, other) in expected {
            if let Some(node) = what_if.table().id(&NodeName::from(node)) {
                what_if.add_pod(node, other.clone());
                is_other = true;
            }
        }
        if !is_other {
            return Ok(None);
        }
        let nodes = what_if.table_mut();
        ask(&profile, nodes, around, CycleState::new(), pod).map(Some)
    }

    fn profile(&self, name: &str) -> Result<Arc<Profile>, EvaluateError> {
        let unknown = || EvaluateError::NoProfile(name.to_owned());
        self.profiles.get(name).cloned().ok_or_else(unknown)
    }
}

fn ask(
    profile: &Profile,
    nodes: &mut NodeTable,
    around: Surroundings<'_>,
    mut state: CycleState,
    pod: &PodInfo,
) -> Result<Evaluation, EvaluateError> {
    let mut cycle = Cycle::new(profile, nodes, around);
    Ok(cycle::evaluate(&mut cycle, &mut state, pod)?)
}

/// Whether where `other` is can matter to where `pod` goes, by what either of them says of other pods. Which namespaces
/// a term means isn't looked at.
fn matters(pod: &PodInfo, other: &PodInfo) -> bool {
    let spreads = pod.key.namespace == other.key.namespace
        && pod.needs.spread.as_ref().is_some_and(|spread| {
            let kinds = [
                WhenUnsatisfiable::DoNotSchedule,
                WhenUnsatisfiable::ScheduleAnyway,
            ];
            let mut all = kinds.iter().flat_map(|kind| spread.of(*kind).iter());
            all.any(|constraint| constraint.selector.matches(other.labels()))
        });
    spreads || may_mean(&pod.needs.pod_affinity, other) || may_mean(&other.needs.pod_affinity, pod)
}

fn may_mean(terms: &PodAffinityTerms, pod: &PodInfo) -> bool {
    terms.all().any(|term| term.selector.matches(pod.labels()))
}
