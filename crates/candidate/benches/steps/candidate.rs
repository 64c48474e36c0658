//! Candidates with what an author may write.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::keys;
use serde_json::{Value, json};

/// A candidate with this in its spec.
pub(crate) fn pod(uid: &str, spec: &Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {
            "name": "p".repeat(253 - uid.len()) + uid, "namespace": "n".repeat(63), "uid": uid,
            "labels": { "app": "web-0" },
            "ownerReferences": [{
                "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon", "name": "p", "uid": uid,
                "controller": true,
            }],
        },
        "spec": { "schedulerName": keys::CANDIDATE_SCHEDULER, "containers": [{ "name": "c0", "image": "i0" }] },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}
