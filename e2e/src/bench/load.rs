//! Creates the pods of a measurement in its tempo. It knows nothing of what becomes of them.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use pilotage_testkit::build::{self, PodBuilder};
use tokio::sync::watch;

use super::error::Error;
use super::runs::Tempo;

/// What each pod asks for; what it gets is the same in all runs.
pub(super) const REQUESTS: [(&str, &str); 2] = [("cpu", "250m"), ("memory", "128Mi")];

/// When a pod's POST was sent and answered.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) name: String,
    pub(super) at: Instant,
    pub(super) answered: Instant,
}

/// Names of the pods of a measurement.
pub(super) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|index| format!("{prefix}-{index:04}"))
        .collect()
}

/// Creates these pods, each in its namespace, and tells how many were sent.
pub(super) async fn create(
    client: &Client,
    pods: Vec<Pod>,
    tempo: Tempo,
    progress: &watch::Sender<usize>,
) -> Result<Vec<Sent>, Error> {
    let began = tokio::time::Instant::now();
    let (at_once, period) = match tempo {
        Tempo::Burst(at_once) => (at_once, Duration::ZERO),
        Tempo::Every(period) => (pods.len().max(1), period),
    };
    stream::iter(pods.into_iter().zip(0_u32..))
        .map(|(pod, index)| async move {
            let namespace = pod.namespace().unwrap_or_default();
            let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            tokio::time::sleep_until(began + period * index).await;
            let at = Instant::now();
            progress.send_modify(|sent| *sent += 1);
            api.create(&PostParams::default(), &pod)
                .await
                .map_err(Error::request("can't create a pod"))?;
            Ok(Sent {
                name: pod.name_any(),
                at,
                answered: Instant::now(),
            })
        })
        .buffer_unordered(at_once)
        .try_collect()
        .await
}

/// A pod that asks for what all do.
pub(super) fn pod(name: &str) -> PodBuilder {
    let requests = REQUESTS.into_iter();
    requests.fold(build::pod(name), |pod, (resource, quantity)| {
        pod.request(resource, quantity)
    })
}
