//! Carries out what the scheduler orders about other pods: evicts them, takes nominations away, tells of it. What an
//! eviction is made of, and what it means if a part of it fails, is as in kube-scheduler 1.36.3
//! (`framework/preemption`). Whom to evict, and when, is the scheduler's business.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure, within};
use pilotage_runtime::caught::{caught, caught_async};
use pilotage_sched::disruption::{DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER};
use pilotage_sched::{Disruption, EvictionOrder, Nomination, Orders, PodInfo};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::driver::Inner;
use crate::publish::{Desired, seconds};

/// Evictions under way at once.
const CONCURRENCY: usize = 16;
/// How often each request of an eviction is made at most: if this pod stays, others may have been evicted in vain for
/// the same one.
const TRIES: u32 = 5;
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2)).spread(0.2);

/// Carries orders out until `token` is cancelled; then finishes those under way.
pub(crate) async fn carry_out(
    inner: Arc<Inner>,
    client: Client,
    mut orders: mpsc::UnboundedReceiver<Orders>,
    token: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(CONCURRENCY));
    let tasks = TaskTracker::new();
    loop {
        let next = tokio::select! {
            biased;
            () = token.cancelled() => None,
            next = orders.recv() => next,
        };
        let Some(Orders {
            cleared,
            evictions,
            preempted,
            victims,
        }) = next
        else {
            break;
        };
        for victims in victims {
            inner.metrics.preempted(victims);
        }
        for pod in cleared {
            let desired = Desired {
                unscheduled: None,
                nomination: Nomination::Clear,
            };
            inner.write_status(&pod, desired);
        }
        for preempted in preempted {
            tracing::info!(pod = %preempted.pod.key, preemptor = %preempted.preemptor.key,
                "pod gave its place up");
            inner.record_preempted(&preempted);
        }
        for order in evictions {
            let (inner, client, permits) = (inner.clone(), client.clone(), permits.clone());
            tasks.spawn(async move {
                // It is never closed.
                let _permit = permits.acquire().await;
                evict(&inner, client, &order).await;
            });
        }
    }
    tasks.close();
    tasks.wait().await;
}

/// Evicts a pod if that is still wanted, and tells the scheduler how it went.
async fn evict(inner: &Inner, client: Client, order: &EvictionOrder) {
    let pod = order.preempted.pod.clone();
    let succeeded = made(inner, client, order).await;
    inner.caught(&pod, || {
        let told = |scheduler: &mut pilotage_sched::Scheduler, now| {
            scheduler.evicted(&order.id, succeeded, now);
        };
        inner.core.with(told);
    });
}

/// Whether the pod was evicted, or has gone before.
async fn made(inner: &Inner, client: Client, order: &EvictionOrder) -> bool {
    let preempted = &order.preempted;
    let (pod, preemptor) = (&preempted.pod, &preempted.preemptor.key);
    let may = || {
        let is_wanted = || inner.core.ask(|scheduler| scheduler.is_wanted(&order.id));
        inner.leadership.is_leader() && is_wanted()
    };
    let evicted = caught_async(delete(client, pod, &order.condition, &may)).await;
    match evicted {
        Ok(Ok(Done::Evicted)) => {
            tracing::info!(pod = %pod.key, %preemptor, node = %preempted.node, "pod evicted");
            if let Err(panic) = caught(|| inner.record_preempted(preempted)) {
                tracing::error!(pod = %pod.key, panic, "telling of an eviction panicked");
            }
            true
        }
        Ok(Ok(Done::Gone)) => {
            tracing::debug!(pod = %pod.key, %preemptor, "pod had gone before it was evicted");
            true
        }
        Ok(Ok(Done::Left)) => {
            tracing::debug!(pod = %pod.key, %preemptor, "pod is left where it is");
            false
        }
        Ok(Err(error)) => {
            tracing::warn!(pod = %pod.key, %preemptor, %error, "failed to evict a pod");
            false
        }
        Err(panic) => {
            tracing::error!(pod = %pod.key, %preemptor, panic, "evicting a pod panicked");
            false
        }
    }
}

/// How an eviction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Evicted,
    /// Somebody else was faster, or another pod has its name.
    Gone,
    /// It mustn't be made any more.
    Left,
}

/// Evicts a pod; `may` is asked right before each request, since what comes before it may take long.
async fn delete(
    client: Client,
    pod: &PodInfo,
    message: &str,
    may: &(impl Fn() -> bool + Sync),
) -> Result<Done, CallError> {
    let api: Api<Pod> = Api::namespaced(client, &pod.key.namespace);
    let name = &*pod.key.name;
    let patch = Patch::Strategic(target_patch(pod, message, Timestamp::now()));
    let params = PatchParams::default();
    let mark = || api.patch_status(name, &params, &patch);
    match tried(&api, pod, may, mark).await? {
        Done::Evicted => {}
        ended @ (Done::Gone | Done::Left) => return Ok(ended),
    }
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(pod.uid.to_string()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    tried(&api, pod, may, || api.delete(name, &params)).await
}

/// Makes a request that names the pod's UID, again where that may help: what landed all the same does no harm twice.
async fn tried<T, F>(
    api: &Api<Pod>,
    pod: &PodInfo,
    may: &(impl Fn() -> bool + Sync),
    request: impl Fn() -> F,
) -> Result<Done, CallError>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let mut failures = 0_u32;
    loop {
        if !may() {
            return Ok(Done::Left);
        }
        let Err(error) = within(CALL_LIMIT, request()).await else {
            return Ok(Done::Evicted);
        };
        let may_help = matches!(
            error.kind(),
            Failure::Conflict | Failure::Throttled | Failure::Server | Failure::Unknown
        );
        let error = match gone(api, pod, error).await {
            Ok(gone) => return Ok(gone),
            Err(error) => error,
        };
        failures = failures.saturating_add(1);
        if !may_help || failures >= TRIES {
            return Err(error);
        }
        tokio::time::sleep(RETRY.delay(failures, dice())).await;
    }
}

/// Whether a call failed because the pod isn't there any more.
async fn gone(api: &Api<Pod>, pod: &PodInfo, error: CallError) -> Result<Done, CallError> {
    match error.kind() {
        Failure::NotFound => Ok(Done::Gone),
        Failure::Conflict => {
            let found = within(CALL_LIMIT, api.get_metadata_opt(&pod.key.name)).await?;
            let uid = found.and_then(|found| found.metadata.uid);
            if uid.as_deref() == Some(pod.uid.as_str()) {
                Err(error)
            } else {
                Ok(Done::Gone)
            }
        }
        _ => Err(error),
    }
}

/// The strategic merge patch of `pods/status`, over this very pod, that says that it has to go.
fn target_patch(pod: &PodInfo, message: &str, now: Timestamp) -> Value {
    let mut condition = json!({
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": PREEMPTION_BY_SCHEDULER,
        "message": message,
    });
    // A status that stays keeps its time.
    if pod.disruption == Disruption::None {
        condition["lastTransitionTime"] = json!(seconds(now));
    }
    if pod.generation > 0 {
        condition["observedGeneration"] = json!(pod.generation);
    }
    json!({ "metadata": { "uid": pod.uid.as_str() }, "status": { "conditions": [condition] } })
}

#[cfg(test)]
mod tests;
