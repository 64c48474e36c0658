//! A pod of Kubernetes' own scheduler takes the room between the reservation of a node and its grant.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use pilotage_api::{PodChaperon, keys};
use pilotage_e2e::fleet::{Side, lone};
use pilotage_testkit::build::{node, pod};
use pilotage_testkit::{ControlPlane, unique, wait_for, wait_gone};
use serde_json::{Value, json};

use super::{LIMIT, node_of};

fn annotation<'a>(chaperon: &'a PodChaperon, key: &str) -> &'a str {
    chaperon.annotations().get(key).map_or("", String::as_str)
}

/// The chaperon that a source would create, which is played here: so it can take its time with the grant.
fn chaperon(name: &str, cpu: &str) -> PodChaperon {
    let annotations =
        json!({ keys::ATTEMPT: "0", keys::ALLOWED_ATTEMPT: "0", keys::PARENT_NAME: "parent" });
    let labels = json!({ keys::PARENT_UID: unique(), keys::PARENT_CLUSTER_UID: unique() });
    let mut spec = pod(name)
        .request("cpu", cpu)
        .scheduler(keys::CANDIDATE_SCHEDULER)
        .value();
    let chaperon = json!({
        "apiVersion": format!("{}/{}", pilotage_api::GROUP, pilotage_api::VERSION),
        "kind": "PodChaperon",
        "metadata": { "name": name, "annotations": annotations, "labels": labels },
        "spec": spec["spec"].take(),
    });
    serde_json::from_value(chaperon).unwrap()
}

/// As the source grants: only the attempt that it saw, and only while that holds a node.
fn grant(chaperon: &PodChaperon) -> Patch<Value> {
    let path = |key: &str| format!("/metadata/annotations/{}", key.replace('/', "~1"));
    let attempt = annotation(chaperon, keys::ATTEMPT);
    let patch = json!([
        { "op": "test", "path": "/metadata/uid", "value": chaperon.uid() },
        { "op": "test", "path": path(keys::ATTEMPT), "value": attempt },
        { "op": "test", "path": path(keys::IS_RESERVED), "value": keys::TRUE },
        { "op": "add", "path": path(keys::ALLOWED_ATTEMPT), "value": attempt },
        { "op": "add", "path": path(keys::IS_ALLOWED), "value": keys::TRUE },
        { "op": "add", "path": "/metadata/finalizers", "value": [keys::DELEGATE_GONE] },
    ]);
    Patch::Json(serde_json::from_value(patch).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reserved_node_that_somebody_else_filled_is_taken_back() {
    // A target alone: the source is played here. Its one node has room for one of the two pods.
    let plane = ControlPlane::builder("race")
        .controller_manager()
        .scheduler()
        .kwok([node("only").cpu("1").build()]);
    let mut target = lone(plane, Side::Target).await.unwrap();
    target.install().await.unwrap();
    let client = target.plane.admin();
    let chaperons: Api<PodChaperon> = Api::namespaced(client.clone(), "default");
    let delegates: Api<Pod> = Api::namespaced(client, "default");
    let create = async |object: PodChaperon| {
        let params = PostParams::default();
        chaperons.create(&params, &object).await.unwrap();
    };
    create(chaperon("slow", "700m")).await;
    let is_reserved =
        |chaperon: &PodChaperon| annotation(chaperon, keys::IS_RESERVED) == keys::TRUE;
    wait_for(&chaperons, "slow", is_reserved, LIMIT)
        .await
        .unwrap();

    // Holds are invisible to others: the stock scheduler finds the node empty.
    let rival = pod("rival").request("cpu", "700m").build();
    delegates
        .create(&PostParams::default(), &rival)
        .await
        .unwrap();
    wait_for(&delegates, "rival", |pod| node_of(pod).is_some(), LIMIT)
        .await
        .unwrap();
    // Its answer about a later pod shows that the candidate scheduler has seen the rival.
    create(chaperon("later", "9")).await;
    let refusal = |chaperon: &PodChaperon| !annotation(chaperon, keys::REFUSAL).is_empty();
    wait_for(&chaperons, "later", refusal, LIMIT).await.unwrap();

    // Either the grant meets the hold and the re-check refuses, or the candidate has seen it by itself before.
    let now = chaperons.get("slow").await.unwrap();
    if is_reserved(&now) {
        let granted = chaperons
            .patch("slow", &PatchParams::default(), &grant(&now))
            .await;
        let lost_race = matches!(&granted, Err(kube::Error::Api(status)) if status.code == 422);
        assert!(granted.is_ok() || lost_race, "{granted:?}");
    }
    let is_refused = |chaperon: &PodChaperon| {
        annotation(chaperon, keys::IS_RESERVED).is_empty()
            && !annotation(chaperon, keys::REFUSAL).is_empty()
    };
    let refused = wait_for(&chaperons, "slow", is_refused, LIMIT)
        .await
        .unwrap();
    let attempt: u64 = annotation(&refused, keys::ATTEMPT).parse().unwrap();
    assert!(attempt >= 2, "{:?}", refused.annotations());
    let candidate = delegates.get("slow").await.unwrap();
    assert_eq!(
        node_of(&candidate),
        None,
        "bound although the node was full"
    );

    // Once there is room again, the candidate reserves anew, under a number that nobody has granted.
    delegates
        .delete("rival", &DeleteParams::default())
        .await
        .unwrap();
    let again = wait_for(&chaperons, "slow", is_reserved, LIMIT)
        .await
        .unwrap();
    let newer: u64 = annotation(&again, keys::ATTEMPT).parse().unwrap();
    assert!(newer > attempt);
    assert_eq!(
        node_of(&delegates.get("slow").await.unwrap()),
        None,
        "bound by an old grant"
    );

    chaperons
        .patch("slow", &PatchParams::default(), &grant(&again))
        .await
        .unwrap();
    wait_for(&delegates, "slow", |pod| node_of(pod).is_some(), LIMIT)
        .await
        .unwrap();
    chaperons
        .delete("slow", &DeleteParams::background())
        .await
        .unwrap();
    wait_gone(&chaperons, "slow", LIMIT).await.unwrap();
    target.stop().await;
}
