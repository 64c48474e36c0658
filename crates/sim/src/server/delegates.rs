//! Requests about the pods of chaperons, and what kubelet and API server do to them.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Pod, PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use pilotage_candidate::chaperon::RawPod;
use serde_json::{Map, Value, json};

use super::{ApiError, Deleted, Object, Server};

/// A moment in the past; nobody reads which.
pub(super) fn sometime() -> Time {
    Time(Timestamp::UNIX_EPOCH)
}

/// A pod in the forms in which the parts of a target read it.
#[derive(Clone, Debug)]
pub(crate) struct Delegate {
    /// As the chaperon controller reads it.
    pub(crate) raw: Arc<RawPod>,
    /// As the candidate scheduler reads it.
    pub(crate) pod: Arc<Pod>,
}

impl Object for Delegate {
    fn meta(&self) -> &ObjectMeta {
        &self.raw.metadata
    }
}

impl Delegate {
    fn of(raw: RawPod) -> Self {
        let text = |map: &Map<String, Value>, key: &str| {
            map.get(key).and_then(Value::as_str).map(str::to_owned)
        };
        let pod = Pod {
            metadata: ObjectMeta {
                annotations: None,
                ..raw.metadata.clone()
            },
            spec: Some(PodSpec {
                node_name: text(&raw.spec, "nodeName"),
                scheduler_name: text(&raw.spec, "schedulerName"),
                ..PodSpec::default()
            }),
            status: Some(PodStatus {
                phase: text(&raw.status, "phase"),
                ..PodStatus::default()
            }),
        };
        Self {
            raw: Arc::new(raw),
            pod: Arc::new(pod),
        }
    }

    pub(crate) fn node(&self) -> Option<&str> {
        self.raw.node()
    }

    pub(crate) fn phase(&self) -> &str {
        let phase = self.raw.status.get("phase");
        phase.and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn scheduler(&self) -> &str {
        let scheduler = self.raw.spec.get("schedulerName");
        scheduler.and_then(Value::as_str).unwrap_or_default()
    }

    /// Its scheduler has said that it found no node.
    pub(crate) fn is_unschedulable(&self) -> bool {
        let conditions = self.raw.status.get("conditions");
        conditions.is_some_and(|all| all[0]["reason"] == "Unschedulable")
    }

    pub(crate) fn is_gated(&self) -> bool {
        let gates = self
            .raw
            .spec
            .get("schedulingGates")
            .and_then(Value::as_array);
        gates.is_some_and(|gates| !gates.is_empty())
    }

    /// UID of the chaperon that controls it.
    pub(crate) fn owner(&self) -> Option<&str> {
        let owner = self.raw.metadata.owner_references.iter().flatten().next()?;
        Some(&owner.uid)
    }
}

impl Server {
    /// POST.
    pub(crate) fn create_pod(&mut self, mut body: RawPod) -> Result<Arc<Delegate>, ApiError> {
        let name = body.metadata.name.as_deref().unwrap_or_default();
        if self.delegates.get(name).is_some() {
            return Err(ApiError::AlreadyExists);
        }
        if self.refuses_pods {
            return Err(ApiError::Forbidden);
        }
        body.metadata.uid = Some(self.next_uid());
        body.status.insert("phase".to_owned(), "Pending".into());
        Ok(self.put_pod(body))
    }

    /// GET.
    pub(crate) fn delegate(&self, name: &str) -> Result<Arc<Delegate>, ApiError> {
        self.delegates.get(name).cloned().ok_or(ApiError::NotFound)
    }

    /// DELETE with a UID precondition. A pod that is on no node goes at once; else its kubelet ends it.
    pub(crate) fn delete_pod(
        &mut self,
        name: &str,
        uid: &str,
    ) -> Result<Deleted<Arc<Delegate>>, ApiError> {
        let known = self.delegate(name)?;
        if known.uid() != uid {
            return Err(ApiError::Conflict);
        }
        if known.is_ending() {
            return Ok(Deleted::Ending(known));
        }
        let mut raw = (*known.raw).clone();
        raw.metadata.deletion_timestamp = Some(sometime());
        if known.node().is_some() {
            return Ok(Deleted::Ending(self.put_pod(raw)));
        }
        self.remove_pod(raw);
        Ok(Deleted::Gone)
    }

    /// PATCH of the scheduling gates, with UID and version.
    pub(crate) fn patch_gates(
        &mut self,
        name: &str,
        patch: &Value,
    ) -> Result<Arc<Delegate>, ApiError> {
        let known = self.delegate(name)?;
        let meta = &patch["metadata"];
        let version = known.raw.metadata.resource_version.as_deref();
        if meta["uid"] != known.uid() || meta["resourceVersion"].as_str() != version {
            return Err(ApiError::Conflict);
        }
        let mut raw = (*known.raw).clone();
        raw.spec.insert(
            "schedulingGates".to_owned(),
            patch["spec"]["schedulingGates"].clone(),
        );
        Ok(self.put_pod(raw))
    }

    /// POST of a binding with a UID.
    pub(crate) fn bind_pod(&mut self, name: &str, uid: &str, node: &str) -> Result<(), ApiError> {
        let known = self.delegate(name)?;
        if known.uid() != uid || known.is_ending() || known.node().is_some() || known.is_gated() {
            return Err(ApiError::Conflict);
        }
        let mut raw = (*known.raw).clone();
        raw.spec.insert("nodeName".to_owned(), node.into());
        let scheduled = json!([{ "type": "PodScheduled", "status": "True" }]);
        raw.status.insert("conditions".to_owned(), scheduled);
        // A kubelet that speaks at once: a later one only delays what is told of the binding.
        raw.status
            .insert("startTime".to_owned(), "1970-01-01T00:00:00Z".into());
        self.put_pod(raw);
        Ok(())
    }

    /// A scheduler finds no node for the pod.
    pub(crate) fn refuse_pod(&mut self, name: &str) {
        let full = json!([{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full",
        }]);
        self.set_pod_status(name, "conditions", full);
    }

    /// What kubelet and schedulers write.
    pub(crate) fn set_pod_status(&mut self, name: &str, key: &str, value: Value) {
        if let Ok(known) = self.delegate(name) {
            let mut raw = (*known.raw).clone();
            raw.status.insert(key.to_owned(), value);
            self.put_pod(raw);
        }
    }

    /// The kubelet has ended the pod.
    pub(crate) fn end_pod(&mut self, name: &str) {
        if let Ok(known) = self.delegate(name) {
            let raw = (*known.raw).clone();
            self.remove_pod(raw);
        }
    }

    fn put_pod(&mut self, mut raw: RawPod) -> Arc<Delegate> {
        raw.metadata.resource_version = Some(self.next_version().to_string());
        self.delegates.put(Delegate::of(raw))
    }

    fn remove_pod(&mut self, mut raw: RawPod) {
        raw.metadata.resource_version = Some(self.next_version().to_string());
        self.delegates.remove(Delegate::of(raw));
    }
}
