//! The edge without a fleet: who measures it tells it himself what happens to targets. Nothing is sent to them.

use futures::{FutureExt, future::BoxFuture};
use pilotage_runtime::ready;
use tokio_util::sync::CancellationToken;

use super::{Ask, Inbox, edge};
use crate::{fleet::Fleet, teller::Teller};

/// As [`super::run`], with targets that are told of.
pub fn run_told(
    ask: Ask,
    inbox: Inbox,
    shutdown: CancellationToken,
    ready: ready::Gate,
) -> (Teller, BoxFuture<'static, ()>) {
    let (teller, told) = Teller::new();
    let watches = edge::Watches::of(&ask, &shutdown);
    let (client, cluster) = (ask.client.clone(), ask.cluster.clone());
    let (fleet, _) = Fleet::new(client, cluster, ask.metrics.clone(), None);
    let edge = edge::Edge::new(ask, fleet);
    let running = async move { edge.run(watches, told, inbox, shutdown, ready).await };
    (teller, running.boxed())
}
