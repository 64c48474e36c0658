use std::error::Error;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod};
use pilotage_sched::plugins::{Binder, stock_profile};
use pilotage_sched::{
    Context, CycleState, EnqueueExtensions, EventKind, NodeName, Permit, PermitDecision,
    PermitState, Plugin, PluginName, PodInfo, SchedulerConfig, Verdict,
};
use serde_json::json;

use super::*;

struct NoBinder;

impl Binder for NoBinder {
    fn bind<'a>(
        &'a self,
        _: &'a PodInfo,
        _: &'a NodeName,
    ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        Box::pin(async { Ok(()) })
    }
}

struct Hold;

impl Plugin for Hold {
    fn name(&self) -> PluginName {
        "Hold"
    }
}

impl EnqueueExtensions for Hold {
    fn events(&self) -> Vec<EventKind> {
        Vec::new()
    }
}

impl Permit for Hold {
    fn permit(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &PodInfo,
        _: &NodeName,
    ) -> Verdict<PermitDecision> {
        Ok(PermitDecision::Wait(Duration::from_secs(30)))
    }
}

fn core() -> Core {
    let profile = stock_profile("default-scheduler", Arc::new(NoBinder)).permit(Arc::new(Hold));
    let scheduler = Scheduler::new([profile.build().unwrap()], SchedulerConfig::default()).unwrap();
    Core::new(scheduler, 7, Box::new(|_| {}), Box::new(|_| {}))
}

fn add_node(core: &Core) {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "n1", "uid": "n1"},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
    }))
    .unwrap();
    core.with(|scheduler, now| scheduler.node_applied(&node, now))
        .unwrap();
}

fn add_pod(core: &Core, name: &str) -> PodUid {
    add_pod_of(core, name, 0)
}

fn add_pod_of(core: &Core, name: &str, priority: i32) -> PodUid {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": name},
        "spec": {
            "priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
    }))
    .unwrap();
    core.with(|scheduler, now| scheduler.pod_applied(Arc::new(pod), now))
        .unwrap();
    PodUid::from(name)
}

fn held(turn: Turn) -> (Box<Assumed>, oneshot::Receiver<()>) {
    let Turn::Bind {
        assumed,
        held: Some(held),
    } = turn
    else {
        panic!("not held")
    };
    (assumed, held)
}

fn deadline(turn: &Turn) -> Option<Instant> {
    let Turn::Idle(deadline) = turn else {
        panic!("not idle")
    };
    *deadline
}

#[tokio::test(start_paused = true)]
async fn a_change_wakes_the_loop_even_if_it_was_not_waiting_yet() {
    let core = core();
    assert!(deadline(&core.turn()).is_none());
    add_node(&core);
    core.changed().await;
    let next = tokio::time::timeout(Duration::from_hours(1), core.changed()).await;
    assert!(next.is_err(), "one change wakes once");
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_gives_the_loop_a_time_to_look_again() {
    let core = core();
    let uid = add_pod(&core, "a");
    let Turn::Publish(Attempt::Failed(failure)) = core.turn() else {
        panic!("it has no node")
    };
    assert_eq!(
        failure.cause.to_string(),
        "no nodes available to schedule pods"
    );
    // It failed without a plugin that could bring it back: after its backoff of a second it is tried anyway.
    let again = deadline(&core.turn()).unwrap();
    assert!(again > Instant::now());
    tokio::time::sleep_until(again).await;
    assert!(matches!(core.turn(), Turn::Publish(Attempt::Failed(_))));
    assert!(core.ask(|scheduler| scheduler.place(&uid)).is_some());
}

#[tokio::test(start_paused = true)]
async fn when_thousands_are_due_others_get_in_between_and_the_first_of_all_is_tried_first() {
    let core = core();
    for number in 0..2_000 {
        add_pod_of(&core, &number.to_string(), i32::from(number == 1_999));
    }
    for _ in 0..2_000 {
        assert!(matches!(core.turn(), Turn::Publish(Attempt::Failed(_))));
    }
    tokio::time::sleep_until(deadline(&core.turn()).unwrap()).await;
    let (mut turns, mut active) = (0, 0);
    let tried = loop {
        match core.turn() {
            Turn::Again => turns += 1,
            other => break other,
        }
        let before = active;
        active = core.ask(|scheduler| scheduler.queue_size().active);
        assert!((before + 1..before + 500).contains(&active), "{active}");
    };
    assert!(turns > 3, "{turns}");
    let Turn::Publish(tried) = tried else {
        panic!("it has no node")
    };
    assert_eq!(&*tried.pod().uid, "1999");
}

#[tokio::test(start_paused = true)]
async fn an_answer_wakes_the_pod_that_waits_for_it() {
    let core = core();
    add_node(&core);
    let uid = add_pod(&core, "a");
    let (assumed, held) = held(core.turn());
    assert!(core.with(|scheduler, _| scheduler.allow(&uid, "Hold")));
    held.await.unwrap();
    core.with(|scheduler, _| scheduler.start_binding(&uid))
        .unwrap();
    core.with(|scheduler, now| scheduler.bound(*assumed, now));
}

#[tokio::test(start_paused = true)]
async fn a_hold_runs_out_by_the_turn_at_its_deadline() {
    let core = core();
    add_node(&core);
    let uid = add_pod(&core, "a");
    let (_assumed, mut held) = held(core.turn());
    let end = deadline(&core.turn()).unwrap();
    assert_eq!(end - Instant::now(), Duration::from_secs(30));
    assert!(held.try_recv().is_err());
    tokio::time::sleep_until(end).await;
    core.turn();
    held.await.unwrap();
    let state = core.ask(|scheduler| scheduler.permit_state(&uid));
    assert!(matches!(state, Some(PermitState::Rejected(_))), "{state:?}");
}

#[test]
fn a_turn_under_way_can_be_timed_from_outside() {
    let core = core();
    assert_eq!(core.turning_for(), None);
    core.turning_since
        .store(core.millis() + 1, Ordering::Relaxed);
    assert!(core.turning_for().is_some());
    core.turn();
    assert_eq!(core.turning_for(), None);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_scheduler_goes_to_its_caller_and_loses_no_pod() {
    let core = core();
    add_node(&core);
    let held_pod = add_pod(&core, "held");
    let (assumed, held) = held(core.turn());
    let lost = add_pod(&core, "lost");
    let panics = caught(|| {
        core.with(|scheduler, _| assert!(scheduler.place(&lost).is_none(), "on purpose"));
    });
    assert!(panics.unwrap_err().contains("on purpose"));
    // Who was held is held, and who waited waits.
    assert!(core.ask(|scheduler| scheduler.place(&lost)).is_some());
    assert!(core.with(|scheduler, _| scheduler.allow(&held_pod, "Hold")));
    held.await.unwrap();
    core.with(|scheduler, _| scheduler.start_binding(&held_pod))
        .unwrap();
    core.with(|scheduler, now| scheduler.bound(*assumed, now));
    let panics = caught(|| core.ask(|_| -> u8 { panic!("on purpose") }));
    assert_eq!(panics, Err("on purpose".to_owned()));
    assert_eq!(core.ask(|scheduler| scheduler.cache_size()).assumed_pods, 1);
}
