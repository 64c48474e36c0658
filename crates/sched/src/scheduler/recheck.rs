//! Owns the second look at a node that is held for a pod, right before the binding.

use super::Scheduler;
use crate::context::{Cycle, Surroundings};
use crate::cycle;
use crate::names::PodUid;
use crate::nominator::Nominator;
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::Status;
use crate::table::WhatIfTable;
use crate::topology_spread::WhenUnsatisfiable;

/// What looking at a held node again found.
#[derive(Clone, Debug)]
pub enum Rechecked {
    /// The node does.
    Fits,
    /// It does while all are there for whom nodes are held at Permit. Without them it doesn't, for this reason, and
    /// each of them may still leave.
    Leans(Status),
    /// It doesn't any more, for this reason.
    Misfit(Status),
}

impl Scheduler {
    /// Whether the node that is held for an assumed pod still does: `PreFilter` and Filter on the newest state,
    /// as if the pod itself weren't there, and once more as if nobody were there whom Permit holds.
    ///
    /// A pod that stays hurts no hard constraint of others by the time it is bound, since it counted when they were
    /// placed. One that Permit lets go may: it filled up a domain that others are spread by, or was who they had to be
    /// near.
    ///
    /// Who is expected there doesn't count, whatever its priority. It was placed beside this pod, and those whom it has
    /// evicted may still be there: with both in its way this pod would lose room that was perhaps made for it.
    pub fn recheck(&mut self, uid: &PodUid) -> Rechecked {
        let held = self.cache.pod(uid).filter(|_| self.cache.is_assumed(uid));
        let Some((pod, node)) = held else {
            return Rechecked::Misfit(Status::error(format!("pod {uid} isn't assumed")));
        };
        let (pod, node) = (pod.clone(), node.clone());
        let Some(profile) = self.profiles.get(&pod.scheduler_name) else {
            let why = format!("no profile is named {:?}", pod.scheduler_name);
            return Rechecked::Misfit(Status::error(why));
        };
        let nobody = Nominator::default();
        let around = Surroundings {
            nominator: &nobody,
            waiting: &self.waiting,
            objects: &self.objects,
        };
        let mut without = WhatIfTable::new(self.cache.nodes_mut());
        let look = |without: &mut WhatIfTable<'_>| {
            let mut cycle = Cycle::new(profile, without.table_mut(), around);
            cycle::recheck(&mut cycle, &mut CycleState::new(), &pod, &node)
        };
        if let Some(id) = without.table().id(&node) {
            without.remove_pod(id, uid);
        }
        if let Err(status) = look(&mut without) {
            return Rechecked::Misfit(status);
        }
        if !may_lean(&pod) {
            return Rechecked::Fits;
        }
        let mut anybody = false;
        for other in self.waiting.iter() {
            if let Some(id) = without.table().id(&other.node) {
                anybody |= without.remove_pod(id, &other.pod.uid).is_some();
            }
        }
        if !anybody {
            return Rechecked::Fits;
        }
        match look(&mut without) {
            Ok(()) => Rechecked::Fits,
            Err(status) => Rechecked::Leans(status),
        }
    }
}

/// Whether others that are there can make room for the pod: by all other constraints, whoever leaves makes more of it.
fn may_lean(pod: &PodInfo) -> bool {
    let spread = pod.needs.spread.as_ref();
    spread.is_some_and(|spread| !spread.of(WhenUnsatisfiable::DoNotSchedule).is_empty())
        || !pod.needs.pod_affinity.required.is_empty()
}
