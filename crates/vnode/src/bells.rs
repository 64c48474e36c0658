//! What is told of each virtual node by itself: a bell that is rung when its object changes, and whether that is there.
//! So a change of one node wakes nobody who minds another one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Node;
use pilotage_clusters::{Event, Watch};
use tokio::sync::{Notify, watch as cell};

/// Bells before anybody looks which are of no use any more.
const SWEEP: usize = 64;

/// One node's.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    changed: Notify,
    is_there: cell::Sender<bool>,
}

impl Bell {
    /// Completes when the node has changed since the last time; for one listener only.
    pub(crate) async fn rung(&self) {
        self.changed.notified().await;
    }

    /// Completes when the node is there.
    pub(crate) async fn is_there(&self) {
        // The sender lives in `self`, so this can't fail.
        let _ = self.is_there.subscribe().wait_for(|there| *there).await;
    }
}

/// The bells of all nodes that somebody minds. Clones share them.
#[derive(Clone)]
pub(crate) struct Bells {
    nodes: Watch<Node>,
    all: Arc<Mutex<All>>,
}

#[derive(Default)]
struct All {
    bells: HashMap<String, Arc<Bell>>,
    /// So many may there be until they are looked through.
    sweep: usize,
}

impl Bells {
    pub(crate) fn new(nodes: Watch<Node>) -> Self {
        Self {
            nodes,
            all: Arc::default(),
        }
    }

    /// The bell of a node.
    pub(crate) fn of(&self, node: &str) -> Arc<Bell> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = all.bells.get(node) {
            return bell.clone();
        }
        if all.bells.len() >= all.sweep {
            // Those of nodes that nobody keeps any more; seldom, since each look is at all of them.
            all.bells.retain(|_, bell| Arc::strong_count(bell) > 1);
            all.sweep = all.bells.len().saturating_mul(2).max(SWEEP);
        }
        let bell = Arc::<Bell>::default();
        self.look(node, &bell);
        all.bells.insert(node.to_owned(), bell.clone());
        bell
    }

    /// Rings for what the watch of nodes tells, as long as that lasts.
    pub(crate) async fn ring(self) {
        let mut events = self.nodes.subscribe();
        while let Some(event) = events.recv().await {
            let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            match event {
                Event::Applied(node) | Event::Deleted(node) | Event::Gone(node) => {
                    let name = node.metadata.name.as_deref().unwrap_or_default();
                    if let Some(bell) = all.bells.get(name) {
                        self.look(name, bell);
                        bell.changed.notify_one();
                    }
                }
                // Now "absent" can be told from "not known".
                Event::Synced => all
                    .bells
                    .values()
                    .for_each(|bell| bell.changed.notify_one()),
            }
        }
    }

    /// The store, and not the event, says whether the node is there: who looks later than that is told of the next one.
    fn look(&self, node: &str, bell: &Bell) {
        let there = self.nodes.get(None, node).is_some();
        bell.is_there
            .send_if_modified(|known| std::mem::replace(known, there) != there);
    }
}
