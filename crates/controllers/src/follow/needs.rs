//! Which node needs which objects: an index of what proxy pods name, by the node of their record. No I/O.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::keys;
use pilotage_api::record::Record;
use pilotage_model::followed::{Kind, Need, needs};
use pilotage_sched_driver::publish::Regarding;
use tokio::sync::mpsc;

/// In the annotations of a pod that is kept, and nowhere else: what it names.
const NAMED: &str = "named";

/// An object of the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Something is needed at a node that wasn't, or isn't any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// This object, at this node.
    One(String, Key),
    /// All pods are known from now on.
    All,
}

/// Leaves of a pod who it is, where it was sent and what it names.
pub(super) fn trim_pod(pod: &mut Pod) {
    let named = pod.spec.take().map(|spec| needs(&spec)).unwrap_or_default();
    let named: Vec<String> = named.iter().map(ToString::to_string).collect();
    pod.status = None;
    let meta = &mut pod.metadata;
    (meta.labels, meta.finalizers, meta.owner_references) = (None, None, None);
    meta.managed_fields = None;
    let annotations = meta.annotations.get_or_insert_default();
    annotations.retain(|key, _| key == keys::GRANTED_TO);
    // No name of an object has a space.
    annotations.insert(NAMED.to_owned(), named.join(" "));
}

/// What pods need, where. Shared by all that follow.
#[derive(Debug, Default)]
pub(super) struct Needs {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    known: bool,
    /// By UID.
    pods: HashMap<String, (String, Vec<Key>)>,
    /// By node and object: the pods that name it.
    by_node: HashMap<String, HashMap<Key, HashMap<String, Regarding>>>,
    subscribers: Vec<mpsc::UnboundedSender<Change>>,
}

impl Needs {
    /// A pod, new or changed, after [`trim_pod`].
    pub(super) fn apply(&self, pod: &Pod) {
        let meta = &pod.metadata;
        let (Some(uid), Some(namespace)) = (&meta.uid, &meta.namespace) else {
            return;
        };
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        // Who writes records is the admission policy's affair; one that can't be read sends nothing anywhere.
        let record = annotation(keys::GRANTED_TO).and_then(|text| text.parse::<Record>().ok());
        let named = annotation(NAMED).map_or("", String::as_str).split(' ');
        let named = named.filter_map(|text| text.parse::<Need>().ok());
        let named = named.map(|Need { kind, name }| Key {
            kind,
            namespace: namespace.clone(),
            name,
        });
        let now = record.map(|record| (record.node, named.collect()));
        self.set(uid, now, || Regarding::pod(pod));
    }

    /// A pod that is gone.
    pub(super) fn remove(&self, pod: &Pod) {
        if let Some(uid) = &pod.metadata.uid {
            self.set(uid, None, || Regarding::pod(pod));
        }
    }

    fn set(&self, uid: &str, now: Option<(String, Vec<Key>)>, about: impl FnOnce() -> Regarding) {
        let mut inner = self.lock();
        if inner.pods.get(uid) == now.as_ref() {
            return;
        }
        let mut changed = BTreeSet::new();
        if let Some((node, keys)) = inner.pods.remove(uid) {
            let at_node = inner.by_node.entry(node.clone()).or_default();
            for key in keys {
                if let Some(pods) = at_node.get_mut(&key) {
                    pods.remove(uid);
                    if pods.is_empty() {
                        at_node.remove(&key);
                    }
                }
                changed.insert((node.clone(), key));
            }
            if at_node.is_empty() {
                inner.by_node.remove(&node);
            }
        }
        if let Some((node, keys)) = now {
            if !keys.is_empty() {
                let about = about();
                let at_node = inner.by_node.entry(node.clone()).or_default();
                for key in &keys {
                    let pods = at_node.entry(key.clone()).or_default();
                    pods.insert(uid.to_owned(), about.clone());
                    changed.insert((node.clone(), key.clone()));
                }
            }
            inner.pods.insert(uid.to_owned(), (node, keys));
        }
        for (node, key) in changed {
            inner.tell(&Change::One(node, key));
        }
    }

    /// All pods have been told: from now on "not needed" means something.
    pub(super) fn all_known(&self) {
        let mut inner = self.lock();
        inner.known = true;
        inner.tell(&Change::All);
    }

    /// Whether all pods are known.
    pub(super) fn are_known(&self) -> bool {
        self.lock().known
    }

    /// Whether a pod that is recorded at one of these nodes names the object.
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

    /// Some of the pods that are recorded at a node and name the object.
    pub(super) fn pods(&self, node: &str, key: &Key, most: usize) -> Vec<Regarding> {
        let inner = self.lock();
        let pods = inner.by_node.get(node).and_then(|needed| needed.get(key));
        let pods = pods.into_iter().flat_map(HashMap::values);
        pods.take(most).cloned().collect()
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

impl Inner {
    fn tell(&mut self, change: &Change) {
        self.subscribers
            .retain(|it| it.send(change.clone()).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, record: Option<&str>, config_maps: &[&str]) -> Pod {
        let from = |name: &&str| json!({ "configMapRef": { "name": name } });
        let from: Vec<Value> = config_maps.iter().map(from).collect();
        let mut annotations = json!({ keys::SOURCE_POD_MANIFEST: "long" });
        if let Some(record) = record {
            annotations[keys::GRANTED_TO] = record.into();
        }
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": uid, "namespace": "shop", "uid": uid, "annotations": annotations },
            "spec": { "containers": [{ "name": "c", "envFrom": from }] },
        }))
        .unwrap();
        trim_pod(&mut pod);
        pod
    }

    fn key(name: &str) -> Key {
        Key {
            kind: Kind::ConfigMap,
            namespace: "shop".into(),
            name: name.into(),
        }
    }

    fn told(changes: &mut mpsc::UnboundedReceiver<Change>) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(change) = changes.try_recv() {
            all.push(match change {
                Change::One(node, key) => format!("{node} {}", key.name),
                Change::All => "all".to_owned(),
            });
        }
        all
    }

    #[test]
    fn what_a_pod_names_is_needed_where_its_record_says_as_long_as_it_is_there() {
        let needs = Needs::default();
        let mut changes = needs.subscribe();
        let here = ["east".to_owned()];
        needs.apply(&pod("p", None, &["a", "b"]));
        assert_eq!(told(&mut changes), [""; 0], "nobody knows where yet");
        needs.apply(&pod("p", Some("east/c/1"), &["a", "b"]));
        assert_eq!(told(&mut changes), ["east a", "east b"]);
        needs.apply(&pod("p", Some("east/c/1"), &["a", "b"]));
        assert_eq!(told(&mut changes), [""; 0], "nothing is new");
        needs.apply(&pod("q", Some("east/d/1"), &["b"]));
        assert_eq!(needs.pods("east", &key("b"), 10).len(), 2);
        assert_eq!(needs.pods("east", &key("b"), 1).len(), 1);
        told(&mut changes);

        // It goes elsewhere.
        needs.apply(&pod("p", Some("west/e/2"), &["a", "b"]));
        assert_eq!(told(&mut changes), ["east a", "east b", "west a", "west b"]);
        assert!(!needs.has(&here, &key("a")));
        assert!(needs.has(&here, &key("b")), "another pod needs it");
        assert!(needs.has(&["east".into(), "west".into()], &key("a")));
        needs.remove(&pod("q", None, &[]));
        assert!(!needs.has(&here, &key("b")));
        assert_eq!(needs.at("east", Kind::ConfigMap), []);
        assert_eq!(needs.at("west", Kind::ConfigMap).len(), 2);
        assert_eq!(needs.at("west", Kind::Secret), []);
        needs.remove(&pod("p", None, &[]));
        let inner = needs.lock();
        assert!(
            inner.by_node.is_empty() && inner.pods.is_empty(),
            "nothing is left"
        );
    }

    #[test]
    fn a_record_that_cant_be_read_sends_nothing_anywhere() {
        let needs = Needs::default();
        needs.apply(&pod("p", Some("east"), &["a"]));
        assert!(!needs.has(&["east".into()], &key("a")));
        assert!(!needs.are_known());
        let mut changes = needs.subscribe();
        needs.all_known();
        assert_eq!(told(&mut changes), ["all"]);
    }

    #[test]
    fn of_a_pod_no_more_is_kept_than_needed() {
        let pod = pod("p", Some("east/c/1"), &["a"]);
        assert!(pod.spec.is_none());
        let annotations = pod.metadata.annotations.unwrap();
        let kept: Vec<_> = annotations.keys().map(String::as_str).collect();
        assert_eq!(kept, [keys::GRANTED_TO, NAMED]);
    }
}
