//! What is told before this process leads, and after.

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use pilotage_runtime::lease::{Elector, LeaseConfig};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::stage::{LIMIT, Stage, Way};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_before_the_election_is_told_after_it() {
    let stage = Stage::new("election").await;
    let unreadable = json!({"status": {"allocatable": {"shoots": "many"}}});
    let seeds = ["broken", "mended"].map(|name| stage.base.seed(name, &unreadable));
    stage.put(seeds).await;
    let mut config = stage.base.config.clone();
    config["data"] = json!({"europe": "{"});
    stage.put([config]).await;
    let lease = LeaseConfig::with_default_times("garden", "election");
    let (elector, leadership) = Elector::new(stage.admin.clone(), lease, "it".to_owned());
    let running = stage.scheduler_by(Way::Elected(leadership), |_| {}).await;
    // It has listed everything, and may not write.
    let events: Api<Event> = Api::all(stage.admin.clone());
    let told = async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        let ours = all.items.into_iter().filter(|event| {
            let by = event.reporting_controller.as_deref();
            by == Some("shoot-scheduler")
        });
        let mut told: Vec<_> = ours
            .filter_map(|event| Some((event.regarding?.name?, event.reason?)))
            .collect();
        told.sort();
        told
    };
    assert_eq!(told().await, []);
    let patch = json!({"status": {"allocatable": {"shoots": 3}}});
    stage.patch("Seed", "", "mended", &patch).await;
    let seen = async {
        while running.metric("pilotage_shoots_seeds") != 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, seen)
        .await
        .expect("the Seed is seen");

    let stop = CancellationToken::new();
    let election = tokio::spawn(elector.run(stop.clone()));
    stage.garden_event("MalformedRegionConfig").await;
    stage.reason("broken", "UnreadableSeed").await;
    running.stop().await;
    let name = |name: &str| name.to_owned();
    assert_eq!(
        told().await,
        [
            (name("broken"), name("UnreadableSeed")),
            (name("distances"), name("MalformedRegionConfig")),
        ]
    );
    stop.cancel();
    election.await.unwrap().unwrap();
    stage.plane.stop().await;
}
