//! Writes pod statuses: the newest wish for a pod wins, and at most one write a pod is under way.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use pilotage_runtime::call::{CALL_LIMIT, Failure, within};
use pilotage_runtime::caught::caught_async;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::condition::{Desired, status_patch};

/// Status writes under way at once.
const CONCURRENCY: usize = 32;
/// How often a write is tried again on a newer version of the pod.
const CONFLICTS: usize = 3;

/// The writer; clones share it.
#[derive(Clone)]
pub(crate) struct StatusWriter {
    client: Client,
    wanted: Arc<Mutex<HashMap<String, Slot>>>,
    permits: Arc<Semaphore>,
    tasks: TaskTracker,
}

/// The next wish for a pod whose write is under way.
type Slot = Option<(Arc<Pod>, Desired)>;

impl StatusWriter {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            wanted: Arc::default(),
            permits: Arc::new(Semaphore::new(CONCURRENCY)),
            tasks: TaskTracker::new(),
        }
    }

    /// Makes the status of `pod`, as last seen, say what is desired; doesn't wait for it.
    pub(crate) fn write(&self, pod: Arc<Pod>, desired: Desired) {
        let Some(uid) = pod.metadata.uid.clone() else {
            return;
        };
        let mut wanted = self.wanted();
        if status_patch(&pod, &desired, Timestamp::now()).is_none() && !wanted.contains_key(&uid) {
            return;
        }
        match wanted.entry(uid.clone()) {
            Entry::Occupied(mut slot) => {
                slot.insert(Some((pod, desired)));
                return;
            }
            Entry::Vacant(slot) => {
                slot.insert(None);
            }
        }
        drop(wanted);
        let this = self.clone();
        self.tasks.spawn(async move {
            let mut next = Some((pod, desired));
            while let Some((pod, desired)) = next {
                if let Err(panic) = caught_async(this.settle(pod, &desired)).await {
                    tracing::error!(uid, panic, "writing a pod's status panicked");
                }
                let mut wanted = this.wanted();
                next = wanted.get_mut(&uid).and_then(Option::take);
                if next.is_none() {
                    wanted.remove(&uid);
                }
            }
        });
    }

    /// Waits until all that was asked for has been written or given up.
    pub(crate) async fn drain(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn settle(&self, mut pod: Arc<Pod>, desired: &Desired) {
        let (Some(namespace), Some(name)) =
            (pod.metadata.namespace.clone(), pod.metadata.name.clone())
        else {
            return;
        };
        let Ok(_permit) = self.permits.acquire().await else {
            return;
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        for _ in 0..=CONFLICTS {
            let Some(patch) = status_patch(&pod, desired, Timestamp::now()) else {
                return;
            };
            let params = PatchParams::default();
            let patch = Patch::Strategic(patch);
            let Err(error) = within(CALL_LIMIT, api.patch_status(&name, &params, &patch)).await
            else {
                return;
            };
            if error.kind() != Failure::Conflict {
                if error.kind() != Failure::NotFound {
                    tracing::warn!(%error, namespace, name, "failed to write the pod's status");
                }
                return;
            }
            // Somebody wrote an annotation, or the pod is bound, ending, or another one by now.
            match within(CALL_LIMIT, api.get_opt(&name)).await {
                Ok(Some(fresh)) if still_waits(&fresh, &pod) => pod = Arc::new(fresh),
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(%error, namespace, name, "failed to read the pod");
                    return;
                }
            }
        }
        tracing::warn!(
            namespace,
            name,
            "gave up on the pod's status: it changes all the time"
        );
    }

    fn wanted(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `fresh` is the pod that failed and still looks for a node.
fn still_waits(fresh: &Pod, failed: &Pod) -> bool {
    fresh.metadata.uid == failed.metadata.uid
        && fresh.metadata.deletion_timestamp.is_none()
        && fresh
            .spec
            .as_ref()
            .is_none_or(|spec| spec.node_name.is_none())
}
