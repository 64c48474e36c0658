//! Owns what plugins have said of all nodes for pods of each class, so that the next pod of the class asks only about
//! nodes that changed since. Knows nothing of the choice among nodes (see `cycle::by_class`).
//!
//! Pods of one class have equal [`PodNeeds`], one profile, and the same plugins left out of their cycles. Answers are
//! kept only of pods whose filters all say what their answers depend on: see [`Reads`](crate::Reads).

mod class;
mod column;

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use self::class::Class;
use crate::pod_info::PodInfo;
use crate::pod_needs::PodNeeds;
use crate::state::PluginMask;

/// How many answers are kept in all, over plugins, classes and nodes; eight bytes each.
const MAX_ANSWERS: usize = 16_000_000;

/// What makes pods equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    profile: Arc<str>,
    // The scheduler keeps equal needs once, so their place in memory stands for them; the class keeps them there.
    needs: usize,
    skipped_filters: PluginMask,
}

#[derive(Debug)]
struct Known {
    class: Class,
    // Keeps the address taken.
    _needs: Arc<PodNeeds>,
    used: u64,
}

/// The classes whose pods were tried lately.
#[derive(Debug)]
pub(crate) struct Classes {
    known: HashMap<Key, Known>,
    turn: u64,
    max_answers: usize,
}

impl Default for Classes {
    fn default() -> Self {
        Self::new(MAX_ANSWERS)
    }
}

impl Classes {
    /// None yet; it never keeps more answers, but for those of one class.
    fn new(max_answers: usize) -> Self {
        Self {
            known: HashMap::new(),
            turn: 0,
            max_answers,
        }
    }

    /// The class of a pod, taken out: it must be given back unless what is in it can't be trusted any more.
    pub(crate) fn take(&mut self, pod: &PodInfo, skipped_filters: PluginMask) -> Taken {
        let key = Key {
            profile: pod.scheduler_name.clone(),
            needs: Arc::as_ptr(&pod.needs).addr(),
            skipped_filters,
        };
        let known = self.known.remove(&key);
        Taken {
            class: known.map_or_else(Class::default, |known| known.class),
            needs: pod.needs.clone(),
            key,
        }
    }

    /// Keeps a class, and forgets the ones that were used longest ago if there are too many answers.
    pub(crate) fn give_back(&mut self, taken: Taken) {
        self.turn = self.turn.saturating_add(1);
        let known = Known {
            class: taken.class,
            _needs: taken.needs,
            used: self.turn,
        };
        self.known.insert(taken.key, known);
        let mut answers = self.answers();
        while answers > self.max_answers && self.known.len() > 1 {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            if let Some(known) = self.known.remove(&oldest) {
                answers = answers.saturating_sub(known.class.answers());
            }
        }
    }

    fn answers(&self) -> usize {
        let classes = self.known.values().map(|known| known.class.answers());
        classes.fold(0, usize::saturating_add)
    }
}

/// A class in use.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) class: Class,
    needs: Arc<PodNeeds>,
    key: Key,
}

#[cfg(test)]
mod tests;
