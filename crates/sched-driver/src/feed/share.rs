//! How much of the pods that look for a node is kept, of one namespace and of all. Beyond that a heavy one is kept in
//! outline: it isn't placed, and is told why; once there is room for it, it is asked for again. Of pods on nodes
//! nothing is kept that could be much. Must not know what is done with pods, nor how they are read.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use pilotage_runtime::weight;

use super::{Sink, hand};
use crate::outline;

/// Lighter pods don't count: there may be as many as of any.
const LIGHT: usize = 64 << 10;
/// What the heavy pods of a namespace may weigh.
const OF_ONE: usize = 32 << 20;
/// What all heavy pods may weigh.
const OF_ALL: usize = 64 << 20;

/// Namespace and name of a pod.
pub(super) type Key = (String, String);

/// Hands on no more of pods than their share.
pub(super) struct Sharing<S> {
    sink: S,
    shares: Shares,
}

impl<S: Sink<Pod>> Sharing<S> {
    pub(super) fn new(sink: S) -> Self {
        Self {
            sink,
            shares: Shares::default(),
        }
    }

    /// It came or changed; whether there may be room for another one now.
    pub(super) fn applied(&mut self, pod: &Arc<Pod>) -> bool {
        let before = self.shares.all;
        let pod = self.shares.fit(pod);
        hand(&mut self.sink, &pod);
        self.shares.all < before
    }

    /// It went; whether there may be room for another one now.
    pub(super) fn deleted(&mut self, namespace: &str, name: &str, uid: &str) -> bool {
        let before = self.shares.all;
        self.shares.gone(namespace, name);
        self.sink.deleted(namespace, name, uid);
        self.shares.all < before
    }

    pub(super) fn panicked(&mut self, pod: &Arc<Pod>, panic: &str) {
        self.sink.panicked(pod, panic);
    }

    /// A pod that is kept in outline although there would be room for it, the one that has waited longest. It isn't
    /// named again unless it is [missed](Self::missed), or changes.
    pub(super) fn wanted(&mut self) -> Option<Key> {
        self.shares.wanted()
    }

    /// A pod that was wanted, as it is now. If it has changed since, the watch tells of it.
    pub(super) fn read_again(&mut self, pod: &Arc<Pod>) {
        if self.shares.is_outlined(pod) {
            self.applied(pod);
        }
    }

    /// A pod that was wanted couldn't be read.
    pub(super) fn missed(&mut self, key: &Key) {
        if let Some(outlined) = self.shares.outlined.get_mut(key) {
            outlined.is_asked_for = false;
        }
    }
}

/// What is kept of heavy pods.
#[derive(Default)]
struct Shares {
    namespaces: HashMap<String, Share>,
    all: usize,
    /// Those of which there is too much.
    outlined: HashMap<Key, Outlined>,
    /// The place of the next one among them.
    next: u64,
}

/// Those of one namespace.
#[derive(Default)]
struct Share {
    pods: HashMap<String, usize>,
    weight: usize,
}

/// A pod that is kept in outline.
struct Outlined {
    weight: usize,
    version: Option<String>,
    place: u64,
    is_asked_for: bool,
}

fn key(pod: &Pod) -> Key {
    let meta = &pod.metadata;
    let text = |of: &Option<String>| of.clone().unwrap_or_default();
    (text(&meta.namespace), text(&meta.name))
}

impl Shares {
    /// The pod, or its outline if there is no room for more of it.
    fn fit(&mut self, pod: &Arc<Pod>) -> Arc<Pod> {
        let key = key(pod);
        self.gone(&key.0, &key.1);
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if node.is_some_and(|node| !node.is_empty()) {
            return pod.clone();
        }
        let weight = weight::of(&**pod);
        if weight <= LIGHT {
            return pod.clone();
        }
        if !self.has_room(&key.0, weight) {
            let outlined = Outlined {
                weight,
                version: pod.metadata.resource_version.clone(),
                place: self.next,
                is_asked_for: false,
            };
            self.next = self.next.saturating_add(1);
            self.outlined.insert(key, outlined);
            let mut outline = Pod::clone(pod);
            outline::fold(&mut outline);
            return Arc::new(outline);
        }
        let (namespace, name) = key;
        let share = self.namespaces.entry(namespace).or_default();
        share.pods.insert(name, weight);
        share.weight = share.weight.saturating_add(weight);
        self.all = self.all.saturating_add(weight);
        pod.clone()
    }

    fn has_room(&self, namespace: &str, weight: usize) -> bool {
        let of_one = self.namespaces.get(namespace).map_or(0, |of| of.weight);
        let within = |known: usize, most: usize| known.saturating_add(weight) <= most;
        within(of_one, OF_ONE) && within(self.all, OF_ALL)
    }

    /// Nothing is kept of it any more.
    fn gone(&mut self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        self.outlined.remove(&key);
        let Some(share) = self.namespaces.get_mut(namespace) else {
            return;
        };
        let weight = share.pods.remove(name).unwrap_or_default();
        share.weight = share.weight.saturating_sub(weight);
        self.all = self.all.saturating_sub(weight);
        if share.pods.is_empty() {
            self.namespaces.remove(namespace);
        }
    }

    fn is_outlined(&self, pod: &Pod) -> bool {
        let outlined = self.outlined.get(&key(pod));
        outlined.is_some_and(|known| known.version == pod.metadata.resource_version)
    }

    fn wanted(&mut self) -> Option<Key> {
        if self.all.saturating_add(LIGHT) > OF_ALL {
            return None;
        }
        let waiting = self.outlined.iter().filter(|(_, it)| !it.is_asked_for);
        let fitting = waiting.filter(|(key, it)| self.has_room(&key.0, it.weight));
        let key = fitting.min_by_key(|(_, it)| it.place)?.0.clone();
        if let Some(outlined) = self.outlined.get_mut(&key) {
            outlined.is_asked_for = true;
        }
        Some(key)
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

    #[test]
    fn heavy_pods_that_wait_have_a_share_by_namespace_and_light_ones_have_room() {
        let mut shares = Shares::default();
        let mut whole = |pod: Arc<Pod>| is_whole(&shares.fit(&pod));
        let crowd = (0..40).filter(|number| whole(pod("crowd", *number, 1, None)));
        assert_eq!(crowd.count(), 31, "each is a little more than a MiB");
        assert!(whole(pod("crowd", 100, 0, None)));
        assert!(whole(pod("crowd", 101, 1, Some("n"))));
        // The same again takes no more.
        assert!(whole(pod("crowd", 0, 1, None)));
        let others = (0..40).filter(|number| whole(pod(&format!("n{number}"), 0, 1, None)));
        assert_eq!(others.count(), 32, "of all there is twice as much");

        shares.gone("crowd", "0");
        assert!(is_whole(&shares.fit(&pod("n39", 0, 1, None))));
        // One that has got its node leaves room, too.
        shares.fit(&pod("crowd", 1, 1, Some("n")));
        assert!(is_whole(&shares.fit(&pod("n38", 0, 1, None))));
        for namespace in (0..40).map(|number| format!("n{number}")) {
            shares.gone(&namespace, "0");
        }
        (0..40).for_each(|number| shares.gone("crowd", &number.to_string()));
        assert_eq!((shares.all, shares.namespaces.len()), (0, 0));
    }
    #[test]
    fn one_that_is_kept_in_outline_is_wanted_once_there_is_room_in_the_order_of_their_coming() {
        let mut shares = Shares::default();
        let wanted = |shares: &mut Shares| {
            shares
                .wanted()
                .map(|(namespace, name)| format!("{namespace}/{name}"))
        };
        for number in 0..33 {
            shares.fit(&pod("crowd", number, 1, None));
        }
        for number in 0..33 {
            shares.fit(&pod("other", number, 1, None));
        }
        assert!(is_whole(&shares.fit(&pod("late", 0, 1, None))));
        assert!(!is_whole(&shares.fit(&pod("late", 1, 1, None))));
        assert_eq!(wanted(&mut shares), None, "there is no room for any");
        shares.gone("other", "0");
        assert_eq!(wanted(&mut shares).as_deref(), Some("other/31"));
        assert_eq!(
            wanted(&mut shares).as_deref(),
            Some("other/32"),
            "nobody said yet what the first one takes"
        );
        assert_eq!(wanted(&mut shares).as_deref(), Some("late/1"));
        assert_eq!(wanted(&mut shares), None, "each is asked for once");

        assert!(shares.is_outlined(&pod("other", 31, 1, None)));
        let mut newer = Pod::clone(&pod("other", 31, 1, None));
        newer.metadata.resource_version = Some("8".to_owned());
        assert!(!shares.is_outlined(&newer), "the watch tells of it");
        assert!(is_whole(&shares.fit(&pod("other", 31, 1, None))));
        assert!(!shares.is_outlined(&pod("other", 31, 1, None)));
        // A change, or its end, brings nothing back.
        assert!(!is_whole(&shares.fit(&pod("late", 1, 1, None))));
        shares.gone("late", "1");
        shares.gone("other", "1");
        assert_eq!(
            wanted(&mut shares),
            None,
            "one was asked for, and the crowd has its share"
        );
    }
}
