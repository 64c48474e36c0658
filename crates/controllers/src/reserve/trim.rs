//! What the edge needs of pods and chaperons; the rest isn't kept.

use k8s_openapi::{
    api::core::v1::{Pod, PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use pilotage_api::PodChaperon;
use pilotage_candidate::chaperon::kept;

use crate::chaperon::objects::outline_of;

/// How many gates are known of a pod that is too heavy to be kept whole.
const GATES: usize = 16;

/// Keeps identity, owner, node, gates and phase.
pub(super) fn pod(pod: &mut Pod) {
    let spec = pod.spec.take().unwrap_or_default();
    pod.spec = Some(PodSpec {
        node_name: spec.node_name,
        scheduler_name: spec.scheduler_name,
        scheduling_gates: spec.scheduling_gates,
        ..PodSpec::default()
    });
    pod.status = pod.status.take().map(|status| PodStatus {
        phase: status.phase,
        ..PodStatus::default()
    });
    pod.metadata.annotations = None;
}

/// Keeps of a heavy one who it is, who controls it, and of its gates the first.
pub(super) fn slim(heavy: &mut Pod) {
    pod(heavy);
    let meta = std::mem::take(&mut heavy.metadata);
    heavy.metadata = ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        deletion_timestamp: meta.deletion_timestamp,
        owner_references: meta.owner_references.map(kept::controller),
        ..ObjectMeta::default()
    };
    let gates = heavy.spec.as_mut();
    if let Some(gates) = gates.and_then(|spec| spec.scheduling_gates.as_mut()) {
        gates.truncate(GATES);
    }
}

/// A pod that is too heavy to be read whole.
pub(super) fn outline(text: &str) -> serde_json::Result<Pod> {
    let mut pod = outline_of(text)?;
    slim(&mut pod);
    Ok(pod)
}

/// Keeps metadata and the conditions.
pub(super) fn chaperon(chaperon: &mut PodChaperon) {
    chaperon.spec.0.clear();
    if let Some(status) = &mut chaperon.status {
        status.0.retain(|key, _| key == "conditions");
    }
}

#[cfg(test)]
mod tests {
    use pilotage_candidate::view::{PodView, controlling_chaperon};
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_heavy_pod_the_same_is_read() {
        let others = vec![json!({ "apiVersion": "v1", "kind": "X", "name": "x", "uid": "x" }); 20];
        let mut owners = others;
        owners.push(json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon", "name": "web", "uid": "c",
            "controller": true,
        }));
        let text = json!({
            "metadata": {
                "namespace": "shop", "name": "web", "uid": "p", "resourceVersion": "1",
                "labels": { "a": "x".repeat(100_000) }, "ownerReferences": owners,
            },
            "spec": {
                "containers": [{ "name": "app" }], "nodeName": "n", "schedulingGates": [{ "name": "a/b" }],
                "volumes": vec![json!({ "name": "v", "emptyDir": {} }); 10_000],
            },
            "status": { "phase": "Succeeded" },
        });
        let whole: Pod = serde_json::from_value(text.clone()).unwrap();
        let (mut slimmed, outlined) = (whole.clone(), outline(&text.to_string()).unwrap());
        slim(&mut slimmed);
        for left in [slimmed, outlined] {
            assert_eq!(PodView::of(&left), PodView::of(&whole));
            assert!(controlling_chaperon(&left.metadata).is_some());
            assert!(serde_json::to_string(&left).unwrap().len() < 1000);
        }
    }
}
