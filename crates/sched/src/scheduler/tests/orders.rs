//! What a plugin that preempts has done to others: wherever the victim is on its way.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use futures::future::BoxFuture;

use super::{add, add_node, assumed, at, failed, scheduler, waiting};
use crate::context::Cycle;
use crate::cycle::NodeStatuses;
use crate::effects::Eviction;
use crate::names::NodeName;
use crate::plugin::{Plugin, PostFilter, PostFiltered, PreBind, Preflight};
use crate::plugins::stock_profile;
use crate::pod_info::PodInfo;
use crate::profile::ProfileBuilder;
use crate::scheduler::{Aftermath, Scheduler};
use crate::state::CycleState;
use crate::status::{PluginName, Verdict};
use crate::test_objects::{NeverBinds, pod, uid};

const NAME: PluginName = "Preempts";

/// Evicts `victim` for anybody, and takes the nomination of `nominated`.
struct Preempts;

impl Plugin for Preempts {
    fn name(&self) -> PluginName {
        NAME
    }
}

impl PostFilter for Preempts {
    fn post_filter(
        &self,
        _cycle: &mut Cycle<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        _statuses: &NodeStatuses,
    ) -> PostFiltered {
        state.request(|effects| {
            effects.evict(Eviction {
                victim: uid("victim"),
                preemptor: pod.uid.clone(),
                plugin: NAME,
            });
            effects.clear_nomination(uid("nominated"));
        });
        PostFiltered::nominate(NodeName::from("n"))
    }
}

/// Never ends by itself.
struct Slow;

impl Plugin for Slow {
    fn name(&self) -> PluginName {
        "Slow"
    }
}

impl PreBind for Slow {
    fn preflight(&self, _: &CycleState, _: &PodInfo, _: &NodeName) -> Verdict<Preflight> {
        Ok(Preflight::Act { parallel: false })
    }

    fn pre_bind<'a>(
        &'a self,
        _: &'a CycleState,
        _: &'a PodInfo,
        _: &'a NodeName,
    ) -> BoxFuture<'a, Verdict> {
        Box::pin(std::future::pending())
    }
}

/// A node with four cores, for a victim of three and whoever comes then.
fn preempting(with: impl FnOnce(ProfileBuilder) -> ProfileBuilder) -> Scheduler {
    let profile = stock_profile("test", Arc::new(NeverBinds)).post_filter(Arc::new(Preempts));
    let mut scheduler = scheduler(with(profile));
    add_node(&mut scheduler, "n", "4");
    scheduler
}

fn need_room(scheduler: &mut Scheduler) {
    add(scheduler, pod("heir").request("cpu", "2").priority(10));
    let failure = failed(scheduler, 0);
    assert!(matches!(failure.aftermath, Aftermath::Requeued(_)));
}

#[test]
fn a_pod_that_runs_is_left_to_the_driver_with_condition_and_event() {
    let mut scheduler = preempting(|profile| profile);
    add(&mut scheduler, pod("victim").request("cpu", "3").on("n"));
    let nominated = pod("nominated").nominated("n").gate("later").priority(1);
    add(&mut scheduler, nominated);
    need_room(&mut scheduler);
    let orders = scheduler.take_orders();
    let [order] = &orders.evictions[..] else {
        panic!("{orders:?}")
    };
    assert_eq!((&order.pod.uid, order.node.as_str()), (&uid("victim"), "n"));
    let condition = "test: preempting to accommodate a higher priority pod";
    assert_eq!(order.condition, condition);
    assert_eq!(order.event.note, "Preempted by pod uid-heir on node n");
    let [cleared] = &orders.cleared[..] else {
        panic!("{orders:?}")
    };
    assert_eq!(cleared.uid, uid("nominated"));
    assert!(scheduler.take_orders().is_empty(), "given out once");
}

#[test]
fn a_pod_that_waits_at_permit_gives_its_place_up() {
    let mut scheduler = preempting(|profile| profile.permit(waiting("Tug", 60)));
    add(&mut scheduler, pod("victim").request("cpu", "3"));
    let placed = assumed(&mut scheduler);
    need_room(&mut scheduler);
    assert!(scheduler.take_orders().is_empty());
    let status = scheduler.start_binding(&uid("victim")).unwrap_err();
    assert_eq!(status.to_string(), "preempted");
    let _ = scheduler.binding_failed(placed, status, at(0));
}

#[test]
fn a_binding_is_cancelled_until_bind_begins() {
    let mut scheduler = preempting(|profile| profile.pre_bind(Arc::new(Slow)));
    add(&mut scheduler, pod("victim").request("cpu", "3"));
    let mut placed = assumed(&mut scheduler);
    scheduler.start_binding(&uid("victim")).unwrap();
    placed.preflight().unwrap();
    let status = {
        let mut binding = pin!(placed.pre_bind());
        let mut cx = TaskContext::from_waker(Waker::noop());
        assert!(binding.as_mut().poll(&mut cx).is_pending());
        need_room(&mut scheduler);
        let Poll::Ready(Err(status)) = binding.as_mut().poll(&mut cx) else {
            panic!("it goes on")
        };
        status
    };
    assert_eq!(status.to_string(), "preempted");
    assert!(scheduler.take_orders().is_empty());
    let failure = scheduler.binding_failed(placed, status, at(0));
    assert!(matches!(failure.aftermath, Aftermath::Requeued(_)));
}

#[test]
fn a_pod_that_the_api_server_may_know_on_its_node_has_to_be_deleted() {
    let mut scheduler = preempting(|profile| profile);
    add(&mut scheduler, pod("victim").request("cpu", "3"));
    let placed = assumed(&mut scheduler);
    scheduler.start_binding(&uid("victim")).unwrap();
    let bound = crate::test_plugins::block_on(placed.run_bind());
    assert!(bound.is_err(), "nobody binds here");
    need_room(&mut scheduler);
    assert_eq!(scheduler.take_orders().evictions.len(), 1);
    let _ = scheduler.binding_failed(placed, bound.unwrap_err(), at(0));
}
