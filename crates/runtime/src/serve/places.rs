//! Places for connections, and who leaves when all are taken: of the clients that no answer is owed to the one that was
//! heard longest ago. A request whose body is still coming is owed nothing yet, so that who stops in it keeps nobody
//! out. Pure but for its lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// All places of a server.
pub(super) struct Places {
    most: usize,
    books: Arc<Books>,
}

#[derive(Default)]
struct Books {
    taken: Mutex<Taken>,
    changed: Notify,
}

#[derive(Default)]
struct Taken {
    /// Counts what is heard.
    now: u64,
    connections: HashMap<u64, Connection>,
}

struct Connection {
    /// When it came, or a request of it was complete or answered last.
    heard: u64,
    /// Requests without an answer.
    asked: usize,
    /// Those of them whose bodies are still coming.
    coming: usize,
    cut: CancellationToken,
}

/// A place, until it is dropped.
pub(super) struct Place {
    id: u64,
    books: Arc<Books>,
}

/// Something that a connection has one of more, until this is dropped.
pub(super) struct Counted {
    id: u64,
    books: Arc<Books>,
    what: fn(&mut Connection) -> &mut usize,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        let books = Arc::default();
        Self { most, books }
    }

    /// A place for a connection, which `cut` ends if somebody else gets that place. It is waited for only while an
    /// answer is owed on each connection.
    pub(super) async fn take(&self, cut: CancellationToken) -> Place {
        while !self.make_room() {
            self.books.changed.notified().await;
        }
        let mut taken = self.books.taken();
        let id = taken.tick();
        let connection = Connection {
            heard: id,
            asked: 0,
            coming: 0,
            cut,
        };
        taken.connections.insert(id, connection);
        let books = self.books.clone();
        Place { id, books }
    }

    /// Whether there is room for one, for which another one may have had to leave.
    fn make_room(&self) -> bool {
        let mut taken = self.books.taken();
        if taken.connections.len() < self.most {
            return true;
        }
        let quiet = taken.connections.iter().filter(|(_, it)| !it.is_owed());
        let Some((&id, _)) = quiet.min_by_key(|(_, it)| it.heard) else {
            return false;
        };
        if let Some(connection) = taken.connections.remove(&id) {
            connection.cut.cancel();
        }
        true
    }
}

impl Connection {
    fn is_owed(&self) -> bool {
        self.asked > self.coming
    }
}

impl Books {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn tick(&mut self) -> u64 {
        self.now = self.now.saturating_add(1);
        self.now
    }
}

impl Place {
    /// A request that isn't answered yet.
    pub(super) fn asked(&self) -> Counted {
        self.count(|connection| &mut connection.asked)
    }

    /// Its body, which is still coming.
    pub(super) fn coming(&self) -> Counted {
        self.count(|connection| &mut connection.coming)
    }

    fn count(&self, what: fn(&mut Connection) -> &mut usize) -> Counted {
        if let Some(connection) = self.books.taken().connections.get_mut(&self.id) {
            let count = what(connection);
            *count = count.saturating_add(1);
        }
        let books = self.books.clone();
        Counted {
            id: self.id,
            books,
            what,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.books.taken().connections.remove(&self.id);
        self.books.changed.notify_one();
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut taken = self.books.taken();
        let now = taken.tick();
        if let Some(connection) = taken.connections.get_mut(&self.id) {
            connection.heard = now;
            let count = (self.what)(connection);
            *count = count.saturating_sub(1);
        }
        drop(taken);
        self.books.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// A place for somebody who comes, if there is one at once.
    fn come(places: &Places) -> Option<(Place, CancellationToken)> {
        let cut = CancellationToken::new();
        let place = places.take(cut.clone()).now_or_never()?;
        Some((place, cut))
    }

    #[test]
    fn who_was_heard_longest_ago_leaves() {
        let places = Places::new(2);
        let (first, first_cut) = come(&places).unwrap();
        let (_second, second_cut) = come(&places).unwrap();
        drop(first.asked());
        let (third, third_cut) = come(&places).unwrap();
        assert!(second_cut.is_cancelled() && !first_cut.is_cancelled());
        // A place that was given back is nobody else's.
        drop(third);
        let _fourth = come(&places).unwrap();
        assert!(!first_cut.is_cancelled() && !third_cut.is_cancelled());
    }

    #[test]
    fn who_is_owed_an_answer_stays_and_who_only_begins_to_ask_does_not() {
        let places = Places::new(1);
        let (place, cut) = come(&places).unwrap();
        let (asked, coming) = (place.asked(), place.coming());
        drop(coming);
        let cut_of_next = CancellationToken::new();
        let mut next = Box::pin(places.take(cut_of_next.clone()));
        assert!(next.as_mut().now_or_never().is_none());
        drop(asked);
        let place = next.now_or_never().unwrap();
        assert!(cut.is_cancelled());
        let _begun = (place.asked(), place.coming());
        assert!(come(&places).is_some() && cut_of_next.is_cancelled());
    }

    #[tokio::test]
    async fn who_waits_is_told() {
        let places = Places::new(1);
        let (place, cut) = come(&places).unwrap();
        let asked = place.asked();
        let next = places.take(CancellationToken::new());
        let answer = async {
            tokio::task::yield_now().await;
            drop(asked);
        };
        tokio::join!(next, answer);
        assert!(cut.is_cancelled());
    }
}
