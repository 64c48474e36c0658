//! The Secrets that Targets name: one watch for each of them, however many Targets name it, from the first to the last
//! one. What is kept of a Secret is decided in `content`; of versions that come too fast some are passed over. Must not
//! know what becomes of a kubeconfig.

pub(crate) mod content;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use pilotage_runtime::caught::retried;
use tokio::sync::{Semaphore, watch as cell};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::pace::Pace;
use crate::spec::SecretRef;
use crate::watch::{Watch, WatchConfig, WatchHealth};

/// So many Secrets are listed at once: each of them may have over a megabyte, of which little is kept.
const LISTS: usize = 16;
/// So long others wait for a list.
const LIST_LIMIT: Duration = Duration::from_secs(5);

/// Which Secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    namespace: String,
    name: String,
}

/// The Secrets that the Targets of this process name. Clones share them.
#[derive(Clone)]
pub(crate) struct Secrets(Arc<Inner>);

struct Inner {
    client: Client,
    lists: Semaphore,
    followed: Mutex<HashMap<Place, Weak<Shared>>>,
}

/// What all who name a Secret have together.
struct Shared {
    core: Arc<Core>,
    secrets: Arc<Inner>,
    _stop: DropGuard,
}

/// What they share with the task that follows it, which must not keep them alive.
struct Core {
    place: Place,
    /// How many name each key.
    named: Mutex<BTreeMap<String, usize>>,
    /// Rises when a key is named that nobody named before.
    grown: cell::Sender<u64>,
    seen: cell::Sender<Seen>,
    /// When something else may be told.
    pace: Mutex<Pace>,
}

/// A Target's look at the Secret that it names, until it is dropped.
pub(crate) struct Held {
    key: String,
    seen: cell::Receiver<Seen>,
    shared: Arc<Shared>,
}

/// What is known of a Secret.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// What was read last.
    known: Option<Known>,
    /// Why it can't be read at present.
    failure: Option<String>,
}

/// What was read of a Secret by who looked for some keys.
#[derive(Clone, Debug)]
struct Known {
    /// None, if there is no such Secret.
    secret: Option<Arc<Secret>>,
    keys: Arc<BTreeSet<String>>,
}

impl PartialEq for Known {
    /// One version of a Secret doesn't differ from itself.
    fn eq(&self, other: &Self) -> bool {
        let version = |it: &Self| {
            let meta = &it.secret.as_ref()?.metadata;
            Some((meta.uid.clone(), meta.resource_version.clone()))
        };
        version(self) == version(other) && self.keys == other.keys
    }
}

/// What a Target finds that looks for a key.
#[derive(Debug)]
pub(crate) enum Look<'a> {
    /// Nobody has looked yet.
    Unknown,
    /// It can't be read, for this reason.
    Unreadable(&'a str),
    /// There is no such Secret.
    Missing,
    /// There it is, with that key if it has it.
    There(&'a Arc<Secret>),
}

impl Secrets {
    /// Those that are read by `client`.
    pub(crate) fn of(client: Client) -> Self {
        Self(Arc::new(Inner {
            client,
            lists: Semaphore::new(LISTS),
            followed: Mutex::default(),
        }))
    }

    /// Follows a Secret for who names it like this.
    pub(crate) fn follow(&self, secret: &SecretRef) -> Held {
        let place = Place {
            namespace: secret.namespace.clone(),
            name: secret.name.clone(),
        };
        let key = secret.key.clone();
        let mut followed = lock(&self.0.followed);
        let known = followed.get(&place).and_then(Weak::upgrade);
        let shared = if let Some(shared) = known {
            shared.core.join(&key);
            shared
        } else {
            let core = Arc::new(Core {
                place: place.clone(),
                named: Mutex::default(),
                grown: cell::Sender::new(0),
                seen: cell::Sender::new(Seen::default()),
                pace: Mutex::default(),
            });
            core.join(&key);
            let shared = Arc::new(self.start(core));
            followed.insert(place, Arc::downgrade(&shared));
            shared
        };
        let seen = shared.core.seen.subscribe();
        Held { key, seen, shared }
    }

    fn start(&self, core: Arc<Core>) -> Shared {
        let stop = CancellationToken::new();
        let (task, secrets, end) = (core.clone(), self.0.clone(), stop.clone());
        tokio::spawn(async move {
            let follow = || task.clone().follow(secrets.clone(), end.clone());
            let panicked = |panic: &str| {
                let Place { namespace, name } = &task.place;
                tracing::error!(namespace, name, panic, "to follow a Secret panicked");
            };
            end.run_until_cancelled(retried(follow, panicked)).await;
        });
        Shared {
            core,
            secrets: self.0.clone(),
            _stop: stop.drop_guard(),
        }
    }
}

impl Core {
    /// One more names this key.
    fn join(&self, key: &str) {
        let mut named = lock(&self.named);
        let count = named.entry(key.to_owned()).or_default();
        *count = count.saturating_add(1);
        let is_new = *count == 1;
        drop(named);
        if is_new {
            self.grown
                .send_modify(|grown| *grown = grown.wrapping_add(1));
        }
    }

    /// One fewer does.
    fn leave(&self, key: &str) {
        let mut named = lock(&self.named);
        if let Some(count) = named.get_mut(key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                named.remove(key);
            }
        }
    }

    fn keys(&self) -> BTreeSet<String> {
        lock(&self.named).keys().cloned().collect()
    }

    /// Never ends by itself. Whenever another key is named the Secret is read anew, since of those that nobody named
    /// nothing was kept; until then what was known stands.
    async fn follow(self: Arc<Self>, secrets: Arc<Inner>, stop: CancellationToken) {
        let mut grown = self.grown.subscribe();
        loop {
            grown.mark_unchanged();
            let keys = Arc::new(self.keys());
            self.follow_keys(&secrets, &keys, &mut grown, &stop).await;
            if let Err(then) = self.take_turn() {
                sleep_until(then).await;
            }
        }
    }

    /// Takes a turn to read or tell something else, or says when there is one.
    fn take_turn(&self) -> Result<(), Instant> {
        lock(&self.pace).take(Instant::now())
    }

    /// Follows the Secret until another key than these is named.
    async fn follow_keys(
        &self,
        secrets: &Inner,
        keys: &Arc<BTreeSet<String>>,
        grown: &mut cell::Receiver<u64>,
        stop: &CancellationToken,
    ) {
        // Nobody closes it.
        let turn = secrets.lists.acquire().await.ok();
        let named = keys.clone();
        let config = WatchConfig::all()
            .fields(format!("metadata.name={}", self.place.name))
            .trim(move |secret: &mut Secret| content::trim(secret, &named));
        let client = secrets.client.clone();
        let watch = Watch::of_namespace(client, &self.place.namespace, config, stop);
        let (mut changes, mut health) = (watch.changes(), watch.health());
        let fails = |health: &WatchHealth| matches!(health, WatchHealth::Failing { .. });
        let listed = async {
            tokio::select! {
                () = watch.synced() => {}
                _ = health.wait_for(fails) => {}
            }
        };
        // If it takes longer, it does so without its turn.
        let _ = timeout(LIST_LIMIT, listed).await;
        drop(turn);
        loop {
            // What comes until then is kept in one version, the newest.
            let then = self.tell(&watch, keys).err();
            tokio::select! {
                Ok(()) = changes.changed(), if then.is_none() => {}
                Ok(()) = health.changed(), if then.is_none() => {}
                () = sleep_until(then.unwrap_or_else(Instant::now)), if then.is_some() => {}
                Ok(()) = grown.changed() => if !self.keys().is_subset(keys) {
                    return;
                },
                else => return,
            }
        }
    }

    /// Tells what is known by now, if that is news; or says when it may be told.
    fn tell(&self, watch: &Watch<Secret>, keys: &Arc<BTreeSet<String>>) -> Result<(), Instant> {
        let Some(news) = self.news(watch, keys) else {
            return Ok(());
        };
        self.take_turn()?;
        self.seen.send_replace(news);
        Ok(())
    }

    fn news(&self, watch: &Watch<Secret>, keys: &Arc<BTreeSet<String>>) -> Option<Seen> {
        let Place { namespace, name } = &self.place;
        let seen = self.seen.borrow().clone();
        let news = if watch.is_synced() {
            let known = Known {
                secret: watch.get(Some(namespace), name),
                keys: keys.clone(),
            };
            Seen {
                known: Some(known),
                failure: None,
            }
        } else {
            let health = watch.health().borrow().clone();
            let WatchHealth::Failing { error, .. } = health else {
                return None;
            };
            Seen {
                known: seen.known.clone(),
                failure: Some(error),
            }
        };
        (seen != news).then_some(news)
    }
}

impl Held {
    /// What is known of the Secret by now.
    pub(crate) fn seen(&mut self) -> Seen {
        self.seen.borrow_and_update().clone()
    }

    /// Completes when something else is known than was seen.
    pub(crate) async fn changed(&mut self) {
        if self.seen.changed().await.is_err() {
            // The sender lives in `shared`.
            std::future::pending::<()>().await;
        }
    }
}

impl Seen {
    /// What who names this key finds.
    pub(crate) fn at(&self, key: &str) -> Look<'_> {
        match (&self.known, &self.failure) {
            (Some(Known { secret: None, .. }), _) => Look::Missing,
            (
                Some(Known {
                    secret: Some(secret),
                    keys,
                }),
                _,
            ) if keys.contains(key) => Look::There(secret),
            (_, Some(failure)) => Look::Unreadable(failure),
            (_, None) => Look::Unknown,
        }
    }

    /// The Secret itself, if there is one.
    pub(crate) fn secret(&self) -> Option<&Arc<Secret>> {
        self.known.as_ref()?.secret.as_ref()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.core.leave(&self.key);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut followed = lock(&self.secrets.followed);
        let place = &self.core.place;
        // Somebody else may have come meanwhile.
        if followed.get(place).is_some_and(|it| it.strong_count() == 0) {
            followed.remove(place);
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
