//! What may be elected fits into its share wherever its chaperon is watched, with all that an honest target says of it.

use pilotage_api::{keys, limits};
use pilotage_model::{burden, chaperon::chaperon};
use pilotage_proxy::slim::is_slim;
use pilotage_runtime::weight;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const DIGEST: &str = "registry.example.com/some/team/some-image@sha256:\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const TIME: &str = "2026-01-01T00:00:00Z";

fn many(prefix: &str, count: usize) -> Value {
    let all = (0..count).map(|number| (format!("{prefix}{number}"), json!("true")));
    Value::Object(all.collect())
}

/// All that a kubelet says of a container.
fn status(container: &Value) -> Value {
    let amounts = json!({ "cpu": "1500m", "memory": "4Gi", "ephemeral-storage": "10Gi" });
    let mounts = container["volumeMounts"].as_array();
    let mounts = mounts.into_iter().flatten().map(|mount| {
        json!({ "name": mount["name"], "mountPath": mount["mountPath"], "readOnly": true,
            "recursiveReadOnly": "Disabled" })
    });
    json!({
        "name": container["name"], "image": DIGEST, "imageID": DIGEST, "containerID": DIGEST,
        "ready": true, "started": true, "restartCount": 17,
        "state": { "running": { "startedAt": TIME } },
        "lastState": { "terminated": {
            "exitCode": 137, "signal": 9, "reason": "OOMKilled", "startedAt": TIME, "finishedAt": TIME,
            "containerID": DIGEST,
        } },
        "allocatedResources": amounts, "resources": { "limits": amounts, "requests": amounts },
        "volumeMounts": mounts.collect::<Vec<_>>(),
        "user": { "linux": { "uid": 1000, "gid": 1000, "supplementalGroups": [1000, 2000, 3000] } },
    })
}

fn condition(type_: &str) -> Value {
    json!({
        "type": type_, "status": "True", "observedGeneration": 1, "lastProbeTime": null, "lastTransitionTime": TIME,
        "reason": "AReasonOfSomeLength", "message": "a message that is as long as those of kubelets are",
    })
}

pilotage_absurd::properties! {
    #[test]
    fn what_may_be_elected_is_kept_whole(
        annotations in 0..9000_usize, labels in 0..9000_usize, containers in 1..120_usize, mounts in 0..20_usize,
    ) {
        let mount = json!({ "name": "a-volume", "mountPath": "/var/lib/some/where" });
        let container = json!({ "name": "app", "image": "a", "volumeMounts": vec![mount; mounts] });
        let containers = vec![container; containers];
        let source = json!({
            "metadata": { "name": "web-1", "labels": many("l", labels), "annotations": many("a", annotations) },
            "spec": { "containers": containers, "terminationGracePeriodSeconds": 30 },
        });
        let fits = burden::check_source(&source, weight::of).is_ok();
        let link = pilotage_api::parent::ParentLink {
            cluster_uid: Some(ClusterUid("0123".repeat(9))),
            cluster_name: None,
            uid: "4567".repeat(9),
            namespace: "shop".to_owned(),
            name: "web-1".to_owned(),
        };
        let mut stored = chaperon(&source, &link).unwrap();
        prop_assert!(!fits || burden::check(&stored, weight::of).is_ok());
        stored["metadata"]["uid"] = "89ab".repeat(9).into();
        stored["metadata"]["resourceVersion"] = "123456789".into();
        stored["metadata"]["finalizers"] = json!([keys::DELEGATE_GONE]);
        stored["metadata"]["annotations"][keys::IS_RESERVED] = keys::TRUE.into();
        let conditions = ["PodScheduled", "Ready", "Initialized", "ContainersReady", "PodReadyToStartContainers"];
        stored["status"] = json!({
            "phase": "Running", "qosClass": "Burstable", "startTime": TIME,
            "hostIP": "10.0.0.1", "hostIPs": [{ "ip": "10.0.0.1" }], "podIP": "10.1.0.1",
            "podIPs": [{ "ip": "10.1.0.1" }],
            "conditions": conditions.map(condition),
            "containerStatuses": containers.iter().map(status).collect::<Vec<_>>(),
        });
        let mut stored: PodChaperon = serde_json::from_value(stored).unwrap();
        lean(&mut stored);
        let weight = weight::of(&stored);
        prop_assert!(!fits || weight <= limits::CHAPERON_KEPT, "{}", weight);
        // What is heavier loses its words and is light.
        slim(&mut stored);
        prop_assert!(is_slim(&stored) && weight::of(&stored) <= 32 << 10);
    }
}
