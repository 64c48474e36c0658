//! Owns what plugins asked to be done to other pods: what the scheduler can do itself it does, the rest is left as
//! orders for the driver, as plain data. Knows nothing of clients.

use std::sync::Arc;

use super::preemptions::EvictionId;
use super::{EventNote, Scheduler};
use crate::effects::Effects;
use crate::moment::Moment;
use crate::names::NodeName;
use crate::pod_info::PodInfo;

/// A pod that has to be deleted, so that another one finds room. As in kube-scheduler 1.36.3 (`framework/preemption`).
///
/// Write the condition, delete it, record the event, and say how it went with [`Scheduler::evicted`]. Ask
/// [`Scheduler::is_wanted`] right before each request. Orders given out together may be carried out together.
#[derive(Clone, Debug)]
pub struct EvictionOrder {
    /// Names it.
    pub id: EvictionId,
    /// Message of the condition `DisruptionTarget` with status True and reason `PreemptionByScheduler`, to be written
    /// before it is deleted.
    pub condition: String,
    /// Who has to go, this very UID, and what is told of it when it was deleted.
    pub preempted: Preempted,
}

/// A pod that had to make room.
#[derive(Clone, Debug)]
pub struct Preempted {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Where it was.
    pub node: NodeName,
    /// For whom: the event is related to this one, and reported by its scheduler.
    pub preemptor: Arc<PodInfo>,
    /// The event about it.
    pub event: EventNote,
}

impl Preempted {
    pub(super) fn new(
        pod: Arc<PodInfo>,
        node: NodeName,
        preemptor: Arc<PodInfo>,
        in_memory: bool,
    ) -> Self {
        let more = if in_memory {
            " (in kube-scheduler memory)."
        } else {
            ""
        };
        let note = format!("Preempted by pod {} on node {node}{more}", preemptor.uid);
        Self {
            event: EventNote {
                warning: false,
                reason: "Preempted",
                action: "Preempting",
                note,
            },
            pod,
            node,
            preemptor,
        }
    }
}

/// What a driver has to do to other pods.
#[derive(Debug, Default)]
pub struct Orders {
    /// Pods whose `status.nominatedNodeName` has to go.
    pub cleared: Vec<Arc<PodInfo>>,
    /// Pods to delete.
    pub evictions: Vec<EvictionOrder>,
    /// Pods that have given their place up before they were bound: only to be told.
    pub preempted: Vec<Preempted>,
    /// How many victims each preemption has that began: only to be told.
    pub victims: Vec<usize>,
}

impl Orders {
    /// Whether there is nothing to do.
    pub const fn is_empty(&self) -> bool {
        let Self {
            cleared,
            evictions,
            preempted,
            victims,
        } = self;
        cleared.is_empty() && evictions.is_empty() && preempted.is_empty() && victims.is_empty()
    }
}

impl Scheduler {
    /// What plugins asked to be done to other pods since the last call, and only the API server can. Any method of the
    /// scheduler may run plugins, so a driver asks after each.
    pub fn take_orders(&mut self) -> Orders {
        std::mem::take(&mut self.orders)
    }

    pub(super) fn carry_out(&mut self, effects: Effects, now: Moment) {
        let Effects {
            activate,
            allow,
            reject,
            evict,
            clear_nomination,
            // It is told with the attempt that it belongs to.
            room: _,
        } = effects;
        for uid in activate {
            self.activate(&uid);
        }
        for (uid, plugin) in allow {
            self.waiting.allow(&uid, plugin);
        }
        for (uid, plugin, reason) in reject {
            self.waiting.reject(&uid, plugin, reason);
        }
        for uid in clear_nomination {
            self.expect_nowhere(&uid, now);
            let pending = self.pending.get(&uid);
            self.orders.cleared.extend(pending.cloned());
        }
        for eviction in evict {
            self.preempt(eviction, now);
        }
    }
}
