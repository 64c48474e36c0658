//! Which node needs which objects: an index of what proxy pods name, and of what selects them, by the node of their
//! record; of pods that Admiralty placed, by the node where they are bound. No I/O.
//!
//! Whatever is asked of it is looked up, and a change of one pod or object touches those that it concerns: if these are
//! many, some at a time. Each object and each pod stands there once, at however many nodes it is needed.

mod pending;
mod words;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::Resource;
use pilotage_model::followed::{Kind, Need, backends, needs};
use pilotage_runtime::caught::caught;
use pilotage_sched_driver::publish::Regarding;
use tokio::sync::{Notify, mpsc};

use super::selected::{Selected, Selecting, Uid};
use pending::{Pending, Waiting};
use words::{few, selects_of};

pub(super) use words::node_of;
pub use words::{Change, Key, Needed, Node};

/// Pods that are told of one failure.
pub(super) const TOLD: usize = 10;
/// `ConfigMap`s that follow a pod that names them, and Secrets: those of the first names.
pub(super) const MOST_NAMED: usize = 1024;
/// So many objects, pods and Services are looked at in one step, and not many more.
const AT_ONCE: usize = 4096;

/// What pods need, where. Shared by all that follow.
#[derive(Debug)]
pub struct Needs {
    inner: Mutex<Inner>,
    /// Rings when somebody is left to be looked at.
    left: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Kinds of which all objects have been told; none stands for pods.
    known: BTreeSet<Option<Kind>>,
    /// Services select pods by their labels.
    selects: bool,
    /// Pods that were sent somewhere.
    pods: HashMap<Uid, Sent>,
    selected: Selected,
    pending: Pending,
    /// So many are looked at in one step.
    at_once: usize,
    /// By object: the nodes that need it, each with the pods there that do.
    by_object: HashMap<Arc<Key>, BTreeMap<Node, HashSet<Uid>>>,
    /// The same by node.
    by_node: HashMap<Node, HashSet<Arc<Key>>>,
    /// The pods that an object doesn't follow because too many others do.
    left_out: HashMap<Arc<Key>, HashSet<Uid>>,
    /// What changed in this step.
    changed: Changed,
    /// By kind, since who follows one has no use for changes of others.
    subscribers: BTreeMap<Kind, Vec<mpsc::UnboundedSender<Change>>>,
}

/// What is to be told when a step ends: once, however many pods it concerns.
#[derive(Debug, Default)]
struct Changed {
    places: BTreeMap<(Kind, Node), BTreeSet<Arc<Key>>>,
    left_out: Vec<(Arc<Key>, Regarding)>,
}

/// A pod that was sent somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    about: Arc<Regarding>,
    node: Node,
    /// What it names.
    named: BTreeSet<Arc<Key>>,
    /// What it names, too, and is too much.
    unnamed: BTreeSet<Arc<Key>>,
    /// All that it needs: what it names, and what selects it.
    keys: BTreeSet<Arc<Key>>,
    /// What doesn't follow it, since it is too much.
    left_out: BTreeSet<Arc<Key>>,
}

impl Default for Needs {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Needs {
    /// None are known; with `selects`, Services will be told of, too.
    pub fn new(selects: bool) -> Self {
        let inner = Inner {
            selects,
            at_once: AT_ONCE,
            ..Inner::default()
        };
        Self {
            inner: Mutex::new(inner),
            left: Notify::new(),
        }
    }

    /// A pod, new or changed.
    pub fn apply(&self, pod: &Pod) {
        self.set(pod, node_of(pod));
    }

    /// A pod that is gone.
    pub fn remove(&self, pod: &Pod) {
        self.set(pod, None);
    }

    fn set(&self, pod: &Pod, node: Option<Node>) {
        let meta = &pod.metadata;
        let (Some(uid), Some(namespace)) = (&meta.uid, &meta.namespace) else {
            return;
        };
        let named = pod.spec.as_ref().filter(|_| node.is_some()).map(needs);
        let (named, unnamed) = few(&named.unwrap_or_default());
        let mut inner = self.lock();
        let known = inner.pods.get_key_value(uid.as_str());
        let uid = known.map_or_else(|| uid.as_str().into(), |(uid, _)| uid.clone());
        let sent = node.map(|node| Sent {
            about: Arc::new(Regarding::pod(pod)),
            node: inner.node(node),
            named: inner.keys(namespace, named),
            unnamed: inner.keys(namespace, unnamed),
            keys: BTreeSet::new(),
            left_out: BTreeSet::new(),
        });
        if inner.selects {
            let labels = sent.as_ref().map(|_| meta.labels.clone());
            let labels = labels.map(Option::unwrap_or_default);
            inner.selected.pod(namespace, &uid, labels);
        }
        if sent.is_none() {
            inner.pending.forget(namespace, &uid);
        }
        inner.set(&uid, sent);
        inner.tell_changed();
    }

    /// A Service, new, changed or gone, as it is kept of a watch.
    pub fn service(&self, service: &Service, is_there: bool) {
        let now = is_there.then(|| selects_of(service)).flatten();
        self.change(service, |it, namespace, name| Waiting {
            pods: it.service(namespace, name, now),
            ..Waiting::default()
        });
    }

    /// Whether this version of a Service has been counted: who is selected by it is known.
    pub fn has_counted(&self, service: &Service) -> bool {
        let meta = &service.metadata;
        let (Some(namespace), Some(name)) = (&meta.namespace, &meta.name) else {
            return false;
        };
        let inner = self.lock();
        let known = inner.selected.known(namespace, name);
        !inner.pending.has(namespace) && known == selects_of(service).as_ref()
    }

    /// An Ingress, new, changed or gone, as it is kept of a watch.
    pub fn ingress(&self, ingress: &Ingress, is_there: bool) {
        let mut behind = backends(ingress);
        if !is_there {
            behind.clear();
        }
        self.change(ingress, |it, namespace, name| Waiting {
            services: it.ingress(namespace, name, behind),
            ..Waiting::default()
        });
    }

    /// Looks anew at the pods that a change concerns, or at the first of them.
    fn change<K: Resource>(
        &self,
        object: &K,
        change: impl FnOnce(&mut Selected, &str, &str) -> Waiting,
    ) {
        let meta = object.meta();
        let (Some(namespace), Some(name)) = (&meta.namespace, &meta.name) else {
            return;
        };
        let mut inner = self.lock();
        let concerned = change(&mut inner.selected, namespace, name);
        // To find many was work enough for one step.
        if inner.pending.has(namespace) || concerned.len() > inner.at_once {
            inner.pending.add(namespace, concerned);
        } else {
            inner.look(namespace, concerned);
        }
        if inner.pending.has(namespace) {
            self.left.notify_one();
        }
    }

    /// Looks at some of those whom large changes concern and who are left; says whether more are.
    pub fn go_on(&self) -> bool {
        let mut inner = self.lock();
        if let Some((namespace, waiting)) = inner.pending.next() {
            inner.look(&namespace, waiting);
        }
        !inner.pending.is_empty()
    }

    /// Waits until somebody is left to be looked at.
    pub async fn left(&self) {
        self.left.notified().await;
    }

    /// All objects of a kind have been told, or all pods: from now on "not needed" means something.
    pub fn all_known(&self, kind: Option<Kind>) {
        let mut inner = self.lock();
        inner.known.insert(kind);
        inner.tell(None, &Change::All);
    }

    /// Whether all is known that objects of a kind are needed for.
    pub fn are_known(&self, kind: Kind) -> bool {
        let from: &[Option<Kind>] = match kind {
            Kind::ConfigMap | Kind::Secret => &[None],
            Kind::Service => &[None, Some(Kind::Service)],
            Kind::Ingress => &[None, Some(Kind::Service), Some(Kind::Ingress)],
        };
        let inner = self.lock();
        from.iter().all(|it| inner.known.contains(it))
    }

    /// Whether any node needs the object, even one that stands for the source itself.
    pub fn is_anywhere(&self, key: &Key) -> bool {
        self.lock().by_object.contains_key(key)
    }

    /// The nodes that need the object, as far as was looked.
    pub fn nodes_of(&self, key: &Key) -> Needed {
        let inner = self.lock();
        let nodes = inner.by_object.get(key).into_iter();
        Needed {
            nodes: nodes.flat_map(BTreeMap::keys).cloned().collect(),
            counting: inner.pending.has(&key.namespace),
        }
    }

    /// Whether a pod that is recorded at this node needs the object.
    pub fn has(&self, node: &str, key: &Key) -> bool {
        let inner = self.lock();
        let nodes = inner.by_object.get(key);
        nodes.is_some_and(|nodes| nodes.contains_key(node))
    }

    /// Objects of a kind that are needed at a node.
    pub fn at(&self, node: &str, kind: Kind) -> Vec<Arc<Key>> {
        let inner = self.lock();
        let needed = inner.by_node.get(node).into_iter().flatten();
        needed.filter(|key| key.kind == kind).cloned().collect()
    }

    /// Some of the pods that are recorded at a node and need the object.
    pub fn pods(&self, node: &str, key: &Key, most: usize) -> Vec<Regarding> {
        let inner = self.lock();
        let pods = inner.by_object.get(key).and_then(|nodes| nodes.get(node));
        let pods = pods.into_iter().flatten();
        let pods = pods.filter_map(|uid| inner.pods.get(uid));
        pods.take(most)
            .map(|sent| Regarding::clone(&sent.about))
            .collect()
    }

    /// Objects of a kind that don't follow pods because too many others do, each with some of these pods.
    pub fn left_out(&self, kind: Kind) -> Vec<(Arc<Key>, Regarding)> {
        let inner = self.lock();
        let of_kind = inner.left_out.iter().filter(|(key, _)| key.kind == kind);
        let told = of_kind.flat_map(|(key, pods)| {
            let pods = pods.iter().filter_map(|uid| inner.pods.get(uid));
            let pods = pods.take(TOLD);
            pods.map(|sent| (key.clone(), Regarding::clone(&sent.about)))
        });
        told.collect()
    }

    /// Every change that concerns a kind from now on. Read on: the queue has no limit.
    pub fn subscribe(&self, kind: Kind) -> mpsc::UnboundedReceiver<Change> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.lock()
            .subscribers
            .entry(kind)
            .or_default()
            .push(sender);
        receiver
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An object at a node.
type Place = (Node, Arc<Key>);

/// Where a pod doesn't need an object any more, and where it does now. Mostly it stays where it is, and one object
/// changes.
fn moved(before: Option<&Sent>, now: Option<&Sent>) -> (Vec<Place>, Vec<Place>) {
    let stays = before
        .zip(now)
        .filter(|(before, now)| before.node == now.node);
    if let Some((before, now)) = stays {
        let at_node = |key: &Arc<Key>| (now.node.clone(), key.clone());
        let gone = before.keys.difference(&now.keys).map(at_node).collect();
        let new = now.keys.difference(&before.keys).map(at_node).collect();
        return (gone, new);
    }
    let all = |sent: Option<&Sent>| -> Vec<Place> {
        let sent = sent.into_iter();
        let keys = sent.flat_map(|sent| sent.keys.iter().map(|key| (&sent.node, key)));
        keys.map(|(node, key)| (node.clone(), key.clone()))
            .collect()
    };
    (all(before), all(now))
}

impl Inner {
    /// Objects of a namespace, each as it is kept, if it is.
    fn keys(&self, namespace: &str, needs: impl IntoIterator<Item = Need>) -> BTreeSet<Arc<Key>> {
        let key = |Need { kind, name }| {
            let key = Key {
                kind,
                namespace: namespace.to_owned(),
                name,
            };
            let kept = self.by_object.get_key_value(&key);
            kept.map_or_else(|| Arc::new(key), |(kept, _)| kept.clone())
        };
        needs.into_iter().map(key).collect()
    }

    /// A node as it is kept, if it is.
    fn node(&self, node: Node) -> Node {
        let kept = self.by_node.get_key_value(&node);
        kept.map_or(node, |(kept, _)| kept.clone())
    }

    /// Looks at those who are concerned, and leaves who is too many for one step.
    fn look(&mut self, namespace: &str, mut waiting: Waiting) {
        let mut looked = 0_usize;
        while looked < self.at_once {
            let more = if let Some(service) = waiting.services.pop_first() {
                let (pods, more) = self.selected.pods_of(namespace, &service);
                waiting.pods.extend(pods);
                if waiting.pods.len() >= self.selected.pods_in(namespace) {
                    waiting.services.clear();
                }
                more
            } else if let Some(uid) = waiting.pods.pop_first() {
                let sent = self.pods.get(&uid).cloned();
                // Those that are left count all the same.
                caught(|| self.set(&uid, sent)).unwrap_or_else(|panic| {
                    tracing::error!(%uid, panic, "to see what a pod needs panicked");
                    0
                })
            } else {
                break;
            };
            looked = looked.saturating_add(more).saturating_add(1);
        }
        self.pending.add(namespace, waiting);
        self.tell_changed();
    }

    /// A pod as it is now; what it needs is found here. Says how many were looked at for that.
    fn set(&mut self, uid: &Uid, mut now: Option<Sent>) -> usize {
        let mut looked = 0;
        if let Some(now) = &mut now {
            let namespace = &now.about.namespace;
            let selecting = self.selected.of(namespace, uid);
            let Selecting {
                needed,
                left_out,
                looked: of_selecting,
            } = selecting;
            now.keys = self.keys(namespace, needed);
            now.left_out = self.keys(namespace, left_out);
            now.keys.extend(now.named.iter().cloned());
            now.left_out.extend(now.unnamed.iter().cloned());
            looked = now.keys.len().saturating_add(of_selecting);
        }
        let before = self.pods.remove(uid);
        if before == now {
            self.pods.extend(before.map(|before| (uid.clone(), before)));
            return looked;
        }
        self.set_left_out(uid, before.as_ref(), now.as_ref());
        let (gone, new) = moved(before.as_ref(), now.as_ref());
        for (node, key) in &gone {
            self.take_away(node, key, uid);
        }
        for (node, key) in &new {
            let nodes = self.by_object.entry(key.clone()).or_default();
            nodes.entry(node.clone()).or_default().insert(uid.clone());
            let at_node = self.by_node.entry(node.clone()).or_default();
            at_node.insert(key.clone());
        }
        self.pods.extend(now.map(|now| (uid.clone(), now)));
        for (node, key) in gone.into_iter().chain(new) {
            let place = (key.kind, node);
            self.changed.places.entry(place).or_default().insert(key);
        }
        looked
    }

    /// A pod at this node doesn't need the object any more.
    fn take_away(&mut self, node: &Node, key: &Arc<Key>, uid: &Uid) {
        let Some(nodes) = self.by_object.get_mut(key) else {
            return;
        };
        if let Some(pods) = nodes.get_mut(node) {
            pods.remove(uid);
            if !pods.is_empty() {
                return;
            }
            nodes.remove(node);
        }
        if nodes.is_empty() {
            self.by_object.remove(key);
        }
        if let Some(at_node) = self.by_node.get_mut(node) {
            at_node.remove(key);
            if at_node.is_empty() {
                self.by_node.remove(node);
            }
        }
    }

    /// What doesn't follow a pod from now on.
    fn set_left_out(&mut self, uid: &Uid, before: Option<&Sent>, now: Option<&Sent>) {
        let none = BTreeSet::new();
        let before = before.map_or(&none, |sent| &sent.left_out);
        let after = now.map_or(&none, |sent| &sent.left_out);
        for key in before.difference(after) {
            if let Some(pods) = self.left_out.get_mut(key) {
                pods.remove(uid);
                if pods.is_empty() {
                    self.left_out.remove(key);
                }
            }
        }
        for key in after.difference(before) {
            let pods = self.left_out.entry(key.clone()).or_default();
            pods.insert(uid.clone());
            if pods.len() <= TOLD {
                let told = now.map(|now| (key.clone(), Regarding::clone(&now.about)));
                self.changed.left_out.extend(told);
            }
        }
    }

    /// Ends a step.
    fn tell_changed(&mut self) {
        let Changed { places, left_out } = std::mem::take(&mut self.changed);
        for ((kind, node), keys) in places {
            let keys = keys.into_iter().collect();
            self.tell(Some(kind), &Change::At(node, keys));
        }
        for (key, pod) in left_out {
            self.tell(Some(key.kind), &Change::LeftOut(key, pod));
        }
    }

    /// Tells those who follow a kind, or all.
    fn tell(&mut self, kind: Option<Kind>, change: &Change) {
        let concerned = self.subscribers.iter_mut();
        let concerned = concerned.filter(|(of, _)| kind.is_none_or(|kind| kind == **of));
        for (_, subscribers) in concerned {
            subscribers.retain(|it| it.send(change.clone()).is_ok());
        }
    }
}

#[cfg(test)]
mod tests;
