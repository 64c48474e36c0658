//! How pods on virtual nodes that are nobody's proxies are seen: what is watched for them. Must not know what becomes
//! of them.
//!
//! No selector names the pods of all virtual nodes. So each node has a watch of its own as long as these are few, which
//! brings nothing else; when they are many, one watch brings all pods that aren't proxies, and of those on other nodes
//! nothing is kept: however many Targets somebody makes, they cost no more watches.

mod index;

use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use pilotage_api::{keys, names};
use pilotage_clusters::{Watch, WatchConfig};
use tokio::sync::watch as cell;
use tokio_util::sync::CancellationToken;

use crate::kept;
use index::{Index, node_of};

/// So many nodes have a watch each. Half as many have so again, after they were more.
const FEW: usize = 64;

/// What is seen on all nodes. Clones share it.
#[derive(Clone)]
pub(crate) struct Sight {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    stop: CancellationToken,
    /// Nodes that are looked at.
    nodes: Mutex<usize>,
    /// What all share, if they are many.
    wide: cell::Sender<Option<Arc<Wide>>>,
}

impl Sight {
    /// Nothing is watched until somebody looks, and nothing after `stop`.
    pub(crate) fn new(client: Client, stop: &CancellationToken) -> Self {
        let inner = Inner {
            client,
            stop: stop.clone(),
            nodes: Mutex::new(0),
            wide: cell::Sender::new(None),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Looks at a node, until that is dropped.
    pub(crate) fn look(&self, node: &str) -> Look {
        self.count(|nodes| nodes.saturating_add(1));
        Look {
            sight: self.clone(),
            node: node.to_owned(),
        }
    }

    fn count(&self, change: impl FnOnce(usize) -> usize) {
        let Inner {
            client,
            stop,
            nodes,
            wide,
        } = &*self.inner;
        let mut nodes = nodes.lock().unwrap_or_else(PoisonError::into_inner);
        *nodes = change(*nodes);
        wide.send_if_modified(|wide| {
            let want = is_wide(wide.is_some(), *nodes);
            let changes = wide.is_some() != want;
            if changes {
                tracing::info!(
                    nodes = *nodes,
                    shared = want,
                    "pods on virtual nodes are watched anew"
                );
                *wide = want.then(|| Wide::start(client.clone(), stop));
            }
            changes
        });
    }
}

/// Whether one watch is there for so many nodes: not back and forth at each one that comes and goes.
fn is_wide(is: bool, nodes: usize) -> bool {
    nodes > if is { FEW / 2 } else { FEW }
}

/// Somebody looks at a node.
pub(crate) struct Look {
    sight: Sight,
    node: String,
}

impl Drop for Look {
    fn drop(&mut self) {
        self.sight.count(|nodes| nodes.saturating_sub(1));
    }
}

impl Look {
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Changes when there is another [`view`](Self::view).
    pub(crate) fn views(&self) -> cell::Receiver<Option<Arc<Wide>>> {
        self.sight.inner.wide.subscribe()
    }

    /// How the node's pods are seen from now on.
    pub(crate) fn view(&self, wide: Option<&Arc<Wide>>) -> View {
        if let Some(wide) = wide {
            return View::Part(wide.clone(), self.node.clone());
        }
        let config = strays().fields(format!("spec.nodeName={}", self.node));
        let Inner { client, stop, .. } = &*self.sight.inner;
        View::Own(Watch::of_client(client.clone(), config, stop))
    }
}

/// Every proxy has this label.
fn strays() -> WatchConfig<Pod> {
    kept::only(WatchConfig::all().labels(format!("!{}", keys::HAS_FINALIZER)))
}

/// The pods of one node.
pub(crate) enum View {
    /// By a watch of its own.
    Own(Watch<Pod>),
    /// By the one of all.
    Part(Arc<Wide>, String),
}

impl View {
    pub(crate) fn pods(&self) -> Vec<Arc<Pod>> {
        match self {
            Self::Own(watch) => watch.list(),
            Self::Part(wide, node) => wide.index.pods(node),
        }
    }

    /// Changes when one of them does.
    pub(crate) fn changes(&self) -> cell::Receiver<u64> {
        match self {
            Self::Own(watch) => watch.changes(),
            Self::Part(wide, node) => wide.index.changes(node),
        }
    }
}

/// One watch for all nodes.
pub(crate) struct Wide {
    /// It ends with this.
    _watch: Watch<Pod>,
    index: Arc<Index>,
}

impl Wide {
    fn start(client: Client, stop: &CancellationToken) -> Arc<Self> {
        let config = strays()
            .fields("spec.nodeName!=")
            .keep(|pod| node_of(pod).is_some_and(names::may_be_virtual_node));
        let watch = Watch::of_client(client, config, stop);
        let (index, mut events) = (Arc::<Index>::default(), watch.subscribe());
        let filled = index.clone();
        tokio::spawn(async move {
            // They end with the watch.
            while let Some(event) = events.recv().await {
                filled.take(event);
            }
        });
        Arc::new(Self {
            _watch: watch,
            index,
        })
    }
}

#[cfg(test)]
mod tests {
    use kube::Config;

    use super::*;

    #[tokio::test]
    async fn many_nodes_share_one_watch_until_they_are_few_again() {
        pilotage_runtime::client::install_crypto_provider();
        // Nobody is there.
        let config = Config::new("http://127.0.0.1:9".parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let sight = Sight::new(client, &CancellationToken::new());
        let mut looks: Vec<Look> = (0..FEW).map(|it| sight.look(&it.to_string())).collect();
        let views = looks[0].views();
        let is_shared = || views.borrow().is_some();
        assert!(!is_shared());
        looks.push(sight.look("one-more"));
        assert!(is_shared());
        let shared = looks
            .iter()
            .all(|look| matches!(look.view(views.borrow().as_ref()), View::Part(..)));
        assert!(shared);
        // Not at each one that goes and comes.
        while looks.len() > FEW / 2 + 1 {
            looks.pop();
            assert!(is_shared(), "{}", looks.len());
        }
        looks.pop();
        assert!(!is_shared());
        assert!(matches!(
            looks[0].view(views.borrow().as_ref()),
            View::Own(_)
        ));
    }
}
