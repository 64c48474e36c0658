//! Two sources share one namespace of a target, with pods of equal names, and neither touches what is the other's.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams, WatchParams};
use kube::{Api, ResourceExt};
use pilotage_api::keys;
use pilotage_e2e::fleet::{Fleet, Side, lone};
use pilotage_testkit::build::pod;
use pilotage_testkit::{Change, ControlPlane, Recorder, wait_for, wait_gone};

use super::place::{LIMIT, Place, is_running, parent};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sources_do_not_touch_each_others_pods() {
    let place = Place::open("shared", &["t1"]).await;
    let plane = ControlPlane::builder("source-b").controller_manager();
    let mut other = lone(plane, Side::Source).await.unwrap();
    other.install().await.unwrap();
    other
        .plane
        .named_namespace(&place.namespace, BTreeMap::new())
        .await
        .unwrap()
        .keep();
    let other = Fleet {
        source: other,
        targets: Vec::new(),
    };
    other.elect(&place.namespace).await.unwrap();
    other
        .add_target(place.target("t1"), &place.namespace)
        .await
        .unwrap();
    let others: Api<Pod> = Api::namespaced(other.source.plane.admin(), &place.namespace);

    let mine = place
        .create(&pod("same").elect().request("cpu", "100m").build())
        .await;
    let theirs = others
        .create(&PostParams::default(), &pod("same").elect().build())
        .await
        .unwrap();
    place.runs("same").await;
    wait_for(&others, "same", is_running, LIMIT).await.unwrap();
    let delegates = place.delegates("t1");
    let all = delegates
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let parents: BTreeSet<_> = all.iter().map(parent).collect();
    assert_eq!(
        parents,
        BTreeSet::from([mine.uid().unwrap(), theirs.uid().unwrap()])
    );
    let clusters: BTreeSet<_> = all
        .iter()
        .filter_map(|pod| pod.labels().get(keys::PARENT_CLUSTER_UID))
        .collect();
    assert_eq!(clusters.len(), 2, "delegates name their source");

    // One source deletes its pod: the other's delegate sees nothing of it.
    let recorder = Recorder::start(delegates, WatchParams::default())
        .await
        .unwrap();
    others
        .delete("same", &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&others, "same", LIMIT).await.unwrap();
    let gone = recorder
        .wait_until(
            |events| events.iter().any(|event| event.change == Change::Deleted),
            LIMIT,
        )
        .await
        .unwrap();
    let deleted = gone.iter().filter(|event| event.change == Change::Deleted);
    let deleted: Vec<_> = deleted.map(|event| parent(&event.object)).collect();
    assert_eq!(deleted, [theirs.uid().unwrap()]);
    assert!(is_running(&place.pods().get("same").await.unwrap()));
    other.stop().await;
    place.close().await;
}
