//! Which node needs which objects: an index of what proxy pods name, and of what selects them, by the node of their
//! record; of pods that Admiralty placed, by the node where they are bound. No I/O.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::Resource;
use pilotage_api::keys;
use pilotage_api::record::Record;
use pilotage_model::followed::{Kind, Need, backends, needs, selected};
use pilotage_sched_driver::publish::Regarding;
use tokio::sync::mpsc;

use super::kinds::Followed;
use super::selected::{Labels, Selected, Selecting, Selects};

/// In the annotations of a pod that is kept, and nowhere else: what it names.
const NAMED: &str = "named";
/// Likewise: the node where it is bound without a record, as Admiralty's scheduler did it.
const BOUND: &str = "bound";
/// Pods that are told of one failure.
pub(super) const TOLD: usize = 10;

/// An object of the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Key {
    pub(super) fn of<K: Followed>(object: &K) -> Option<Self> {
        let meta = object.meta();
        Some(Self {
            kind: K::KIND,
            namespace: meta.namespace.clone()?,
            name: meta.name.clone()?,
        })
    }
}

/// Something is needed at a node that wasn't, or isn't any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// This object, at this node.
    One(String, Key),
    /// This object doesn't follow this pod: too many others do.
    LeftOut(Key, Regarding),
    /// All objects of one more kind are known from now on.
    All,
}

/// Leaves of a pod who it is, where it was sent, what it names and what selects it.
pub(super) fn trim_pod_to_select(pod: &mut Pod) {
    let labels = pod.metadata.labels.take();
    trim_pod(pod);
    pod.metadata.labels = labels;
}

/// Leaves of a pod who it is, where it was sent and what it names.
pub(super) fn trim_pod(pod: &mut Pod) {
    let spec = pod.spec.take().unwrap_or_default();
    let named = needs(&spec);
    let named: Vec<String> = named.iter().map(ToString::to_string).collect();
    pod.status = None;
    let meta = &mut pod.metadata;
    (meta.labels, meta.finalizers, meta.owner_references) = (None, None, None);
    meta.managed_fields = None;
    let annotations = meta.annotations.get_or_insert_default();
    annotations.retain(|key, _| key == keys::GRANTED_TO);
    // No name of an object has a space.
    annotations.insert(NAMED.to_owned(), named.join(" "));
    let is_proxy = spec.scheduler_name.as_deref() == Some(keys::PROXY_SCHEDULER);
    if is_proxy && !annotations.contains_key(keys::GRANTED_TO) {
        annotations.extend(spec.node_name.map(|node| (BOUND.to_owned(), node)));
    }
}

/// What pods need, where. Shared by all that follow.
#[derive(Debug, Default)]
pub(super) struct Needs {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Kinds of which all objects have been told; none stands for pods.
    known: BTreeSet<Option<Kind>>,
    /// By UID: pods that were sent somewhere.
    pods: HashMap<String, Sent>,
    selected: Selected,
    /// By node and object: UIDs of the pods that need it.
    by_node: HashMap<String, HashMap<Key, HashSet<String>>>,
    /// UIDs of the pods that an object doesn't follow because too many others do.
    left_out: HashMap<Key, HashSet<String>>,
    subscribers: Vec<mpsc::UnboundedSender<Change>>,
}

/// A pod that was sent somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    about: Regarding,
    node: String,
    named: BTreeSet<Need>,
    /// All that it needs: what it names, and what selects it.
    keys: BTreeSet<Key>,
    /// What selects it, too, and is too many.
    left_out: BTreeSet<Key>,
}

impl Needs {
    /// A pod, new or changed, after [`trim_pod`].
    pub(super) fn apply(&self, pod: &Pod) {
        let meta = &pod.metadata;
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        // Who writes records is the admission policy's affair; one that can't be read sends nothing anywhere.
        let node = match annotation(keys::GRANTED_TO) {
            Some(text) => text.parse().ok().map(|record: Record| record.node),
            None => annotation(BOUND).cloned(),
        };
        let named = annotation(NAMED).map_or("", String::as_str).split(' ');
        let sent = node.map(|node| Sent {
            about: Regarding::pod(pod),
            node,
            named: named.filter_map(|text| text.parse().ok()).collect(),
            keys: BTreeSet::new(),
            left_out: BTreeSet::new(),
        });
        self.set(pod, sent, meta.labels.clone());
    }

    /// A pod that is gone.
    pub(super) fn remove(&self, pod: &Pod) {
        self.set(pod, None, None);
    }

    fn set(&self, pod: &Pod, sent: Option<Sent>, labels: Option<Labels>) {
        let meta = &pod.metadata;
        let (Some(uid), Some(namespace)) = (&meta.uid, &meta.namespace) else {
            return;
        };
        let mut inner = self.lock();
        let labels = sent.as_ref().map(|_| labels.unwrap_or_default());
        inner.selected.pod(namespace, uid, labels);
        inner.set(uid, sent);
    }

    /// A Service, new, changed or gone, as [`super::kinds::trim`] leaves it.
    pub(super) fn service(&self, service: &Service, is_there: bool) {
        let now = is_there.then(|| selects_of(service)).flatten();
        self.change(service, |it, namespace, name| {
            it.service(namespace, name, now)
        });
    }

    /// Whether this version of a Service has been counted: who is selected by it is known.
    pub(super) fn has_counted(&self, service: &Service) -> bool {
        let meta = &service.metadata;
        let (Some(namespace), Some(name)) = (&meta.namespace, &meta.name) else {
            return false;
        };
        self.lock().selected.known(namespace, name) == selects_of(service).as_ref()
    }

    /// An Ingress, new, changed or gone, as [`super::kinds::trim`] leaves it.
    pub(super) fn ingress(&self, ingress: &Ingress, is_there: bool) {
        let mut behind = backends(ingress);
        if !is_there {
            behind.clear();
        }
        self.change(ingress, |it, namespace, name| {
            it.ingress(namespace, name, behind)
        });
    }

    /// Looks anew at the pods that a change concerns.
    fn change<K: Resource>(
        &self,
        object: &K,
        change: impl FnOnce(&mut Selected, &str, &str) -> Vec<String>,
    ) {
        let meta = object.meta();
        let (Some(namespace), Some(name)) = (&meta.namespace, &meta.name) else {
            return;
        };
        let mut inner = self.lock();
        for uid in change(&mut inner.selected, namespace, name) {
            let sent = inner.pods.get(&uid).cloned();
            inner.set(&uid, sent);
        }
    }

    /// All objects of a kind have been told, or all pods: from now on "not needed" means something.
    pub(super) fn all_known(&self, kind: Option<Kind>) {
        let mut inner = self.lock();
        inner.known.insert(kind);
        inner.tell(&Change::All);
    }

    /// Whether all is known that objects of a kind are needed for.
    pub(super) fn are_known(&self, kind: Kind) -> bool {
        let from: &[Option<Kind>] = match kind {
            Kind::ConfigMap | Kind::Secret => &[None],
            Kind::Service => &[None, Some(Kind::Service)],
            Kind::Ingress => &[None, Some(Kind::Service), Some(Kind::Ingress)],
        };
        let inner = self.lock();
        from.iter().all(|it| inner.known.contains(it))
    }

    /// Whether any node needs the object, even one that stands for the source itself.
    pub(super) fn is_anywhere(&self, key: &Key) -> bool {
        let inner = self.lock();
        let mut nodes = inner.by_node.values();
        nodes.any(|needed| needed.contains_key(key))
    }

    /// Whether a pod that is recorded at one of these nodes needs the object.
    pub(super) fn has(&self, nodes: &[String], key: &Key) -> bool {
        let inner = self.lock();
        let mut nodes = nodes.iter().filter_map(|node| inner.by_node.get(node));
        nodes.any(|needed| needed.contains_key(key))
    }

    /// Objects of a kind that are needed at a node.
    pub(super) fn at(&self, node: &str, kind: Kind) -> Vec<Key> {
        let inner = self.lock();
        let needed = inner.by_node.get(node).into_iter().flat_map(HashMap::keys);
        needed.filter(|key| key.kind == kind).cloned().collect()
    }

    /// Some of the pods that are recorded at a node and need the object.
    pub(super) fn pods(&self, node: &str, key: &Key, most: usize) -> Vec<Regarding> {
        let inner = self.lock();
        let pods = inner.by_node.get(node).and_then(|needed| needed.get(key));
        let pods = pods.into_iter().flatten();
        let pods = pods.filter_map(|uid| inner.pods.get(uid));
        pods.take(most).map(|sent| sent.about.clone()).collect()
    }

    /// Objects of a kind that don't follow pods because too many others do, each with some of these pods.
    pub(super) fn left_out(&self, kind: Kind) -> Vec<(Key, Regarding)> {
        let inner = self.lock();
        let of_kind = inner.left_out.iter().filter(|(key, _)| key.kind == kind);
        let told = of_kind.flat_map(|(key, pods)| {
            let pods = pods.iter().filter_map(|uid| inner.pods.get(uid));
            let pods = pods.take(TOLD);
            pods.map(|sent| (key.clone(), sent.about.clone()))
        });
        told.collect()
    }

    /// Every change from now on. Read on: the queue has no limit.
    pub(super) fn subscribe(&self) -> mpsc::UnboundedReceiver<Change> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.lock().subscribers.push(sender);
        receiver
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which pods a Service selects; none, if it never follows.
fn selects_of(service: &Service) -> Option<Selects> {
    match selected(service) {
        Ok(selector) => selector.map(Selects::Labelled),
        Err(_) => Some(Selects::Any),
    }
}

impl Inner {
    /// A pod as it is now; what it needs is found here.
    fn set(&mut self, uid: &str, mut now: Option<Sent>) {
        if let Some(now) = &mut now {
            let namespace = now.about.namespace.clone();
            let Selecting { needed, left_out } = self.selected.of(&namespace, uid);
            let needs = now.named.iter().cloned().chain(needed);
            let key = |Need { kind, name }| Key {
                kind,
                namespace: namespace.clone(),
                name,
            };
            now.keys = needs.map(key).collect();
            now.left_out = left_out.into_iter().map(key).collect();
        }
        let left_out = self.set_left_out(uid, now.as_ref());
        let places = |sent: Option<&Sent>| -> BTreeSet<(String, Key)> {
            let keys = sent
                .into_iter()
                .flat_map(|sent| sent.keys.iter().map(|key| (&sent.node, key)));
            keys.map(|(node, key)| (node.clone(), key.clone()))
                .collect()
        };
        let (before, after) = (places(self.pods.get(uid)), places(now.as_ref()));
        for (node, key) in before.difference(&after) {
            let Some(at_node) = self.by_node.get_mut(node) else {
                continue;
            };
            if let Some(pods) = at_node.get_mut(key) {
                pods.remove(uid);
                if pods.is_empty() {
                    at_node.remove(key);
                }
            }
            if at_node.is_empty() {
                self.by_node.remove(node);
            }
        }
        for (node, key) in after.difference(&before) {
            let at_node = self.by_node.entry(node.clone()).or_default();
            let pods = at_node.entry(key.clone()).or_default();
            pods.insert(uid.to_owned());
        }
        match now {
            Some(now) => {
                self.pods.insert(uid.to_owned(), now);
            }
            None => {
                self.pods.remove(uid);
            }
        }
        for (node, key) in before.symmetric_difference(&after) {
            self.tell(&Change::One(node.clone(), key.clone()));
        }
        for change in left_out {
            self.tell(&change);
        }
    }

    /// What doesn't follow a pod from now on; says what of it is worth telling.
    fn set_left_out(&mut self, uid: &str, now: Option<&Sent>) -> Vec<Change> {
        let before = self.pods.get(uid).map(|sent| sent.left_out.clone());
        let before = before.unwrap_or_default();
        let gone = |key: &&Key| now.is_none_or(|now| !now.left_out.contains(*key));
        for key in before.iter().filter(gone) {
            if let Some(pods) = self.left_out.get_mut(key) {
                pods.remove(uid);
                if pods.is_empty() {
                    self.left_out.remove(key);
                }
            }
        }
        let mut told = Vec::new();
        if let Some(now) = now {
            for key in now.left_out.difference(&before) {
                let pods = self.left_out.entry(key.clone()).or_default();
                pods.insert(uid.to_owned());
                if pods.len() <= TOLD {
                    told.push(Change::LeftOut(key.clone(), now.about.clone()));
                }
            }
        }
        told
    }

    fn tell(&mut self, change: &Change) {
        self.subscribers
            .retain(|it| it.send(change.clone()).is_ok());
    }
}

#[cfg(test)]
mod tests;
