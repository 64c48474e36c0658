//! Pods whose words found no room, in the order in which they did, and their namespaces in turn: who has many pods with
//! words, or slow ones, keeps nobody else's waiting. It knows no words, and not how much room there is.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// Whoever waits for room to speak. One that was called, and finds the room taken, keeps its place in its namespace.
#[derive(Debug, Default)]
pub(super) struct Unsaid {
    /// How many have ever waited.
    came: u64,
    /// Everybody who waits, by the UID of the pod.
    places: HashMap<String, Place>,
    /// Those of them that aren't called, by namespace. No queue is empty.
    queues: HashMap<String, BTreeMap<u64, String>>,
    /// Each namespace that has a queue, once; the next one is in front.
    turns: VecDeque<String>,
}

#[derive(Debug)]
struct Place {
    namespace: String,
    /// Which one of all it was.
    number: u64,
}

impl Unsaid {
    /// Whether a pod may speak if there is room: it was called, or nobody waits.
    pub(super) fn may_speak(&self, uid: &str) -> bool {
        let Some(place) = self.places.get(uid) else {
            return self.places.is_empty();
        };
        let queue = self.queues.get(&place.namespace);
        !queue.is_some_and(|queue| queue.contains_key(&place.number))
    }

    /// The words of a pod of this namespace found no room.
    pub(super) fn wait(&mut self, uid: &str, namespace: &str) {
        let place = self.places.entry(uid.to_owned()).or_insert_with(|| {
            self.came = self.came.saturating_add(1);
            Place {
                namespace: namespace.to_owned(),
                number: self.came,
            }
        });
        let queue = self.queues.entry(place.namespace.clone()).or_default();
        if queue.is_empty() {
            self.turns.push_back(place.namespace.clone());
        }
        queue.insert(place.number, uid.to_owned());
    }

    /// A pod has spoken, has nothing to say, or can't.
    pub(super) fn forget(&mut self, uid: &str) {
        let Some(place) = self.places.remove(uid) else {
            return;
        };
        let Some(queue) = self.queues.get_mut(&place.namespace) else {
            return;
        };
        queue.remove(&place.number);
        if queue.is_empty() {
            self.queues.remove(&place.namespace);
            self.turns.retain(|namespace| *namespace != place.namespace);
        }
    }

    /// Calls the one that has waited longest in the namespace whose turn it is. It has to speak, wait again or be
    /// forgotten: the others that come do wait for it.
    pub(super) fn call(&mut self) -> Option<String> {
        let namespace = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&namespace)?;
        let called = queue.pop_first();
        if queue.is_empty() {
            self.queues.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        called.map(|(_, uid)| uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_longest_is_called_first_and_keeps_its_place() {
        let mut unsaid = Unsaid::default();
        assert!(unsaid.may_speak("z"));
        for uid in ["z", "m", "a", "m"] {
            unsaid.wait(uid, "ns");
        }
        assert!(["z", "new"].iter().all(|uid| !unsaid.may_speak(uid)));
        assert_eq!(unsaid.call().as_deref(), Some("z"));
        assert_eq!(unsaid.call().as_deref(), Some("m"));
        assert!(unsaid.may_speak("z") && !unsaid.may_speak("a") && !unsaid.may_speak("new"));
        // The room was taken.
        unsaid.wait("m", "ns");
        unsaid.wait("z", "ns");
        unsaid.wait("new", "ns");
        let called = || unsaid.call();
        let all: Vec<_> = std::iter::from_fn(called).collect();
        assert_eq!(all, ["z", "m", "a", "new"]);
        for uid in ["z", "m", "a"] {
            unsaid.forget(uid);
        }
        assert!(!unsaid.may_speak("other"), "new was called and may speak");
        unsaid.forget("new");
        assert!(unsaid.may_speak("other"));
    }

    #[test]
    fn many_of_one_namespace_keep_no_other_waiting() {
        let mut unsaid = Unsaid::default();
        for number in 0..1000 {
            unsaid.wait(&format!("many-{number:03}"), "many");
        }
        for uid in ["b-1", "b-2"] {
            unsaid.wait(uid, "b");
        }
        unsaid.wait("c-1", "c");
        let mut called = Vec::new();
        for _ in 0..6 {
            let uid = unsaid.call().unwrap();
            // One goes without having been called.
            if called.is_empty() {
                unsaid.forget("many-001");
            }
            unsaid.forget(&uid);
            called.push(uid);
        }
        let expected = ["many-000", "b-1", "c-1", "many-002", "b-2", "many-003"];
        assert_eq!(called, expected);
        while let Some(uid) = unsaid.call() {
            unsaid.forget(&uid);
        }
        assert!(unsaid.places.is_empty() && unsaid.queues.is_empty() && unsaid.turns.is_empty());
    }

    #[test]
    fn a_namespace_whose_last_pod_goes_has_no_turn() {
        let mut unsaid = Unsaid::default();
        unsaid.wait("a-1", "a");
        unsaid.wait("b-1", "b");
        unsaid.forget("a-1");
        assert_eq!(unsaid.call().as_deref(), Some("b-1"));
        assert!(unsaid.call().is_none());
        unsaid.wait("b-1", "b");
        assert_eq!(unsaid.call().as_deref(), Some("b-1"));
    }
}
