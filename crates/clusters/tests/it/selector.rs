//! What leaves a selector, as the API server tells it.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use pilotage_clusters::{Event, Watch, WatchConfig};
use pilotage_testkit::build;
use serde_json::json;
use tokio::time::timeout;

use crate::bench::{Bench, LIMIT};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_relabelled_while_it_ends_is_not_gone() {
    let bench = Bench::start("selector").await;
    let selector = WatchConfig::all().labels("tier");
    let admin = bench.plane.admin();
    let watch: Watch<Pod> = Watch::of_namespace(admin, bench.name(), selector, &bench.stop);
    let mut feed = watch.subscribe();
    // What it lists only then it wouldn't be told of.
    watch.synced().await;
    let pods: Api<Pod> = bench.admin();
    for name in ["relabelled", "ended"] {
        let pod = build::pod(name).label("tier", "gold").node_name("nowhere");
        let (post, grace) = (
            PostParams::default(),
            DeleteParams::default().grace_period(30),
        );
        pods.create(&post, &pod.build()).await.unwrap();
        pods.delete(name, &grace).await.unwrap();
    }
    let bare = Patch::Merge(json!({ "metadata": { "labels": null } }));
    pods.patch("relabelled", &PatchParams::default(), &bare)
        .await
        .unwrap();
    // As a kubelet does when its containers have ended.
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete("ended", &at_once).await.unwrap();

    let mut seen = Vec::new();
    let told = async {
        while seen.len() < 2 {
            let (word, pod) = match feed.recv().await.expect("the watch lives") {
                Event::Deleted(pod) => ("deleted", pod),
                Event::Gone(pod) => ("gone", pod),
                Event::Applied(_) | Event::Synced => continue,
            };
            seen.push((pod.metadata.name.clone().unwrap_or_default(), word));
        }
    };
    let in_time = timeout(LIMIT, told).await;
    assert!(in_time.is_ok(), "{seen:?}");
    let want = [("relabelled", "gone"), ("ended", "deleted")];
    assert_eq!(seen, want.map(|(name, word)| (name.to_owned(), word)));
}
