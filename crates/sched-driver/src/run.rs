//! The scheduling loop: pop, place, hand over to a binding task. One attempt at a time; a panic about one pod ends none
//! but its own.

use std::sync::Arc;
use std::time::Duration;

use pilotage_sched::{Assumed, Moment, Paused};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::binding;
use crate::core::Turn;
use crate::driver::Inner;
use crate::extension;

/// Pods between *assumed* and *bound* at once. It only bounds memory: most of them wait for somebody.
const BINDINGS: usize = 10_000;
/// The watches, and the bindings, share a thread with the loop: it gives way to them after so long.
const STRETCH: Duration = Duration::from_millis(1);
/// Time for bindings under way when the driver ends; a try at the API server takes no longer.
const BINDING_DRAIN: Duration = Duration::from_secs(15);

/// The loop. It sleeps until something changes or a time comes, and never polls.
pub(crate) async fn schedule(
    inner: Arc<Inner>,
    mut unlisted: watch::Receiver<usize>,
    token: CancellationToken,
    writers: CancellationToken,
) {
    // Whatever ends the loop, the writers end after it.
    let writers = writers.drop_guard();
    let bindings = TaskTracker::new();
    tokio::select! {
        () = token.cancelled() => {}
        () = turns(&inner, &mut unlisted, &bindings, &token) => {}
    }
    bindings.close();
    if tokio::time::timeout(BINDING_DRAIN, bindings.wait())
        .await
        .is_err()
    {
        tracing::warn!(left = bindings.len(), "leaving bindings that don't end");
    }
    inner.status.drain().await;
    drop(writers);
}

async fn turns(
    inner: &Arc<Inner>,
    unlisted: &mut watch::Receiver<usize>,
    bindings: &TaskTracker,
    token: &CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(BINDINGS));
    // A pod must not be placed by half of what is known. (An error means that the driver ends.)
    if unlisted.wait_for(|kinds| *kinds == 0).await.is_err() {
        return;
    }
    let mut stretch = Instant::now();
    loop {
        inner.leadership.acquired().await;
        inner.mistakes.tell_all();
        let Ok(slot) = slots.clone().acquire_owned().await else {
            return;
        };
        let began = inner.core.now();
        match inner.core.turn() {
            Turn::Idle(deadline) => {
                drop(slot);
                tokio::select! {
                    () = inner.core.changed() => {}
                    () = sleep_until(deadline) => {}
                }
                stretch = Instant::now();
            }
            Turn::Again => {}
            Turn::Publish(attempt) => {
                inner.metrics.searched(inner.core.since(began));
                let pod = attempt.pod().clone();
                inner.caught(&pod, || inner.publish(attempt, began));
            }
            Turn::Bind { assumed, held } => {
                inner.metrics.searched(inner.core.since(began));
                let binding = bind(inner, assumed, held, began, token);
                bindings.spawn(async move {
                    binding.await;
                    drop(slot);
                });
            }
            Turn::Ask(paused) => {
                inner.metrics.searched(inner.core.since(began));
                let asking = ask(inner.clone(), paused, began, token.clone());
                bindings.spawn(async move {
                    asking.await;
                    drop(slot);
                });
            }
        }
        if stretch.elapsed() >= STRETCH {
            tokio::task::yield_now().await;
            stretch = Instant::now();
        }
    }
}

/// Tells that a pod has a node, and binds it.
fn bind(
    inner: &Arc<Inner>,
    assumed: Box<Assumed>,
    held: Option<oneshot::Receiver<()>>,
    began: Moment,
    token: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    inner.caught(assumed.pod(), || {
        let (pod, node) = (assumed.pod(), assumed.node());
        inner.observer.assumed(pod, node, held.is_some());
    });
    binding::bind(inner.clone(), assumed, held, began, token.clone())
}

/// Asks extenders, and goes on with the attempt until it ends.
async fn ask(inner: Arc<Inner>, mut paused: Box<Paused>, began: Moment, token: CancellationToken) {
    loop {
        tokio::select! {
            // The pod is tried by whoever schedules next.
            () = token.cancelled() => return,
            () = extension::ask(&inner.extensions, &mut paused) => {}
        }
        match inner.core.resume(*paused) {
            Some(Turn::Ask(again)) => paused = again,
            Some(Turn::Bind { assumed, held }) => {
                return bind(&inner, assumed, held, began, &token).await;
            }
            Some(Turn::Publish(attempt)) => {
                let pod = attempt.pod().clone();
                return inner.caught(&pod, || inner.publish(attempt, began));
            }
            Some(Turn::Idle(_) | Turn::Again) | None => return,
        }
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
