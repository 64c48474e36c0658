//! How many events of each namespace may wait, so that nobody's events keep out everybody else's. Knows no event.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Events that wait, by namespace.
pub(super) struct Shares {
    most: usize,
    waiting: Mutex<HashMap<String, usize>>,
}

/// The place of one event that waits; whoever drops it makes room.
pub(super) struct Place {
    namespace: String,
    shares: Arc<Shares>,
}

impl Shares {
    /// Of each namespace `most` may wait.
    pub(super) fn new(most: usize) -> Arc<Self> {
        let waiting = Mutex::default();
        Arc::new(Self { most, waiting })
    }

    /// A place, if the namespace has one left.
    pub(super) fn enter(self: &Arc<Self>, namespace: &str) -> Option<Place> {
        let mut waiting = self.waiting();
        let count = waiting.get(namespace).copied().unwrap_or_default();
        if count >= self.most {
            return None;
        }
        waiting.insert(namespace.to_owned(), count.saturating_add(1));
        Some(Place {
            namespace: namespace.to_owned(),
            shares: self.clone(),
        })
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.shares.waiting();
        if let Some(count) = waiting.get_mut(&self.namespace) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                waiting.remove(&self.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_has_its_places_and_nothing_is_kept_of_one_that_has_none_waiting() {
        let shares = Shares::new(2);
        let places: Vec<_> = (0..2).map_while(|_| shares.enter("a")).collect();
        assert_eq!(places.len(), 2);
        assert!(shares.enter("a").is_none());
        let other = shares.enter("b").expect("it has places of its own");
        drop(places);
        assert!(shares.enter("a").is_some());
        drop(other);
        assert!(shares.waiting().is_empty());
    }
}
