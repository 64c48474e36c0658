//! Pods of one watch, by the node that they are on, and word of their changes to whoever minds that node. It doesn't
//! know what a virtual node is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use pilotage_clusters::Event;
use tokio::sync::watch as cell;

/// Nodes before anybody looks which are of no use any more.
const SWEEP: usize = 64;

/// By namespace and name.
type Pods = HashMap<(String, String), Arc<Pod>>;

pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Pods by node.
#[derive(Default)]
pub(super) struct Index {
    parts: Mutex<Parts>,
}

#[derive(Default)]
struct Parts {
    by_node: HashMap<String, Part>,
    /// So many may there be until they are looked through.
    sweep: usize,
}

#[derive(Default)]
struct Part {
    pods: Pods,
    told: cell::Sender<u64>,
}

impl Part {
    /// Nobody looks at it, and nothing is on it.
    fn is_idle(&self) -> bool {
        self.pods.is_empty() && self.told.receiver_count() == 0
    }
}

impl Index {
    pub(super) fn take(&self, event: Event<Pod>) {
        let (pod, there) = match event {
            Event::Applied(pod) => (pod, true),
            Event::Deleted(pod) | Event::Gone(pod) => (pod, false),
            Event::Synced => return,
        };
        let Some(node) = node_of(&pod) else { return };
        let meta = &pod.metadata;
        let key = |text: &Option<String>| text.clone().unwrap_or_default();
        let key = (key(&meta.namespace), key(&meta.name));
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let part = parts.by_node.entry(node.to_owned()).or_default();
        if there {
            part.pods.insert(key, pod.clone());
        } else if part
            .pods
            .get(&key)
            .is_some_and(|known| is_same(known, &pod))
        {
            part.pods.remove(&key);
        }
        part.told.send_modify(|told| *told = told.wrapping_add(1));
        if part.is_idle() {
            parts.by_node.remove(node);
        }
    }

    pub(super) fn pods(&self, node: &str) -> Vec<Arc<Pod>> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let part = parts.by_node.get(node);
        part.map_or_else(Vec::new, |part| part.pods.values().cloned().collect())
    }

    pub(super) fn changes(&self, node: &str) -> cell::Receiver<u64> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if parts.by_node.len() >= parts.sweep {
            // Seldom, since each look is at all of them.
            parts.by_node.retain(|_, part| !part.is_idle());
            parts.sweep = parts.by_node.len().saturating_mul(2).max(SWEEP);
        }
        let part = parts.by_node.entry(node.to_owned()).or_default();
        part.told.subscribe()
    }
}

fn is_same(one: &Pod, other: &Pod) -> bool {
    one.metadata.uid == other.metadata.uid
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn pod(name: &str, uid: &str, node: &str) -> Arc<Pod> {
        Arc::new(Pod {
            metadata: ObjectMeta {
                name: Some(name.into()),
                namespace: Some("ns".into()),
                uid: Some(uid.into()),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec {
                node_name: Some(node.into()),
                ..PodSpec::default()
            }),
            ..Pod::default()
        })
    }

    #[test]
    fn each_node_is_told_of_its_own_pods_only() {
        let index = Index::default();
        let (mut paris, mut rome) = (index.changes("paris"), index.changes("rome"));
        paris.mark_unchanged();
        rome.mark_unchanged();
        let names = |node: &str| {
            let mut names: Vec<_> = index
                .pods(node)
                .iter()
                .map(|pod| pod.metadata.uid.clone())
                .collect();
            names.sort();
            names.into_iter().flatten().collect::<Vec<_>>()
        };
        index.take(Event::Applied(pod("a", "1", "paris")));
        index.take(Event::Applied(pod("b", "2", "paris")));
        index.take(Event::Applied(pod("c", "3", "nobody")));
        assert!(paris.has_changed().unwrap() && !rome.has_changed().unwrap());
        assert_eq!(
            (names("paris"), names("rome")),
            (vec!["1".into(), "2".into()], vec![])
        );
        assert_eq!(names("nobody"), ["3"], "whoever looks later sees it");
        // Another one of that name is there already.
        index.take(Event::Applied(pod("a", "4", "paris")));
        index.take(Event::Gone(pod("a", "1", "paris")));
        assert_eq!(names("paris"), ["2", "4"]);
        paris.mark_unchanged();
        for (name, uid) in [("a", "4"), ("b", "2")] {
            index.take(Event::Deleted(pod(name, uid, "paris")));
        }
        index.take(Event::Deleted(pod("c", "3", "nobody")));
        assert!(paris.has_changed().unwrap() && names("paris").is_empty());
        // Nothing is kept for ever of what nobody looks at.
        drop(paris);
        (0..9 * SWEEP).for_each(|it| drop(index.changes(&it.to_string())));
        let kept = index.parts.lock().unwrap().by_node.len();
        assert!(kept <= SWEEP, "{kept}");
    }
}
