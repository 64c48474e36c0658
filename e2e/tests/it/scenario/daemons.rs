//! Elected pods of a DaemonSet stay where its controller wants them, and its author is told.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::runtime::watcher;
use pilotage_api::keys;
use pilotage_testkit::{list_until, wait_for};
use serde_json::json;

use super::{LIMIT, Shop};

/// As many pods as the controller wants are where it wants them: it knows them as its own.
fn is_settled(daemons: &DaemonSet) -> bool {
    daemons.status.as_ref().is_some_and(|status| {
        status.observed_generation == daemons.metadata.generation
            && (
                status.desired_number_scheduled,
                status.current_number_scheduled,
            ) == (1, 1)
    })
}

/// Waits until some event is like this; returns it.
async fn event(events: &Api<Event>, like: impl Fn(&Event) -> bool) -> Event {
    let any = |seen: &BTreeMap<_, Event>| seen.values().any(&like);
    let seen = list_until(events, watcher::Config::default(), any, LIMIT).await;
    seen.unwrap().into_iter().find(&like).unwrap()
}

async fn only_pod(pods: &Api<Pod>) -> Pod {
    let mut found = pods.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_elected_daemon_set_makes_one_pod_a_node_and_is_told() {
    let shop = Shop::open("daemons").await;
    let client = shop.fleet.source.plane.admin();
    let daemons: Api<DaemonSet> = Api::namespaced(client.clone(), &shop.name);
    let events: Api<Event> = Api::namespaced(client, &shop.name);
    let node = shop.virtual_node("east");
    let logs = serde_json::from_value(json!({
        "metadata": { "name": "logs" },
        "spec": {
            "selector": { "matchLabels": { "app": "logs" } },
            "template": {
                "metadata": { "labels": { "app": "logs" }, "annotations": { keys::ELECT: "" } },
                "spec": {
                    "containers": [{ "name": "c", "image": "i" }],
                    "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{ "matchFields": [
                            { "key": "metadata.name", "operator": "In", "values": [node] },
                        ] }],
                    } } },
                    "tolerations": [{ "operator": "Exists" }],
                },
            },
        },
    }))
    .unwrap();
    let logs = daemons.create(&PostParams::default(), &logs).await.unwrap();
    let settled = wait_for(&daemons, "logs", is_settled, LIMIT).await;
    if let Err(error) = settled {
        panic!("{error}\nlogs: {:#?}", shop.fleet.logs());
    }
    let pod = only_pod(&shop.pods()).await;
    assert_eq!(pod.metadata.finalizers, None);
    let annotations = pod.metadata.annotations.clone().unwrap();
    assert!(!annotations.contains_key(keys::SOURCE_POD_MANIFEST));

    let told = |event: &Event| {
        event.reason.as_deref() == Some("NotDelegated")
            && event
                .regarding
                .as_ref()
                .and_then(|object| object.uid.as_ref())
                == logs.metadata.uid.as_ref()
    };
    let note = event(&events, told).await.note.unwrap();
    assert!(
        note.starts_with("DaemonSet \"logs\" places its own pods"),
        "{note}"
    );

    // Its next pod is told in the same event.
    let name = pod.metadata.name.as_deref().unwrap();
    let at_once = DeleteParams::default().grace_period(0);
    shop.pods().delete(name, &at_once).await.unwrap();
    let again = |event: &Event| told(event) && event.series.is_some();
    event(&events, again).await;
    wait_for(&daemons, "logs", is_settled, LIMIT).await.unwrap();
    assert_ne!(only_pod(&shop.pods()).await.metadata.uid, pod.metadata.uid);
}
