//! What ends a stream from outside: its proxy pod is gone, its target is removed or lost, or this process is about to
//! be.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use pilotage_clusters::{Connection, Target, Watch};
use pilotage_runtime::call::{self, CALL_LIMIT};
use tokio::sync::watch as cell;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::delegate::Proxy;
use super::tunnel::STALL;

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
    /// Its caller, or the target, takes nothing.
    Stalled,
}

/// The proxy of a stream, and where to look for it.
pub(crate) struct Lookout {
    pub(crate) proxy: Proxy,
    /// All proxies, as they are watched.
    pub(crate) proxies: Watch<Pod>,
    /// Those of its namespace, to be asked for.
    pub(crate) pods: Api<Pod>,
}

/// How often a target has said something by a stream, and how often the caller has taken it. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard(Arc<Parts>);

#[derive(Debug, Default)]
struct Parts {
    came: AtomicU64,
    taken: AtomicU64,
}

impl Heard {
    pub(crate) fn something(&self) {
        self.0.came.fetch_add(1, Ordering::Relaxed);
    }

    /// What came last is out of the way, and the target is listened to again.
    pub(crate) fn taken(&self) {
        self.0.taken.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.came.load(Ordering::Relaxed)
    }

    /// The count while the target is listened to; nothing while the caller has to take something first.
    fn listening(&self) -> Option<u64> {
        let count = self.count();
        (count == self.0.taken.load(Ordering::Relaxed)).then_some(count)
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
            Self::Stalled => write!(f, "nothing was taken for {} s", STALL.as_secs()),
        }
    }
}

/// Completes when one of these has happened.
pub(crate) async fn of(
    lookout: Lookout,
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
        () = gone(|| lookout.knows(), || lookout.misses()) => Ending::PodGone,
        () = lost(target.state(), &heard) => Ending::TargetLost,
    }
}

/// Completes when the target has been lost for a while and was silent all the while, and listened to. A connection that
/// is a black hole ends by itself only when TCP gives it up, many minutes later.
async fn lost(mut state: cell::Receiver<Connection>, heard: &Heard) {
    let is_lost = |it: &Connection| matches!(it, Connection::Lost { .. });
    loop {
        if state.wait_for(is_lost).await.is_err() {
            // Nobody keeps its state any more, since it was removed.
            return std::future::pending().await;
        }
        let before = heard.listening();
        let is_back = timeout(LOST, state.wait_for(|it| !is_lost(it)))
            .await
            .is_ok();
        if !is_back && before.is_some() && heard.listening() == before {
            return;
        }
    }
}

impl Lookout {
    /// The watch has the proxy, as it was.
    fn knows(&self) -> bool {
        let pod = self
            .proxies
            .get(Some(&self.proxy.namespace), &self.proxy.name);
        pod.is_some_and(|pod| self.proxy.is_still(&pod.metadata))
    }

    /// The API server says that it isn't there any more.
    async fn misses(&self) -> bool {
        let look = self.pods.get_metadata_opt(&self.proxy.name);
        match call::within(CALL_LIMIT, look).await {
            Ok(pod) => !pod.is_some_and(|pod| self.proxy.is_still(&pod.metadata)),
            // That nobody can say is no end.
            Err(error) => {
                tracing::debug!(%error, "a pod with a stream can't be looked at");
                false
            }
        }
    }
}

/// Completes when a proxy is neither known nor found. A watch may be older than the stream, so that only a look proves
/// it; as long as the watch has the proxy, nobody is asked.
async fn gone<F: Future<Output = bool>>(knows: impl Fn() -> bool, misses: impl Fn() -> F) {
    loop {
        sleep(PERIOD).await;
        if !knows() && misses().await {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::FutureExt;
    use pilotage_clusters::{LostReason, Since};
    use tokio::time::{Instant, advance};

    use super::*;

    fn unreachable() -> Connection {
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

        state.send_replace(unreachable());
        assert!((&mut lost).now_or_never().is_none());
        advance(LOST / 2).await;
        assert!((&mut lost).now_or_never().is_none());
        state.send_replace(Connection::Connecting);
        assert!((&mut lost).now_or_never().is_none());

        // Lost for the rest, and it talks at first.
        state.send_replace(unreachable());
        assert!((&mut lost).now_or_never().is_none());
        heard.something();
        heard.taken();
        let begin = Instant::now();
        lost.await;
        assert_eq!(begin.elapsed(), LOST * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_is_not_taken_for_a_silent_target() {
        let (_state, seen) = cell::channel(unreachable());
        let heard = Heard::default();
        let mut lost = Box::pin(lost(seen, &heard));
        // The caller doesn't take it, so nobody hears whether the target says more.
        heard.something();
        for _ in 0..5 {
            assert!((&mut lost).now_or_never().is_none());
            advance(LOST).await;
        }
        heard.taken();
        let begin = Instant::now();
        lost.await;
        assert!(begin.elapsed() >= LOST, "{:?}", begin.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_asked_for_a_proxy_that_is_watched() {
        let (known, missed) = (Cell::new(true), Cell::new(false));
        let asked = Cell::new(0);
        let misses = || {
            asked.set(asked.get() + 1);
            std::future::ready(missed.get())
        };
        let mut gone = Box::pin(gone(|| known.get(), misses));
        let step = async |gone: &mut _| {
            let ended = futures::FutureExt::now_or_never(gone).is_some();
            advance(PERIOD).await;
            ended
        };
        for _ in 0..9 {
            assert!(!step(&mut gone).await);
        }
        assert_eq!(asked.get(), 0);
        // A watch that is behind is no proof.
        known.set(false);
        assert!(!step(&mut gone).await);
        assert!(!step(&mut gone).await);
        assert_eq!(asked.get(), 2);
        missed.set(true);
        assert!(step(&mut gone).await);
    }
}
