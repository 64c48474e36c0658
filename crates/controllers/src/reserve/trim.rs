//! What the edge needs of pods and chaperons; the rest isn't kept.

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use pilotage_api::PodChaperon;

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

/// Keeps metadata and the conditions.
pub(super) fn chaperon(chaperon: &mut PodChaperon) {
    chaperon.spec.0.clear();
    if let Some(status) = &mut chaperon.status {
        status.0.retain(|key, _| key == "conditions");
    }
}
