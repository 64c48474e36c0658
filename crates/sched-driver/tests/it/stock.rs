//! The stock plugins: what users of a scheduler see.

use std::collections::BTreeMap;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::watcher;
use pilotage_runtime::lease::{Elector, LeaseConfig};
use pilotage_sched::Place;
use pilotage_testkit::audit::{Entry, Policy};
use pilotage_testkit::{
    ControlPlane, Part, TestNamespace, bindings, build, list_until, wait_count, wait_for, wait_gone,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::fixture::{LIMIT, Running, create, node_of, plane, pod, uid};

fn condition(pod: &Pod) -> Option<&PodCondition> {
    pod.status
        .as_ref()?
        .conditions
        .as_ref()?
        .iter()
        .find(|c| c.type_ == "PodScheduled")
}

fn is_bound(pod: &Pod) -> bool {
    node_of(pod).is_some()
}

/// Those of this reason, once there are any.
async fn events(namespace: &TestNamespace, reason: &str) -> Vec<Event> {
    let is_it = |event: &Event| event.reason.as_deref() == Some(reason);
    let events = namespace.api::<Event>();
    let all = list_until(
        &events,
        watcher::Config::default(),
        |all| all.values().any(is_it),
        LIMIT,
    );
    all.await.unwrap().into_iter().filter(is_it).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_pods_are_bound_once_each_and_evenly() {
    let plane = plane().await;
    let namespace = plane.namespace("hundred").await.unwrap();
    let running = Running::start(&plane, namespace.name(), |p| p, |_| {}).await;
    futures::stream::iter(0..100)
        .for_each_concurrent(20, |number| {
            let builder = pod(&namespace, &format!("p{number}"), "hundred").request("cpu", "300m");
            let namespace = &namespace;
            async move {
                create(namespace, builder).await;
            }
        })
        .await;

    let api = namespace.api::<Pod>();
    let pods = wait_count(&api, watcher::Config::default(), 100, is_bound, LIMIT)
        .await
        .unwrap();
    let mut by_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in &pods {
        *by_node.entry(node_of(pod).unwrap()).or_default() += 1;
    }
    // LeastAllocated over equal nodes: only a cache that counts assumed pods fills them evenly.
    assert_eq!(
        by_node.values().copied().collect::<Vec<_>>(),
        [10; 10],
        "{by_node:?}"
    );

    let all_told = |events: &BTreeMap<(String, String), Event>| {
        events
            .values()
            .filter(|e| e.reason.as_deref() == Some("Scheduled"))
            .count()
            == 100
    };
    let selection = watcher::Config::default();
    let told = list_until(&namespace.api::<Event>(), selection, all_told, LIMIT)
        .await
        .unwrap();
    let event = told.first().unwrap();
    assert_eq!(
        event.reporting_controller.as_deref(),
        Some(namespace.name())
    );
    let note = event.note.as_deref().unwrap();
    let start = format!("Successfully assigned {}/p", namespace.name());
    assert!(
        note.starts_with(&start) && note.contains(" to hundred-"),
        "{note}"
    );

    let user = running.user.clone();
    let ours = |entry: &Entry| entry.user == user;
    let entries = plane.audit().unwrap().entries().await.unwrap();
    // A busy API server makes a binding and says too late that it did, or that it had.
    let came_late = |entry: &Entry| entry.asks_to_bind() && matches!(entry.code, 409 | 504);
    let refused: Vec<_> = entries
        .iter()
        .filter(|e| ours(e) && !e.accepted() && !came_late(e))
        .collect();
    assert!(refused.is_empty(), "the role lacks something: {refused:#?}");
    let bound = bindings(entries.iter().filter(|e| ours(e)));
    assert_eq!(bound.len(), 100);
    assert!(
        bound.values().all(|times| *times == 1),
        "exactly one binding a pod: {bound:?}"
    );
    let patches = entries
        .iter()
        .filter(|e| ours(e) && e.verb == "patch")
        .count();
    assert_eq!(
        patches, 0,
        "a pod that fits at once costs a binding and an event"
    );

    let metrics = running.metrics();
    for want in [
        format!(
            "scheduler_schedule_attempts_total{{result=\"scheduled\",profile=\"{}\"}} 100",
            namespace.name()
        ),
        "scheduler_pending_pods{queue=\"active\"} 0".to_owned(),
        "scheduler_pod_scheduling_attempts_count 100".to_owned(),
    ] {
        assert!(metrics.contains(&want), "{want} in\n{metrics}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unschedulable_pod_says_why_and_is_scheduled_when_a_node_comes() {
    // The text counts nodes, so nobody else may add any.
    let shape = |node: build::NodeBuilder| node.cpu("4").memory("8Gi").pods(10);
    let plane = ControlPlane::builder("driver-unfit")
        .no_crds()
        .audit(Policy::All)
        .kwok(build::nodes("small", 2, |node| {
            shape(node).label("pool", "unfit")
        }))
        .start()
        .await
        .unwrap();
    plane
        .add_nodes([shape(build::node("other")).build()])
        .await
        .unwrap();
    let namespace = plane.namespace("unfit").await.unwrap();
    let running = Running::start(&plane, namespace.name(), |p| p, |_| {}).await;
    let builder = pod(&namespace, "big", "unfit").request("cpu", "64");
    let created = create(&namespace, builder).await;

    let api = namespace.api::<Pod>();
    let unschedulable =
        |pod: &Pod| condition(pod).is_some_and(|c| c.reason.as_deref() == Some("Unschedulable"));
    let waiting = wait_for(&api, "big", unschedulable, LIMIT).await.unwrap();
    let message = condition(&waiting).unwrap().message.clone().unwrap();
    assert_eq!(
        message,
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, \
         2 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: \
         3 Preemption is not helpful for scheduling."
    );
    // As added, and as written by the driver itself.
    running.told.wait("seen big", 2).await;

    // Tried again and again, it costs one event, one series and one condition.
    for attempt in 2..=6 {
        assert!(running.handle.activate(&uid(&created)).is_some());
        running.told.wait("failed big", attempt).await;
    }
    let counted = |event: &Event| event.series.as_ref().is_some_and(|s| s.count >= 2);
    let failed = events(&namespace, "FailedScheduling").await;
    let [event] = &failed[..] else {
        panic!("one event is wanted: {failed:#?}")
    };
    let name = event.metadata.name.clone().unwrap();
    let event = wait_for(&namespace.api::<Event>(), &name, counted, LIMIT)
        .await
        .unwrap();
    assert_eq!(event.note.as_deref(), Some(message.as_str()));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.action.as_deref(), Some("Scheduling"));
    let user = running.user.clone();
    let table = plane
        .audit()
        .unwrap()
        .table(|e| e.user == user)
        .await
        .unwrap();
    let writes = |verb: &str, resource: &str| {
        table
            .get(&(verb.to_owned(), resource.to_owned()))
            .copied()
            .unwrap_or_default()
    };
    assert_eq!(writes("create", "events"), 1, "{table:?}");
    assert_eq!(writes("patch", "events"), 1, "{table:?}");
    assert_eq!(writes("patch", "pods/status"), 1, "{table:?}");

    let node = build::node("unfit-0")
        .cpu("64")
        .memory("64Gi")
        .pods(10)
        .label("pool", "unfit");
    plane.add_nodes([node.build()]).await.unwrap();
    let bound = wait_for(&api, "big", is_bound, LIMIT).await.unwrap();
    assert_eq!(node_of(&bound), Some("unfit-0"));
    assert_eq!(condition(&bound).unwrap().status, "True");
    running.stop().await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gated_pod_is_scheduled_when_its_gate_goes() {
    let plane = plane().await;
    let namespace = plane.namespace("gated").await.unwrap();
    let running = Running::start(&plane, namespace.name(), |p| p, |_| {}).await;
    let builder = pod(&namespace, "gated", "hundred").gate("example.com/wait");
    let created = create(&namespace, builder).await;
    running.told.wait("seen gated", 1).await;
    assert_eq!(running.handle.place(&uid(&created)), Some(Place::Gated));
    assert_eq!(
        running.handle.gate(&uid(&created)).unwrap().plugin,
        "SchedulingGates"
    );

    let api = namespace.api::<Pod>();
    let patch = json!({"spec": {"schedulingGates": []}});
    api.patch("gated", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    wait_for(&api, "gated", is_bound, LIMIT).await.unwrap();
    assert_eq!(running.told.count("failed"), 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_driver_survives_the_end_of_its_api_server() {
    let node = build::node("only")
        .cpu("2")
        .memory("8Gi")
        .pods(10)
        .label("pool", "restart");
    let plane = ControlPlane::builder("driver-restart")
        .no_crds()
        .kwok([node.build()])
        .start()
        .await
        .unwrap();
    let namespace = plane.namespace("restart").await.unwrap();
    let running = Running::start(&plane, namespace.name(), |p| p, |_| {}).await;
    let api = namespace.api::<Pod>();
    create(
        &namespace,
        pod(&namespace, "first", "restart").request("cpu", "2"),
    )
    .await;
    wait_for(&api, "first", is_bound, LIMIT).await.unwrap();
    create(
        &namespace,
        pod(&namespace, "second", "restart").request("cpu", "2"),
    )
    .await;
    running.told.wait("failed second", 1).await;

    plane.kill(Part::ApiServer).await.unwrap();
    plane.restart(Part::ApiServer).await.unwrap();

    let api = namespace.api::<Pod>();
    api.delete("first", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    wait_gone(&api, "first", LIMIT).await.unwrap();
    wait_for(&api, "second", is_bound, LIMIT).await.unwrap();
    running.stop().await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_watches_and_acts_only_once_it_leads() {
    let plane = plane().await;
    let namespace = plane.namespace("standby").await.unwrap();
    plane
        .service_account(namespace.name(), "driver")
        .await
        .unwrap();
    let client = plane
        .service_account_client(namespace.name(), "driver")
        .await
        .unwrap();
    let config = LeaseConfig::with_default_times(namespace.name(), "driver");
    let (elector, leadership) = Elector::new(client, config, "me".to_owned());
    let running = Running::start(
        &plane,
        namespace.name(),
        |p| p,
        |options| options.leadership = leadership,
    )
    .await;
    let created = create(&namespace, pod(&namespace, "a", "hundred")).await;
    running.told.wait("seen a", 1).await;
    assert_eq!(running.handle.place(&uid(&created)), Some(Place::Active));

    let token = CancellationToken::new();
    let electing = tokio::spawn(elector.run(token.clone()));
    wait_for(&namespace.api::<Pod>(), "a", is_bound, LIMIT)
        .await
        .unwrap();
    running.stop().await;
    token.cancel();
    electing.await.unwrap().unwrap();
}
