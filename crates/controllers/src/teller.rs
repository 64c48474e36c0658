//! Tells an edge what a fleet would: for who measures one without targets. It knows nothing of what follows from it.

use pilotage_clusters::Unread;
use pilotage_proxy::{ChaperonNews, Reach, Serves, Terms, placing::Words};
use tokio::sync::mpsc;

use crate::fleet::FleetEvent;

/// Tells an edge of targets, by their virtual nodes.
#[derive(Debug)]
pub struct Teller(mpsc::UnboundedSender<FleetEvent>);

impl Teller {
    /// With what the edge hears it by.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<FleetEvent>) {
        let (tell, told) = mpsc::unbounded_channel();
        (Self(tell), told)
    }

    /// There is a Target for these pods.
    pub fn serves(&self, node: &str, serves: Serves) {
        self.tell(FleetEvent::Serves(node.to_owned(), serves));
    }

    /// It can, or can't, be reached.
    pub fn reach(&self, node: &str, reach: Reach) {
        self.tell(FleetEvent::Reach(node.to_owned(), reach));
    }

    /// Its operator says this of what becomes of pods there.
    pub fn terms(&self, node: &str, terms: Terms) {
        self.tell(FleetEvent::Terms(node.to_owned(), terms));
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
