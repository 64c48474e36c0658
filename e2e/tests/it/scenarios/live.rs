//! Targets come, change their credentials, break and mend, and nothing is restarted.

use kube::Api;
use pilotage_api::Target;
use pilotage_e2e::fleet::secret;
use pilotage_testkit::build::pod;
use pilotage_testkit::wait_for;

use super::place::{LIMIT, Place, node_of, unscheduled};

/// Status and reason of the condition `Connected`.
fn connected(target: &Target) -> (String, String) {
    let conditions = target
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice());
    conditions
        .unwrap_or_default()
        .iter()
        .find(|condition| condition.type_ == "Connected")
        .map(|condition| (condition.status.clone(), condition.reason.clone()))
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_added_live_takes_a_waiting_pod() {
    let place = Place::open("added", &[]).await;
    place
        .create(&pod("early").elect().request("cpu", "100m").build())
        .await;
    wait_for(
        &place.pods(),
        "early",
        |pod| unscheduled(pod).is_some(),
        LIMIT,
    )
    .await
    .unwrap();
    place.add_target("t2").await;
    assert_eq!(node_of(&place.runs("early").await), place.node("t2"));
    place.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_secret_is_taken_and_a_broken_one_is_explained() {
    let place = Place::open("rotated", &["t1"]).await;
    let source = &place.fleet.source.plane;
    let target = place.target("t1");
    let targets: Api<Target> = Api::namespaced(source.admin(), &place.namespace);

    // Another account: what is done from now on must be done as it.
    let kubeconfig = target.let_in("rotated", &place.namespace).await.unwrap();
    let rotated = secret("t1", &place.namespace, &kubeconfig);
    source.apply_yaml(&rotated.to_string()).await.unwrap();
    place
        .create(&pod("a").elect().request("cpu", "100m").build())
        .await;
    place.runs("a").await;
    let user = format!("system:serviceaccount:{}:rotated", place.namespace);
    let asked = target
        .plane
        .audit()
        .unwrap()
        .count(|entry| entry.user == user && entry.accepted() && entry.verb == "create")
        .await
        .unwrap();
    assert!(asked > 0, "nobody used the new account");

    let broken = secret("t1", &place.namespace, "this is no kubeconfig");
    source.apply_yaml(&broken.to_string()).await.unwrap();
    let is_lost = |target: &Target| connected(target).0 == "False";
    let lost = wait_for(&targets, "t1", is_lost, LIMIT).await.unwrap();
    assert!(!connected(&lost).1.is_empty());
    // A lost target keeps its pods, and takes no new ones.
    place
        .create(&pod("b").elect().request("cpu", "100m").build())
        .await;
    wait_for(&place.pods(), "b", |pod| unscheduled(pod).is_some(), LIMIT)
        .await
        .unwrap();
    assert_eq!(
        node_of(&place.pods().get("a").await.unwrap()),
        place.node("t1")
    );

    source.apply_yaml(&rotated.to_string()).await.unwrap();
    assert_eq!(node_of(&place.runs("b").await), place.node("t1"));
    place.close().await;
}
