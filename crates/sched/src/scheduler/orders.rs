//! Owns what plugins asked to be done to other pods: what the scheduler can do itself it does, the rest is left as orders
//! for the driver, as plain data. Knows nothing of clients.

use std::sync::Arc;

use super::{EventNote, Scheduler};
use crate::effects::{Effects, Eviction};
use crate::names::NodeName;
use crate::pod_info::PodInfo;
use crate::status::Status;

/// A pod that has to be deleted, so that another one finds room. As in kube-scheduler 1.36.3 (`framework/preemption`).
#[derive(Clone, Debug)]
pub struct EvictionOrder {
    /// Who has to go: this very UID.
    pub pod: Arc<PodInfo>,
    /// Where it runs.
    pub node: NodeName,
    /// Message of its condition `DisruptionTarget` with status True and reason `PreemptionByScheduler`, to be written
    /// before it is deleted.
    pub condition: String,
    /// The event about it.
    pub event: EventNote,
}

/// What a driver has to do to other pods.
#[derive(Debug, Default)]
pub struct Orders {
    /// Pods to delete.
    pub evictions: Vec<EvictionOrder>,
    /// Pods whose `status.nominatedNodeName` has to go.
    pub cleared: Vec<Arc<PodInfo>>,
}

impl Orders {
    /// Whether there is nothing to do.
    pub const fn is_empty(&self) -> bool {
        self.evictions.is_empty() && self.cleared.is_empty()
    }
}

impl Scheduler {
    /// What plugins asked to be done to other pods since the last call, and only the API server can. Any method of the
    /// scheduler may run plugins, so a driver asks after each.
    pub fn take_orders(&mut self) -> Orders {
        std::mem::take(&mut self.orders)
    }

    pub(super) fn carry_out(&mut self, effects: Effects) {
        let Effects {
            activate,
            allow,
            reject,
            evict,
            clear_nomination,
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
        for eviction in evict {
            self.evict(&eviction);
        }
        for uid in clear_nomination {
            self.nominator.clear(&uid);
            let pending = self.pending.get(&uid);
            self.orders.cleared.extend(pending.cloned());
        }
    }

    /// A pod whose binding hasn't begun only gives its place up: nothing of it runs yet.
    fn evict(&mut self, eviction: &Eviction) {
        let Eviction {
            victim,
            preemptor,
            plugin,
        } = eviction;
        if self.waiting.reject(victim, plugin, "preempted".into()) {
            return;
        }
        if let Some(binding) = self.binding.get(victim)
            && binding.cancel(Status::unschedulable("preempted").by(plugin))
        {
            return;
        }
        let Some((pod, node)) = self.cache.pod(victim) else {
            return;
        };
        let (pod, node) = (pod.clone(), node.clone());
        let scheduler = self.pending.get(preemptor);
        let scheduler = scheduler.map_or(&pod.scheduler_name, |pod| &pod.scheduler_name);
        self.orders.evictions.push(EvictionOrder {
            condition: format!("{scheduler}: preempting to accommodate a higher priority pod"),
            event: EventNote {
                warning: false,
                reason: "Preempted",
                action: "Preempting",
                note: format!("Preempted by pod {preemptor} on node {node}"),
            },
            pod,
            node,
        });
    }
}
