//! Owns a priority heap of queued pods from which any pod can be taken by its UID.
//! Knows nothing of what the order means.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::QueuedPod;
use crate::names::PodUid;

/// What comes first.
pub(super) type Order = Arc<dyn Fn(&QueuedPod, &QueuedPod) -> Ordering + Send + Sync>;

/// A binary heap with an index.
pub(super) struct Heap {
    order: Order,
    pods: Vec<QueuedPod>,
    // Lookups only; never iterated.
    index: HashMap<PodUid, usize>,
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.pods).finish()
    }
}

impl Heap {
    pub(super) fn new(order: Order) -> Self {
        Self {
            order,
            pods: Vec::new(),
            index: HashMap::new(),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.pods.len()
    }

    pub(super) fn contains(&self, uid: &PodUid) -> bool {
        self.index.contains_key(uid)
    }

    pub(super) fn peek(&self) -> Option<&QueuedPod> {
        self.pods.first()
    }

    /// Puts a pod in, replacing the one with its UID.
    pub(super) fn push(&mut self, pod: QueuedPod) {
        self.remove(&pod.pod.uid);
        let at = self.pods.len();
        self.index.insert(pod.pod.uid.clone(), at);
        self.pods.push(pod);
        self.rise(at);
    }

    pub(super) fn pop(&mut self) -> Option<QueuedPod> {
        let uid = self.pods.first()?.pod.uid.clone();
        self.remove(&uid)
    }

    pub(super) fn remove(&mut self, uid: &PodUid) -> Option<QueuedPod> {
        let at = self.index.remove(uid)?;
        let pod = self.pods.swap_remove(at);
        if at < self.pods.len() {
            self.index.insert(self.pods[at].pod.uid.clone(), at);
            self.rise(at);
            self.sink(at);
        }
        Some(pod)
    }

    fn comes_first(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.pods[one], &self.pods[other]);
        // The order in which pods came makes every order total, so that a run can be repeated.
        (self.order)(one, other).then(one.sequence.cmp(&other.sequence)) == Ordering::Less
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.pods.swap(one, other);
        for at in [one, other] {
            if let Some(place) = self.index.get_mut(&self.pods[at].pod.uid) {
                *place = at;
            }
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = at.saturating_sub(1) / 2;
            if !self.comes_first(at, parent) {
                return;
            }
            self.swap(at, parent);
            at = parent;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let left = at.saturating_mul(2).saturating_add(1);
            let right = left.saturating_add(1);
            let mut first = at;
            if left < self.pods.len() && self.comes_first(left, first) {
                first = left;
            }
            if right < self.pods.len() && self.comes_first(right, first) {
                first = right;
            }
            if first == at {
                return;
            }
            self.swap(at, first);
            at = first;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::Heap;
    use crate::moment::Moment;
    use crate::queue::QueuedPod;
    use crate::test_objects::pod;

    proptest! {
        #[test]
        fn pops_in_order_whatever_was_removed(
            priorities in proptest::collection::vec(0i32..5, 1..40),
            removed in proptest::collection::btree_set(0usize..40, 0..20),
        ) {
            let mut heap = Heap::new(Arc::new(|a, b| b.pod.priority.cmp(&a.pod.priority)));
            let mut expected = Vec::new();
            for (at, priority) in priorities.iter().enumerate() {
                let info = pod(&format!("p{at}")).priority(*priority).info();
                heap.push(QueuedPod::new(info, Moment::ZERO, at as u64));
                if !removed.contains(&at) {
                    expected.push((-priority, at as u64));
                }
            }
            for at in removed.iter().filter(|at| **at < priorities.len()) {
                let known = heap.remove(&crate::test_objects::uid(&format!("p{at}"))).is_some();
                prop_assert!(known);
            }
            expected.sort_unstable();
            let popped = std::iter::from_fn(|| heap.pop());
            let popped = popped.map(|q| (-q.pod.priority, q.sequence)).collect::<Vec<_>>();
            prop_assert_eq!(popped, expected);
            prop_assert_eq!(heap.len(), 0);
        }
    }
}
