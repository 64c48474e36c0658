//! The chaperon controller of a target: makes the pod of each `PodChaperon`, copies back what becomes of it, and takes
//! it along when the chaperon goes.
//!
//! observe → decide (pure, in `pilotage_candidate::chaperon`) → act, one request a turn; turns of one name never
//! overlap, so that a decision always knows the reply to the request before it. It must not know proxies, sources or
//! scheduling.

mod act;
pub(crate) mod objects;
pub mod rbac;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::{Client, Resource};
use pilotage_api::PodChaperon;
use pilotage_candidate::chaperon::{Memory, Observed, RawPod, decide};
use pilotage_clusters::{Event, Feed, Watch};
use pilotage_runtime::{
    lease::Leadership,
    moment::{after, from_now},
    ready::Gate,
};
use pilotage_sched_driver::publish::Recorder;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    caught::{self, caught_turn},
    turns::{Next, Turns, Waker},
};

/// Who tells events about chaperons and their pods.
const CONTROLLER: &str = "pilotage-chaperon-controller";
/// Requests under way at once.
const CONCURRENCY: usize = 64;
/// Chaperons that are read whole at once: a pod is made of each, and until then there are copies of up to 8 MiB.
const WHOLE: usize = 2;
/// One more is tried again after this long.
const BUSY: Duration = Duration::from_millis(250);
/// One that couldn't be read is tried again after this long.
const UNREAD: Duration = Duration::from_secs(1);

/// What the controller works with.
pub struct Chaperons {
    /// The target's API server, which is the local one.
    pub client: Client,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// Takes events about chaperons.
    pub events: Recorder,
}

/// Namespace and name, which a chaperon and its pod share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

struct Parts {
    client: Client,
    events: Recorder,
    leadership: Leadership,
    chaperons: Watch<PodChaperon>,
    pods: Watch<RawPod>,
    memories: Mutex<HashMap<Key, Memory>>,
    whole: Semaphore,
    started: Instant,
}

/// A chaperon with its spec, for one decision.
struct Whole<'a> {
    chaperon: Arc<PodChaperon>,
    _permit: SemaphorePermit<'a>,
}

/// Runs the controller until `shutdown`; `ready` is released when the chaperons and their pods are known.
pub fn run(with: Chaperons, shutdown: CancellationToken, ready: Gate) -> BoxFuture<'static, ()> {
    async move {
        let chaperons = objects::watch_chaperons(&with.client, &shutdown);
        let pods = objects::watch_pods(&with.client, &shutdown);
        let parts = Arc::new(Parts {
            client: with.client,
            events: with.events,
            leadership: with.leadership,
            chaperons,
            pods,
            memories: Mutex::default(),
            whole: Semaphore::new(WHOLE),
            started: Instant::now(),
        });
        let first_lists = async {
            parts.chaperons.synced().await;
            parts.pods.synced().await;
            ready.release();
            // Before that, what a store lacks means nothing.
            parts.leadership.acquired().await;
        };
        if shutdown.run_until_cancelled(first_lists).await.is_none() {
            return;
        }
        let (turns, waker) = Turns::new(CONCURRENCY);
        let turn = {
            let parts = parts.clone();
            move |key: Key| {
                let parts = parts.clone();
                async move {
                    let turn = Box::pin(parts.turn(&key));
                    caught_turn(turn, |panic| parts.panicked(&key, panic)).await
                }
                .boxed()
            }
        };
        let chaperons = parts.chaperons.subscribe();
        let pods = parts.pods.subscribe();
        futures::join!(
            turns.run(turn, shutdown.clone()),
            shutdown.run_until_cancelled(parts.follow_chaperons(chaperons, &waker)),
            shutdown.run_until_cancelled(parts.follow_pods(pods, &waker)),
        );
    }
    .boxed()
}

impl Parts {
    async fn follow_chaperons(&self, mut events: Feed<PodChaperon>, waker: &Waker<Key>) {
        while let Some(event) = events.recv().await {
            match event {
                Event::Applied(chaperon) | Event::Gone(chaperon) => waker.wake(Key::of(&*chaperon)),
                Event::Deleted(chaperon) => {
                    let key = Key::of(&*chaperon);
                    if let Some(uid) = &chaperon.metadata.uid {
                        let now = self.started.elapsed();
                        self.memories()
                            .entry(key.clone())
                            .or_default()
                            .chaperon_deleted(uid, now);
                    }
                    waker.wake(key);
                }
                Event::Synced => {}
            }
        }
    }

    async fn follow_pods(&self, mut events: Feed<RawPod>, waker: &Waker<Key>) {
        while let Some(event) = events.recv().await {
            let key = match event {
                Event::Applied(pod) => {
                    let key = Key::of(&*pod);
                    self.memories()
                        .entry(key.clone())
                        .or_default()
                        .pod_applied();
                    key
                }
                Event::Deleted(pod) => {
                    let key = Key::of(&*pod);
                    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                    self.memories()
                        .entry(key.clone())
                        .or_default()
                        .pod_deleted(uid);
                    key
                }
                Event::Gone(pod) => Key::of(&*pod),
                Event::Synced => continue,
            };
            waker.wake(key);
        }
    }

    /// Decides and acts until there is nothing to do for this name.
    async fn turn(&self, key: &Key) -> Next {
        let mut read = None;
        loop {
            if !self.leadership.is_leader() {
                // A lost lease ends the process.
                return Next::Rest;
            }
            let whole: Option<Whole<'_>> = read.take();
            let chaperon = match &whole {
                Some(whole) => Some(whole.chaperon.clone()),
                None => self.chaperons.get(Some(&key.namespace), &key.name),
            };
            let pod = self.pods.get(Some(&key.namespace), &key.name);
            let plan = {
                let mut memories = self.memories();
                if chaperon.is_none() && pod.is_none() {
                    memories.remove(key);
                    return Next::Rest;
                }
                let memory = memories.entry(key.clone()).or_default();
                let now = self.started.elapsed();
                let plan = decide(&Observed {
                    chaperon: chaperon.as_deref(),
                    pod: pod.as_deref(),
                    memory,
                    now,
                    wall: Timestamp::now(),
                });
                memory.begin(&plan, now);
                plan
            };
            let Some(action) = plan.action else {
                let mut again = plan.wake_at.map(|at| after(self.started, at));
                if plan.reads
                    && let Some(known) = &chaperon
                {
                    match self.read(key, known).await {
                        Ok(whole) => {
                            read = Some(whole);
                            continue;
                        }
                        Err(pause) => again = again.into_iter().chain([from_now(pause)]).min(),
                    }
                }
                return again.map_or(Next::Rest, Next::At);
            };
            let outcome = act::act(self, key, chaperon.as_deref(), &action).await;
            let now = self.started.elapsed();
            self.memories()
                .entry(key.clone())
                .or_default()
                .finish(&action, &outcome, now);
        }
    }

    /// The whole of this chaperon, or how long to wait for it.
    async fn read(&self, key: &Key, known: &PodChaperon) -> Result<Whole<'_>, Duration> {
        let permit = self.whole.try_acquire().map_err(|_| BUSY)?;
        match objects::whole(&self.client, key, &self.chaperons).await {
            Ok(Some(chaperon)) if chaperon.metadata.uid == known.metadata.uid => Ok(Whole {
                chaperon: Arc::new(chaperon),
                _permit: permit,
            }),
            // The watch brings what there is now.
            Ok(_) => Err(UNREAD),
            Err(error) => {
                let error = error.message();
                tracing::warn!(%key, error, "a chaperon can't be read; it is read again");
                Err(UNREAD)
            }
        }
    }

    /// A mistake of ours about one name.
    fn panicked(&self, key: &Key, panic: &str) {
        tracing::error!(%key, panic, "a turn panicked");
        let pod = self.pods.get(Some(&key.namespace), &key.name);
        let chaperon = self.chaperons.get(Some(&key.namespace), &key.name);
        let told = caught::occurrence(pod.as_deref(), chaperon.as_deref(), CONTROLLER, panic);
        if let Some(told) = told {
            self.events.record(told);
        }
    }

    fn memories(&self) -> MutexGuard<'_, HashMap<Key, Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
