//! What the scheduler never looks at is dropped before it is kept: of a large cluster's memory, most
//! is field ownership, environments and probes. A property holds what is left against what plugins read.
//!
//! It is a list of what is dropped and no table of what stays, since observers read these objects, too: a field that is
//! left off here costs memory, and no decision.

use k8s_openapi::api::core::v1::{Container, Node, Pod, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use pilotage_runtime::caught::caught;

/// `kubectl apply` keeps a second copy of the object here.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Drops something from an object; what is left of it can be used if that panics.
pub(super) fn dropping<K: Resource>(object: &mut K, drop: impl FnOnce(&mut K)) {
    if let Err(panic) = caught(|| drop(object)) {
        let name = object.meta().name.as_deref();
        tracing::error!(name, panic, "an object is kept whole");
    }
}

/// Drops from a pod what neither scheduling nor an event about it needs.
pub(crate) fn pod(pod: &mut Pod) {
    meta(&mut pod.metadata);
    if let Some(spec) = &mut pod.spec {
        spec.containers.iter_mut().for_each(container);
        spec.init_containers
            .iter_mut()
            .flatten()
            .for_each(container);
        // Debugging containers can't request resources.
        spec.ephemeral_containers = None;
        if let Some(volumes) = &mut spec.volumes {
            volumes.retain(|volume| !is_anywhere(volume));
            volumes.shrink_to_fit();
        }
    }
}

/// Whether any node has what the volume asks for.
fn is_anywhere(volume: &Volume) -> bool {
    volume.empty_dir.is_some()
        || volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.projected.is_some()
        || volume.downward_api.is_some()
        || volume.host_path.is_some()
}

/// Drops from any object what nobody looks at.
pub(crate) fn object<K: Resource>(object: &mut K) {
    meta(object.meta_mut());
}

/// Drops from a node what scheduling doesn't need.
pub(crate) fn node(node: &mut Node) {
    meta(&mut node.metadata);
}

fn meta(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(LAST_APPLIED);
    }
}

fn container(container: &mut Container) {
    container.args = None;
    container.command = None;
    container.env = None;
    container.env_from = None;
    container.lifecycle = None;
    container.liveness_probe = None;
    container.readiness_probe = None;
    container.startup_probe = None;
    container.termination_message_path = None;
    container.volume_mounts = None;
    container.working_dir = None;
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_stay_and_the_rest_goes() {
        let mut read: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "a",
                "managedFields": [{"manager": "kubectl"}],
                "annotations": {LAST_APPLIED: "{}", "mine": "stays"},
            },
            "spec": {
                "containers": [{
                    "name": "c",
                    "image": "i",
                    "env": [{"name": "A", "value": "b"}],
                    "resources": {"requests": {"cpu": "1"}},
                    "ports": [{"containerPort": 80, "hostPort": 80}],
                }],
                "volumes": [
                    {"name": "v", "persistentVolumeClaim": {"claimName": "p"}},
                    {"name": "scratch", "emptyDir": {}},
                ],
            },
        }))
        .unwrap();
        pod(&mut read);
        assert_eq!(
            serde_json::to_value(&read).unwrap(),
            json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "a", "annotations": {"mine": "stays"}},
                "spec": {
                    "containers": [{
                        "name": "c",
                        "image": "i",
                        "resources": {"requests": {"cpu": "1"}},
                        "ports": [{"containerPort": 80, "hostPort": 80}],
                    }],
                    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "p"}}],
                },
            })
        );
    }
}
