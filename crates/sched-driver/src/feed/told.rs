//! Pods that somebody else in the process watches already, so that each change is sent and parsed once.

use std::fmt;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Pod;
use pilotage_runtime::caught::caught;
use tokio_util::sync::CancellationToken;

use super::{Sink, hand};

/// Where a driver learns of pods.
pub enum Pods {
    /// It follows all pods of the cluster that aren't over.
    All,
    /// Somebody else follows those that matter here, and tells of each change in order. The driver ends with the
    /// stream.
    Told(BoxStream<'static, PodNews>),
}

impl fmt::Debug for Pods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "All",
            Self::Told(_) => "Told",
        })
    }
}

/// One change of the pods.
#[derive(Debug, Clone)]
pub enum PodNews {
    /// It came or changed.
    Applied(Arc<Pod>),
    /// It went.
    Gone(Arc<Pod>),
    /// All that a list held has been told.
    Listed,
}

/// Hands on what is told, until `token` is cancelled or nobody tells any more.
pub(crate) async fn told(
    mut news: BoxStream<'static, PodNews>,
    mut sink: impl Sink<Pod>,
    synced: impl FnOnce() + Send,
    token: CancellationToken,
) {
    let mut synced = Some(synced);
    while let Some(Some(news)) = token.run_until_cancelled(news.next()).await {
        match news {
            PodNews::Applied(pod) => hand(&mut sink, &pod),
            PodNews::Gone(pod) => {
                let meta = &pod.metadata;
                let text = |of: &Option<String>| of.as_deref().unwrap_or_default().to_owned();
                let (namespace, name) = (text(&meta.namespace), text(&meta.name));
                let gone = || sink.deleted(&namespace, &name, &text(&meta.uid));
                if let Err(panic) = caught(gone) {
                    tracing::error!(kind = "pods", namespace, name, panic, "a deletion panicked");
                }
            }
            PodNews::Listed => {
                if let Some(synced) = synced.take() {
                    synced();
                }
            }
        }
    }
}
