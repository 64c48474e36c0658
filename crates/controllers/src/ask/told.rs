//! The edge without a fleet: who measures it tells it himself what happens to targets. Nothing is sent to them.

use futures::{FutureExt, future::BoxFuture};
use pilotage_clusters::Unread;
use pilotage_proxy::{ChaperonNews, Reach, Serves, placing::Words};
use pilotage_runtime::ready;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Ask, Inbox, edge};
use crate::fleet::{Fleet, FleetEvent};

/// Tells the edge of targets, by their virtual nodes.
#[derive(Debug)]
pub struct Teller(mpsc::UnboundedSender<FleetEvent>);

impl Teller {
    /// There is a Target for these pods.
    pub fn serves(&self, node: &str, serves: Serves) {
        self.tell(FleetEvent::Serves(node.to_owned(), serves));
    }

    /// It can, or can't, be reached.
    pub fn reach(&self, node: &str, reach: Reach) {
        self.tell(FleetEvent::Reach(node.to_owned(), reach));
    }

    /// Its operator says this of where it is.
    pub fn words(&self, node: &str, words: Words) {
        self.tell(FleetEvent::Words(node.to_owned(), words));
    }

    /// Something happened to a chaperon there.
    pub fn chaperon(&self, node: &str, news: ChaperonNews) {
        let unread = Unread::default();
        self.tell(FleetEvent::Chaperon(node.to_owned(), news, unread));
    }

    /// An edge that has ended listens to nobody.
    fn tell(&self, event: FleetEvent) {
        let _ = self.0.send(event);
    }
}

/// As [`super::run`], with targets that are told of.
pub fn run_told(
    ask: Ask,
    inbox: Inbox,
    shutdown: CancellationToken,
    ready: ready::Gate,
) -> (Teller, BoxFuture<'static, ()>) {
    let (tell, told) = mpsc::unbounded_channel();
    let watches = edge::Watches::of(&ask, &shutdown);
    let (client, cluster) = (ask.client.clone(), ask.cluster.clone());
    let (fleet, _) = Fleet::new(client, cluster, ask.metrics.clone(), None);
    let edge = edge::Edge::new(ask, fleet);
    let running = async move { edge.run(watches, told, inbox, shutdown, ready).await };
    (Teller(tell), running.boxed())
}
