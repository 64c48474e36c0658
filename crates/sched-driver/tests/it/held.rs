//! Pods held at Permit, and the handle with which an edge decides about them.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use pilotage_sched::{
    Actions, BindingRequest, Context, CycleState, EnqueueExtensions, EventKind, EventResource,
    NodeName, Permit, PermitDecision, Plugin, PluginName, PodInfo, ProfileBuilder, Rechecked,
    Status, Verdict,
};
use pilotage_sched_driver::PodBinder;
use pilotage_testkit::{build, wait_count, wait_for};

use crate::fixture::{LIMIT, Running, create, node_of, plane, pod, uid};

const HOLD: PluginName = "Hold";

/// Holds every pod for so long.
struct Hold(Duration);

impl Plugin for Hold {
    fn name(&self) -> PluginName {
        HOLD
    }
}

impl EnqueueExtensions for Hold {
    fn events(&self) -> Vec<EventKind> {
        vec![EventKind::new(
            EventResource::Custom("HoldAnew"),
            Actions::ALL,
        )]
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
        Ok(PermitDecision::Wait(self.0))
    }
}

fn hold(time: Duration) -> impl FnOnce(ProfileBuilder) -> ProfileBuilder {
    move |profile| profile.permit(Arc::new(Hold(time)))
}

fn nominated(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.nominated_node_name.as_deref()
}

fn is_bound(pod: &Pod) -> bool {
    node_of(pod).is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_edge_allows_rejects_and_rechecks() {
    let plane = plane().await;
    let namespace = plane.namespace("edge").await.unwrap();
    let node = build::node("edge-0")
        .cpu("2")
        .memory("8Gi")
        .pods(10)
        .label("pool", "edge");
    plane.add_nodes([node.build()]).await.unwrap();
    let running = Running::start(&plane, namespace.name(), hold(LIMIT), |_| {}).await;
    let (handle, told, api) = (&running.handle, &running.told, namespace.api::<Pod>());

    let created = create(&namespace, pod(&namespace, "a", "edge").request("cpu", "2")).await;
    let uid = uid(&created);
    assert_eq!(
        told.wait("assumed a", 1).await,
        "assumed a on edge-0 held=true"
    );
    assert!(handle.is_assumed(&uid));
    assert!(
        matches!(handle.recheck(&uid), Rechecked::Fits),
        "it isn't in its own way"
    );
    wait_for(&api, "a", |pod| nominated(pod) == Some("edge-0"), LIMIT)
        .await
        .unwrap();

    // Rejected: back in the queue, everybody is told, the nomination goes.
    assert!(handle.reject(&uid, HOLD, "not today"));
    assert!(!handle.reject(&uid, HOLD, "twice"));
    let line = told.wait("failed a", 1).await;
    assert!(
        line.ends_with("0/1 nodes are available: 1 not today."),
        "{line}"
    );
    assert!(!handle.is_assumed(&uid));
    let shown = |pod: &Pod| {
        nominated(pod).is_none()
            && pod
                .status
                .as_ref()
                .and_then(|status| status.conditions.as_ref())
                .is_some_and(|all| {
                    all.iter()
                        .any(|c| c.message.as_deref().unwrap_or("").contains("not today"))
                })
    };
    wait_for(&api, "a", shown, LIMIT).await.unwrap();

    // Its plugin's event brings it back; then somebody else takes the room.
    assert_eq!(handle.custom_event("HoldAnew", None), 1);
    told.wait("assumed a", 2).await;
    create(
        &namespace,
        build::pod("rival").request("cpu", "1").node_name("edge-0"),
    )
    .await;
    told.wait("seen rival", 1).await;
    let Rechecked::Misfit(status) = handle.recheck(&uid) else {
        panic!("a thief is there")
    };
    assert_eq!(status.to_string(), "Insufficient cpu");
    assert!(matches!(status, Status::Rejected(_)));

    // A pod that isn't known can be evaluated without taking anything.
    let mut other = pod(&namespace, "other", "edge").request("cpu", "1").build();
    other.metadata.uid = Some("none".to_owned());
    let other = PodInfo::parse(Arc::new(other)).unwrap();
    let evaluation = handle
        .evaluate(namespace.name(), &other, Arc::default())
        .unwrap();
    assert!(evaluation.feasible.is_empty(), "{:?}", evaluation.feasible);
    assert!(
        evaluation.rejected.iter().any(|node| &*node.node == "edge-0"
            && node.rejection.to_string() == "Insufficient cpu"),
        "{:?}",
        evaluation.rejected
    );

    assert!(handle.allow(&uid, HOLD));
    told.wait("bound a to edge-0", 1).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_ends_by_itself() {
    let plane = plane().await;
    let namespace = plane.namespace("timeout").await.unwrap();
    let running = Running::start(
        &plane,
        namespace.name(),
        hold(Duration::from_secs(2)),
        |_| {},
    )
    .await;
    create(&namespace, pod(&namespace, "late", "hundred")).await;
    let line = running.told.wait("failed late", 1).await;
    let text = "rejected due to timeout after waiting 2s at plugin Hold";
    assert!(line.contains(text), "{line}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_pod_that_is_bound_by_another_is_let_go() {
    let plane = plane().await;
    let namespace = plane.namespace("stolen").await.unwrap();
    let running = Running::start(&plane, namespace.name(), hold(LIMIT), |_| {}).await;
    let created = create(&namespace, pod(&namespace, "stolen", "hundred")).await;
    let line = running.told.wait("assumed stolen", 1).await;
    let held = line.split_whitespace().nth(3).unwrap();
    let elsewhere = if held == "hundred-1" {
        "hundred-2"
    } else {
        "hundred-1"
    };
    let request = BindingRequest {
        namespace: namespace.name().to_owned(),
        name: "stolen".to_owned(),
        uid: created.metadata.uid.clone().unwrap(),
        resource_version: None,
        node: elsewhere.to_owned(),
    };
    PodBinder::new(plane.admin()).bind(&request).await.unwrap();
    // Nothing is requeued or published.
    let line = running.told.wait("failed stolen", 1).await;
    assert!(line.starts_with("failed stolen Bound"), "{line}");
    assert!(!running.handle.is_assumed(&uid(&created)));
    assert_eq!(running.handle.place(&uid(&created)), None);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_pods_are_held_at_once() {
    const PODS: usize = 300;
    let plane = plane().await;
    let namespace = plane.namespace("many").await.unwrap();
    let nodes = build::nodes("many", 4, |node| {
        node.cpu("100")
            .memory("100Gi")
            .pods(110)
            .label("pool", "many")
    });
    plane.add_nodes(nodes).await.unwrap();
    // Nominations off: the announcement of 300 holds is somebody else's test.
    let adjust = |options: &mut pilotage_sched_driver::DriverOptions| {
        options.announce_nominations = false;
    };
    let running = Running::start(
        &plane,
        namespace.name(),
        hold(Duration::from_mins(5)),
        adjust,
    )
    .await;
    let created: Vec<Pod> = futures::stream::iter(0..PODS)
        .map(|number| {
            let builder = pod(&namespace, &format!("p{number}"), "many").request("cpu", "1");
            create(&namespace, builder)
        })
        .buffer_unordered(20)
        .collect()
        .await;
    running.told.wait("assumed", PODS).await;
    assert_eq!(running.told.count("bound"), 0);
    for pod in &created {
        assert!(running.handle.allow(&uid(pod), HOLD));
    }
    let api = namespace.api::<Pod>();
    wait_count(&api, watcher::Config::default(), PODS, is_bound, LIMIT)
        .await
        .unwrap();
    assert_eq!(running.told.count("failed"), 0);
    running.stop().await;
}
