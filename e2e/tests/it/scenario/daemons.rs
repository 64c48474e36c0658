//! Pods of `DaemonSet`s: elected ones stay where their controller wants them, and those on virtual nodes fail, since
//! nothing runs there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::runtime::watcher;
use pilotage_api::keys;
use pilotage_testkit::{build, list_until, wait_count, wait_for, wait_gone};
use serde_json::{Value, json};

use super::{LIMIT, Shop, node_of};

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

/// A DaemonSet that tolerates everything, on one node.
fn everywhere(name: &str, annotations: &Value, node: &str) -> DaemonSet {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name }, "annotations": annotations },
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
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_sets_pod_on_a_virtual_node_fails_and_goes_and_no_deletion_hangs() {
    let shop = Shop::open("strays").await;
    let client = shop.fleet.source.plane.admin();
    let daemons: Api<DaemonSet> = Api::namespaced(client.clone(), &shop.name);
    let node = shop.virtual_node("east");
    let network = everywhere("network", &json!({}), &node);
    daemons
        .create(&PostParams::default(), &network)
        .await
        .unwrap();
    let pods = shop.pods();
    let all = watcher::Config::default;
    let waits = |pod: &Pod| node_of(pod).is_none() && pod.metadata.deletion_timestamp.is_none();
    let (mut before, mut ends) = (None, Vec::new());
    for _ in 0..4 {
        let new = |pod: &Pod| waits(pod) && pod.metadata.uid != before;
        let made = list_until(&pods, all(), |pods| pods.values().any(new), LIMIT).await;
        let made = made.unwrap().into_iter().find(new).unwrap();
        let name = made.metadata.name.unwrap();
        // As the scheduler of the source does.
        let binding = json!({
            "metadata": { "name": name, "namespace": shop.name },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        let params = PostParams::default();
        pods.create_subresource::<Value, Value>("binding", &name, &params, &binding)
            .await
            .unwrap();
        // Its controller deletes it only because it has failed.
        if let Err(error) = wait_gone(&pods, &name, LIMIT).await {
            panic!("{error}\nlogs: {:#?}", shop.fleet.logs());
        }
        before = made.metadata.uid;
        ends.push(Instant::now());
    }
    // Its controller lets one end a second after the one before, the next one after two, then four: it makes no storm.
    let taken = ends[3] - ends[0];
    assert!(taken > Duration::from_secs(5), "{taken:?}");

    // By the affinity that the documents give, none is wanted there, and whoever waits for a rollout is done.
    let apart =
        json!({ "key": keys::PROVIDER, "operator": "NotIn", "values": [keys::PROVIDER_VALUE] });
    let here = json!({ "key": "metadata.name", "operator": "In", "values": [node] });
    let terms = json!([{ "matchFields": [here], "matchExpressions": [apart] }]);
    let affinity = json!({ "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
    } });
    let patch =
        Patch::Strategic(json!({ "spec": { "template": { "spec": { "affinity": affinity } } } }));
    let params = PatchParams::default();
    daemons.patch("network", &params, &patch).await.unwrap();
    let is_unwanted = |daemons: &DaemonSet| {
        let status = daemons.status.as_ref();
        status.is_some_and(|status| {
            status.observed_generation == daemons.metadata.generation
                && status.desired_number_scheduled == 0
        })
    };
    shop.seen(wait_for(&daemons, "network", is_unwanted, LIMIT).await);
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    };
    daemons.delete("network", &params).await.unwrap();
    wait_count(&pods, all(), 0, |_| true, LIMIT).await.unwrap();

    // Somebody's own pod stays there and is told, and its deletion needs no kubelet.
    let mut stray = build::pod("stray").build();
    let spec = stray.spec.as_mut().unwrap();
    spec.node_name = Some(node);
    let stray = shop.create(&stray).await;
    let events: Api<Event> = Api::namespaced(client, &shop.name);
    let told = |event: &Event| {
        let about = event.regarding.as_ref().and_then(|it| it.uid.as_ref());
        event.reason.as_deref() == Some("VirtualNode") && about == stray.metadata.uid.as_ref()
    };
    let note = event(&events, told).await.note.unwrap();
    assert!(note.contains("nothing runs on it"), "{note}");
    shop.delete("stray").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_elected_daemon_set_makes_one_pod_a_node_and_is_told() {
    let shop = Shop::open("daemons").await;
    let client = shop.fleet.source.plane.admin();
    let daemons: Api<DaemonSet> = Api::namespaced(client.clone(), &shop.name);
    let events: Api<Event> = Api::namespaced(client, &shop.name);
    let node = shop.virtual_node("east");
    let logs = everywhere("logs", &json!({ keys::ELECT: "" }), &node);
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
    // It is told before the API server has taken the pod.
    let is_new = |it: &Pod| it.metadata.uid != pod.metadata.uid;
    let all = watcher::Config::default();
    wait_count(&shop.pods(), all, 1, is_new, LIMIT)
        .await
        .unwrap();
    wait_for(&daemons, "logs", is_settled, LIMIT).await.unwrap();
    assert_ne!(only_pod(&shop.pods()).await.metadata.uid, pod.metadata.uid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_set_that_is_elected_later_is_told_and_who_only_asks_is_warned() {
    let shop = Shop::open("later").await;
    let source = &shop.fleet.source.plane;
    let daemons: Api<DaemonSet> = shop.of("source");
    let events: Api<Event> = shop.of("source");
    let logs = everywhere("logs", &json!({}), &shop.virtual_node("east"));
    let logs = daemons.create(&PostParams::default(), &logs).await.unwrap();
    shop.seen(wait_for(&daemons, "logs", is_settled, LIMIT).await);
    let before = only_pod(&shop.pods()).await;

    // A pod as its controller makes them, of which nothing is stored.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": "logs-",
            "annotations": { keys::ELECT: "" },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": logs.metadata.uid,
                "controller": true,
            }],
        },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    let namespace = format!("--namespace={}", shop.name);
    let asking = [
        "create",
        &namespace,
        "--dry-run=server",
        "--warnings-as-errors",
        "--filename=-",
    ];
    let warned = source.kubectl_with_input(&asking, &pod.to_string()).await;
    let warned = warned.unwrap_err().to_string();
    assert!(warned.contains("places its own pods"), "{warned}");

    let elect =
        json!({ "spec": { "template": { "metadata": { "annotations": { keys::ELECT: "" } } } } });
    let params = PatchParams::default();
    daemons
        .patch("logs", &params, &Patch::Merge(elect))
        .await
        .unwrap();
    let told = |event: &Event| {
        let about = event.regarding.as_ref().and_then(|it| it.uid.as_ref());
        event.reason.as_deref() == Some("NotDelegated") && about == logs.metadata.uid.as_ref()
    };
    event(&events, told).await;
    let is_new = |pod: &Pod| pod.metadata.uid != before.metadata.uid;
    let all = watcher::Config::default();
    shop.seen(wait_count(&shop.pods(), all, 1, is_new, LIMIT).await);
    let is_updated = |daemons: &DaemonSet| {
        let status = daemons.status.as_ref();
        is_settled(daemons) && status.is_some_and(|it| it.updated_number_scheduled == Some(1))
    };
    shop.seen(wait_for(&daemons, "logs", is_updated, LIMIT).await);
    let pod = only_pod(&shop.pods()).await;
    let annotations = pod.metadata.annotations.unwrap();
    assert!(annotations.contains_key(keys::ELECT));
    assert!(!annotations.contains_key(keys::SOURCE_POD_MANIFEST));
}
