//! The candidate's scheduler plugins, and the profile that they make of the stock one.
//!
//! [`Reservation`] is the whole coupling: nothing is tried before the board opens the pod's gate, and a pod that has a
//! node waits at Permit until the edge allows or rejects it under [`RESERVATION`]. Binding goes through the edge, too.

use std::{sync::Arc, time::Duration};

use pilotage_api::keys;
use pilotage_sched::{
    Context, CycleState, EnqueueExtensions, EventKind, MAX_PERMIT_WAIT, NodeName, Permit,
    PermitDecision, Plugin, PluginName, PodInfo, PreEnqueue, ProfileBuilder, Status, Verdict,
    plugins::{
        Binder, DYNAMIC_RESOURCES, DefaultPreemption, EvictionLeave, Leave, PreemptionCost,
        stock_profile_with,
    },
};

use crate::{board::Board, plan, preempts::preempts};

/// Name of the plugin, under which the edge allows and rejects pods at Permit.
pub const RESERVATION: PluginName = "Reservation";

/// Who refuses a candidate that needs what no plugin knows.
const SCHEDULER: &str = "this candidate scheduler";

/// Gates pods by the board and holds them until the source has chosen.
#[derive(Debug)]
pub struct Reservation {
    board: Arc<Board>,
}

impl Reservation {
    /// Gates pods by `board`.
    pub fn new(board: Arc<Board>) -> Self {
        Self { board }
    }
}

impl Plugin for Reservation {
    fn name(&self) -> PluginName {
        RESERVATION
    }
}

impl EnqueueExtensions for Reservation {
    /// None: whatever may help is known to the edge, which activates the pod.
    fn events(&self) -> Vec<EventKind> {
        Vec::new()
    }
}

impl PreEnqueue for Reservation {
    fn pre_enqueue(&self, pod: &PodInfo) -> Verdict {
        match self.board.shut(&pod.uid) {
            None => Ok(()),
            Some(note) => Err(Status::unresolvable(note.to_string())),
        }
    }
}

impl Permit for Reservation {
    /// The edge keeps the times, which are shorter.
    fn permit(
        &self,
        _cx: &Context<'_>,
        _state: &mut CycleState,
        _pod: &PodInfo,
        _node: &NodeName,
    ) -> Verdict<PermitDecision> {
        Ok(PermitDecision::Wait(MAX_PERMIT_WAIT))
    }
}

impl EvictionLeave for Reservation {
    fn take(&self, pod: &PodInfo, cost: &PreemptionCost, grace: Duration) -> Leave {
        match self.board.take_leave(&pod.uid, &preempts(cost, grace)) {
            Some(plan::Leave::Offer) => Leave::Offer,
            Some(plan::Leave::UpTo(_)) => Leave::Evict,
            Some(plan::Leave::Used) => Leave::Used,
            None => Leave::Refuse,
        }
    }
}

/// The profile of candidate pods: the stock plugins, gated by `board` and bound by the edge. What none of them knows is
/// refused, whatever is configured, and so is too much.
pub fn candidate_profile(board: Arc<Board>, edge: Arc<dyn Binder>) -> ProfileBuilder {
    let reservation = Arc::new(Reservation::new(board));
    // Nobody is evicted for a pod that may run elsewhere: only once this candidate is the one.
    let preemption = DefaultPreemption::default().with_leave(reservation.clone());
    stock_profile_with(keys::CANDIDATE_SCHEDULER, edge, preemption)
        // It says only that it has nothing to say.
        .disable(DYNAMIC_RESOURCES)
        .refusing_many_rules_and_ports()
        .refusing_unknown_constraints(SCHEDULER)
        .pre_enqueue(reservation.clone())
        .permit(reservation)
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use futures::future::BoxFuture;
    use pilotage_sched::{
        Attempt, Cause, FirstOfEquals, Moment, Place, Rechecked, Scheduler, SchedulerConfig,
        plugins::MOST_RULES,
    };
    use serde_json::json;

    use super::*;
    use crate::{
        plan::{Gate, Note},
        refusal::Refusal,
    };

    struct NoBinder;

    impl Binder for NoBinder {
        fn bind<'a>(
            &'a self,
            _pod: &'a PodInfo,
            _node: &'a NodeName,
        ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
            Box::pin(async { Err("not in this test".into()) })
        }
    }

    #[test]
    fn a_pod_with_too_many_rules_is_refused_before_any_node_is_looked_at() {
        let board = Arc::new(Board::new());
        let profile = candidate_profile(board.clone(), Arc::new(NoBinder))
            .build()
            .unwrap();
        let mut scheduler = Scheduler::new([profile], SchedulerConfig::default()).unwrap();
        let (now, mut ties) = (Moment::ZERO, FirstOfEquals);
        let node = json!({
            "metadata": { "name": "n1", "uid": "n1" },
            "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } },
        });
        scheduler
            .node_applied(&serde_json::from_value(node).unwrap(), now)
            .unwrap();
        let mut attempt = |uid: &str, rules: usize| {
            let wish = |n: usize| {
                let expression = json!({ "key": format!("k{n}"), "operator": "Exists" });
                json!({ "weight": 1, "preference": { "matchExpressions": [expression] } })
            };
            let wishes: Vec<_> = (0..rules).map(wish).collect();
            let pod = json!({
                "metadata": { "namespace": "ns", "name": uid, "uid": uid },
                "spec": { "schedulerName": keys::CANDIDATE_SCHEDULER, "containers": [], "affinity": {
                    "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": wishes },
                } },
            });
            board.set(uid, Gate::Open, plan::Leave::Offer);
            scheduler
                .pod_applied(Arc::new(serde_json::from_value(pod).unwrap()), now)
                .unwrap();
            scheduler.schedule_next(now, &mut ties).unwrap()
        };

        let most = attempt("a", MOST_RULES);
        assert!(matches!(most, Attempt::Assumed(_)), "{most:?}");
        let Attempt::Failed(failure) = attempt("b", MOST_RULES + 1) else {
            panic!("one more is too many")
        };
        let refusal = Refusal::of(&failure.cause).to_string();
        let told = "pod has 65 resources, host ports and rules about nodes and other pods, and may have 64";
        assert!(refusal.contains(told), "{refusal}");
    }

    #[test]
    fn a_pod_is_tried_when_its_gate_opens_and_then_waits_for_the_edge() {
        let board = Arc::new(Board::new());
        let profile = candidate_profile(board.clone(), Arc::new(NoBinder))
            .build()
            .unwrap();
        let mut scheduler = Scheduler::new([profile], SchedulerConfig::default()).unwrap();
        let (now, mut ties) = (Moment::ZERO, FirstOfEquals);
        let node = json!({
            "metadata": { "name": "n1", "uid": "n1" },
            "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } },
        });
        scheduler
            .node_applied(&serde_json::from_value(node).unwrap(), now)
            .unwrap();
        let pod = json!({
            "metadata": { "namespace": "ns", "name": "a", "uid": "u" },
            "spec": { "schedulerName": keys::CANDIDATE_SCHEDULER, "containers": [] },
        });
        scheduler
            .pod_applied(Arc::new(serde_json::from_value(pod).unwrap()), now)
            .unwrap();
        let uid = "u".into();

        assert!(
            scheduler.schedule_next(now, &mut ties).is_none(),
            "unknown to the board"
        );
        let set = |gate| board.set("u", gate, plan::Leave::Offer);
        set(Gate::Shut(Note::Pausing));
        scheduler.activate(&uid);
        assert!(scheduler.schedule_next(now, &mut ties).is_none());

        assert!(set(Gate::Open));
        scheduler.activate(&uid);
        let Some(Attempt::Assumed(assumed)) = scheduler.schedule_next(now, &mut ties) else {
            panic!("a node was there")
        };
        assert!(assumed.waits());
        assert!(matches!(scheduler.recheck(&uid), Rechecked::Fits));

        // The edge takes it back: the pod waits for the edge again.
        set(Gate::Shut(Note::InDebt));
        assert!(scheduler.reject(&uid, RESERVATION, "expired"));
        let status = scheduler.start_binding(&uid).unwrap_err();
        let failure = scheduler.binding_failed(*assumed, status, now);
        assert!(
            matches!(failure.cause, Cause::Unfit(_)),
            "{}",
            failure.cause
        );
        assert!(scheduler.schedule_next(now, &mut ties).is_none());
        set(Gate::Open);
        assert_eq!(scheduler.activate(&uid), Some(Place::Active));
        assert!(scheduler.schedule_next(now, &mut ties).is_some());
    }
}
