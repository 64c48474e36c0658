//! Pods that fit nowhere, or that a target's admission refuses: their author is told why, a target in one reason.

use kube::api::PostParams;
use pilotage_testkit::build::pod;
use pilotage_testkit::wait_for;
use serde_json::json;

use super::place::{LIMIT, Place, TARGETS, node_of, unscheduled};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_fits_nowhere_is_told_one_short_reason_a_target() {
    let place = Place::open("nowhere", &TARGETS).await;
    // Each target has 32 CPUs, but no node with more than 8.
    place
        .create(&pod("huge").elect().request("cpu", "20").build())
        .await;
    let is_explained = |pod: &_| {
        unscheduled(pod).is_some_and(|(_, message)| {
            TARGETS.iter().all(|target| message.contains(target)) && message.contains("cpu")
        })
    };
    let huge = wait_for(&place.pods(), "huge", is_explained, LIMIT)
        .await
        .unwrap();
    let (reason, message) = unscheduled(&huge).unwrap();
    assert_eq!(reason, "Unschedulable");
    assert!(message.len() < 400, "{message}");
    assert_eq!(node_of(&huge), "");

    let source = &place.fleet.source.plane;
    let described = source
        .kubectl(&["describe", "pod", "huge", "-n", &place.namespace])
        .await
        .unwrap();
    assert!(described.contains("cpu"), "{described}");
    assert!(described.contains("FailedScheduling"), "{described}");
    place.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_by_admission_is_an_answer() {
    let place = Place::open("quota", &TARGETS).await;
    let quota = json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": { "name": "none", "namespace": place.namespace },
        "spec": { "hard": { "pods": "0" } },
    });
    for target in ["t1", "t2"] {
        let plane = &place.target(target).plane;
        plane.apply_yaml(&quota.to_string()).await.unwrap();
        let quotas: kube::Api<k8s_openapi::api::core::v1::ResourceQuota> =
            kube::Api::namespaced(plane.admin(), &place.namespace);
        let counts = |quota: &k8s_openapi::api::core::v1::ResourceQuota| {
            quota
                .status
                .as_ref()
                .is_some_and(|status| status.used.is_some())
        };
        wait_for(&quotas, "none", counts, LIMIT).await.unwrap();
    }
    for index in 0..4 {
        let pod = pod(&format!("p-{index}"))
            .elect()
            .request("cpu", "100m")
            .build();
        place
            .pods()
            .create(&PostParams::default(), &pod)
            .await
            .unwrap();
    }
    for index in 0..4 {
        let pod = place.runs(&format!("p-{index}")).await;
        assert_eq!(node_of(&pod), place.node("t3"));
    }
    // Now nowhere is left.
    place
        .target("t3")
        .plane
        .apply_yaml(&quota.to_string())
        .await
        .unwrap();
    place.create(&pod("late").elect().build()).await;
    let is_explained = |pod: &_| {
        unscheduled(pod)
            .is_some_and(|(_, message)| message.matches("quota").count() >= TARGETS.len())
    };
    wait_for(&place.pods(), "late", is_explained, LIMIT)
        .await
        .unwrap();
    place.close().await;
}
