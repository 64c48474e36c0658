//! The way of one pod from *assumed* to *bound*, or back into the queue: a task of its own.

use std::sync::Arc;

use pilotage_runtime::caught::caught_async;
use pilotage_sched::{
    Assumed, Code, Moment, NodeName, Nomination, Panicked, QueuedPod, Status, Verdict,
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::driver::Inner;
use crate::metrics::AttemptResult;
use crate::publish::Desired;

/// Binds a pod. `began` is when the attempt began. Ends early if the driver ends while Permit still
/// holds the pod: the hold is in memory only. A panic fails the attempt, and leaves no room taken.
pub(crate) async fn bind(
    inner: Arc<Inner>,
    assumed: Box<Assumed>,
    held: Option<oneshot::Receiver<()>>,
    began: Moment,
    token: CancellationToken,
) {
    let (queued, node) = (assumed.queued().clone(), assumed.node().clone());
    let all = whole_way(inner.clone(), assumed, held, began, token);
    if let Err(panic) = caught_async(all).await {
        let pod = queued.pod.clone();
        inner.caught(&pod, || abandon(&inner, queued, node, &panic, began));
    }
}

fn abandon(inner: &Inner, queued: QueuedPod, node: NodeName, panic: &str, began: Moment) {
    let pod = queued.pod.clone();
    let abandoned = inner
        .core
        .with(|scheduler, now| scheduler.abandon(queued, node, Panicked::new(panic), now));
    let Some(mut failure) = abandoned else {
        // It was bound, or given back, before.
        return inner.mistakes.of_scheduled(&pod, panic);
    };
    if inner.announce_nominations && failure.is_told() {
        failure.withdraw_nomination();
    }
    inner.publish_failure(&pod.scheduler_name, &failure, began);
}

async fn whole_way(
    inner: Arc<Inner>,
    mut assumed: Box<Assumed>,
    held: Option<oneshot::Receiver<()>>,
    began: Moment,
    token: CancellationToken,
) {
    let acts = match assumed.preflight() {
        Ok(acts) => acts,
        Err(status) => return fail(&inner, assumed, status, began, false),
    };
    let announced = inner.announce_nominations && (acts || held.is_some());
    if announced {
        let nomination = Nomination::Set(assumed.node().clone());
        let desired = Desired {
            unscheduled: None,
            nomination,
        };
        inner.write_status(assumed.pod(), desired);
    }
    if let Some(held) = held {
        let since = inner.core.now();
        tokio::select! {
            biased;
            // An error would mean that the wait was dropped; `start_binding` knows how it stands.
            _ = held => {}
            () = token.cancelled() => return,
        }
        let permitted = inner
            .core
            .with(|scheduler, _| scheduler.start_binding(assumed.uid()));
        let result = code(&permitted);
        inner.metrics.permit_waited(result, inner.core.since(since));
        if let Err(status) = permitted {
            return fail(&inner, assumed, status, began, announced);
        }
    } else if let Err(status) = inner
        .core
        .with(|scheduler, _| scheduler.start_binding(assumed.uid()))
    {
        return fail(&inner, assumed, status, began, announced);
    }
    let leads = || {
        let lost = || Status::error("this process doesn't lead any more");
        inner.leadership.is_leader().then_some(()).ok_or_else(lost)
    };
    let bound = async {
        leads()?;
        timed(&inner, &assumed, "PreBind", assumed.pre_bind()).await?;
        // What had to be prepared may have taken long.
        leads()?;
        timed(&inner, &assumed, "Bind", assumed.run_bind()).await
    }
    .await;
    match bound {
        Ok(()) => succeed(&inner, assumed, began),
        Err(status) => fail(&inner, assumed, status, began, announced),
    }
}

/// Runs an extension point and takes its time.
async fn timed(
    inner: &Inner,
    assumed: &Assumed,
    point: &'static str,
    work: impl Future<Output = Verdict>,
) -> Verdict {
    let since = inner.core.now();
    let done = work.await;
    let status = code(&done);
    inner.metrics.point(
        assumed.profile().name(),
        point,
        status,
        inner.core.since(since),
    );
    done
}

fn code(verdict: &Verdict) -> &'static str {
    match verdict {
        Ok(()) => Code::Success.as_str(),
        Err(status) => status.code().as_str(),
    }
}

fn succeed(inner: &Inner, assumed: Box<Assumed>, began: Moment) {
    let (pod, node) = (assumed.pod().clone(), assumed.node().clone());
    let profile = assumed.profile().name().clone();
    let event = inner
        .observer
        .tells_bound(&pod)
        .then(|| assumed.scheduled_event());
    let attempts = assumed.queued().attempts;
    let first = assumed.queued().first_tried_at.unwrap_or(began);
    inner
        .core
        .with(|scheduler, now| scheduler.bound(*assumed, now));
    tracing::info!(pod = %pod.key, %node, attempts, "pod bound");
    let core = &inner.core;
    inner
        .metrics
        .attempted(&profile, AttemptResult::Scheduled, core.since(began));
    inner.metrics.scheduled(attempts, core.since(first));
    if let Some(event) = event {
        let event = match inner.observer.story(&pod) {
            Some(story) => event.and(&story),
            None => event,
        };
        inner.record(&pod, event);
    }
    inner.observer.bound(&pod, &node);
}

fn fail(inner: &Inner, assumed: Box<Assumed>, status: Status, began: Moment, announced: bool) {
    let profile = assumed.profile().name().clone();
    let mut failure = inner
        .core
        .with(|scheduler, now| scheduler.binding_failed(*assumed, status, now));
    if announced && failure.is_told() {
        // The watch may not have shown our own nomination yet.
        failure.withdraw_nomination();
    }
    inner.publish_failure(&profile, &failure, began);
}
