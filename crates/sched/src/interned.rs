//! Owns values that many objects share: equal ones are kept once, and go when nobody else has them. Knows nothing of
//! what they mean.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use crate::labels::Labels;
use crate::pod_info::PodInfo;
use crate::pod_needs::PodNeeds;

/// How many more than half of the values must be unused before they are dropped.
const SLACK: usize = 64;

/// Values of one type, each once.
#[derive(Debug)]
pub(crate) struct Interned<T: ?Sized> {
    known: HashSet<Arc<T>>,
    sweep_at: usize,
}

impl<T: ?Sized> Default for Interned<T> {
    fn default() -> Self {
        Self {
            known: HashSet::new(),
            sweep_at: 0,
        }
    }
}

impl<T: ?Sized + Eq + Hash> Interned<T> {
    /// The one that is equal to this.
    pub(crate) fn shared(&mut self, value: &Arc<T>) -> Arc<T> {
        if let Some(known) = self.known.get(value) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            let used = self.known.len();
            self.sweep_at = used.saturating_mul(2).saturating_add(SLACK);
        }
        self.known.insert(value.clone());
        value.clone()
    }
}

/// What the pods of a cluster share with each other.
#[derive(Debug, Default)]
pub(crate) struct SharedParts {
    needs: Interned<PodNeeds>,
    labels: Interned<Labels>,
    words: Interned<str>,
}

impl SharedParts {
    /// Has the pod use what others have already.
    pub(crate) fn share(&mut self, pod: &mut PodInfo) {
        pod.needs = self.needs.shared(&pod.needs);
        pod.labels = self.labels.shared(&pod.labels);
        pod.key.namespace = self.words.shared(&pod.key.namespace);
        pod.scheduler_name = self.words.shared(&pod.scheduler_name);
        if let Some(node) = &mut pod.node_name {
            *node = self.words.shared(node.as_shared()).into();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Interned, SLACK, SharedParts};
    use crate::pod_info::PodInfo;
    use crate::test_objects::{PodBuilder, pod};

    #[test]
    fn equal_values_are_one_and_unused_ones_are_dropped() {
        let mut all = Interned::<str>::default();
        let one = all.shared(&"one".into());
        assert!(Arc::ptr_eq(&one, &all.shared(&"one".into())));
        for number in 2..10 * SLACK {
            all.shared(&number.to_string().into());
        }
        assert!(all.known.len() <= 2 * SLACK, "{}", all.known.len());
        assert!(
            Arc::ptr_eq(&one, &all.shared(&"one".into())),
            "it is still in use"
        );
    }

    #[test]
    fn equal_parts_of_pods_are_one() {
        let mut shared = SharedParts::default();
        let mut info = |pod: PodBuilder| -> PodInfo {
            let mut info = PodInfo::parse(pod.label("app", "web").on("n").object()).unwrap();
            shared.share(&mut info);
            info
        };
        let (a, b) = (
            info(pod("a").request("cpu", "1")),
            info(pod("b").request("cpu", "1000m")),
        );
        assert!(Arc::ptr_eq(&a.needs, &b.needs));
        assert!(Arc::ptr_eq(&a.labels, &b.labels));
        assert!(Arc::ptr_eq(&a.key.namespace, &b.key.namespace));
        assert!(Arc::ptr_eq(&a.scheduler_name, &b.scheduler_name));
        let node = |info: &PodInfo| info.node_name.clone().unwrap();
        assert!(Arc::ptr_eq(node(&a).as_shared(), node(&b).as_shared()));
    }
}
