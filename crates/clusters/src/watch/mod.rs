//! A watch that survives everything: the handle that consumers hold.
//!
//! One task a watch, with its own back-off; it stops when the last handle is dropped, or with its target. Consumers
//! read the [`Store`] without waiting and take as many event feeds as they like. How a session is come by is not known
//! here: the watch goes on from where it was whenever it is given a new one.

mod event;
mod feed;
mod limits;
mod list;
mod object;
mod page;
mod position;
mod run;
mod shelf;
mod sparing;
mod stalls;
mod store;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kube::{Api, Client, Resource};
use pilotage_runtime::caught::caught;
use pilotage_runtime::guarded::{Guarded, Unreadable};
use pilotage_runtime::weight;
use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use tokio::sync::watch as cell;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use event::Event;
pub use feed::{Feed, Unread};
pub use store::Store;

pub(crate) use limits::{Bound, Limits};

use crate::connection::{LostReason, Since};
use crate::door::OBJECT_WEIGHT;
use crate::session::Session;

/// What can be watched.
pub trait Watchable:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static
{
}

impl<K> Watchable for K where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static
{
}

/// What to watch of a kind. Managed fields are always dropped.
pub struct WatchConfig<K> {
    /// Label selector.
    pub labels: Option<String>,
    /// Field selector.
    pub fields: Option<String>,
    /// Which objects are of use at all, beyond what selectors can say; others are passed over as if they weren't there.
    /// It must say the same of an object as long as that lives.
    pub keep: Option<fn(&K) -> bool>,
    /// Drops what the consumer doesn't need before it is stored. It must leave the metadata's identity alone.
    pub trim: Option<Trim<K>>,
    /// What becomes of an object that weighs more than its share of what may be kept, after it was trimmed: one pod's
    /// share of a target, or, in this very cluster, one object's among many heavy ones of its namespace. All but what
    /// the consumer can't do without goes, so that it takes no room from others. It must leave the metadata's identity
    /// alone, and say in the object that it was there: what is missing then means nothing.
    pub slim: Option<fn(&mut K)>,
    /// How an object of this very cluster is read that is too heavy to be read whole; it comes with `slim`, and says in
    /// the object what is missing. Without it such a one is passed over: what was known of it stays.
    pub heavy: Option<fn(&str) -> serde_json::Result<K>>,
    /// What an object weighs, for `slim`.
    weigh: Option<fn(&K) -> usize>,
    /// Objects in a page of a list. A page is in memory as a whole, before anything is trimmed.
    pub page: u32,
}

/// Drops parts of an object.
pub type Trim<K> = Arc<dyn Fn(&mut K) + Send + Sync>;

/// Objects in a page, as client-go's.
const PAGE_SIZE: u32 = 500;
/// No shorter text can weigh too much.
const SHORT: usize = 64 << 10;
/// Why an object isn't read.
const TOO_HEAVY: &str = "it is too heavy to be read";

impl<K> Default for WatchConfig<K> {
    fn default() -> Self {
        Self {
            labels: None,
            fields: None,
            keep: None,
            trim: None,
            slim: None,
            heavy: None,
            weigh: None,
            page: PAGE_SIZE,
        }
    }
}

impl<K> Clone for WatchConfig<K> {
    fn clone(&self) -> Self {
        Self {
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            keep: self.keep,
            trim: self.trim.clone(),
            slim: self.slim,
            heavy: self.heavy,
            weigh: self.weigh,
            page: self.page,
        }
    }
}

impl<K> fmt::Debug for WatchConfig<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchConfig")
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .field("keep", &self.keep.is_some())
            .field("trim", &self.trim.is_some())
            .field("slim", &self.slim.is_some())
            .field("heavy", &self.heavy.is_some())
            .field("page", &self.page)
            .finish_non_exhaustive()
    }
}

impl<K> WatchConfig<K> {
    /// Everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// The same, restricted by a label selector.
    #[must_use]
    pub fn labels(self, selector: impl Into<String>) -> Self {
        Self {
            labels: Some(selector.into()),
            ..self
        }
    }

    /// The same, restricted by a field selector.
    #[must_use]
    pub fn fields(self, selector: impl Into<String>) -> Self {
        Self {
            fields: Some(selector.into()),
            ..self
        }
    }

    /// The same, without the objects that `keep` doesn't keep.
    #[must_use]
    pub fn keep(self, keep: fn(&K) -> bool) -> Self {
        Self {
            keep: Some(keep),
            ..self
        }
    }

    /// The same, trimming each object before it is stored.
    #[must_use]
    pub fn trim(self, trim: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        Self {
            trim: Some(Arc::new(trim)),
            ..self
        }
    }

    /// The same, with this done to objects that are too heavy to be kept whole.
    #[must_use]
    pub fn slim(self, slim: fn(&mut K)) -> Self
    where
        K: Serialize,
    {
        Self {
            slim: Some(slim),
            weigh: Some(weight::of),
            ..self
        }
    }

    /// The same, reading objects of this very cluster so that are too heavy to be read whole.
    #[must_use]
    pub fn heavy(self, read: fn(&str) -> serde_json::Result<K>) -> Self {
        Self {
            heavy: Some(read),
            ..self
        }
    }

    /// The same, listing so many objects at once: fewer for large ones, of which little is kept.
    #[must_use]
    pub fn pages_of(self, objects: u32) -> Self {
        Self {
            page: objects,
            ..self
        }
    }
}

/// How a watch fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchHealth {
    /// Nothing has been read yet, and nothing failed.
    Starting,
    /// The last list or watch worked.
    Live,
    /// It doesn't work at present; the store is as it was.
    Failing {
        /// Since when.
        since: Since,
        /// What the API server said, or why there was no answer.
        error: String,
    },
}

/// What a watch tells about the server that it talks to.
pub(crate) enum News {
    /// It failed; with the reason, if no API server does such a thing.
    Failed(Option<LostReason>),
    /// Nothing has come for long, however often it was asked for. It says something of the server only if its probe is
    /// well.
    Stalled(LostReason),
    /// It has read something sensible.
    Works,
}

/// A running watch. Clones share it; it stops when the last one is dropped.
pub struct Watch<K: Watchable> {
    shared: Arc<Shared<K>>,
}

pub(crate) struct Shared<K: Watchable> {
    core: Arc<Core<K>>,
    _stop: DropGuard,
}

/// What the task and the handles share; the task must not keep the handles alive.
pub(crate) struct Core<K> {
    pub(crate) store: Store<K>,
    pub(crate) synced: cell::Sender<bool>,
    pub(crate) health: cell::Sender<WatchHealth>,
    trim: Option<Trim<K>>,
    heavy: Option<fn(&str) -> serde_json::Result<K>>,
}

impl<K: Watchable> Core<K> {
    /// An object as it stands in a list or an event. Of targets the door has measured it.
    fn read(&self, text: &str) -> Guarded<K> {
        if text.len() <= SHORT || !self.store.is_own_and_limited() {
            return Guarded::read(text);
        }
        Guarded::read_within(text, OBJECT_WEIGHT, |text| match self.heavy {
            Some(read) => read(text),
            None => Err(serde_json::Error::custom(TOO_HEAVY)),
        })
    }
}

/// Makes the API for a client: which kind, and in which namespace.
pub(crate) type ApiOf<K> = Arc<dyn Fn(Client) -> Api<Guarded<K>> + Send + Sync>;

impl<K: Watchable> Watch<K> {
    /// Watches the objects of all namespaces, or of a cluster-scoped kind, in the cluster behind `client`, until the
    /// last handle is dropped or `stop` is cancelled.
    pub fn of_client(client: Client, config: WatchConfig<K>, stop: &CancellationToken) -> Self {
        let limits = Limits::own(&config);
        Self::start(
            Session::fixed(client),
            Arc::new(Api::all),
            config,
            stop,
            limits,
            |_| {},
        )
    }

    /// Watches the objects of one namespace in the cluster behind `client`.
    pub fn of_namespace(
        client: Client,
        namespace: &str,
        config: WatchConfig<K>,
        stop: &CancellationToken,
    ) -> Self
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope>,
    {
        let namespace = namespace.to_owned();
        let api: ApiOf<K> = Arc::new(move |client| Api::namespaced(client, &namespace));
        let limits = Limits::own(&config);
        Self::start(Session::fixed(client), api, config, stop, limits, |_| {})
    }

    /// `tell` is called after each failure, so that whoever minds the connection looks at once, and when it works
    /// again.
    pub(crate) fn start(
        sessions: cell::Receiver<Option<Session>>,
        api: ApiOf<K>,
        config: WatchConfig<K>,
        stop: &CancellationToken,
        limits: Option<Limits<K>>,
        tell: impl Fn(News) + Send + Sync + 'static,
    ) -> Self {
        let selective = config.labels.is_some() || config.fields.is_some();
        let core = Arc::new(Core {
            store: Store::new(selective, limits),
            synced: cell::Sender::new(false),
            health: cell::Sender::new(WatchHealth::Starting),
            trim: config.trim.clone(),
            heavy: config.heavy,
        });
        let stop = stop.child_token();
        let follower = run::Follower::new(core.clone(), sessions, api, config, Box::new(tell));
        let token = stop.clone();
        tokio::spawn(async move {
            // Cancellation drops the watch wherever it is; the store outlives it.
            token.run_until_cancelled(follower.run()).await;
        });
        Self {
            shared: Arc::new(Shared {
                core,
                _stop: stop.drop_guard(),
            }),
        }
    }

    /// What is known.
    pub fn store(&self) -> &Store<K> {
        &self.shared.core.store
    }

    /// An object that came back of a write, as it is kept of the watch.
    pub fn as_kept(&self, mut object: K) -> K {
        object.meta_mut().managed_fields = None;
        if let Some(trim) = &self.shared.core.trim
            && let Err(panic) = caught(|| trim(&mut object))
        {
            tracing::error!(kind = %K::kind(&()), panic, "an object is kept whole");
        }
        self.store().fit(&mut object);
        object
    }

    /// An object as the watch would read it: of one that is too heavy only what [`WatchConfig::heavy`] reads.
    pub fn read(&self, text: &str) -> Result<K, Unreadable> {
        self.shared.core.read(text).0
    }

    /// Takes in the reply to a write of our own, as the watch would bring it; see [`Store::fold`].
    pub fn fold_reply(&self, reply: &str) {
        match self.read(reply) {
            Ok(object) => self.store().fold(self.as_kept(object)),
            // The watch says more of it.
            Err(error) => tracing::debug!(kind = %K::kind(&()), %error, "a reply can't be read"),
        }
    }

    /// Completes once a list has been read. With a dead cluster it may never do: don't wait for it in a loop that
    /// serves others.
    pub async fn synced(&self) {
        let mut synced = self.shared.core.synced.subscribe();
        // The sender lives in `self`, so this can't fail.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// How the watch fares.
    pub fn health(&self) -> cell::Receiver<WatchHealth> {
        self.shared.core.health.subscribe()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<K>> {
        &self.shared
    }

    pub(crate) fn from_shared(shared: Arc<Shared<K>>) -> Self {
        Self { shared }
    }
}

impl<K: Watchable> Deref for Watch<K> {
    type Target = Store<K>;

    fn deref(&self) -> &Store<K> {
        self.store()
    }
}

impl<K: Watchable> Clone for Watch<K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<K: Watchable> fmt::Debug for Watch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store().fmt(f)
    }
}

#[cfg(test)]
mod tests;
