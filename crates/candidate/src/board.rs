//! Where the edge says which pods may be tried, and the plugin reads it.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use crate::plan::{Gate, Note};

/// One gate a pod, by UID. A pod that isn't on the board isn't tried: nothing is known of its chaperon.
#[derive(Debug, Default)]
pub struct Board(RwLock<HashMap<String, Gate>>);

impl Board {
    /// An empty board.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a pod's gate; `true` if it was shut, or unknown, and is open now: then the scheduler has to be told.
    pub fn set(&self, pod_uid: &str, gate: Gate) -> bool {
        let mut gates = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let open = gate == Gate::Open;
        let before = gates.insert(pod_uid.to_owned(), gate);
        open && before != Some(Gate::Open)
    }

    /// Forgets a pod.
    pub fn remove(&self, pod_uid: &str) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(pod_uid);
    }

    /// Why a pod may not be tried; `None` if it may.
    pub fn shut(&self, pod_uid: &str) -> Option<Note> {
        match self
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(pod_uid)
        {
            Some(Gate::Open) => None,
            Some(Gate::Shut(note)) => Some(note.clone()),
            None => Some(Note::Unseen),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_is_said_once() {
        let board = Board::new();
        assert_eq!(board.shut("p"), Some(Note::Unseen));
        assert!(!board.set("p", Gate::Shut(Note::Seated)));
        assert_eq!(board.shut("p"), Some(Note::Seated));
        assert!(board.set("p", Gate::Open));
        assert!(!board.set("p", Gate::Open));
        assert_eq!(board.shut("p"), None);
        board.remove("p");
        assert_eq!(board.shut("p"), Some(Note::Unseen));
        assert!(board.set("p", Gate::Open), "a pod that opens at once");
    }
}
