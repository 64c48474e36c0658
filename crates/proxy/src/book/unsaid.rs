//! Pods whose words found no room, in the order in which they did. It knows no words, and not how much room there is.

use std::collections::{BTreeMap, HashMap};

/// Whoever waits for room to speak. One that was called, and finds the room taken, keeps its place.
#[derive(Debug, Default)]
pub(super) struct Unsaid {
    /// How many have ever waited.
    came: u64,
    /// Everybody who waits, by the UID of the pod: which one it was.
    places: HashMap<String, u64>,
    /// Those of them that aren't called.
    queue: BTreeMap<u64, String>,
}

impl Unsaid {
    /// Whether a pod may speak if there is room: it was called, or nobody waits.
    pub(super) fn may_speak(&self, uid: &str) -> bool {
        match self.places.get(uid) {
            Some(place) => !self.queue.contains_key(place),
            None => self.places.is_empty(),
        }
    }

    /// A pod's words found no room.
    pub(super) fn wait(&mut self, uid: &str) {
        let place = *self.places.entry(uid.to_owned()).or_insert_with(|| {
            self.came = self.came.saturating_add(1);
            self.came
        });
        self.queue.insert(place, uid.to_owned());
    }

    /// A pod has spoken, has nothing to say, or can't.
    pub(super) fn forget(&mut self, uid: &str) {
        if let Some(place) = self.places.remove(uid) {
            self.queue.remove(&place);
        }
    }

    /// Calls the one that has waited longest. It has to speak, wait again or be forgotten: the others that come do wait
    /// for it.
    pub(super) fn call(&mut self) -> Option<String> {
        self.queue.pop_first().map(|(_, uid)| uid)
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
            unsaid.wait(uid);
        }
        assert!(["z", "new"].iter().all(|uid| !unsaid.may_speak(uid)));
        assert_eq!(unsaid.call().as_deref(), Some("z"));
        assert_eq!(unsaid.call().as_deref(), Some("m"));
        assert!(unsaid.may_speak("z") && !unsaid.may_speak("a") && !unsaid.may_speak("new"));
        // The room was taken.
        unsaid.wait("m");
        unsaid.wait("z");
        unsaid.wait("new");
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
}
