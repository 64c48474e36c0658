//! What ends a stream from outside: its proxy pod is gone, its target is removed or lost, or this process is about to
//! be.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use pilotage_clusters::{Connection, Target};
use pilotage_runtime::call::{self, CALL_LIMIT};
use tokio::sync::watch as cell;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::delegate::Proxy;

/// How often the proxy is looked at. Its delegate goes with it, which ends most streams sooner.
const PERIOD: Duration = Duration::from_secs(30);
/// How long a stream outlives its target's loss, without a word by it: a shorter cut is none of its affair.
const LOST: Duration = Duration::from_secs(30);

/// Why a stream is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    PodGone,
    TargetRemoved,
    TargetLost,
    Shutdown,
}

/// How often a target has said something by a stream. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard(Arc<AtomicU64>);

impl Heard {
    pub(crate) fn something(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodGone => f.write_str("the pod is gone, or was recorded at another target"),
            Self::TargetRemoved => f.write_str("the target was removed"),
            Self::TargetLost => {
                let seconds = LOST.as_secs();
                write!(
                    f,
                    "the target is lost, and has said nothing for {seconds} s"
                )
            }
            Self::Shutdown => f.write_str("the kubelet of virtual nodes ends; ask again"),
        }
    }
}

/// Completes when one of these has happened.
pub(crate) async fn of(
    pods: Api<Pod>,
    proxy: Proxy,
    target: Arc<Target>,
    heard: Heard,
    shutdown: CancellationToken,
) -> Ending {
    tokio::select! {
        () = shutdown.cancelled() => Ending::Shutdown,
        () = target.removed().cancelled() => {
            // At a shutdown all targets are.
            if shutdown.is_cancelled() { Ending::Shutdown } else { Ending::TargetRemoved }
        }
        () = gone(&pods, &proxy) => Ending::PodGone,
        () = lost(target.state(), &heard) => Ending::TargetLost,
    }
}

/// Completes when the target has been lost for a while and was silent all the while. A connection that is a black hole
/// ends by itself only when TCP gives it up, many minutes later.
async fn lost(mut state: cell::Receiver<Connection>, heard: &Heard) {
    let is_lost = |it: &Connection| matches!(it, Connection::Lost { .. });
    loop {
        if state.wait_for(is_lost).await.is_err() {
            // Nobody keeps its state any more, since it was removed.
            return std::future::pending().await;
        }
        let before = heard.count();
        let is_back = timeout(LOST, state.wait_for(|it| !is_lost(it)))
            .await
            .is_ok();
        if !is_back && heard.count() == before {
            return;
        }
    }
}

async fn gone(pods: &Api<Pod>, proxy: &Proxy) {
    loop {
        sleep(PERIOD).await;
        match call::within(CALL_LIMIT, pods.get_metadata_opt(&proxy.name)).await {
            Ok(Some(pod)) if proxy.is_still(&pod.metadata) => {}
            Ok(_) => return,
            // That nobody can say is no end.
            Err(error) => tracing::debug!(%error, "a pod with a stream can't be looked at"),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use pilotage_clusters::{LostReason, Since};
    use tokio::time::{Instant, advance};

    use super::*;

    fn gone() -> Connection {
        Connection::Lost {
            since: Since::now(),
            reason: LostReason::Unreachable("no answer".to_owned()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_outlives_a_short_loss_and_a_target_that_still_talks() {
        let (state, seen) = cell::channel(Connection::Connecting);
        let heard = Heard::default();
        let mut lost = Box::pin(lost(seen, &heard));
        advance(LOST * 9).await;
        assert!((&mut lost).now_or_never().is_none());

        state.send_replace(gone());
        assert!((&mut lost).now_or_never().is_none());
        advance(LOST / 2).await;
        assert!((&mut lost).now_or_never().is_none());
        state.send_replace(Connection::Connecting);
        assert!((&mut lost).now_or_never().is_none());

        // Lost for the rest, and it talks at first.
        state.send_replace(gone());
        assert!((&mut lost).now_or_never().is_none());
        heard.something();
        let begin = Instant::now();
        lost.await;
        assert_eq!(begin.elapsed(), LOST * 2);
    }
}
