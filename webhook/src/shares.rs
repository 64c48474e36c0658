//! How many reviews of one namespace are judged at once: a large pod takes fifty times as long as a usual one, its
//! author may send any number of them, and who waits longer than the API server does has no pod. Must not know what a
//! review is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Gives turns; clones share them.
#[derive(Clone, Debug)]
pub struct Shares {
    /// Turns of one namespace at once.
    most: usize,
    /// Those who have a turn, or wait for one, first come, first served.
    homes: Arc<Mutex<HashMap<String, Weak<Semaphore>>>>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Shares {
    /// Of so many threads that judge one namespace has half.
    pub fn of(threads: usize) -> Self {
        Self {
            most: threads.checked_div(2).unwrap_or_default().max(1),
            homes: Arc::default(),
        }
    }

    /// Waits until it is this namespace's turn.
    pub(crate) async fn turn(&self, namespace: String) -> Turn {
        let turns = self.turns(namespace);
        // Nobody closes it.
        let permit = turns.acquire_owned().await.ok();
        Turn { _permit: permit }
    }

    fn turns(&self, namespace: String) -> Arc<Semaphore> {
        let mut homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = homes.get(&namespace).and_then(Weak::upgrade) {
            return turns;
        }
        homes.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(self.most));
        homes.insert(namespace, Arc::downgrade(&turns));
        turns
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_namespace_has_half_of_the_threads_and_waits_for_its_own_turns() {
        for (threads, most) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2)] {
            let shares = Shares::of(threads);
            let turn = |namespace: &str| shares.turn(namespace.to_owned());
            let mut busy = Vec::new();
            for _ in 0..most {
                busy.push(turn("busy").now_or_never().unwrap());
            }
            let mut next = Box::pin(turn("busy"));
            assert!(next.as_mut().now_or_never().is_none(), "{threads}");
            assert!(turn("shop").now_or_never().is_some(), "{threads}");
            busy.pop();
            assert!(next.now_or_never().is_some(), "{threads}");
        }
    }

    #[tokio::test]
    async fn who_has_no_turn_is_forgotten() {
        let shares = Shares::of(2);
        let known = || shares.homes.lock().unwrap().len();
        let turn = shares.turn("busy".to_owned()).await;
        for number in 0..100 {
            shares.turn(number.to_string()).await;
        }
        assert!(known() <= 2, "{}", known());
        assert!(shares.turn("busy".to_owned()).now_or_never().is_none());
        drop(turn);
        assert!(shares.turn("busy".to_owned()).now_or_never().is_some());
    }
}
