//! The controller without a fleet: who measures it tells it himself what happens to targets. Nothing is sent to them.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use pilotage_runtime::ready::Gate;
use tokio_util::sync::CancellationToken;

use super::{Feedback, edge::Edge};
use crate::{fleet::Fleet, teller::Teller};

/// As [`super::run`], with targets that are told of.
pub fn run_told(
    feedback: Feedback,
    shutdown: CancellationToken,
    ready: Gate,
) -> (Teller, BoxFuture<'static, ()>) {
    let (teller, told) = Teller::new();
    let proxies = feedback.proxies.clone();
    let (client, cluster) = (feedback.client.clone(), feedback.cluster.clone());
    let (fleet, _) = Fleet::new(client, cluster, feedback.metrics.clone(), None);
    let edge = Edge::new(Arc::new(feedback), fleet);
    let running = async move { edge.run(proxies, told, shutdown, ready).await };
    (teller, running.boxed())
}
