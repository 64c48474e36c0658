//! Writes pod statuses: the newest wish for a pod wins, and at most one write a pod is under way.
//!
//! A nomination that has to go keeps others off a node, so it is taken away as soon as the API server lets it. What
//! else fails is wished again when the pod is tried again.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::call::{CALL_LIMIT, Failure, within};
use pilotage_runtime::caught::caught_async;
use pilotage_runtime::lease::Leadership;
use pilotage_sched::Nomination;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::condition::{Desired, status_patch};

/// Status writes under way at once.
const CONCURRENCY: usize = 32;
/// How often a write is tried again on a newer version of the pod.
const CONFLICTS: usize = 3;
/// When a nomination that couldn't be taken away is tried again.
const RETRY: Backoff =
    Backoff::new(Duration::from_millis(100), Duration::from_secs(30)).spread(0.2);

/// The writer; clones share it.
#[derive(Clone)]
pub(crate) struct StatusWriter {
    client: Client,
    leadership: Leadership,
    wanted: Arc<Mutex<HashMap<String, Slot>>>,
    permits: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Nothing is tried again any more.
    ending: CancellationToken,
}

/// What a pod's status should say, with the pod as last seen.
type Wish = (Arc<Pod>, Desired);

/// What comes after the write that is under way for a pod.
#[derive(Default)]
struct Slot {
    next: Option<Wish>,
    news: Arc<Notify>,
}

impl StatusWriter {
    pub(crate) fn new(client: Client, leadership: Leadership) -> Self {
        Self {
            client,
            leadership,
            wanted: Arc::default(),
            permits: Arc::new(Semaphore::new(CONCURRENCY)),
            tasks: TaskTracker::new(),
            ending: CancellationToken::new(),
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
        let news = match wanted.entry(uid.clone()) {
            Entry::Occupied(mut slot) => {
                let slot = slot.get_mut();
                let desired = match slot.next.take() {
                    Some((_, older)) => desired.after(&older),
                    None => desired,
                };
                slot.next = Some((pod, desired));
                slot.news.notify_one();
                return;
            }
            Entry::Vacant(slot) => slot.insert(Slot::default()).news.clone(),
        };
        drop(wanted);
        let this = self.clone();
        self.tasks.spawn(async move {
            let mut next = Some((pod, desired));
            let mut failures = 0_u32;
            while let Some((pod, desired)) = next {
                let left = this.fulfil(&uid, pod, desired).await;
                if left.is_some() {
                    failures = failures.saturating_add(1);
                    tokio::select! {
                        () = this.ending.cancelled() => {}
                        () = news.notified() => {}
                        () = tokio::time::sleep(RETRY.delay(failures, dice())) => {}
                    }
                } else {
                    failures = 0;
                }
                next = this.next(&uid, left);
            }
        });
    }

    /// How many pods' statuses are still to be written.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.wanted().len()
    }

    /// Writes once; what is left to be tried again.
    async fn fulfil(&self, uid: &str, pod: Arc<Pod>, desired: Desired) -> Option<Wish> {
        let settled = caught_async(self.settle(pod, &desired)).await;
        let left = settled.unwrap_or_else(|panic| {
            tracing::error!(uid, panic, "writing a pod's status panicked");
            None
        });
        left.filter(|_| desired.nomination == Nomination::Clear)
            .map(|pod| (pod, desired))
    }

    /// What to write next for a pod; `None` if that is nothing, and it is forgotten.
    fn next(&self, uid: &str, left: Option<Wish>) -> Option<Wish> {
        let mut wanted = self.wanted();
        let newer = wanted.get_mut(uid).and_then(|slot| slot.next.take());
        let left = left.filter(|_| !self.ending.is_cancelled());
        let next = match (newer, left) {
            (Some((pod, newer)), Some((_, left))) => Some((pod, newer.after(&left))),
            (newer, left) => newer.or(left),
        };
        if next.is_none() {
            wanted.remove(uid);
        }
        next
    }

    /// Waits until all that was asked for has been written or given up; what fails from now on is given up.
    pub(crate) async fn drain(&self) {
        self.ending.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Writes what is desired, again on a newer version if the pod has moved on. If it fails, the pod as last seen.
    async fn settle(&self, mut pod: Arc<Pod>, desired: &Desired) -> Option<Arc<Pod>> {
        let (namespace, name) = (pod.metadata.namespace.clone()?, pod.metadata.name.clone()?);
        let _permit = self.permits.acquire().await.ok()?;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        for _ in 0..=CONFLICTS {
            // It may have waited for its turn, for an answer, or for a pause to end.
            if !self.leadership.is_leader() {
                return None;
            }
            let patch = status_patch(&pod, desired, Timestamp::now())?;
            let params = PatchParams::default();
            let patch = Patch::Strategic(patch);
            let write = api.patch_status(&name, &params, &patch);
            let error = within(CALL_LIMIT, write).await.err()?;
            match error.kind() {
                Failure::NotFound => return None,
                Failure::Conflict => {}
                _ => {
                    tracing::warn!(%error, namespace, name, "failed to write the pod's status");
                    return Some(pod);
                }
            }
            // Somebody wrote an annotation, or the pod is bound, ending, or another one by now.
            match within(CALL_LIMIT, api.get_opt(&name)).await {
                Ok(Some(fresh)) if still_waits(&fresh, &pod) => pod = Arc::new(fresh),
                Ok(_) => return None,
                Err(error) => {
                    tracing::warn!(%error, namespace, name, "failed to read the pod");
                    return Some(pod);
                }
            }
        }
        tracing::warn!(
            namespace,
            name,
            "left the pod's status: it changes all the time"
        );
        Some(pod)
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

#[cfg(test)]
mod tests;
