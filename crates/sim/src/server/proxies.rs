//! Requests about proxy pods.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Binding, Pod, PodCondition, PodSpec, PodStatus};
use serde_json::{Map, Value};

use super::{ApiError, Object, Server, delegates::sometime, patch};

/// Grace of a pod that is on a node.
const GRACE: i64 = 30;

impl Server {
    /// POST by a user.
    pub(crate) fn create_proxy(&mut self, mut pod: Pod) -> Option<Arc<Pod>> {
        if self.proxies.get(pod.name()).is_some() {
            return None;
        }
        pod.metadata.uid = Some(self.next_uid());
        Some(self.put_proxy(pod))
    }

    /// GET.
    pub(crate) fn proxy(&self, name: &str) -> Result<Arc<Pod>, ApiError> {
        self.proxies.get(name).cloned().ok_or(ApiError::NotFound)
    }

    /// PATCH with a merge patch of the metadata.
    pub(crate) fn merge_proxy(&mut self, name: &str, patch: &Value) -> Result<Arc<Pod>, ApiError> {
        let known = self.proxy(name)?;
        let mut pod = (*known).clone();
        let changed = patch::merge_metadata(&mut pod.metadata, &patch["metadata"])?;
        Ok(self.store_proxy(known, pod, changed))
    }

    /// PATCH of the status.
    pub(crate) fn merge_proxy_status(
        &mut self,
        name: &str,
        patch: &Value,
    ) -> Result<Arc<Pod>, ApiError> {
        let known = self.proxy(name)?;
        let mut pod = (*known).clone();
        patch::merge_metadata(&mut pod.metadata, &patch["metadata"])?;
        pod.metadata = known.metadata.clone();
        let mut status = match serde_json::to_value(&known.status) {
            Ok(Value::Object(status)) => status,
            _ => Map::new(),
        };
        let changed = patch["status"]
            .as_object()
            .is_some_and(|change| patch::merge(&mut status, change));
        let Ok(status) = serde_json::from_value(Value::Object(status)) else {
            return Err(ApiError::Invalid);
        };
        pod.status = Some(status);
        Ok(self.store_proxy(known, pod, changed))
    }

    /// POST of a binding, with a UID and, if asked for, a version.
    pub(crate) fn bind_proxy(&mut self, name: &str, binding: &Binding) -> Result<(), ApiError> {
        let known = self.proxy(name)?;
        let spec = known.spec.as_ref();
        let is_bound = spec.is_some_and(|spec| spec.node_name.is_some());
        let version = binding.metadata.resource_version.as_ref();
        let moved_on =
            version.is_some_and(|it| known.metadata.resource_version.as_ref() != Some(it));
        if Some(known.uid()) != binding.metadata.uid.as_deref()
            || known.is_ending()
            || is_bound
            || moved_on
        {
            return Err(ApiError::Conflict);
        }
        let mut pod = (*known).clone();
        let spec = pod.spec.get_or_insert_with(PodSpec::default);
        spec.node_name.clone_from(&binding.target.name);
        let status = pod.status.get_or_insert_with(PodStatus::default);
        status.conditions = Some(vec![PodCondition {
            type_: "PodScheduled".to_owned(),
            status: "True".to_owned(),
            ..PodCondition::default()
        }]);
        self.put_proxy(pod);
        Ok(())
    }

    /// DELETE with a UID precondition; `now`: without grace.
    pub(crate) fn delete_proxy(
        &mut self,
        name: &str,
        uid: &str,
        now: bool,
    ) -> Result<(), ApiError> {
        let known = self.proxy(name)?;
        if known.uid() != uid {
            return Err(ApiError::Conflict);
        }
        let placed = known
            .spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some());
        let ended = known
            .status
            .as_ref()
            .is_some_and(|status| matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")));
        let grace = if now || !placed || ended { 0 } else { GRACE };
        let left = known.metadata.deletion_grace_period_seconds;
        if known.is_ending() && left.is_some_and(|left| left <= grace) {
            return Ok(());
        }
        let mut pod = (*known).clone();
        pod.metadata.deletion_timestamp = Some(sometime());
        pod.metadata.deletion_grace_period_seconds = Some(grace);
        self.store_proxy(known, pod, true);
        Ok(())
    }

    /// Writes what changed; what ends without finalizers and grace is gone.
    fn store_proxy(&mut self, known: Arc<Pod>, mut pod: Pod, changed: bool) -> Arc<Pod> {
        if !changed {
            return known;
        }
        let grace = pod
            .metadata
            .deletion_grace_period_seconds
            .unwrap_or_default();
        if pod.is_ending() && grace == 0 && !pod.has_finalizers() {
            // The reply has no newer version than the one before.
            let reply = Arc::new(pod.clone());
            pod.metadata.resource_version = Some(self.next_version().to_string());
            self.proxies.remove(pod);
            return reply;
        }
        self.put_proxy(pod)
    }

    fn put_proxy(&mut self, mut pod: Pod) -> Arc<Pod> {
        pod.metadata.resource_version = Some(self.next_version().to_string());
        self.proxies.put(pod)
    }
}
