//! What a plugin that preempts has done to others: wherever the victim is on its way.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};

use futures::future::BoxFuture;

use super::{add, add_node, assumed, at, failed, scheduler, waiting};
use crate::context::Cycle;
use crate::cycle::NodeStatuses;
use crate::effects::Eviction;
use crate::names::{NodeName, PodUid};
use crate::plugin::{Plugin, PostFilter, PostFiltered, PreBind, Preflight};
use crate::plugins::stock_profile;
use crate::pod_info::PodInfo;
use crate::profile::ProfileBuilder;
use crate::queue::Place;
use crate::scheduler::{Aftermath, EvictionOrder, Scheduler};
use crate::state::CycleState;
use crate::status::{PluginName, Status, Verdict};
use crate::test_objects::{NeverBinds, pod, uid};
use crate::waiting::PermitState;

const NAME: PluginName = "Preempts";

/// Evicts these for anybody, takes the nomination of `nominated`, and remembers what it is told.
struct Preempts {
    victims: &'static [&'static str],
    told: Arc<Mutex<Vec<bool>>>,
}

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
                victims: self.victims.iter().map(|name| uid(name)).collect(),
                preemptor: pod.uid.clone(),
                plugin: NAME,
            });
            effects.clear_nomination(uid("nominated"));
        });
        PostFiltered::nominate(NodeName::from("n"))
    }

    fn evicting(&self, preemptor: &PodUid, under_way: bool) {
        assert_eq!(*preemptor, uid("heir"));
        self.told.lock().unwrap().push(under_way);
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

type Told = Arc<Mutex<Vec<bool>>>;

/// A node with four cores, for a victim of three and whoever comes then.
fn preempting(with: impl FnOnce(ProfileBuilder) -> ProfileBuilder) -> Scheduler {
    evicting(&["victim"], with).0
}

fn evicting(
    victims: &'static [&'static str],
    with: impl FnOnce(ProfileBuilder) -> ProfileBuilder,
) -> (Scheduler, Told) {
    let told = Told::default();
    let preempts = Preempts {
        victims,
        told: told.clone(),
    };
    let profile = stock_profile("test", Arc::new(NeverBinds)).evicting_nobody();
    let profile = profile.post_filter(Arc::new(preempts));
    let mut scheduler = scheduler(with(profile));
    add_node(&mut scheduler, "n", "4");
    (scheduler, told)
}

fn taken(told: &Told) -> Vec<bool> {
    std::mem::take(&mut *told.lock().unwrap())
}

/// Who has to be deleted.
fn asked(scheduler: &mut Scheduler) -> Vec<EvictionOrder> {
    scheduler.take_orders().evictions
}

fn names(orders: &[EvictionOrder]) -> Vec<&str> {
    let names = orders.iter().map(|order| &*order.preempted.pod.key.name);
    names.collect()
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
    let told = &order.preempted;
    assert_eq!((&told.pod.uid, told.node.as_str()), (&uid("victim"), "n"));
    assert_eq!(told.preemptor.uid, uid("heir"));
    let condition = "test: preempting to accommodate a higher priority pod";
    assert_eq!(order.condition, condition);
    assert_eq!(told.event.note, "Preempted by pod uid-heir on node n");
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
    let orders = scheduler.take_orders();
    assert!(orders.evictions.is_empty());
    let note = "Preempted by pod uid-heir on node n (in kube-scheduler memory).";
    assert_eq!(orders.preempted[0].event.note, note);
    let status = scheduler.start_binding(&uid("victim")).unwrap_err();
    // It isn't unschedulable: it is tried again without waiting for an event.
    assert!(matches!(status, Status::Error(_)));
    assert_eq!(status.to_string(), "waiting on permit for pod: preempted");
    let failure = scheduler.binding_failed(placed, status, at(0));
    assert!(!failure.cause.is_rejection());
    assert_eq!(scheduler.place(&uid("victim")), Some(Place::Backoff));
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
    assert_eq!(status.to_string(), "preempted by Preempts");
    let orders = scheduler.take_orders();
    assert!(orders.evictions.is_empty() && orders.preempted.len() == 1);
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

/// Three victims of a core each on a node of four.
fn three_victims() -> (Scheduler, Told) {
    let (mut scheduler, told) = evicting(&["a", "b", "c"], |profile| profile);
    for name in ["a", "b", "c"] {
        add(&mut scheduler, pod(name).request("cpu", "1").on("n"));
    }
    need_room(&mut scheduler);
    (scheduler, told)
}

#[test]
fn the_last_victim_goes_when_all_others_went() {
    let (mut scheduler, told) = three_victims();
    let first = asked(&mut scheduler);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(taken(&told), [true]);
    for order in &first {
        assert!(scheduler.is_wanted(&order.id));
        assert!(asked(&mut scheduler).is_empty());
        scheduler.evicted(&order.id, true, at(0));
        assert!(!scheduler.is_wanted(&order.id), "only once");
        scheduler.evicted(&order.id, true, at(0));
    }
    let last = asked(&mut scheduler);
    assert_eq!(names(&last), ["c"]);
    assert!(taken(&told).is_empty(), "it still waits");
    scheduler.evicted(&last[0].id, true, at(0));
    assert_eq!(taken(&told), [false]);
    assert!(asked(&mut scheduler).is_empty());
}

#[test]
fn a_failure_spares_the_others_and_has_the_preemptor_tried_again() {
    let (mut scheduler, told) = three_victims();
    let first = asked(&mut scheduler);
    assert_eq!(scheduler.place(&uid("heir")), Some(Place::Unschedulable));
    scheduler.evicted(&first[1].id, false, at(0));
    assert_eq!(taken(&told), [true, false]);
    assert_eq!(scheduler.place(&uid("heir")), Some(Place::Backoff));
    assert!(!scheduler.is_wanted(&first[0].id));
    scheduler.evicted(&first[0].id, true, at(0));
    assert!(asked(&mut scheduler).is_empty(), "the last one stays");
}

#[test]
fn the_preemptor_may_be_tried_as_soon_as_its_last_victim_is_going() {
    for gone in [false, true] {
        let (mut scheduler, told) = three_victims();
        let first = asked(&mut scheduler);
        // That of another one says nothing.
        add(&mut scheduler, pod("a").on("n").deleting());
        for order in &first {
            scheduler.evicted(&order.id, true, at(0));
        }
        assert_eq!(taken(&told), [true]);
        let last = asked(&mut scheduler);
        if gone {
            scheduler.pod_deleted(&uid("c"), at(0));
        } else {
            add(&mut scheduler, pod("c").on("n").deleting());
        }
        assert_eq!(taken(&told), [false], "{gone}");
        scheduler.evicted(&last[0].id, true, at(0));
        assert!(taken(&told).is_empty(), "told once");
    }
}

#[test]
fn nobody_is_evicted_for_a_pod_that_has_gone() {
    let (mut scheduler, told) = three_victims();
    let first = asked(&mut scheduler);
    scheduler.pod_deleted(&uid("heir"), at(0));
    assert!(first.iter().all(|order| !scheduler.is_wanted(&order.id)));
    for order in &first {
        scheduler.evicted(&order.id, true, at(0));
    }
    assert!(asked(&mut scheduler).is_empty());
    assert_eq!(taken(&told), [true, false]);
}

#[test]
fn victims_that_went_by_themselves_are_not_evicted() {
    let (mut scheduler, told) = three_victims();
    let first = asked(&mut scheduler);
    scheduler.pod_deleted(&uid("c"), at(0));
    for order in &first {
        scheduler.evicted(&order.id, true, at(0));
    }
    assert!(asked(&mut scheduler).is_empty());
    assert_eq!(taken(&told), [true, false]);
}

#[test]
fn a_last_victim_in_memory_gives_up_only_when_the_others_went() {
    let (mut scheduler, told) = evicting(&["runs", "victim"], |profile| {
        profile.permit(waiting("Tug", 60))
    });
    add(&mut scheduler, pod("runs").request("cpu", "1").on("n"));
    add(&mut scheduler, pod("victim").request("cpu", "3"));
    let placed = assumed(&mut scheduler);
    need_room(&mut scheduler);
    let orders = scheduler.take_orders();
    assert_eq!(
        (names(&orders.evictions), orders.preempted.len()),
        (vec!["runs"], 0)
    );
    let waits = |scheduler: &Scheduler| {
        let state = scheduler.permit_state(&uid("victim"));
        matches!(state, Some(PermitState::Waiting { .. }))
    };
    assert!(waits(&scheduler));
    scheduler.evicted(&orders.evictions[0].id, true, at(0));
    assert!(!waits(&scheduler));
    assert_eq!(scheduler.take_orders().preempted.len(), 1);
    assert_eq!(taken(&told), [true, false]);
    let status = scheduler.start_binding(&uid("victim")).unwrap_err();
    let _ = scheduler.binding_failed(placed, status, at(0));
}
