//! Owns who waits for the end of which pods, having made them go. Hints know what kept a pod from a node first, and may
//! pass over the end of the last one. Knows nothing of how pods go.

use std::collections::{BTreeSet, HashMap};

use crate::names::PodUid;

/// Pods that make room, and those that go for them, as long as they are there.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    victims: HashMap<PodUid, BTreeSet<PodUid>>,
    preemptors: HashMap<PodUid, BTreeSet<PodUid>>,
}

impl Awaited {
    /// A pod waits for the end of these, too.
    pub(super) fn add(&mut self, preemptor: &PodUid, victims: impl IntoIterator<Item = PodUid>) {
        for victim in victims {
            let preemptors = self.preemptors.entry(victim.clone()).or_default();
            preemptors.insert(preemptor.clone());
            let victims = self.victims.entry(preemptor.clone()).or_default();
            victims.insert(victim);
        }
    }

    /// A pod has gone; who waits for nobody any more, by UID.
    pub(super) fn gone(&mut self, victim: &PodUid) -> Vec<PodUid> {
        let preemptors = self.preemptors.remove(victim).unwrap_or_default();
        let mut free = Vec::new();
        for preemptor in preemptors {
            let Some(victims) = self.victims.get_mut(&preemptor) else {
                continue;
            };
            victims.remove(victim);
            if victims.is_empty() {
                self.victims.remove(&preemptor);
                free.push(preemptor);
            }
        }
        free
    }

    /// A pod needs no room any more.
    pub(super) fn forget(&mut self, preemptor: &PodUid) {
        for victim in self.victims.remove(preemptor).into_iter().flatten() {
            if let Some(preemptors) = self.preemptors.get_mut(&victim) {
                preemptors.remove(preemptor);
                if preemptors.is_empty() {
                    self.preemptors.remove(&victim);
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.victims.is_empty() && self.preemptors.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Awaited;
    use crate::test_objects::uid;

    #[test]
    fn who_waits_for_several_waits_for_the_last_one() {
        let mut awaited = Awaited::default();
        awaited.add(&uid("one"), [uid("a"), uid("b")]);
        awaited.add(&uid("other"), [uid("b"), uid("c")]);
        assert!(awaited.gone(&uid("a")).is_empty());
        assert!(awaited.gone(&uid("stranger")).is_empty());
        assert_eq!(awaited.gone(&uid("b")), [uid("one")]);
        assert!(awaited.gone(&uid("b")).is_empty(), "once");
        awaited.forget(&uid("other"));
        assert!(awaited.gone(&uid("c")).is_empty());
        assert!(awaited.is_empty());
    }
}
