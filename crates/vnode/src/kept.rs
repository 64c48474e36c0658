//! What is kept of pods that the watches of virtual nodes bring: who they are, whose, where, and whether they have
//! ended. Any author may write the rest, and as much of it as an API server takes. Must not know what is done with
//! them.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Pod, PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use pilotage_api::keys;
use pilotage_clusters::WatchConfig;
use pilotage_runtime::thin::{FIELD, Path, Thin, thin};

use crate::decide::is_made_proxy;

/// Where the manifest stands. That it is there says that a pod is a proxy; it is never read here.
const MANIFEST: Path = &["metadata", "annotations", keys::SOURCE_POD_MANIFEST];
/// What is read of a pod.
const OUTLINE: [Path; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
    &["metadata", "deletionTimestamp"],
    &["metadata", "deletionGracePeriodSeconds"],
    &["metadata", "ownerReferences"],
    MANIFEST,
    &["spec", "nodeName"],
    &["status", "phase"],
];

/// The kind of owner that makes a pod anew on each node.
pub(crate) const DAEMON_SET: &str = "DaemonSet";

/// A watch of pods that keeps no more of them.
pub(crate) fn only(pods: WatchConfig<Pod>) -> WatchConfig<Pod> {
    pods.trim(trim).slim(trim).heavy(outline)
}

fn trim(pod: &mut Pod) {
    let meta = std::mem::take(&mut pod.metadata);
    let is_proxy = is_made_proxy(&meta);
    let owners = meta.owner_references.iter().flatten();
    let mut daemons = owners.filter(|it| it.kind == DAEMON_SET && it.controller == Some(true));
    let owner = daemons.next().map(|_| OwnerReference {
        kind: DAEMON_SET.to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    });
    let manifest = || BTreeMap::from([(keys::SOURCE_POD_MANIFEST.to_owned(), String::new())]);
    pod.metadata = ObjectMeta {
        owner_references: owner.map(|owner| vec![owner]),
        annotations: is_proxy.then(manifest),
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        deletion_timestamp: meta.deletion_timestamp,
        deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
        ..ObjectMeta::default()
    };
    pod.spec = pod.spec.take().map(|spec| PodSpec {
        node_name: spec.node_name,
        ..PodSpec::default()
    });
    pod.status = pod.status.take().map(|status| PodStatus {
        phase: status.phase,
        ..PodStatus::default()
    });
}

/// A pod that is too heavy to be read whole.
fn outline(text: &str) -> serde_json::Result<Pod> {
    let Thin { text, left_out } = thin(text, &OUTLINE, FIELD)?;
    let mut pod: Pod = serde_json::from_str(&text)?;
    if left_out.contains(&MANIFEST) {
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::SOURCE_POD_MANIFEST.to_owned(), String::new());
    }
    trim(&mut pod);
    Ok(pod)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{decide::is_proxy, strays::decide};

    #[test]
    fn however_much_a_pod_says_the_same_is_read_of_it() {
        let replica =
            json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r" });
        let mut daemon =
            json!({ "apiVersion": "apps/v1", "kind": DAEMON_SET, "name": "d", "uid": "d" });
        daemon["controller"] = true.into();
        for manifest in [None, Some(String::new()), Some("x".repeat(200_000))] {
            for owners in [json!([]), json!([replica]), json!([replica, daemon])] {
                let annotations = match &manifest {
                    Some(text) => json!({ keys::SOURCE_POD_MANIFEST: text }),
                    None => json!({ "a": "b" }),
                };
                let text = json!({
                    "metadata": {
                        "namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7",
                        "labels": { "a": "x".repeat(100_000) }, "annotations": annotations,
                        "ownerReferences": owners, "deletionGracePeriodSeconds": 30,
                    },
                    "spec": {
                        "nodeName": "admiralty-paris", "containers": [{ "name": "app" }],
                        "volumes": vec![json!({ "name": "v", "emptyDir": {} }); 10_000],
                    },
                    "status": { "phase": "Pending", "message": "x".repeat(100_000) },
                });
                let whole: Pod = serde_json::from_value(text.clone()).unwrap();
                let (mut trimmed, outlined) = (whole.clone(), outline(&text.to_string()).unwrap());
                trim(&mut trimmed);
                assert_eq!(trimmed, outlined);
                assert_eq!(is_proxy(&trimmed), is_proxy(&whole));
                let node = |pod: &Pod| pod.spec.as_ref().unwrap().node_name.clone();
                assert_eq!(node(&trimmed), node(&whole));
                assert!(serde_json::to_string(&trimmed).unwrap().len() < 1000);
                assert_eq!(decide(&[Arc::new(trimmed)]), decide(&[Arc::new(whole)]));
            }
        }
    }
}
