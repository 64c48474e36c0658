//! Preemption on a real API server: who has to go is told why, and goes; who needs the room gets it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use pilotage_sched_driver::DriverOptions;
use pilotage_testkit::audit::Policy;
use pilotage_testkit::{ControlPlane, build, list_until, wait_for, wait_gone};
use serde_json::json;

use crate::fixture::{LIMIT, Running, create, node_of};

fn target(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|it| it.type_ == "DisruptionTarget")
}

fn is_deleting(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dear_pod_gets_the_room_of_cheaper_ones() {
    let plane = ControlPlane::builder("driver-preempt")
        .no_crds()
        .audit(Policy::All)
        .kwok([build::node("only").cpu("4").memory("8Gi").pods(10).build()])
        .start()
        .await
        .unwrap();
    let classes: Api<PriorityClass> = Api::all(plane.admin());
    let class = json!({ "metadata": { "name": "dear" }, "value": 1000 });
    let class = serde_json::from_value(class).unwrap();
    classes
        .create(&PostParams::default(), &class)
        .await
        .unwrap();
    let namespace = plane.namespace("preempt").await.unwrap();
    // Who waits for room is tried as soon as it is there, whatever its back-off.
    let patient = |options: &mut DriverOptions| {
        let queue = &mut options.config.queue;
        queue.initial_backoff = Duration::from_hours(1);
        queue.max_backoff = Duration::from_hours(1);
    };
    let running = Running::start(&plane, namespace.name(), |p| p, patient).await;
    let pods = namespace.api::<Pod>();
    // Nobody lets a pod with a finalizer go before a test has looked at it.
    let victim = |name: &str| {
        let pod = build::pod(name).scheduler(namespace.name());
        pod.request("cpu", "2").tweak(|pod| {
            pod.metadata.finalizers = Some(vec!["example.com/look".to_owned()]);
        })
    };
    let budget = json!({
        "metadata": { "name": "kept" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "kept" } } },
    });
    let budgets = namespace.api::<PodDisruptionBudget>();
    let budget = serde_json::from_value(budget).unwrap();
    budgets
        .create(&PostParams::default(), &budget)
        .await
        .unwrap();
    for name in ["kept", "spare"] {
        let mut object = victim(name).build();
        object.metadata.labels = Some([("app".to_owned(), name.to_owned())].into());
        pods.create(&PostParams::default(), &object).await.unwrap();
        wait_for(&pods, name, |pod| node_of(pod).is_some(), LIMIT)
            .await
            .unwrap();
    }

    let dear = build::pod("dear")
        .scheduler(namespace.name())
        .priority_class("dear");
    create(&namespace, dear.request("cpu", "2")).await;
    let going = wait_for(&pods, "spare", is_deleting, LIMIT).await.unwrap();
    let condition = target(&going).unwrap();
    assert_eq!(condition.status, "True");
    assert_eq!(condition.reason.as_deref(), Some("PreemptionByScheduler"));
    let message = format!(
        "{}: preempting to accommodate a higher priority pod",
        namespace.name()
    );
    assert_eq!(condition.message.as_ref(), Some(&message));
    assert_eq!(condition.observed_generation, Some(1));
    let dear = wait_for(
        &pods,
        "dear",
        |pod| {
            let status = pod.status.as_ref();
            status.and_then(|status| status.nominated_node_name.as_deref()) == Some("only")
        },
        LIMIT,
    )
    .await
    .unwrap();
    assert_eq!(node_of(&dear), None, "it waits for the room");

    let is_it = |event: &Event| event.reason.as_deref() == Some("Preempted");
    let events = namespace.api::<Event>();
    let all = list_until(
        &events,
        watcher::Config::default(),
        |all| all.values().any(is_it),
        LIMIT,
    );
    let told: Vec<_> = all.await.unwrap().into_iter().filter(is_it).collect();
    let [event] = &told[..] else {
        panic!("one event is wanted: {told:#?}")
    };
    let note = format!("Preempted by pod {} on node only", dear.uid().unwrap());
    assert_eq!(event.note.as_ref(), Some(&note));
    assert_eq!(event.action.as_deref(), Some("Preempting"));
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(
        event.regarding.as_ref().unwrap().name.as_deref(),
        Some("spare")
    );
    assert_eq!(
        event.related.as_ref().unwrap().name.as_deref(),
        Some("dear")
    );
    assert_eq!(
        event.reporting_controller.as_deref(),
        Some(namespace.name())
    );

    // Its end is what the other one waits for.
    let free = json!({ "metadata": { "finalizers": null } });
    let params = kube::api::PatchParams::default();
    let patch = kube::api::Patch::Merge(free);
    pods.patch("spare", &params, &patch).await.unwrap();
    let zero = DeleteParams::default().grace_period(0);
    let _ = pods.delete("spare", &zero).await;
    wait_gone(&pods, "spare", LIMIT).await.unwrap();
    wait_for(&pods, "dear", |pod| node_of(pod).is_some(), LIMIT)
        .await
        .unwrap();
    let kept = pods.get("kept").await.unwrap();
    assert!(!is_deleting(&kept) && target(&kept).is_none());

    let user = running.user.clone();
    let ours = |entry: &pilotage_testkit::audit::Entry| entry.user == user;
    let entries = plane.audit().unwrap().entries().await.unwrap();
    let refused: Vec<_> = entries
        .iter()
        .filter(|entry| ours(entry) && entry.code == 403)
        .collect();
    assert!(refused.is_empty(), "the role lacks something: {refused:#?}");
    let deleted = entries
        .iter()
        .filter(|entry| ours(entry) && entry.verb == "delete");
    assert_eq!(deleted.count(), 1, "nobody is evicted twice");
    running.stop().await;
    plane.stop().await;
}
