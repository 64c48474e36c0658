//! The live set of targets: added, changed and removed while the process runs.
//!
//! Knows the objects `Target` and `ClusterTarget`, and nothing of what their clusters do: that is each target's
//! supervisor's. A target's trouble never reaches this file.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};

use kube::Client;
use pilotage_api as api;
use pilotage_runtime::backoff::{Backoff, dice};
use tokio::sync::{mpsc, watch as cell};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::args::Options;
use crate::budget::{Budget, Commons};
use crate::key::{TargetKey, TargetObject};
use crate::namespaces::TargetNamespaces;
use crate::seats::Seats;
use crate::supervise;
use crate::target::Target;
use crate::watch::{Event, Watch, WatchConfig};

/// Pause before a task that broke is started again.
const RESTART: Backoff = Backoff::new(
    std::time::Duration::from_secs(1),
    std::time::Duration::from_mins(1),
)
.spread(0.5);

/// A change of the set.
#[derive(Clone, Debug)]
pub enum RegistryEvent {
    /// A target is there.
    Added(Arc<Target>),
    /// Its object changed in more than its status. Connection and client change without this; see [`Target::state`].
    Changed(Arc<Target>),
    /// Its object is gone.
    Removed(TargetKey),
}

/// The targets. Clones share them.
#[derive(Clone, Debug)]
pub struct Registry {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    set: RwLock<Set>,
    synced: cell::Sender<bool>,
    /// Rises whenever it shows what a Target's Secret holds.
    kubeconfigs: Arc<cell::Sender<u64>>,
    namespaces: TargetNamespaces,
    shutdown: CancellationToken,
}

#[derive(Debug, Default)]
struct Set {
    targets: BTreeMap<TargetKey, Arc<Target>>,
    by_node: HashMap<String, TargetKey>,
    budgets: Commons,
    seats: Seats,
    subscribers: Vec<mpsc::UnboundedSender<RegistryEvent>>,
}

impl Registry {
    /// Begins to follow the `Target`s and `ClusterTarget`s of the cluster behind `client`, until `shutdown`.
    pub fn start(client: &Client, options: Options, shutdown: &CancellationToken) -> Self {
        let shutdown = shutdown.child_token();
        let inner = Arc::new(Inner {
            set: RwLock::default(),
            synced: cell::Sender::new(false),
            kubeconfigs: Arc::new(cell::Sender::new(0)),
            namespaces: options.namespaces.clone(),
            shutdown: shutdown.clone(),
        });
        let registry = Self { inner };
        let targets = Watch::of_client(client.clone(), WatchConfig::all(), &shutdown);
        let cluster_targets = Watch::of_client(client.clone(), WatchConfig::all(), &shutdown);
        let (follower, client) = (registry.clone(), client.clone());
        tokio::spawn(async move {
            let work = follower.follow(targets, cluster_targets, client, options);
            shutdown.run_until_cancelled(work).await;
        });
        registry
    }

    /// All targets, in the order of their keys.
    pub fn targets(&self) -> Vec<Arc<Target>> {
        self.read(|set| set.targets.values().cloned().collect())
    }

    /// One target.
    pub fn get(&self, key: &TargetKey) -> Option<Arc<Target>> {
        self.read(|set| set.targets.get(key).cloned())
    }

    /// The target that a virtual node stands for.
    pub fn by_node(&self, node: &str) -> Option<Arc<Target>> {
        self.read(|set| set.targets.get(set.by_node.get(node)?).cloned())
    }

    /// What there is, as [`RegistryEvent::Added`], and every change from now on.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<RegistryEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.write(|set| {
            for target in set.targets.values() {
                // The receiver is right here.
                let _ = sender.send(RegistryEvent::Added(target.clone()));
            }
            set.subscribers.push(sender);
        });
        receiver
    }

    /// Changes whenever [`Target::has_kubeconfig`] does for one of them.
    pub fn kubeconfigs(&self) -> cell::Receiver<u64> {
        self.inner.kubeconfigs.subscribe()
    }

    /// Where the Secrets of Targets may be; others must not be asked for.
    pub fn namespaces(&self) -> &TargetNamespaces {
        &self.inner.namespaces
    }

    /// Whether both kinds have been listed: before that, a target that isn't here may exist.
    pub fn is_synced(&self) -> bool {
        *self.inner.synced.borrow()
    }

    /// Completes once both kinds have been listed; whether their clusters answer plays no part.
    pub async fn synced(&self) {
        let mut synced = self.inner.synced.subscribe();
        // The sender lives in `self`, so this can't fail.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// Runs `work` once for each target, as a task of its own that is told to end when the target is removed; if it ends
    /// or panics before that, it is started again after a pause. Completes at shutdown, when all tasks have ended.
    ///
    /// `work` gets a token that is cancelled at removal and at shutdown, and is given time to finish what it does.
    pub async fn for_each<F, W>(&self, name: &'static str, shutdown: &CancellationToken, work: W)
    where
        W: Fn(Arc<Target>, CancellationToken) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let mut events = self.subscribe();
        let mut running: HashMap<TargetKey, JoinHandle<()>> = HashMap::new();
        loop {
            let event = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                event = events.recv() => event,
            };
            match event {
                Some(RegistryEvent::Added(target)) => {
                    let end = shutdown.child_token();
                    let key = target.key().clone();
                    let previous = running.remove(&key);
                    let work = work.clone();
                    let task = tokio::spawn(async move {
                        if let Some(previous) = previous {
                            // Two tasks for one name must not overlap; how the other ended is logged there.
                            let _ = previous.await;
                        }
                        keep_running(name, target, end, work).await;
                    });
                    running.insert(key, task);
                }
                Some(RegistryEvent::Changed(_) | RegistryEvent::Removed(_)) => {}
                None => break,
            }
            running.retain(|_, task| !task.is_finished());
        }
        shutdown.cancelled().await;
        for task in running.into_values() {
            let _ = task.await;
        }
    }

    async fn follow(
        self,
        targets: Watch<api::Target>,
        cluster_targets: Watch<api::ClusterTarget>,
        client: Client,
        options: Options,
    ) {
        let (mut one, mut two) = (targets.subscribe(), cluster_targets.subscribe());
        loop {
            tokio::select! {
                Some(event) = one.recv() => match event {
                    Event::Applied(target) => {
                        self.apply(TargetObject::from_target(&target), &client, &options);
                    }
                    // Our own API server's list is the truth about what it is to do.
                    Event::Deleted(target) | Event::Gone(target) => {
                        self.remove(TargetObject::from_target(&target));
                    }
                    Event::Synced => self.write(Set::seat_all),
                },
                Some(event) = two.recv() => match event {
                    Event::Applied(target) => {
                        self.apply(TargetObject::from_cluster_target(&target), &client, &options);
                    }
                    Event::Deleted(target) | Event::Gone(target) => {
                        self.remove(TargetObject::from_cluster_target(&target));
                    }
                    Event::Synced => {}
                },
                else => return,
            }
            // Only when what the lists held has been taken in.
            if one.is_empty()
                && two.is_empty()
                && targets.is_synced()
                && cluster_targets.is_synced()
            {
                self.inner
                    .synced
                    .send_if_modified(|synced| !std::mem::replace(synced, true));
            }
        }
    }

    fn apply(&self, object: Option<TargetObject>, client: &Client, options: &Options) {
        let Some(object) = object else { return };
        let known = self.get(&object.key);
        if let Some(target) = known.filter(|target| target.object().uid == object.uid) {
            let changed = target.object().differs_in_substance(&object);
            target.set_object(object);
            if changed {
                self.write(|set| set.tell(&RegistryEvent::Changed(target)));
            }
            return;
        }
        // Another object under a known name is another target.
        self.drop_target(&object.key, None);
        let (removed, kubeconfigs) = (
            self.inner.shutdown.child_token(),
            self.inner.kubeconfigs.clone(),
        );
        let target = self.write(|set| {
            let namespace = object.key.namespace.as_deref();
            let budget = Budget::of(namespace.map(|namespace| set.budgets.of(namespace)));
            let seat = set.seats.at_first(&object);
            let target = Arc::new(Target::new(object, budget, seat, removed, kubeconfigs));
            set.by_node
                .insert(target.node().to_owned(), target.key().clone());
            set.targets.insert(target.key().clone(), target.clone());
            set.seats.join(&target.object());
            set.reseat(target.key());
            set.tell(&RegistryEvent::Added(target.clone()));
            target
        });
        tracing::info!(target_key = %target.key(), node = target.node(), "target added");
        tokio::spawn(keep_running(
            "supervisor",
            target.clone(),
            target.removed().clone(),
            {
                let (client, options) = (client.clone(), options.clone());
                move |target, _| supervise::run(target, client.clone(), options.clone())
            },
        ));
    }

    fn remove(&self, object: Option<TargetObject>) {
        if let Some(object) = object {
            self.drop_target(&object.key, Some(&object.uid));
        }
    }

    /// Removes the target of that key, if it has that UID.
    fn drop_target(&self, key: &TargetKey, uid: Option<&str>) {
        let removed = self.write(|set| {
            let target = set.targets.get(key)?;
            if uid.is_some_and(|uid| target.object().uid != uid) {
                return None;
            }
            let target = set.targets.remove(key)?;
            set.by_node.remove(target.node());
            set.seats.leave(&target.object());
            set.reseat(key);
            set.tell(&RegistryEvent::Removed(key.clone()));
            Some(target)
        });
        if let Some(target) = removed {
            tracing::info!(target_key = %key, "target removed");
            target.removed().cancel();
        }
    }

    fn read<T>(&self, look: impl FnOnce(&Set) -> T) -> T {
        look(
            &self
                .inner
                .set
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    fn write<T>(&self, change: impl FnOnce(&mut Set) -> T) -> T {
        change(
            &mut self
                .inner
                .set
                .write()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

impl Set {
    /// All Targets are known from now on.
    fn seat_all(&mut self) {
        if self.seats.complete() {
            for (namespace, name, seated) in self.seats.all() {
                self.seat(&TargetKey::namespaced(namespace, name), seated);
            }
        }
    }

    /// One of these has come or gone.
    fn reseat(&self, key: &TargetKey) {
        let Some(namespace) = &key.namespace else {
            return;
        };
        for (name, seated) in self.seats.edge(namespace) {
            self.seat(&TargetKey::namespaced(namespace, name), seated);
        }
    }

    fn seat(&self, key: &TargetKey, seated: bool) {
        if let Some(target) = self.targets.get(key) {
            target.set_seat(seated);
        }
    }

    fn tell(&mut self, event: &RegistryEvent) {
        self.subscribers
            .retain(|subscriber| subscriber.send(event.clone()).is_ok());
    }
}

/// Runs `work` until `end` or the target's removal, again and again if need be.
async fn keep_running<F, W>(
    name: &'static str,
    target: Arc<Target>,
    end: CancellationToken,
    work: W,
) where
    W: Fn(Arc<Target>, CancellationToken) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let stop = end.child_token();
    let _cancel_with_the_target = tokio::spawn({
        let (removed, stop) = (target.removed().clone(), stop.clone());
        async move {
            tokio::select! {
                () = removed.cancelled() => stop.cancel(),
                () = stop.cancelled() => {}
            }
        }
    });
    let mut failures = 0_u32;
    while !stop.is_cancelled() {
        // A task of its own, so that a panic ends the task and nothing else.
        let ended = tokio::spawn(work(target.clone(), stop.clone())).await;
        if stop.is_cancelled() {
            break;
        }
        failures = failures.saturating_add(1);
        let error = ended
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        tracing::error!(target_key = %target.key(), task = name, error, "task of a target ended and is started again");
        let mut pause = pin!(tokio::time::sleep(RESTART.delay(failures, dice())));
        tokio::select! {
            () = &mut pause => {}
            () = stop.cancelled() => {}
        }
    }
    stop.cancel();
}

#[cfg(test)]
#[path = "registry/tests.rs"]
mod tests;
