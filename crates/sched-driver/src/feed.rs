//! Watches that never end: each keeps a [`Sink`] up to date with all objects of one kind.
//!
//! Owns restarts, back-off, word of the first complete list, and objects that can't be read or taken in.
//! Knows no scheduler; what the objects are for is the sink's business.

mod again;
mod intake;
mod lean;
mod relist;
mod share;
mod told;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::caught::{caught, caught_async};
use pilotage_runtime::guarded::Guarded;
use pilotage_sched::Stored;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use intake::{Fields, Lean, LeanPods, Reading, bare};
use relist::{Change, Relist, Tracked};
pub(crate) use told::told;
pub use told::{PodNews, Pods};

/// After errors in a row. Short, since the local API server is all that a scheduler has.
const RETRY: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5)).spread(0.2);
/// A page of a list that takes longer is asked for again.
const PAGE_LIMIT: Duration = Duration::from_secs(30);
/// Objects of a page. Whoever may create them says how long it is: twenty-five of the longest are 75 MB.
const PAGE: u32 = 25;
/// The API server tells no more of pods that are over: they take no room and need no node.
const LIVING_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Takes the changes of all objects of a kind, in order.
pub(crate) trait Sink<K>: Send {
    /// It came or changed.
    fn applied(&mut self, object: &Arc<K>);
    /// It went, as far as this watch is concerned.
    fn deleted(&mut self, namespace: &str, name: &str, uid: &str);
    /// To take it in panicked.
    fn panicked(&mut self, object: &Arc<K>, panic: &str);
}

/// Follows all pods that aren't over, until `token` is cancelled.
pub(crate) async fn pods(
    client: Client,
    sink: impl Sink<Pod>,
    synced: impl FnOnce() + Send,
    token: CancellationToken,
) {
    let config = watcher::Config::default().fields(LIVING_PODS);
    let open = || open_lean::<Pod, LeanPods>(&client, config.clone());
    let shared = again::Shared::new(sink);
    let again = again::read(client.clone(), shared.clone());
    tokio::select! {
        () = follow("pods", open, shared, synced, token) => {}
        never = again => match never {},
    }
}

/// Follows all nodes until `token` is cancelled; `prepare` makes of each what the scheduler is shown.
pub(crate) async fn nodes(
    client: Client,
    prepare: fn(&mut Node),
    sink: impl Sink<Node>,
    synced: impl FnOnce() + Send,
    token: CancellationToken,
) {
    let config = watcher::Config::default();
    follow(
        "nodes",
        || {
            open(&client, config.clone(), move |node| {
                lean::node(node);
                prepare(node);
            })
        },
        sink,
        synced,
        token,
    )
    .await;
}

/// Follows all objects of another kind until `token` is cancelled.
pub(crate) async fn objects<K>(
    what: &'static str,
    client: &Client,
    sink: impl Sink<K>,
    synced: impl FnOnce() + Send,
    token: CancellationToken,
) where
    K: Stored + Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let config = watcher::Config::default();
    let open = || open_lean::<K, Fields>(client, config.clone());
    follow(what, open, sink, synced, token).await;
}

type Item<K> = Result<Event<Guarded<K>>, watcher::Error>;

/// Reads each object at once so, on short pages.
fn open_lean<K, R>(
    client: &Client,
    config: watcher::Config,
) -> impl Stream<Item = Item<K>> + use<K, R>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + 'static,
    R: Reading<K> + Clone + Debug + Send + 'static,
{
    let api: Api<Lean<K, R>> = Api::all(client.clone());
    watcher(api, config.page_size(PAGE)).map(|item| item.map(bare))
}

fn open<K, L>(
    client: &Client,
    config: watcher::Config,
    lean: L,
) -> impl Stream<Item = Item<K>> + use<K, L>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    L: Fn(&mut K),
{
    let api: Api<Guarded<K>> = Api::all(client.clone());
    watcher(api, config).map(move |item| {
        item.map(|mut event| {
            if let Event::Apply(Guarded(Ok(object))) | Event::InitApply(Guarded(Ok(object))) =
                &mut event
            {
                lean::dropping(object, &lean);
            }
            event
        })
    })
}

impl<K: Resource> Tracked for Guarded<K> {
    /// Namespace (empty for cluster-scoped objects) and name.
    type Key = (String, String);

    fn identity(&self) -> Option<(Self::Key, String)> {
        let meta = self.meta();
        let key = (
            meta.namespace.clone().unwrap_or_default(),
            meta.name.clone()?,
        );
        Some((key, meta.uid.clone()?))
    }
}

async fn follow<K, S>(
    what: &'static str,
    open: impl Fn() -> S,
    mut sink: impl Sink<K>,
    synced: impl FnOnce() + Send,
    token: CancellationToken,
) where
    K: Resource,
    S: Stream<Item = Item<K>>,
{
    let mut relist = Relist::<Guarded<K>>::default();
    let mut synced = Some(synced);
    let mut failures = 0_u32;
    loop {
        let mut stream = Box::pin(open());
        loop {
            let next = async {
                if relist.is_listing() {
                    tokio::time::timeout(PAGE_LIMIT, stream.next()).await
                } else {
                    Ok(stream.next().await)
                }
            };
            let next = tokio::select! {
                biased;
                () = token.cancelled() => return,
                next = caught_async(next) => next,
            };
            let (delay, anew) = match next {
                Ok(Ok(Some(Ok(event)))) => {
                    // The beginning of a list is told before the API server was asked.
                    if !matches!(event, Event::Init) {
                        failures = 0;
                    }
                    if take(what, &mut relist, event, &mut sink)
                        && let Some(synced) = synced.take()
                    {
                        tracing::info!(kind = what, "first list complete");
                        synced();
                    }
                    continue;
                }
                Ok(Ok(Some(Err(error)))) => {
                    failures = failures.saturating_add(1);
                    let delay = RETRY.delay(failures, dice());
                    tracing::warn!(kind = what, %error, ?delay, "watch failed, trying again");
                    (delay, false)
                }
                Ok(Ok(None)) => (Duration::ZERO, true),
                Ok(Err(_)) => {
                    tracing::warn!(kind = what, limit = ?PAGE_LIMIT, "list hangs, asking again");
                    (Duration::ZERO, true)
                }
                Err(panic) => {
                    failures = failures.saturating_add(1);
                    let delay = RETRY.delay(failures, dice());
                    tracing::error!(kind = what, panic, ?delay, "watch panicked, making another");
                    (delay, true)
                }
            };
            tokio::select! {
                () = token.cancelled() => return,
                () = tokio::time::sleep(delay) => {}
            }
            if anew {
                break;
            }
        }
    }
}

/// Hands an object on, and says so if that panics.
fn hand<K>(sink: &mut impl Sink<K>, object: &Arc<K>) {
    if let Err(panic) = caught(|| sink.applied(object)) {
        sink.panicked(object, &panic);
    }
}

/// Hands the changes that an event means to the sink; whether the set is complete now.
fn take<K: Resource>(
    what: &'static str,
    relist: &mut Relist<Guarded<K>>,
    event: Event<Guarded<K>>,
    sink: &mut impl Sink<K>,
) -> bool {
    let mut complete = false;
    for change in relist.on(event) {
        match change {
            Change::Applied(Guarded(Ok(object))) => {
                hand(sink, &Arc::new(object));
            }
            Change::Applied(Guarded(Err(invalid))) => {
                // What was known of it stays in force; the others are none the worse.
                let meta = &invalid.metadata;
                tracing::error!(
                    kind = what,
                    namespace = meta.namespace.as_deref().unwrap_or_default(),
                    name = meta.name.as_deref().unwrap_or_default(),
                    error = invalid.error,
                    "an object can't be read and is left out"
                );
            }
            Change::Deleted {
                key: (namespace, name),
                uid,
            } => {
                if let Err(panic) = caught(|| sink.deleted(&namespace, &name, &uid)) {
                    tracing::error!(kind = what, namespace, name, panic, "a deletion panicked");
                }
            }
            Change::Synced => complete = true,
        }
    }
    complete
}

#[cfg(test)]
mod tests;
