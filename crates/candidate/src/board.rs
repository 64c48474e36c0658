//! Where the edge says which pods may be tried, and evict others, and the plugins read it.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use pilotage_api::preempts::Preempts;

use crate::plan::{Gate, Leave, Note};

/// What is said of one pod.
#[derive(Debug)]
struct Posting {
    gate: Gate,
    leave: Leave,
}

/// One posting a pod, by UID. A pod that isn't on the board isn't tried: nothing is known of its chaperon.
#[derive(Debug, Default)]
pub struct Board(RwLock<HashMap<String, Posting>>);

impl Board {
    /// An empty board.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a pod's gate and leave; `true` if the gate was shut, or unknown, and is open now: then the scheduler has to
    /// be told.
    pub fn set(&self, pod_uid: &str, gate: Gate, leave: Leave) -> bool {
        let mut postings = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let open = gate == Gate::Open;
        let before = postings.get(pod_uid);
        let was_open = before.is_some_and(|before| before.gate == Gate::Open);
        // Who says so again may not know yet that it was used.
        let used = before.is_some_and(|before| before.leave == Leave::Used);
        let leave = match leave {
            Leave::UpTo(_) if used => Leave::Used,
            leave => leave,
        };
        postings.insert(pod_uid.to_owned(), Posting { gate, leave });
        open && !was_open
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
        let postings = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match postings.get(pod_uid).map(|posting| &posting.gate) {
            Some(Gate::Open) => None,
            Some(Gate::Shut(note)) => Some(note.clone()),
            None => Some(Note::Unseen),
        }
    }

    /// Whether others may be evicted for a pod, which would cost this; `None` if that is more than was said. Leave is
    /// used by that.
    pub fn take_leave(&self, pod_uid: &str, cost: &Preempts) -> Option<Leave> {
        let mut postings = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(posting) = postings.get_mut(pod_uid) else {
            return Some(Leave::Offer);
        };
        let leave = posting.leave;
        if let Leave::UpTo(most) = leave {
            if !cost.is_within(&most) {
                return None;
            }
            posting.leave = Leave::Used;
        }
        Some(leave)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn opening_is_said_once() {
        let board = Board::new();
        let set = |gate| board.set("p", gate, Leave::Offer);
        assert_eq!(board.shut("p"), Some(Note::Unseen));
        assert!(!set(Gate::Shut(Note::Seated)));
        assert_eq!(board.shut("p"), Some(Note::Seated));
        assert!(set(Gate::Open));
        assert!(!set(Gate::Open));
        assert_eq!(board.shut("p"), None);
        board.remove("p");
        assert_eq!(board.shut("p"), Some(Note::Unseen));
        assert!(set(Gate::Open), "a pod that opens at once");
    }

    #[test]
    fn leave_is_used_once_and_up_to_what_was_said() {
        let of = |pods: u32| Preempts {
            budgets: 0,
            highest: 0,
            sum: 0,
            pods,
            oldest: None,
            grace: Duration::ZERO,
        };
        let board = Board::new();
        let set = |leave| board.set("p", Gate::Open, leave);
        let take = |pods| board.take_leave("p", &of(pods));
        assert_eq!(take(1), Some(Leave::Offer), "nobody said anything");
        set(Leave::UpTo(of(2)));
        assert_eq!(take(3), None, "more than was said");
        assert_eq!(take(2), Some(Leave::UpTo(of(2))));
        assert_eq!(take(1), Some(Leave::Used));
        set(Leave::UpTo(of(2)));
        assert_eq!(
            take(1),
            Some(Leave::Used),
            "said again by one who didn't know"
        );
        set(Leave::Offer);
        assert_eq!(take(1), Some(Leave::Offer));
        set(Leave::UpTo(of(2)));
        assert_eq!(take(1), Some(Leave::UpTo(of(2))), "for the next grant");
    }

    #[test]
    fn leave_is_for_no_longer_than_was_said_and_for_whoever_began_at_any_time() {
        let of = |began, grace| Preempts {
            budgets: 0,
            highest: 0,
            sum: 0,
            pods: 1,
            oldest: Some(began),
            grace: Duration::from_secs(grace),
        };
        let told = of(100, 30);
        for (cost, allowed) in [
            (of(100, 30), true),
            (of(99, 30), true),
            (of(101, 0), true),
            (of(100, 31), false),
        ] {
            let board = Board::new();
            board.set("p", Gate::Open, Leave::UpTo(told));
            let took = board.take_leave("p", &cost) == Some(Leave::UpTo(told));
            assert_eq!(took, allowed, "{cost}");
        }
    }
}
