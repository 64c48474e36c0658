//! What mends itself isn't told: a new Target warns of nothing, and nobody's log of races that were lost over its node.

use std::fs;
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;

use super::{Shop, TARGETS, shared_fleet};

/// What lasts as long is told of a new Target.
const NEW: Duration = Duration::from_secs(5);
/// Where connecting takes so long, races last as long as what is logged.
const SLOW: Duration = Duration::from_secs(45);

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_connects_warns_of_nothing_and_loses_races_in_silence() {
    let fleet = shared_fleet().await;
    let opened = (0..4).map(|number| {
        let fleet = fleet.clone();
        async move {
            let start = Instant::now();
            let shop = Shop::connected(fleet, &format!("quiet-{number}")).await;
            (shop, start.elapsed())
        }
    });
    for (shop, taken) in join_all(opened).await {
        let nodes = TARGETS.map(|target| shop.virtual_node(target));
        let parts = shop.fleet.logs().into_iter().filter(|log| log.is_file());
        for file in parts {
            let log = fs::read_to_string(&file).unwrap();
            let told = log.lines().find(|line| {
                let speaks = nodes.iter().any(|node| line.contains(node));
                speaks && line.contains("virtual node is not as it should be")
            });
            assert!(
                told.is_none() || taken > SLOW,
                "{}: {told:?}",
                file.display()
            );
        }
        let events: Api<Event> = shop.of("source");
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let of_targets = events.iter().filter(|event| {
            let about = event.regarding.as_ref().and_then(|it| it.kind.as_deref());
            about == Some("Target")
        });
        let warns = |event: &&Event| event.type_.as_deref() == Some("Warning");
        let warnings: Vec<_> = of_targets.filter(warns).map(|it| &it.reason).collect();
        assert!(warnings.is_empty() || taken > NEW, "{warnings:?}");
    }
}
