//! The live set of targets: added, changed and removed while the process runs.
//!
//! Knows the objects `Target` and `ClusterTarget`, and nothing of what their clusters do: that is each target's
//! supervisor's. A target's trouble never reaches this file, and a panic about one target stops no other.

mod follow;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};

use kube::Client;
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::caught::{caught, caught_async};
use pilotage_runtime::throttle::Unthrottled;
use tokio::sync::{mpsc, watch as cell};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::args::Options;
use crate::budget::{Budget, Commons};
use crate::key::{TargetKey, TargetObject};
use crate::mistakes::{Mistake, Mistakes};
use crate::namespaces::TargetNamespaces;
use crate::seats::Seats;
use crate::secrets::Secrets;
use crate::supervise;
use crate::target::Target;
use crate::watch::{Watch, WatchConfig};
use follow::{Follower, Manner};

/// Targets in a page of a list: their authors may write a megabyte into each, of which little is kept.
const PAGE: u32 = 20;
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
    secrets: Secrets,
    mistakes: Arc<Mistakes>,
    shutdown: CancellationToken,
}

#[derive(Debug, Default)]
struct Set {
    targets: BTreeMap<TargetKey, Arc<Target>>,
    by_node: HashMap<String, TargetKey>,
    budgets: Commons,
    seats: Seats,
    subscribers: Vec<mpsc::UnboundedSender<RegistryEvent>>,
    told: cell::Sender<u64>,
}

impl Registry {
    /// Begins to follow the `Target`s and `ClusterTarget`s of the cluster behind `client`, until `shutdown`.
    pub fn start(client: &Client, options: Options, shutdown: &CancellationToken) -> Self {
        Self::start_as(client, options, shutdown, Manner::default())
    }

    fn start_as(
        client: &Client,
        options: Options,
        shutdown: &CancellationToken,
        manner: Manner,
    ) -> Self {
        let shutdown = shutdown.child_token();
        let own = options.unthrottled.as_ref();
        let own = own.map_or(client, |Unthrottled(client)| client);
        let inner = Arc::new(Inner {
            set: RwLock::default(),
            synced: cell::Sender::new(false),
            kubeconfigs: Arc::new(cell::Sender::new(0)),
            namespaces: options.namespaces.clone(),
            secrets: Secrets::of(own.clone()),
            mistakes: Arc::default(),
            shutdown: shutdown.clone(),
        });
        let registry = Self { inner };
        let (one, two) = (options.kept.clone(), options.kept.clone());
        let targets = WatchConfig::all()
            .pages_of(PAGE)
            .trim(move |it: &mut pilotage_api::Target| one.trim(&mut it.metadata));
        let targets = Watch::of_client(own.clone(), targets, &shutdown);
        let cluster_targets = WatchConfig::all()
            .pages_of(PAGE)
            .trim(move |it: &mut pilotage_api::ClusterTarget| two.trim(&mut it.metadata));
        let cluster_targets = Watch::of_client(own.clone(), cluster_targets, &shutdown);
        let (follows, watches) = (registry.clone(), (targets, cluster_targets));
        let follower = Follower::new(follows, client.clone(), options, watches, manner);
        tokio::spawn(async move {
            shutdown.run_until_cancelled(follower.run()).await;
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

    /// Changes whenever a Target comes, goes or changes, for those who look at all of them then: nothing is kept for
    /// who doesn't.
    pub fn changes(&self) -> cell::Receiver<u64> {
        self.write(|set| set.told.subscribe())
    }

    /// Changes whenever [`Target::has_kubeconfig`] does for one of them.
    pub fn kubeconfigs(&self) -> cell::Receiver<u64> {
        self.inner.kubeconfigs.subscribe()
    }

    /// Where the Secrets of Targets may be; others must not be asked for.
    pub fn namespaces(&self) -> &TargetNamespaces {
        &self.inner.namespaces
    }

    /// Mistakes of ours about one Target from now on, for who may tell its author.
    pub fn mistakes(&self) -> mpsc::UnboundedReceiver<Mistake> {
        self.inner.mistakes.subscribe()
    }

    /// Something about a Target panicked, and was caught.
    pub fn mistaken(&self, task: &'static str, target: &Target, panic: &str) {
        let about = target.object().reference();
        self.inner.mistakes.tell(task, about, panic);
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

    /// Runs `work` once for each target, as a task of its own that is told to end when the target is removed; if it
    /// ends or panics before that, it is started again after a pause. Completes at shutdown, when all tasks have ended.
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
                    let (work, mistakes) = (work.clone(), self.inner.mistakes.clone());
                    let task = tokio::spawn(async move {
                        if let Some(previous) = previous {
                            // Two tasks for one name must not overlap; how the other ended is logged there.
                            let _ = previous.await;
                        }
                        keep_running(name, target, end, work, mistakes).await;
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
        let key = object.key.clone();
        let add = |set: &mut Set| {
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
        };
        let added = catch_unwind(AssertUnwindSafe(|| self.write(add)));
        let target = added.unwrap_or_else(|panic| {
            // Half a target has no supervisor, and would never get one.
            if let Err(panic) = caught(|| self.drop_target(&key, None)) {
                tracing::error!(target_key = %key, panic, "a target is half there");
            }
            resume_unwind(panic)
        });
        tracing::info!(target_key = %target.key(), node = target.node(), "target added");
        tokio::spawn(keep_running(
            "supervisor",
            target.clone(),
            target.removed().clone(),
            {
                let (client, options) = (client.clone(), options.clone());
                let secrets = self.inner.secrets.clone();
                move |target, _| {
                    let (client, options) = (client.clone(), options.clone());
                    supervise::run(target, client, secrets.clone(), options)
                }
            },
            self.inner.mistakes.clone(),
        ));
    }

    /// Removes the target of that key, if it has that UID.
    fn drop_target(&self, key: &TargetKey, uid: Option<&str>) {
        let mut removed = None;
        self.write(|set| {
            let Some(target) = set.targets.get(key).cloned() else {
                return;
            };
            if uid.is_some_and(|uid| target.object().uid != uid) {
                return;
            }
            set.targets.remove(key);
            set.by_node.remove(target.node());
            // Its tasks end, whatever happens here.
            removed = Some(target.removed().clone().drop_guard());
            set.seats.leave(&target.object());
            set.reseat(key);
            set.tell(&RegistryEvent::Removed(key.clone()));
        });
        if removed.is_some() {
            tracing::info!(target_key = %key, "target removed");
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
        self.told.send_modify(|told| *told = told.wrapping_add(1));
    }
}

/// Runs `work` until `end` or the target's removal, again and again if need be.
async fn keep_running<F, W>(
    name: &'static str,
    target: Arc<Target>,
    end: CancellationToken,
    work: W,
    mistakes: Arc<Mistakes>,
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
        let began = Instant::now();
        // Even to begin may panic.
        let running = Box::pin(async { work(target.clone(), stop.clone()).await });
        let ended = caught_async(running).await;
        if let Err(panic) = &ended {
            mistakes.tell(name, target.object().reference(), panic);
        }
        if stop.is_cancelled() {
            break;
        }
        if began.elapsed() >= RESTART.max {
            failures = 0;
        }
        failures = failures.saturating_add(1);
        tracing::error!(target_key = %target.key(), task = name, "task of a target ended and is started again");
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
