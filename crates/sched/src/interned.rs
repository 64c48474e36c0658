//! Owns values that many objects share: equal ones are kept once, and go when nobody else has them. Knows nothing of
//! what they mean.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use crate::labels::Labels;
use crate::pod_info::PodInfo;
use crate::pod_needs::PodNeeds;

/// So many of the known values are looked at when one comes. What nobody uses any more goes then: at most as many
/// values are kept in vain as are in use, and nobody waits until thousands of them are dropped.
const LOOKED_AT: usize = 4;

/// Values of one type, each once.
#[derive(Debug)]
pub(crate) struct Interned<T: ?Sized> {
    // By hash. A value may be as large as an object, so that it must not be hashed again when this grows.
    known: HashMap<u64, Vec<Arc<T>>>,
    // In the order in which they are looked at.
    hashes: VecDeque<u64>,
    hasher: RandomState,
}

impl<T: ?Sized> Default for Interned<T> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            hashes: VecDeque::new(),
            hasher: RandomState::new(),
        }
    }
}

impl<T: ?Sized + Eq + Hash> Interned<T> {
    /// The one that is equal to this.
    pub(crate) fn shared(&mut self, value: &Arc<T>) -> Arc<T> {
        let hash = self.hasher.hash_one(value);
        let alike = self.known.get(&hash);
        if let Some(known) = alike.into_iter().flatten().find(|known| *known == value) {
            return known.clone();
        }
        self.drop_unused();
        let alike = self.known.entry(hash).or_default();
        if alike.is_empty() {
            self.hashes.push_back(hash);
        }
        alike.push(value.clone());
        value.clone()
    }

    fn drop_unused(&mut self) {
        for _ in 0..LOOKED_AT.min(self.hashes.len()) {
            let Some(hash) = self.hashes.pop_front() else {
                return;
            };
            let Some(alike) = self.known.get_mut(&hash) else {
                continue;
            };
            alike.retain(|known| Arc::strong_count(known) > 1);
            if alike.is_empty() {
                self.known.remove(&hash);
            } else {
                self.hashes.push_back(hash);
            }
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.known.values().map(Vec::len).sum()
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
    use std::cell::Cell;
    use std::hash::{Hash, Hasher};
    use std::rc::Rc;
    use std::sync::Arc;

    use super::{Interned, LOOKED_AT, SharedParts};
    use crate::pod_info::PodInfo;
    use crate::test_objects::{PodBuilder, pod};

    #[test]
    fn equal_values_are_one_and_unused_ones_are_dropped() {
        let mut all = Interned::<str>::default();
        let one = all.shared(&"one".into());
        assert!(Arc::ptr_eq(&one, &all.shared(&"one".into())));
        for number in 2..1_000 {
            all.shared(&number.to_string().into());
        }
        assert!(all.len() <= 2 + LOOKED_AT, "{}", all.len());
        assert!(
            Arc::ptr_eq(&one, &all.shared(&"one".into())),
            "it is still in use"
        );
    }

    /// How often values were hashed, and how many were dropped.
    #[derive(Debug, Default)]
    struct Work {
        hashed: Cell<usize>,
        dropped: Cell<usize>,
    }

    #[derive(Debug)]
    struct Large(usize, Rc<Work>);

    impl PartialEq for Large {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }

    impl Eq for Large {}

    impl Hash for Large {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.1.hashed.update(|times| times + 1);
            self.0.hash(state);
        }
    }

    impl Drop for Large {
        fn drop(&mut self) {
            self.1.dropped.update(|times| times + 1);
        }
    }

    #[test]
    #[expect(
        clippy::arc_with_non_send_sync,
        reason = "it is what values are kept in"
    )]
    fn no_value_costs_what_the_others_do() {
        let (work, mut all) = (Rc::new(Work::default()), Interned::default());
        let mut kept = Vec::new();
        for number in 0..5_000 {
            work.hashed.set(0);
            kept.push(all.shared(&Arc::new(Large(number, work.clone()))));
            assert_eq!(work.hashed.get(), 1, "{number} values were known");
        }
        assert_eq!(work.dropped.get(), 0);
        kept.clear();
        let mut left = all.len();
        for number in 5_000..10_000 {
            work.dropped.set(0);
            kept.push(all.shared(&Arc::new(Large(number, work.clone()))));
            assert!(work.dropped.get() <= LOOKED_AT, "at number {number}");
            left = all.len();
        }
        assert_eq!(left, 5_000, "those that are in use");
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
