//! Pods that fit nowhere are told why, one short reason a target, and go on when room comes.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::runtime::watcher;
use pilotage_api::keys;
use pilotage_testkit::{build, list_until, wait_for};
use serde_json::json;

use super::{LIMIT, Shop, TARGETS, elected, scheduled};

/// Whether a pod is told what each target has against it; how many nodes that are depends on other tests.
fn is_told(shop: &Shop, pod: &Pod) -> bool {
    scheduled(pod).is_some_and(|(status, reason, message)| {
        let told = TARGETS.iter().all(|target| {
            let refused = format!("{} refused [", shop.virtual_node(target));
            let why = message.split_once(&refused).map_or("", |(_, why)| why);
            let why = why.trim_start_matches(|c: char| c.is_ascii_digit());
            why.starts_with(" Insufficient cpu")
        });
        status == "False" && reason == "Unschedulable" && told
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_fits_nowhere_says_why_and_runs_when_a_node_comes() {
    let shop = Shop::open("nowhere").await;
    shop.create(&elected("giant", "64")).await;
    let told = |pod: &Pod| is_told(&shop, pod);
    let giant = shop.seen(wait_for(&shop.pods(), "giant", told, LIMIT).await);
    let (_, _, said) = scheduled(&giant).unwrap();
    // Condition and event are two writes of one text.
    let tells = |event: &Event| {
        let about = event.regarding.as_ref().and_then(|it| it.name.as_deref());
        about == Some("giant")
            && event.reason.as_deref() == Some("FailedScheduling")
            && event.note.as_deref() == Some(said)
    };
    let events: Api<Event> = shop.of("source");
    let all = watcher::Config::default();
    shop.seen(list_until(&events, all, |all| all.values().any(tells), LIMIT).await);
    let described = shop
        .fleet
        .source
        .plane
        .kubectl(&["-n", &shop.name, "describe", "pod", "giant"])
        .await
        .unwrap();
    assert!(described.contains("FailedScheduling"), "{described}");

    let node = build::node("giant-node")
        .cpu("96")
        .memory("256Gi")
        .pods(10)
        .build();
    shop.target("west").plane.add_nodes([node]).await.unwrap();
    let proxy = shop.running("giant").await;
    let (target, delegate) = shop.delegate(&proxy).await;
    assert_eq!(
        (target, super::node_of(&delegate)),
        ("west", Some("giant-node"))
    );
    shop.delete("giant").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_with_claims_of_devices_is_refused_by_their_name_in_each_target() {
    let shop = Shop::open("devices").await;
    let mut pod = elected("trainer", "100m");
    let claims = json!([{ "name": "gpu", "resourceClaimName": "gpu" }]);
    pod.spec.as_mut().unwrap().resource_claims = serde_json::from_value(claims).unwrap();
    shop.create(&pod).await;
    let told = |pod: &Pod| {
        scheduled(pod).is_some_and(|(status, _, message)| {
            let refused = TARGETS.iter().all(|target| {
                let node = shop.virtual_node(target);
                message.contains(&format!("{node} refused [needs resource claims"))
            });
            // And what to do.
            let way_out = format!("(only with the annotation {})]", keys::NO_RESERVATION);
            status == "False" && refused && message.contains(&way_out)
        })
    };
    shop.seen(wait_for(&shop.pods(), "trainer", told, LIMIT).await);
    shop.delete("trainer").await;
}
