//! Needs that no plugin knows: the pod is refused by their names, and isn't bound as if it had none.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams};
use pilotage_testkit::{build, create, wait_for};
use serde_json::{Value, json};

use crate::stage::{LIMIT, Stage};

/// What the message says, and the parts of a pod's spec that need it.
fn needs() -> [(&'static str, &'static str, Value); 4] {
    let volume = |source: Value| json!({ "volumes": [source] });
    let template = json!({ "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
    } });
    [
        (
            "claim",
            "persistent volumes",
            volume(json!({ "name": "v", "persistentVolumeClaim": { "claimName": "data" } })),
        ),
        (
            "ephemeral",
            "generic ephemeral volumes",
            volume(json!({ "name": "v", "ephemeral": { "volumeClaimTemplate": template } })),
        ),
        (
            "disk",
            "in-tree disks",
            volume(json!({ "name": "v", "gcePersistentDisk": { "pdName": "data" } })),
        ),
        (
            "device",
            "resource claims",
            json!({ "resourceClaims": [{ "name": "gpu", "resourceClaimName": "gpu" }] }),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_plugin_knows_is_refused_by_its_name() {
    let stage = Stage::new("needs").await;
    let pods = stage.pods(&stage.honest);
    for (name, _, spec) in needs() {
        let mut pod = serde_json::to_value(build::pod(name).elect().build()).unwrap();
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        let pod = serde_json::from_value(pod).unwrap();
        create(&pods, &pod).await.unwrap();
    }
    for (name, need, _) in needs() {
        let words = format!("needs {need}, which this candidate scheduler doesn't know yet");
        let is_told = |pod: &Pod| {
            let status = pod.status.iter();
            let conditions = status.flat_map(|status| status.conditions.iter().flatten());
            let mut told = conditions.filter_map(|condition| condition.message.as_deref());
            told.any(|message| message.contains(&words))
        };
        if let Err(error) = wait_for(&pods, name, is_told, LIMIT).await {
            panic!("{need}: {error}\nlogs: {:#?}", stage.fleet.logs());
        }
    }
    stage.is_well("beside").await;
    // Nobody was bound meanwhile, neither here nor there.
    for plane in [&stage.fleet.source.plane, &stage.fleet.targets[0].plane] {
        let there: Api<Pod> = Api::namespaced(plane.admin(), &stage.honest);
        let there = there.list(&ListParams::default()).await.unwrap();
        let bound = there.items.iter().filter(|pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
            node.is_some()
        });
        let bound: Vec<_> = bound.map(|pod| pod.metadata.name.as_deref()).collect();
        assert_eq!(bound, [None::<&str>; 0]);
    }
    for (name, _, _) in needs() {
        pods.delete(name, &DeleteParams::default()).await.unwrap();
    }
}
