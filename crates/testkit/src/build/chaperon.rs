//! Chaperons as sources make them and targets answer by them, true or forged.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use pilotage_api::parent::{ClusterUid, ParentLink};
use pilotage_api::{PodChaperon, PodChaperonSpec, PodChaperonStatus, keys, names};
use serde_json::{Map, Value, json};

use super::{Meta, json as to_json, metadata_setters};

/// Builds a chaperon.
#[derive(Debug, Clone)]
pub struct ChaperonBuilder {
    meta: Meta,
    uid: Option<String>,
    finalizers: Vec<String>,
    spec: Map<String, Value>,
    status: Option<Map<String, Value>>,
}

/// A chaperon of nobody's, with an empty spec.
pub fn chaperon(name: &str) -> ChaperonBuilder {
    ChaperonBuilder {
        meta: Meta::named(name),
        uid: None,
        finalizers: Vec::new(),
        spec: Map::new(),
        status: None,
    }
}

/// The chaperon of this proxy pod, as a source would call and label it; `cluster` is the source's UID, and `None` a
/// source that doesn't name itself. Not yet answered.
pub fn chaperon_of(pod: &Pod, cluster: Option<&str>) -> ChaperonBuilder {
    let link = ParentLink {
        cluster_uid: cluster.map(|uid| ClusterUid(uid.to_owned())),
        cluster_name: None,
        uid: pod.uid().unwrap_or_default(),
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
    };
    let name = names::chaperon(&link.namespace, &link.name, &link.uid);
    let mut builder = chaperon(&name)
        .ns(&link.namespace)
        .annotation(keys::ATTEMPT, "0")
        .annotation(keys::ALLOWED_ATTEMPT, "0");
    builder.meta.labels.extend(link.labels());
    builder.meta.annotations.extend(link.annotations());
    if let Value::Object(spec) = to_json(&pod.spec) {
        builder.spec = spec;
    }
    builder
}

impl ChaperonBuilder {
    metadata_setters!();

    /// Its UID.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.uid = Some(uid.to_owned());
        self
    }

    /// Adds a finalizer.
    #[must_use]
    pub fn finalizer(mut self, finalizer: &str) -> Self {
        self.finalizers.push(finalizer.to_owned());
        self
    }

    /// This attempt holds a node.
    #[must_use]
    pub fn reserved(self, attempt: u64) -> Self {
        self.annotation(keys::ATTEMPT, attempt.to_string())
            .annotation(keys::IS_RESERVED, keys::TRUE)
    }

    /// This attempt holds a node and is granted.
    #[must_use]
    pub fn granted(self, attempt: u64) -> Self {
        self.reserved(attempt)
            .annotation(keys::ALLOWED_ATTEMPT, attempt.to_string())
            .annotation(keys::IS_ALLOWED, keys::TRUE)
    }

    /// Its pod is said to be bound, ready, and to have this address.
    #[must_use]
    pub fn running(self, pod_ip: &str) -> Self {
        let status = running_status(&self.spec, pod_ip);
        self.status(status)
    }

    /// Its status; what is no object is none.
    #[must_use]
    pub fn status(mut self, status: Value) -> Self {
        self.status = match status {
            Value::Object(status) => Some(status),
            _ => None,
        };
        self
    }

    /// The chaperon.
    pub fn build(self) -> PodChaperon {
        PodChaperon {
            metadata: ObjectMeta {
                uid: self.uid,
                finalizers: Some(self.finalizers).filter(|all| !all.is_empty()),
                ..self.meta.build()
            },
            spec: PodChaperonSpec(self.spec),
            status: self.status.map(PodChaperonStatus),
        }
    }

    /// The chaperon as JSON.
    pub fn value(self) -> Value {
        to_json(&self.build())
    }
}

/// The status of a pod with this spec whose containers all run.
pub(crate) fn running_status(spec: &Map<String, Value>, pod_ip: &str) -> Value {
    let now = Time(Timestamp::now());
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
    let conditions =
        conditions.map(|kind| json!({ "type": kind, "status": "True", "lastTransitionTime": now }));
    let containers = spec.get("containers").and_then(Value::as_array);
    let containers = containers.into_iter().flatten().map(|container| {
        json!({
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": true,
            "started": true,
            "restartCount": 0,
            "state": { "running": { "startedAt": now } },
        })
    });
    let containers: Vec<Value> = containers.collect();
    json!({
        "phase": "Running",
        "conditions": conditions,
        "containerStatuses": containers,
        "hostIP": "10.66.0.1",
        "podIP": pod_ip,
        "podIPs": [{ "ip": pod_ip }],
        "startTime": now,
    })
}

#[cfg(test)]
mod tests {
    use crate::build::pod;

    use super::*;

    #[test]
    fn a_forged_chaperon_looks_like_the_sources_own() {
        let mut parent = pod("web").ns("shop").build();
        parent.metadata.uid = Some("u".to_owned());
        let forged = chaperon_of(&parent, Some("s"))
            .granted(2)
            .running("10.1.2.3")
            .finalizer(keys::DELEGATE_GONE);
        let forged = forged.build();
        assert_eq!(forged.name_any(), names::chaperon("shop", "web", "u"));
        let link = ParentLink::of(&forged.metadata).unwrap();
        assert_eq!(
            (&*link.uid, &*link.name, &*link.namespace),
            ("u", "web", "shop")
        );
        assert_eq!(link.cluster_uid, Some(ClusterUid("s".to_owned())));
        assert_eq!(forged.annotations()[keys::ALLOWED_ATTEMPT], "2");
        let status = forged.status.unwrap().0;
        assert_eq!(status["podIP"], "10.1.2.3");
        assert_eq!(status["containerStatuses"].as_array().unwrap().len(), 1);
        let plain = chaperon_of(&parent, None).value();
        assert_eq!(plain["kind"], "PodChaperon");
        assert!(
            plain["metadata"]["labels"]
                .get(keys::PARENT_CLUSTER_UID)
                .is_none()
        );
    }
}
