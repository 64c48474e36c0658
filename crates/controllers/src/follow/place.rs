//! One kind in one target: who wakes an object's turn, and the turn.

mod tell;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use kube::Client;
use pilotage_api::parent::{ClusterUid, selector_of_plain_sources, selector_of_source};
use pilotage_clusters::spec::Access;
use pilotage_clusters::{Authorization, Event, Feed, Registry, Target, Watch, WatchConfig};
use pilotage_runtime::caught::caught_turn;
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::moment::from_now;
use pilotage_runtime::turns::{Next, Turns, Waker};
use pilotage_sched_driver::publish::{EventType, Occurrence, Recorder, Regarding};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::act::Pair;
use super::brief::Brief;
use super::decide::{Observed, Step, Why, decide};
use super::kinds::{Followed, trim};
use super::needs::{Change, Key, Needed, Needs};
use super::pace::Pace;
use super::{PAGE, SOON};

/// Copies that nobody needs are looked at this long after the first of them shows, and so many at a time: a target may
/// show any number.
const SWEEP: Duration = Duration::from_millis(500);
const SWEPT: usize = 64;
/// More objects than that are remembered only while something happens to them.
const REMEMBERED: usize = 4096;
/// After so many failures in a row it is told that something always moves on.
const PATIENCE: u32 = 5;
/// Who tells.
pub(super) const CONTROLLER: &str = "pilotage-follow";

/// What all places have in common.
pub(super) struct Parts {
    pub(super) client: Client,
    pub(super) cluster: ClusterUid,
    pub(super) registry: Registry,
    pub(super) leadership: Leadership,
    pub(super) events: Recorder,
    pub(super) needs: Needs,
    /// Objects of one kind that are written in one target at once.
    pub(super) at_once: usize,
}

impl Parts {
    /// Tells the authors of these objects that something isn't followed.
    pub(super) fn tell_not_followed(&self, whom: impl Iterator<Item = Regarding>, note: &str) {
        for regarding in whom {
            self.events.record(Occurrence {
                regarding,
                type_: EventType::Warning,
                reason: "NotFollowed",
                action: "Follow",
                note: note.to_owned(),
                controller: CONTROLLER.into(),
            });
        }
    }
}

/// Follows objects of one kind into one target, until `stop`.
pub(super) async fn follow<K: Followed>(
    parts: Arc<Parts>,
    target: Arc<Target>,
    objects: Watch<K>,
    stop: CancellationToken,
) {
    let config = || WatchConfig::all().trim(trim::<K>).pages_of(PAGE);
    let copies = target.watch(config().labels(selector_of_source(&parts.cluster)));
    let plain = target.watch(config().labels(selector_of_plain_sources()));
    let place = Arc::new(Place {
        parts,
        target,
        objects,
        copies,
        plain,
        memories: Mutex::default(),
    });
    let (turns, waker) = Turns::new(place.parts.at_once);
    let turn = {
        let place = place.clone();
        move |key: Key| {
            let place = place.clone();
            async move { caught_turn(place.turn(&key), |panic| Place::<K>::panicked(&key, panic)).await }
                .boxed()
        }
    };
    let waking = place.wake(waker);
    tokio::join!(
        turns.run(turn, stop.clone()),
        stop.run_until_cancelled(Box::pin(waking))
    );
}

/// Whether a target is the source itself: what pods need is there.
pub(super) fn is_home(target: &Target, source: &ClusterUid) -> bool {
    matches!(target.object().access, Ok(Access::Local))
        || target.known_identity().as_ref() == Some(source)
}

/// The next event of one of both.
async fn either<K>(one: &mut Feed<K>, other: &mut Feed<K>) -> Option<Event<K>> {
    tokio::select! {
        Some(event) = one.recv() => Some(event),
        Some(event) = other.recv() => Some(event),
        else => None,
    }
}

struct Place<K: Followed> {
    parts: Arc<Parts>,
    target: Arc<Target>,
    objects: Watch<K>,
    copies: Watch<K>,
    /// Copies by sources without an identity, as Admiralty is: this source's, when it had Admiralty, and others'.
    plain: Watch<K>,
    memories: Mutex<HashMap<Key, Memory>>,
}

/// What is remembered of an object that was written.
#[derive(Debug, Default)]
struct Memory {
    pace: Pace,
    /// The digest of the object that was copied last, until nobody needs the copy.
    copied: Option<String>,
    /// The digest that was written, and the copy's version then: something there made another one of it.
    written: Option<(String, String)>,
    /// UIDs of those who know that the target doesn't give the right, until something was written by it.
    told_of_right: BTreeSet<String>,
    /// The Secrets that its author knows to be left at home.
    told_of_secrets: String,
}

impl<K: Followed> Place<K> {
    /// Wakes turns, for as long as it is polled.
    async fn wake(&self, waker: Waker<Key>) {
        let mut changes = self.parts.needs.subscribe(K::KIND);
        let mut objects = self.objects.subscribe();
        let (mut copies, mut plain) = (self.copies.subscribe(), self.plain.subscribe());
        let (mut states, mut rights) = (self.target.state(), self.target.authorization());
        let mut identities = self.target.identity();
        let mut targets = self.parts.registry.changes();
        let mut sweep: Option<Instant> = None;
        let leadership = self.parts.leadership.clone();
        let mut leads = false;
        loop {
            // The senders of all of these live in the target, the watches or the parts.
            let key = tokio::select! {
                Some(change) = changes.recv() => match change {
                    Change::At(node, keys) => {
                        if self.is_here(&node) {
                            keys.iter().for_each(|key| waker.wake(Key::clone(key)));
                        }
                        continue;
                    }
                    Change::LeftOut(..) => continue,
                    Change::All => None,
                },
                Some(event) = objects.recv() => match Self::key_of(&event) {
                    // Most objects of a cluster are nobody's need.
                    Some(key) if !self.concerns(&key) => continue,
                    key => key,
                },
                Some(event) = either(&mut copies, &mut plain) => match Self::key_of(&event) {
                    Some(key) if !self.is_needed(&key) => {
                        sweep.get_or_insert_with(|| from_now(SWEEP));
                        continue;
                    }
                    key => key,
                },
                () = sleep_until(sweep.unwrap_or_else(Instant::now)), if sweep.is_some() => {
                    let (unneeded, more) = self.unneeded();
                    sweep = more.then(|| from_now(SWEEP));
                    for key in unneeded {
                        waker.wake(key);
                    }
                    continue;
                }
                Ok(()) = targets.changed() => None,
                Ok(()) = states.changed() => None,
                Ok(()) = rights.changed() => None,
                Ok(()) = identities.changed() => None,
                () = leadership.acquired(), if !leads => {
                    leads = true;
                    None
                }
                else => return,
            };
            if let Some(key) = key {
                waker.wake(key);
            } else {
                for key in self.needed() {
                    waker.wake(Key::clone(&key));
                }
                sweep.get_or_insert_with(|| from_now(SWEEP));
            }
        }
    }

    fn key_of(event: &Event<K>) -> Option<Key> {
        match event {
            Event::Applied(object) | Event::Deleted(object) | Event::Gone(object) => {
                Key::of(&**object)
            }
            Event::Synced => None,
        }
    }

    fn concerns(&self, key: &Key) -> bool {
        self.is_needed(key)
            || [&self.copies, &self.plain]
                .iter()
                .any(|copies| copies.get(Some(&key.namespace), &key.name).is_some())
    }

    /// Whether it is needed here, by a pod of any Target that leads to this cluster.
    fn is_needed(&self, key: &Key) -> bool {
        let needed = self.parts.needs.nodes_of(key);
        needed.nodes.iter().any(|node| self.is_here(node))
    }

    /// All objects that are needed here.
    fn needed(&self) -> Vec<Arc<Key>> {
        let nodes = self.nodes().into_iter();
        nodes
            .flat_map(|node| self.parts.needs.at(&node, K::KIND))
            .collect()
    }

    /// Some copies that nobody needs here, and whether there may be more.
    fn unneeded(&self) -> (Vec<Key>, bool) {
        let (copies, plain) = (self.copies.list(), self.plain.list());
        let copies = copies.iter().filter_map(|copy| Key::of(&**copy));
        let plain = plain.iter().filter_map(|copy| Key::of(&**copy));
        let plain = plain.filter(|key| {
            let copy = self.plain_copy(key, self.source(key).as_ref());
            copy.is_some_and(|copy| !copy.deleting)
        });
        let mut counting = false;
        let keys = copies.chain(plain).filter(|key| {
            let needed = self.parts.needs.nodes_of(key);
            // Who counts without end keeps no copies of others.
            counting |= needed.counting;
            !needed.counting && !needed.nodes.iter().any(|node| self.is_here(node))
        });
        let keys = keys.filter(|key| self.waits(key).is_none());
        let unneeded: Vec<_> = keys.take(SWEPT).collect();
        let more = counting || unneeded.len() >= SWEPT;
        (unneeded, more)
    }

    fn source(&self, key: &Key) -> Option<Brief> {
        let source = self.objects.get(Some(&key.namespace), &key.name)?;
        Some(Brief::of(&*source))
    }

    /// The copy that Admiralty made of the object. Of one whose object is gone nobody knows whose it was.
    fn plain_copy(&self, key: &Key, source: Option<&Brief>) -> Option<Brief> {
        let copy = self.plain.get(Some(&key.namespace), &key.name)?;
        let copy = Brief::of(&*copy);
        let is_of_it = copy.is_plain_copy_of(source?, &key.namespace, &key.name);
        is_of_it.then_some(copy)
    }

    /// Until when the object isn't written here.
    fn waits(&self, key: &Key) -> Option<Instant> {
        self.memories().get(key)?.pace.waits(Instant::now())
    }

    /// Virtual nodes that stand for this cluster: several Targets may lead to it.
    fn nodes(&self) -> Vec<String> {
        let targets = self.parts.registry.targets().into_iter();
        targets
            .filter(|target| self.is_same(target))
            .map(|target| target.node().to_owned())
            .collect()
    }

    fn is_here(&self, node: &str) -> bool {
        node == self.target.node()
            || self
                .parts
                .registry
                .by_node(node)
                .is_some_and(|target| self.is_same(&target))
    }

    fn is_same(&self, other: &Target) -> bool {
        let own = self.target.known_identity();
        self.target.node() == other.node() || (own.is_some() && own == other.known_identity())
    }

    fn has_right(&self) -> bool {
        let authorization = self.target.authorization();
        let authorization = authorization.borrow();
        let lacks = |needs: &Vec<_>| {
            let mut needs = needs.iter();
            needs.any(|need: &pilotage_clusters::Need| need.right == Some(K::RIGHT))
        };
        !matches!(&*authorization, Authorization::Missing(needs) if lacks(needs))
    }

    /// Decides and acts once; the next turn comes with what follows of it.
    async fn turn(&self, key: &Key) -> Next {
        let parts = &self.parts;
        let known = parts.needs.are_known(K::KIND) && self.objects.is_synced();
        let served = self.target.key().namespace.as_ref();
        let serves = served.is_none_or(|namespace| *namespace == key.namespace);
        // Whatever is missing wakes all when it comes.
        if !parts.leadership.is_leader()
            || !known
            || !serves
            || is_home(&self.target, &parts.cluster)
        {
            return Next::Rest;
        }
        if !self.has_right() {
            self.tell_of_right(key);
            return Next::Rest;
        }
        // Without the right there would be none to see.
        if !self.copies.is_synced() || !self.target.is_connected() {
            return Next::Rest;
        }
        let Some(client) = self.target.client() else {
            return Next::Rest;
        };
        let (namespace, name) = (Some(key.namespace.as_str()), key.name.as_str());
        let source = self.source(key);
        let copy = self.copies.get(namespace, name).map(|it| Brief::of(&*it));
        let copy = copy.filter(|copy| copy.is_copy_of(&parts.cluster, &key.namespace, &key.name));
        let plain = self.plain_copy(key, source.as_ref());
        let Needed { nodes, counting } = parts.needs.nodes_of(key);
        let needed = nodes.iter().any(|node| **node == *self.target.node());
        // Who was looked at doesn't need it any more, and who is left may.
        let kept = counting || nodes.iter().any(|node| self.is_here(node));
        let step = {
            let memories = self.memories();
            let memory = memories.get(key);
            let written = memory.and_then(|memory| memory.written.as_ref());
            decide(&Observed {
                needed,
                kept,
                source: source.as_ref(),
                copy: copy.as_ref(),
                plain: plain.as_ref(),
                accepted: written.map(|(wanted, got)| (wanted.as_str(), got.as_str())),
            })
        };
        if step == Step::Rest {
            let soon = || Next::At(from_now(SOON));
            return if counting { soon() } else { Next::Rest };
        }
        if let Some(at) = self.waits(key) {
            return Next::At(at);
        }
        let names = (key.namespace.as_str(), key.name.as_str());
        let whose = (&parts.cluster, &parts.leadership);
        let pair = Pair::<K>::new(parts.client.clone(), client, whose, names);
        match pair.act(&step).await {
            Ok(written) => {
                if written.is_some() {
                    self.tell_of_secrets(key);
                }
                self.done(key, &step, written);
                Next::Rest
            }
            Err(fault) => {
                if fault.is_silence() {
                    self.target.doubt();
                }
                if fault.is_denial() {
                    self.target.denied();
                }
                let (at, failures) = self.failed(key);
                // The watch brings what is true, or has brought it already.
                if !fault.is_outdated() || failures >= PATIENCE {
                    self.tell(key, self.concerned(key, source.as_ref()), &fault);
                }
                Next::At(at)
            }
        }
    }

    fn done(&self, key: &Key, step: &Step, written: Option<(K, String)>) {
        self.remember(key, |memory| {
            memory.told_of_right.clear();
            let wanted = written.as_ref().map(|(_, wanted)| wanted);
            let undone = wanted.is_some() && memory.copied.as_ref() == wanted;
            memory.pace.wrote(Instant::now(), undone);
            // One that is in the way of its successor was undone, if that is what was there before.
            if !matches!(
                step,
                Step::Delete {
                    why: Why::Unchangeable,
                    ..
                }
            ) {
                memory.copied = wanted.cloned();
            }
            memory.written = written.as_ref().and_then(|(copy, wanted)| {
                let got = Brief::of(copy).digest;
                (got != *wanted).then(|| (wanted.clone(), got))
            });
        });
        if let Some((copy, _)) = written {
            self.copies.fold(copy);
        }
    }

    /// When it is tried again, and how often it has failed.
    fn failed(&self, key: &Key) -> (Instant, u32) {
        self.remember(key, |memory| {
            (memory.pace.failed(Instant::now()), memory.pace.failures())
        })
    }

    fn remember<T>(&self, key: &Key, change: impl FnOnce(&mut Memory) -> T) -> T {
        let mut memories = self.memories();
        if memories.len() >= REMEMBERED {
            let now = Instant::now();
            memories.retain(|_, memory| !memory.pace.is_calm(now));
        }
        change(memories.entry(key.clone()).or_default())
    }

    fn panicked(key: &Key, panic: &str) {
        let (namespace, name) = (&key.namespace, &key.name);
        tracing::error!(kind = %K::KIND, namespace, name, panic, "to follow an object panicked");
    }

    fn memories(&self) -> MutexGuard<'_, HashMap<Key, Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
