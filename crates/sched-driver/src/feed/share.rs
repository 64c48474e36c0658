//! How much of the pods that look for a node is kept, of one namespace and of all. Beyond that a heavy one is kept in
//! outline: it isn't placed, and is told why; once there is room for it, it is asked for again. Of pods on nodes
//! nothing is kept that could be much. Must not know what is done with pods, nor how they are read.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use pilotage_runtime::weight;

use crate::outline;

/// Lighter pods don't count: there may be as many as of any.
const LIGHT: usize = 64 << 10;
/// What the heavy pods of a namespace may weigh.
const OF_ONE: usize = 32 << 20;
/// What all heavy pods may weigh.
const OF_ALL: usize = 64 << 20;

/// Namespace and name of a pod.
pub(super) type Key = (String, String);

fn key(pod: &Pod) -> Key {
    let meta = &pod.metadata;
    let text = |of: &Option<String>| of.clone().unwrap_or_default();
    (text(&meta.namespace), text(&meta.name))
}

/// What is kept of heavy pods.
#[derive(Default)]
pub(super) struct Shares {
    namespaces: HashMap<String, Share>,
    all: usize,
    /// Those of which there is too much.
    outlined: HashMap<Key, Outlined>,
    /// Those of them that have no room yet, by namespace, in the order of their coming, with their weights.
    waiting: HashMap<String, BTreeMap<u64, (String, usize)>>,
    /// Those of them that have room, and have to be read.
    wanted: VecDeque<Key>,
    /// The place of the next one that waits.
    next: u64,
}

/// What one namespace has.
#[derive(Default)]
struct Share {
    pods: HashMap<String, usize>,
    weight: usize,
}

/// A pod that is kept in outline.
struct Outlined {
    uid: Option<String>,
    version: Option<String>,
    place: u64,
}

impl Shares {
    /// The pod, or its outline if there is no room for more of it.
    pub(super) fn fit(&mut self, pod: &Arc<Pod>) -> Arc<Pod> {
        let key = key(pod);
        let before = self.outlined.get(&key);
        let place = before
            .filter(|it| it.uid == pod.metadata.uid)
            .map(|it| it.place);
        let had_room = self.gone(&key.0, &key.1);
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let weight = match node {
            Some(node) if !node.is_empty() => 0,
            _ => weight::of(&**pod),
        };
        let kept = if weight <= LIGHT {
            pod.clone()
        } else if self.has_room(&key.0, weight) && (had_room || !self.waiting.contains_key(&key.0))
        {
            self.take(&key, weight);
            pod.clone()
        } else {
            self.outline(key, pod, weight, place)
        };
        self.call();
        kept
    }

    /// Nothing is kept of it any more; whether anything was.
    pub(super) fn gone(&mut self, namespace: &str, name: &str) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        if let Some(outlined) = self.outlined.remove(&key)
            && let Some(waiting) = self.waiting.get_mut(namespace)
        {
            waiting.remove(&outlined.place);
            if waiting.is_empty() {
                self.waiting.remove(namespace);
            }
        }
        let Some(share) = self.namespaces.get_mut(namespace) else {
            return false;
        };
        let weight = share.pods.remove(name);
        share.weight = share.weight.saturating_sub(weight.unwrap_or_default());
        self.all = self.all.saturating_sub(weight.unwrap_or_default());
        if share.pods.is_empty() {
            self.namespaces.remove(namespace);
        }
        weight.is_some()
    }

    /// Gives room to those who wait, as far as there is any: of each namespace to the first, and first to the one who
    /// came first.
    pub(super) fn call(&mut self) {
        while self.all.saturating_add(LIGHT) <= OF_ALL {
            let first = |(namespace, waiting): (&String, &BTreeMap<u64, (String, usize)>)| {
                let (place, (name, weight)) = waiting.first_key_value()?;
                let fits = self.has_room(namespace, *weight);
                fits.then(|| (*place, *weight, (namespace.clone(), name.clone())))
            };
            let called = self.waiting.iter().filter_map(first).min();
            let Some((place, weight, key)) = called else {
                return;
            };
            if let Some(waiting) = self.waiting.get_mut(&key.0) {
                waiting.remove(&place);
                if waiting.is_empty() {
                    self.waiting.remove(&key.0);
                }
            }
            // Nobody else gets it while it is read.
            self.take(&key, weight);
            self.wanted.push_back(key);
        }
    }

    /// The next pod that there is room for, and of which an outline is all that is kept.
    pub(super) fn next_wanted(&mut self) -> Option<Key> {
        loop {
            let key = self.wanted.pop_front()?;
            if self.outlined.contains_key(&key) && self.counts(&key) {
                return Some(key);
            }
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Whether this very version of the pod is kept in outline.
    pub(super) fn is_outlined(&self, pod: &Pod) -> bool {
        let outlined = self.outlined.get(&key(pod));
        outlined.is_some_and(|known| {
            let meta = &pod.metadata;
            (&known.uid, &known.version) == (&meta.uid, &meta.resource_version)
        })
    }

    /// A pod that was wanted couldn't be read: others come first.
    pub(super) fn missed(&mut self, key: &Key) {
        let weight = self
            .namespaces
            .get(&key.0)
            .and_then(|of| of.pods.get(&key.1));
        let Some(weight) = weight.copied() else {
            return;
        };
        let Some(mut outlined) = self.outlined.remove(key) else {
            return;
        };
        self.gone(&key.0, &key.1);
        outlined.place = self.place();
        self.wait(key.clone(), weight, outlined);
        self.call();
    }

    fn outline(&mut self, key: Key, pod: &Pod, weight: usize, place: Option<u64>) -> Arc<Pod> {
        let outlined = Outlined {
            uid: pod.metadata.uid.clone(),
            version: pod.metadata.resource_version.clone(),
            place: place.unwrap_or_else(|| self.place()),
        };
        self.wait(key, weight, outlined);
        let mut outline = Pod::clone(pod);
        outline::fold(&mut outline);
        Arc::new(outline)
    }

    fn wait(&mut self, key: Key, weight: usize, outlined: Outlined) {
        let waiting = self.waiting.entry(key.0.clone()).or_default();
        waiting.insert(outlined.place, (key.1.clone(), weight));
        self.outlined.insert(key, outlined);
    }

    fn place(&mut self) -> u64 {
        self.next = self.next.saturating_add(1);
        self.next
    }

    fn take(&mut self, (namespace, name): &Key, weight: usize) {
        let share = self.namespaces.entry(namespace.clone()).or_default();
        share.pods.insert(name.clone(), weight);
        share.weight = share.weight.saturating_add(weight);
        self.all = self.all.saturating_add(weight);
    }

    fn counts(&self, (namespace, name): &Key) -> bool {
        let share = self.namespaces.get(namespace);
        share.is_some_and(|share| share.pods.contains_key(name))
    }

    fn has_room(&self, namespace: &str, weight: usize) -> bool {
        let of_one = self.namespaces.get(namespace).map_or(0, |of| of.weight);
        let within = |known: usize, most: usize| known.saturating_add(weight) <= most;
        within(of_one, OF_ONE) && within(self.all, OF_ALL)
    }
}

#[cfg(test)]
mod tests {
    use pilotage_sched::OUTLINE;
    use serde_json::json;

    use super::*;

    fn pod(namespace: &str, number: usize, mib: usize, node: Option<&str>) -> Arc<Pod> {
        let pod = json!({
            "metadata": {
                "namespace": namespace, "name": number.to_string(), "uid": format!("{namespace}-{number}"),
                "resourceVersion": "7",
                "annotations": { "a": "x".repeat(mib << 20) },
            },
            "spec": { "containers": [], "nodeName": node },
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn is_whole(pod: &Pod) -> bool {
        let annotations = pod.metadata.annotations.as_ref().unwrap();
        !annotations.contains_key(OUTLINE)
    }

    impl Shares {
        /// Whether a pod of a MiB is kept whole.
        fn keeps(&mut self, namespace: &str, number: usize) -> bool {
            is_whole(&self.fit(&pod(namespace, number, 1, None)))
        }

        fn ends(&mut self, namespace: &str, number: usize) {
            self.gone(namespace, &number.to_string());
            self.call();
        }

        fn all_wanted(&mut self) -> Vec<String> {
            let wanted = std::iter::from_fn(|| self.next_wanted());
            wanted
                .map(|(namespace, name)| format!("{namespace}/{name}"))
                .collect()
        }
    }

    /// Two namespaces have all that there is but for one pod's room, and want more.
    fn crowds() -> Shares {
        let mut shares = Shares::default();
        for crowd in ["crowd", "other"] {
            let whole = (0..33).filter(|number| shares.keeps(crowd, *number));
            assert_eq!(whole.count(), 31, "each is a little more than a MiB");
        }
        shares
    }

    #[test]
    fn heavy_pods_that_wait_have_a_share_by_namespace_and_light_ones_have_room() {
        let mut shares = crowds();
        assert!(is_whole(&shares.fit(&pod("crowd", 100, 0, None))));
        assert!(is_whole(&shares.fit(&pod("crowd", 101, 1, Some("n")))));
        // The same again takes no more.
        assert!(shares.keeps("crowd", 0));
        assert!(shares.keeps("late", 0));
        assert!(!shares.keeps("late", 1), "of all there is twice as much");

        shares.ends("late", 0);
        assert_eq!(shares.all_wanted(), ["late/1"]);
        // One that has got its node leaves room, too.
        shares.fit(&pod("crowd", 1, 1, Some("n")));
        assert_eq!(shares.all_wanted(), ["crowd/31"]);
        for number in 0..40 {
            for namespace in ["crowd", "other", "late"] {
                shares.gone(namespace, &number.to_string());
            }
        }
        assert_eq!((shares.all, shares.namespaces.len()), (0, 0));
        assert_eq!((shares.outlined.len(), shares.waiting.len()), (0, 0));
    }

    #[test]
    fn who_waits_is_called_in_the_order_of_their_coming_and_has_the_room() {
        let mut shares = crowds();
        assert!(shares.keeps("late", 0));
        assert!(!shares.keeps("late", 1) && !shares.keeps("last", 0));
        assert!(shares.all_wanted().is_empty());
        shares.ends("other", 0);
        assert_eq!(shares.all_wanted(), ["other/31"]);
        assert!(
            !shares.keeps("newest", 0),
            "the room is another one's, who is being read"
        );
        assert!(shares.is_outlined(&pod("other", 31, 1, None)));
        let mut newer = Pod::clone(&pod("other", 31, 1, None));
        newer.metadata.resource_version = Some("8".to_owned());
        assert!(!shares.is_outlined(&newer), "the watch tells of it");
        assert!(shares.keeps("other", 31));
        assert!(!shares.is_outlined(&pod("other", 31, 1, None)));

        // Who changes meanwhile keeps its place; who is made anew doesn't.
        assert!(!shares.keeps("late", 1));
        let anew = |namespace, number| {
            let mut anew = Pod::clone(&pod(namespace, number, 1, None));
            anew.metadata.uid = Some("anew".to_owned());
            anew
        };
        for number in 1..3 {
            shares.ends("crowd", number);
        }
        assert_eq!(shares.all_wanted(), ["crowd/31", "crowd/32"]);
        shares.ends("crowd", 3);
        assert_eq!(shares.all_wanted(), ["late/1"]);
        assert!(!shares.keeps("newest", 1));
        shares.fit(&Arc::new(anew("newest", 0)));
        shares.ends("crowd", 4);
        assert_eq!(shares.all_wanted(), ["last/0"]);
        shares.ends("crowd", 5);
        assert_eq!(shares.all_wanted(), ["newest/1"]);
    }

    #[test]
    fn who_could_not_be_read_waits_behind_the_others() {
        let mut shares = crowds();
        let key = |name: &str| ("crowd".to_owned(), name.to_owned());
        shares.ends("crowd", 0);
        assert_eq!(shares.next_wanted(), Some(key("31")));
        shares.missed(&key("31"));
        assert_eq!(shares.next_wanted(), Some(key("32")));
        shares.missed(&key("32"));
        assert_eq!(shares.next_wanted(), Some(key("31")));
        shares.gone("crowd", "31");
        shares.missed(&key("31"));
        assert_eq!(
            shares.next_wanted(),
            None,
            "nobody is called for one that is gone"
        );
        shares.call();
        assert_eq!(shares.next_wanted(), Some(key("32")));
    }
}
