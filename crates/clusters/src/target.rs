//! One target as its consumers see it: what it is, whether it answers, a client, and watches.
//!
//! A handle full of facts that its supervisor keeps current; it decides nothing.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use k8s_openapi::api::core::v1::Secret;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource};
use pilotage_api::parent::ClusterUid;
use pilotage_runtime::weight;
use serde::Serialize;
use tokio::sync::{Notify, watch as cell};
use tokio_util::sync::CancellationToken;

use crate::access::Authorization;
use crate::budget::Budget;
use crate::connection::{Connection, LostReason, Since};
use crate::door::streams::Streams;
use crate::key::{TargetKey, TargetObject};
use crate::offence::Offences;
use crate::session::Session;
use crate::trial::Trial;
use crate::watch::{ApiOf, Bound, Limits, News, Shared, Watch, WatchConfig, Watchable};

/// A target cluster.
pub struct Target {
    key: TargetKey,
    node: String,
    object: cell::Sender<Arc<TargetObject>>,
    connection: cell::Sender<Connection>,
    session: cell::Sender<Option<Session>>,
    /// What is next to tell sessions apart.
    number: AtomicU64,
    authorization: cell::Sender<Authorization>,
    identity: cell::Sender<Option<ClusterUid>>,
    turned_away: cell::Sender<Option<String>>,
    /// The Secret with its kubeconfig, as read last.
    secret: cell::Sender<Option<Arc<Secret>>>,
    /// Version of the Secret that the connection's state is about.
    tried: cell::Sender<Option<String>>,
    /// Whether it may be connected beside the others of its namespace; `None` until they are known.
    seat: cell::Sender<Option<bool>>,
    /// Whether it may be connected, or might be once.
    turn: cell::Sender<bool>,
    /// Somebody has reason to doubt the connection.
    pub(crate) doubt: Arc<Notify>,
    /// A watch failed: maybe for want of a permission.
    pub(crate) refused: Arc<Notify>,
    /// What its watches have against it.
    pub(crate) offences: Offences,
    budget: Arc<Budget>,
    /// How other credentials are tried; known once it is supervised.
    trial: OnceLock<Trial>,
    /// Whether its Secret holds a kubeconfig; `None` until that has been looked at.
    kubeconfig: Mutex<Option<bool>>,
    kubeconfigs: Arc<cell::Sender<u64>>,
    removed: CancellationToken,
    watches: Mutex<Vec<Shelved>>,
}

/// A watch that is shared as long as somebody holds it.
struct Shelved {
    kind: TypeId,
    labels: Option<String>,
    fields: Option<String>,
    shared: Weak<dyn Any + Send + Sync>,
}

impl Target {
    /// What is kept of it counts for `budget`; `seat` says whether it may be connected, as far as that is known;
    /// `kubeconfigs` rises whenever it shows what the Secret holds.
    pub(crate) fn new(
        object: TargetObject,
        budget: Budget,
        seat: Option<bool>,
        removed: CancellationToken,
        kubeconfigs: Arc<cell::Sender<u64>>,
    ) -> Self {
        Self {
            key: object.key.clone(),
            node: object.key.node(),
            object: cell::Sender::new(Arc::new(object)),
            connection: cell::Sender::new(Connection::Connecting),
            session: cell::Sender::new(None),
            number: AtomicU64::new(1),
            authorization: cell::Sender::new(Authorization::Unknown),
            identity: cell::Sender::new(None),
            turned_away: cell::Sender::new(None),
            secret: cell::Sender::new(None),
            tried: cell::Sender::new(None),
            seat: cell::Sender::new(seat),
            turn: cell::Sender::new(seat == Some(true)),
            doubt: Arc::new(Notify::new()),
            refused: Arc::new(Notify::new()),
            offences: Offences::default(),
            budget: Arc::new(budget),
            trial: OnceLock::new(),
            kubeconfig: Mutex::new(None),
            kubeconfigs,
            removed,
            watches: Mutex::new(Vec::new()),
        }
    }

    /// Whether the target takes these credentials instead of those that it is connected by.
    ///
    /// # Errors
    /// Why not, or why that isn't known.
    pub async fn takes(&self, kubeconfig: &[u8], context: Option<&str>) -> Result<(), LostReason> {
        let Some(trial) = self.trial.get() else {
            let why = "it isn't supervised yet".to_owned();
            return Err(LostReason::Unreachable(why));
        };
        trial.ask(kubeconfig, context, &self.budget).await
    }

    /// Says how credentials are tried.
    pub(crate) fn set_trial(&self, trial: Trial) {
        // Whoever supervises it later has the same options.
        let _ = self.trial.set(trial);
    }

    /// Which target.
    pub fn key(&self) -> &TargetKey {
        &self.key
    }

    /// Name of its virtual node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Its object, as last read.
    pub fn object(&self) -> Arc<TargetObject> {
        self.object.borrow().clone()
    }

    /// Its object, with every change, its status included.
    pub fn objects(&self) -> cell::Receiver<Arc<TargetObject>> {
        self.object.subscribe()
    }

    /// The state of its connection.
    pub fn connection(&self) -> Connection {
        self.connection.borrow().clone()
    }

    /// The state of its connection, with every change.
    pub fn state(&self) -> cell::Receiver<Connection> {
        self.connection.subscribe()
    }

    /// Whether its API server answers.
    pub fn is_connected(&self) -> bool {
        self.connection.borrow().is_connected()
    }

    /// A client, if its secret gives one; the target may be lost all the same. Ask again for each call: it changes with
    /// the secret.
    pub fn client(&self) -> Option<Client> {
        self.session
            .borrow()
            .as_ref()
            .map(|session| session.client.clone())
    }

    /// The way by which streams of its pods come, if its secret gives one. Ask again for each stream.
    pub fn streams(&self) -> Option<Streams> {
        let session = self.session.borrow();
        session.as_ref().and_then(|session| session.streams.clone())
    }

    /// Its clients, one after the other.
    pub fn sessions(&self) -> cell::Receiver<Option<Session>> {
        self.session.subscribe()
    }

    /// What we may do there.
    pub fn authorization(&self) -> cell::Receiver<Authorization> {
        self.authorization.subscribe()
    }

    /// Which cluster it is, once it has said so.
    pub fn identity(&self) -> cell::Receiver<Option<ClusterUid>> {
        self.identity.subscribe()
    }

    /// What it said that isn't its to say, since this process started; for its status.
    pub fn turned_away(&self) -> cell::Receiver<Option<String>> {
        self.turned_away.subscribe()
    }

    /// The Secret with its kubeconfig, with every change; `None` as long as there is none, or nobody may look. Of what
    /// is in it there is what somebody reads.
    pub fn secret(&self) -> cell::Receiver<Option<Arc<Secret>>> {
        self.secret.subscribe()
    }

    /// Version of the Secret whose kubeconfig was tried last, once it was; `None` as well if there is no Secret. Who
    /// reads the state of the connection after this, reads one of that kubeconfig or of a newer one.
    pub fn tried(&self) -> cell::Receiver<Option<String>> {
        self.tried.subscribe()
    }

    /// It said something that isn't its to say, and was turned away; `why` is our own words. Whether that is news.
    pub fn turn_away(&self, why: String) -> bool {
        self.turned_away.send_if_modified(|known| {
            // One word is enough: whoever lies in two ways would have it written again and again.
            let news = known.is_none();
            if news {
                tracing::warn!(target_key = %self.key, %why, "a target says what isn't its to say");
                *known = Some(why);
            }
            news
        })
    }

    /// Whether its Secret holds a kubeconfig, wherever that leads; `None` if nobody could look yet, and for this very
    /// cluster.
    pub fn has_kubeconfig(&self) -> Option<bool> {
        *self
            .kubeconfig
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how many pods may run there at present, now and whenever it is asked: so much may be kept of what the
    /// target shows.
    pub fn expect(&self, pods: impl Fn() -> usize + Send + Sync + 'static) {
        self.budget.expect(pods);
    }

    /// Cancelled when the target's object is gone; its watches have stopped then.
    pub fn removed(&self) -> &CancellationToken {
        &self.removed
    }

    /// A call to the target failed without an answer: look at once whether it is lost, instead of at the next period.
    pub fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// A call was answered that it isn't allowed: look soon which right is missing, instead of at the next period.
    pub fn denied(&self) {
        self.refused.notify_one();
    }

    /// Watches a namespaced kind there: in its own namespace for a `Target`, in all for a `ClusterTarget`. Watches with
    /// equal selectors are one, as long as somebody holds it.
    pub fn watch<K>(&self, config: WatchConfig<K>) -> Watch<K>
    where
        K: Watchable + Serialize + Resource<Scope = NamespaceResourceScope>,
    {
        let namespace = self.key.namespace.clone();
        let api: ApiOf<K> = Arc::new(move |client| match &namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        });
        self.shelved(config, api)
    }

    /// Watches a cluster-scoped kind there.
    pub fn watch_cluster<K>(&self, config: WatchConfig<K>) -> Watch<K>
    where
        K: Watchable + Serialize + Resource<Scope = ClusterResourceScope>,
    {
        self.shelved(config, Arc::new(Api::all))
    }

    fn shelved<K: Watchable + Serialize>(&self, config: WatchConfig<K>, api: ApiOf<K>) -> Watch<K> {
        let start = |config: WatchConfig<K>| {
            let (doubt, refused) = (self.doubt.clone(), self.refused.clone());
            let sessions = self.session.subscribe();
            let limits = Limits {
                bound: Bound::Target(self.budget.clone()),
                weigh: weight::of,
                slim: config.slim,
            };
            let witness = self.offences.witness();
            let connection = self.connection.subscribe();
            let told = move |news| match news {
                News::Failed(offence) => {
                    if let Some(reason) = offence {
                        witness.accuse(reason);
                    }
                    doubt.notify_one();
                    refused.notify_one();
                }
                News::Stalled(reason) => {
                    if connection.borrow().lost().is_none() {
                        witness.accuse(reason);
                    }
                }
                News::Works if witness.acquit() => doubt.notify_one(),
                News::Works => {}
            };
            Watch::start(sessions, api, config, &self.removed, Some(limits), told)
        };
        if config.keep.is_some() || config.trim.is_some() || config.slim.is_some() {
            // Functions can't be compared, so such a watch is its owner's alone.
            return start(config);
        }
        let mut shelf = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.retain(|entry| entry.shared.strong_count() > 0);
        let found = shelf.iter().find(|entry| {
            entry.kind == TypeId::of::<K>()
                && entry.labels == config.labels
                && entry.fields == config.fields
        });
        let shared = found.and_then(|entry| entry.shared.upgrade());
        if let Some(shared) = shared.and_then(|shared| shared.downcast::<Shared<K>>().ok()) {
            return Watch::from_shared(shared);
        }
        let (labels, fields) = (config.labels.clone(), config.fields.clone());
        let watch = start(config);
        let erased: Arc<dyn Any + Send + Sync> = watch.shared().clone();
        let shared = Arc::downgrade(&erased);
        shelf.push(Shelved {
            kind: TypeId::of::<K>(),
            labels,
            fields,
            shared,
        });
        watch
    }

    /// Whether it may be connected, with every change.
    pub(crate) fn seat(&self) -> cell::Receiver<Option<bool>> {
        self.seat.subscribe()
    }

    /// Whether it is, or was, among the oldest of its namespace since this process began: before that nothing is made
    /// for it, and afterwards what was made for it stays. It never turns back.
    pub fn turn(&self) -> cell::Receiver<bool> {
        self.turn.subscribe()
    }

    /// The same, at this moment.
    pub fn had_turn(&self) -> bool {
        *self.turn.borrow()
    }

    pub(crate) fn set_seat(&self, seated: bool) {
        self.turn
            .send_if_modified(|turn| seated && !std::mem::replace(turn, true));
        self.seat.send_if_modified(|seat| {
            let changed = *seat != Some(seated);
            *seat = Some(seated);
            changed
        });
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn set_object(&self, object: TargetObject) {
        self.object.send_replace(Arc::new(object));
    }

    /// Who the target was known to be: by the memory of its object, or by what it said to this process.
    pub fn known_identity(&self) -> Option<ClusterUid> {
        let written = self.object.borrow().status.cluster_uid.clone();
        written
            .map(ClusterUid)
            .or_else(|| self.identity.borrow().clone())
    }

    pub(crate) fn set_identity(&self, identity: ClusterUid) {
        self.identity.send_replace(Some(identity));
    }

    pub(crate) fn set_secret(&self, secret: Option<Arc<Secret>>) {
        self.secret.send_if_modified(|known| {
            let version = |it: &Secret| {
                let meta = &it.metadata;
                (meta.uid.clone(), meta.resource_version.clone())
            };
            let changed = known.as_deref().map(version) != secret.as_deref().map(version);
            if changed {
                *known = secret;
            }
            changed
        });
    }

    /// The state of the connection is about this version of its Secret. Set after that state.
    pub(crate) fn set_tried(&self, version: Option<&str>) {
        self.tried.send_if_modified(|known| {
            let changed = known.as_deref() != version;
            if changed {
                *known = version.map(str::to_owned);
            }
            changed
        });
    }

    pub(crate) fn set_kubeconfig(&self, holds: Option<bool>) {
        let mut known = self
            .kubeconfig
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *known != holds {
            *known = holds;
            self.kubeconfigs
                .send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// A number above all that were given for this target, whoever supervised it then.
    pub(crate) fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn set_session(&self, session: Option<Session>) {
        self.session.send_replace(session);
    }

    pub(crate) fn set_connection(&self, connection: Connection) {
        self.connection.send_if_modified(|state| {
            if *state == connection {
                return false;
            }
            match &connection {
                Connection::Connecting => {}
                Connection::Connected { .. } => {
                    tracing::info!(target_key = %self.key, "target connected");
                }
                Connection::Lost { reason, .. } => {
                    tracing::warn!(target_key = %self.key, reason = reason.word(), message = %reason, "target lost");
                }
            }
            *state = connection;
            true
        });
    }

    /// Lost for want of a way to try, since now unless it was lost already.
    pub(crate) fn lose(&self, reason: LostReason) {
        let since = match self.connection() {
            Connection::Lost { since, .. } => since,
            Connection::Connecting | Connection::Connected { .. } => Since::now(),
        };
        self.set_connection(Connection::Lost { since, reason });
    }

    pub(crate) fn set_authorization(&self, authorization: Authorization) {
        self.authorization.send_if_modified(|state| {
            let changed = *state != authorization;
            *state = authorization;
            changed
        });
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("key", &self.key)
            .field("connection", &*self.connection.borrow())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::target;

    #[test]
    fn of_what_was_turned_away_the_first_word_is_told_once() {
        let target = target();
        let mut told = target.turned_away();
        assert!(target.turn_away("it speaks for others".to_owned()));
        assert!(told.has_changed().unwrap());
        assert_eq!(
            told.borrow_and_update().as_deref(),
            Some("it speaks for others")
        );
        for why in ["it speaks for others", "it forges names"] {
            assert!(!target.turn_away(why.to_owned()));
        }
        assert!(!told.has_changed().unwrap(), "no other word is written");
    }
}
