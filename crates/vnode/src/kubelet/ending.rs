//! What ends a stream from outside: its proxy pod is gone, its target is, or this process is about to be.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use pilotage_clusters::Target;
use pilotage_runtime::call::{self, CALL_LIMIT};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::delegate::Proxy;

/// How often the proxy is looked at. Its delegate goes with it, which ends most streams sooner.
const PERIOD: Duration = Duration::from_secs(30);

/// Why a stream is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    PodGone,
    TargetRemoved,
    Shutdown,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PodGone => "the pod is gone, or was recorded at another target",
            Self::TargetRemoved => "the target was removed",
            Self::Shutdown => "the kubelet of virtual nodes ends; ask again",
        })
    }
}

/// Completes when one of these has happened.
pub(crate) async fn of(
    pods: Api<Pod>,
    proxy: Proxy,
    target: Arc<Target>,
    shutdown: CancellationToken,
) -> Ending {
    tokio::select! {
        () = shutdown.cancelled() => Ending::Shutdown,
        () = target.removed().cancelled() => {
            // At a shutdown all targets are.
            if shutdown.is_cancelled() { Ending::Shutdown } else { Ending::TargetRemoved }
        }
        () = gone(&pods, &proxy) => Ending::PodGone,
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
