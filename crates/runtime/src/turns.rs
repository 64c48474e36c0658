//! One turn a key at a time: keys that were woken meanwhile get another turn, keys that asked for it later get it then.
//!
//! Nothing here polls, and nothing knows what a turn does. A turn that panics is reported and tried again later; it
//! stops no other key.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::{
    sync::mpsc,
    task::{Id, JoinError, JoinSet},
    time::Instant,
};
use tokio_util::{
    sync::CancellationToken,
    time::{DelayQueue, delay_queue},
};

use crate::moment::from_now;

/// After a panic a key waits this long: something may be held for it.
pub const AFTER_PANIC: Duration = Duration::from_secs(10);
/// Whoever asks for a later turn gets one then: the queue counts no more than two years.
const FARTHEST: Duration = Duration::from_hours(365 * 24);

/// What a turn wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until the key is woken.
    Rest,
    /// Another turn then, if it isn't woken before.
    At(Instant),
}

/// Wakes keys; clones share it.
#[derive(Debug)]
pub struct Waker<K>(mpsc::UnboundedSender<K>);

impl<K> Clone for Waker<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Waker<K> {
    /// Gives the key a turn soon. Never waits.
    pub fn wake(&self, key: K) {
        // Nobody is left to take turns only when the process ends.
        let _ = self.0.send(key);
    }
}

/// The turns of all keys.
#[derive(Debug)]
pub struct Turns<K> {
    woken: mpsc::UnboundedReceiver<K>,
    limit: usize,
    keys: HashMap<K, State>,
    ready: VecDeque<K>,
    later: DelayQueue<K>,
    running: JoinSet<Next>,
    ids: HashMap<Id, K>,
}

#[derive(Debug)]
enum State {
    /// In `ready`.
    Ready,
    Running {
        woken: bool,
    },
    Later(delay_queue::Key),
}

impl<K: Clone + Eq + Hash + Send + 'static> Turns<K> {
    /// At most `limit` turns at once.
    pub fn new(limit: usize) -> (Self, Waker<K>) {
        let (sender, woken) = mpsc::unbounded_channel();
        let turns = Self {
            woken,
            limit: limit.max(1),
            keys: HashMap::new(),
            ready: VecDeque::new(),
            later: DelayQueue::new(),
            running: JoinSet::new(),
            ids: HashMap::new(),
        };
        (turns, Waker(sender))
    }

    /// Takes turns until `stop` is cancelled, then finishes those that have begun.
    pub async fn run(
        mut self,
        turn: impl Fn(K) -> BoxFuture<'static, Next>,
        stop: CancellationToken,
    ) {
        loop {
            while self.running.len() < self.limit
                && let Some(key) = self.ready.pop_front()
            {
                self.keys
                    .insert(key.clone(), State::Running { woken: false });
                let id = self.running.spawn(turn(key.clone())).id();
                self.ids.insert(id, key);
            }
            tokio::select! {
                () = stop.cancelled() => break,
                Some(key) = self.woken.recv() => self.wake(key),
                Some(expired) = next(&mut self.later) => {
                    let key = expired.into_inner();
                    self.keys.insert(key.clone(), State::Ready);
                    self.ready.push_back(key);
                }
                Some(ended) = self.running.join_next_with_id(), if !self.running.is_empty() => {
                    self.ended(ended);
                }
            }
        }
        while self.running.join_next().await.is_some() {}
    }

    fn wake(&mut self, key: K) {
        match self.keys.get_mut(&key) {
            Some(State::Ready) => return,
            Some(State::Running { woken }) => {
                *woken = true;
                return;
            }
            Some(State::Later(timer)) => {
                let timer = *timer;
                self.later.remove(&timer);
            }
            None => {}
        }
        self.keys.insert(key.clone(), State::Ready);
        self.ready.push_back(key);
    }

    fn ended(&mut self, ended: Result<(Id, Next), JoinError>) {
        let (id, next) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(%error, "a turn panicked");
                (error.id(), Next::At(from_now(AFTER_PANIC)))
            }
        };
        let Some(key) = self.ids.remove(&id) else {
            return;
        };
        let woken = matches!(self.keys.remove(&key), Some(State::Running { woken: true }));
        match next {
            _ if woken => {
                self.keys.insert(key.clone(), State::Ready);
                self.ready.push_back(key);
            }
            Next::At(at) => {
                let timer = self
                    .later
                    .insert_at(key.clone(), at.min(from_now(FARTHEST)));
                self.keys.insert(key, State::Later(timer));
            }
            Next::Rest => {}
        }
    }
}

async fn next<K>(later: &mut DelayQueue<K>) -> Option<delay_queue::Expired<K>> {
    std::future::poll_fn(|cx| later.poll_expired(cx)).await
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use futures::FutureExt;

    use super::*;
    use crate::moment::LONGEST_TIME;

    #[tokio::test(start_paused = true)]
    async fn a_key_has_one_turn_at_a_time_and_another_if_it_was_woken_meanwhile() {
        let (turns, waker) = Turns::new(8);
        let log: Arc<Mutex<Vec<(&str, u128)>>> = Arc::default();
        let running = Arc::new(AtomicUsize::new(0));
        let start = Instant::now();
        let stop = CancellationToken::new();
        let turn = {
            let (log, running) = (log.clone(), running.clone());
            move |key: &'static str| {
                let (log, running) = (log.clone(), running.clone());
                async move {
                    assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                    log.lock().unwrap().push((key, start.elapsed().as_millis()));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    Next::Rest
                }
                .boxed()
            }
        };
        let task = tokio::spawn(turns.run(turn, stop.clone()));
        waker.wake("a");
        tokio::time::sleep(Duration::from_millis(10)).await;
        waker.wake("a");
        waker.wake("a");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(*log.lock().unwrap(), [("a", 0), ("a", 100)]);
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_turn_comes_in_time_or_sooner_if_woken_and_a_panic_stops_nobody() {
        let (turns, waker) = Turns::new(1);
        let log: Arc<Mutex<Vec<(&str, u64)>>> = Arc::default();
        let start = Instant::now();
        let stop = CancellationToken::new();
        let turn = {
            let log = log.clone();
            move |key: &'static str| {
                let log = log.clone();
                async move {
                    log.lock().unwrap().push((key, start.elapsed().as_secs()));
                    assert_ne!(key, "bad", "on purpose");
                    Next::At(Instant::now() + Duration::from_secs(30))
                }
                .boxed()
            }
        };
        let task = tokio::spawn(turns.run(turn, stop.clone()));
        waker.wake("bad");
        waker.wake("a");
        tokio::time::sleep(Duration::from_secs(35)).await;
        waker.wake("a");
        tokio::time::sleep(Duration::from_secs(28)).await;
        let mut log = log.lock().unwrap().clone();
        log.retain(|(key, _)| *key == "a");
        assert_eq!(log, [("a", 0), ("a", 30), ("a", 35)]);
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_asked_for_in_ten_years_stops_nobody() {
        let (turns, waker) = Turns::new(1);
        let (told, mut turns_taken) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let turn = move |key: &'static str| {
            let told = told.clone();
            async move {
                told.send(key).unwrap();
                Next::At(from_now(LONGEST_TIME))
            }
            .boxed()
        };
        let task = tokio::spawn(turns.run(turn, stop.clone()));
        for key in ["far", "other", "far"] {
            waker.wake(key);
            assert_eq!(turns_taken.recv().await, Some(key));
        }
        stop.cancel();
        task.await.unwrap();
    }
}
