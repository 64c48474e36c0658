//! How much of the pods that look for a node is kept, of one namespace and of all. Beyond that a heavy one is kept in
//! outline: it isn't placed, and is told why. Of pods on nodes nothing is kept that could be much. Must not know what
//! is done with pods.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use pilotage_runtime::weight;

use super::Sink;
use crate::outline;

/// Lighter pods don't count: there may be as many as of any.
const LIGHT: usize = 64 << 10;
/// What the heavy pods of a namespace may weigh.
const OF_ONE: usize = 32 << 20;
/// What all heavy pods may weigh.
const OF_ALL: usize = 64 << 20;

/// Hands on no more of pods than their share.
pub(super) struct Sharing<S> {
    sink: S,
    shares: Shares,
}

impl<S> Sharing<S> {
    pub(super) fn new(sink: S) -> Self {
        Self {
            sink,
            shares: Shares::default(),
        }
    }
}

impl<S: Sink<Pod>> Sink<Pod> for Sharing<S> {
    fn applied(&mut self, pod: &Arc<Pod>) {
        let pod = self.shares.fit(pod);
        self.sink.applied(&pod);
    }

    fn deleted(&mut self, namespace: &str, name: &str, uid: &str) {
        self.shares.gone(namespace, name);
        self.sink.deleted(namespace, name, uid);
    }

    fn panicked(&mut self, pod: &Arc<Pod>, panic: &str) {
        self.sink.panicked(pod, panic);
    }
}

/// What is kept of heavy pods.
#[derive(Default)]
struct Shares {
    namespaces: HashMap<String, Share>,
    all: usize,
}

/// Those of one namespace.
#[derive(Default)]
struct Share {
    pods: HashMap<String, usize>,
    weight: usize,
}

impl Shares {
    /// The pod, or its outline if there is no room for more of it.
    fn fit(&mut self, pod: &Arc<Pod>) -> Arc<Pod> {
        let meta = &pod.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        self.gone(namespace, name);
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if node.is_some_and(|node| !node.is_empty()) {
            return pod.clone();
        }
        let weight = weight::of(&**pod);
        if weight <= LIGHT {
            return pod.clone();
        }
        let known = self.namespaces.get(namespace).map_or(0, |of| of.weight);
        let (one, all) = (
            known.saturating_add(weight),
            self.all.saturating_add(weight),
        );
        if one > OF_ONE || all > OF_ALL {
            let mut outlined = Pod::clone(pod);
            outline::fold(&mut outlined);
            return Arc::new(outlined);
        }
        let share = self.namespaces.entry(namespace.to_owned()).or_default();
        share.pods.insert(name.to_owned(), weight);
        (share.weight, self.all) = (one, all);
        pod.clone()
    }

    /// Nothing is kept of it any more.
    fn gone(&mut self, namespace: &str, name: &str) {
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
}
