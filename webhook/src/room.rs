//! How many bytes of reviews are in memory at once, of those that come in and of those that wait to be judged: whoever
//! has many large pods created at the same time is told so, and fills no memory. Large bodies have a room of their own,
//! and keep no usual one out. Of those that are still coming the first one gives way to who comes: who stops in a body
//! keeps nobody out. Must not know what a review is.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio_util::sync::CancellationToken;

/// A body of more bytes is large; a usual review has some thousands.
const LARGE: usize = 64 << 10;
/// Bytes of all that are not large.
const SMALL_ROOM: usize = 24 << 20;
/// Bytes of all large ones.
const LARGE_ROOM: usize = 40 << 20;
/// MiB of those of one namespace that wait to be judged, or are being judged.
const HOME_MIB: usize = 12;
const HOME: usize = HOME_MIB << 20;
/// What each one counts for at least.
const LEAST: usize = 4 << 10;

/// Why a review isn't judged now.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum Lack {
    /// There is no room for it.
    #[error(
        "the webhook of Pilotage has more reviews to take in than it can at the same time: try again in a second"
    )]
    Room,
    /// Its namespace has enough of them here.
    #[error(
        "the webhook of Pilotage takes in {mib} MiB of the pods of one namespace at the same time, and namespace {0:?} \
         creates more: create fewer of them at once, or smaller ones",
        mib = HOME_MIB
    )]
    Home(String),
}

/// The room of a server. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    /// Counts who came.
    came: u64,
    small: Shelf,
    large: Shelf,
    /// Bytes of each namespace that has some here.
    homes: HashMap<String, usize>,
}

/// The bodies of one size.
#[derive(Debug, Default)]
struct Shelf {
    /// Bytes of all of them.
    taken: usize,
    /// Those that aren't complete, in the order in which they came.
    coming: BTreeMap<u64, Coming>,
}

#[derive(Debug)]
struct Coming {
    bytes: usize,
    /// It had to give way.
    pushed: CancellationToken,
}

/// Room for one body, until it is dropped.
#[derive(Debug)]
pub(crate) struct Space {
    books: Arc<Mutex<Books>>,
    id: u64,
    bytes: usize,
    is_large: bool,
    is_complete: bool,
    pushed: CancellationToken,
    /// The namespace that it counts for.
    home: Option<String>,
}

impl Room {
    /// Room for a body of so many bytes, for which those that are still coming may have to give way.
    pub(crate) fn enter(&self, bytes: usize) -> Option<Space> {
        let bytes = bytes.max(LEAST);
        let is_large = bytes > LARGE;
        let most = if is_large { LARGE_ROOM } else { SMALL_ROOM };
        let pushed = CancellationToken::new();
        let mut books = lock(&self.0);
        let id = books.came;
        let shelf = books.shelf(is_large);
        if !shelf.make_room(bytes, most) {
            return None;
        }
        shelf.taken = shelf.taken.saturating_add(bytes);
        let coming = Coming {
            bytes,
            pushed: pushed.clone(),
        };
        shelf.coming.insert(id, coming);
        books.came = id.saturating_add(1);
        Some(Space {
            books: self.0.clone(),
            id,
            bytes,
            is_large,
            is_complete: false,
            pushed,
            home: None,
        })
    }
}

impl Books {
    fn shelf(&mut self, is_large: bool) -> &mut Shelf {
        if is_large {
            &mut self.large
        } else {
            &mut self.small
        }
    }
}

impl Shelf {
    /// Whether there is room, for which others have to go.
    fn make_room(&mut self, bytes: usize, most: usize) -> bool {
        let free = |taken: usize| most.saturating_sub(taken);
        if bytes <= free(self.taken) {
            return true;
        }
        let coming = self.coming.values().map(|it| it.bytes);
        let coming = coming.fold(0_usize, usize::saturating_add);
        if bytes > free(self.taken.saturating_sub(coming)) {
            return false;
        }
        while bytes > free(self.taken) {
            let Some((_, first)) = self.coming.pop_first() else {
                return false;
            };
            self.taken = self.taken.saturating_sub(first.bytes);
            first.pushed.cancel();
        }
        true
    }
}

impl Space {
    /// Cancelled when this one has to give way: nothing may be kept of it then.
    pub(crate) fn pushed(&self) -> CancellationToken {
        self.pushed.clone()
    }

    /// The body is complete, of this length, and this namespace's: from now on it gives way to nobody, and may wait.
    pub(crate) fn settle(&mut self, bytes: usize, home: &str) -> Result<(), Lack> {
        let bytes = bytes.max(LEAST);
        let mut books = lock(&self.books);
        let shelf = books.shelf(self.is_large);
        if shelf.coming.remove(&self.id).is_none() {
            return Err(Lack::Room);
        }
        // Who didn't say how long it would be has taken room for the longest.
        shelf.taken = shelf.taken.saturating_sub(self.bytes).saturating_add(bytes);
        (self.bytes, self.is_complete) = (bytes, true);
        let waits = books.homes.get(home).copied().unwrap_or_default();
        let waits = waits.saturating_add(bytes);
        if waits > HOME {
            return Err(Lack::Home(home.to_owned()));
        }
        books.homes.insert(home.to_owned(), waits);
        self.home = Some(home.to_owned());
        Ok(())
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let mut books = lock(&self.books);
        let shelf = books.shelf(self.is_large);
        let was_coming = shelf.coming.remove(&self.id).is_some();
        // Otherwise somebody else has its room.
        if was_coming || self.is_complete {
            shelf.taken = shelf.taken.saturating_sub(self.bytes);
        }
        if let Some(home) = &self.home
            && let Some(waits) = books.homes.get_mut(home)
        {
            *waits = waits.saturating_sub(self.bytes);
            if *waits == 0 {
                books.homes.remove(home);
            }
        }
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::BODY_LIMIT;

    const MIB: usize = 1 << 20;

    fn is_pushed(space: &Space) -> bool {
        space.pushed.is_cancelled()
    }

    #[test]
    fn who_still_comes_gives_way_and_who_waits_does_not() {
        let room = Room::default();
        let enter = || room.enter(8 * MIB);
        let mut all: Vec<Space> = (0..5).map(|_| enter().unwrap()).collect();
        all[0].settle(8 * MIB, "a").unwrap();
        let sixth = enter().unwrap();
        let pushed: Vec<bool> = all.iter().map(is_pushed).collect();
        assert_eq!(pushed, [false, true, false, false, false]);
        assert_eq!(all[1].settle(8 * MIB, "b"), Err(Lack::Room));
        for (number, space) in all.iter_mut().enumerate().skip(2) {
            space.settle(8 * MIB, &number.to_string()).unwrap();
        }
        let mut seventh = enter().unwrap();
        assert!(is_pushed(&sixth));
        seventh.settle(8 * MIB, "c").unwrap();
        assert!(enter().is_none(), "all of them wait to be judged");
        // It has none to give back.
        drop((all.remove(1), sixth));
        assert!(enter().is_none());
        drop(all.remove(0));
        assert!(enter().is_some());
    }

    #[test]
    fn large_ones_keep_no_usual_one_out() {
        let room = Room::default();
        let large = |number: usize| {
            let mut space = room.enter(8 * MIB)?;
            space.settle(8 * MIB, &number.to_string()).ok()?;
            Some(space)
        };
        let _all: Vec<Space> = (0..5).map(|number| large(number).unwrap()).collect();
        assert!(large(5).is_none());
        let usual: Vec<Option<Space>> = (0..1_000).map(|_| room.enter(8_000)).collect();
        assert!(usual.iter().flatten().all(|space| !is_pushed(space)));
        assert_eq!(usual.iter().flatten().count(), 1_000);
    }

    #[test]
    fn a_namespace_has_a_share_of_what_waits() {
        let room = Room::default();
        let settle = |home: &str| {
            let mut space = room.enter(3 * MIB).unwrap();
            space.settle(3 * MIB, home).map(|()| space)
        };
        let mut waits: Vec<Space> = (0..4).map(|_| settle("busy").unwrap()).collect();
        let lack = settle("busy").unwrap_err();
        assert_eq!(lack, Lack::Home("busy".to_owned()));
        let told = lack.to_string();
        assert!(
            told.contains("12 MiB") && told.contains("\"busy\""),
            "{told}"
        );
        assert!(settle("shop").is_ok());
        waits.pop();
        assert!(settle("busy").is_ok());
    }

    #[test]
    fn who_says_no_length_takes_its_own_once_it_is_here() {
        let room = Room::default();
        let mut all = Vec::new();
        for _ in 0..100 {
            let mut space = room.enter(BODY_LIMIT).unwrap();
            space.settle(10_000, "shop").unwrap();
            all.push(space);
        }
        assert!(all.iter().all(|space| !is_pushed(space)));
    }

    #[test]
    fn nothing_is_left_of_who_has_gone() {
        let room = Room::default();
        for bytes in [0, 100, LARGE, LARGE + 1, BODY_LIMIT] {
            let coming = room.enter(bytes).unwrap();
            let mut here = room.enter(bytes).unwrap();
            here.settle(bytes, "shop").unwrap();
            drop((coming, here));
        }
        let books = lock(&room.0);
        assert_eq!((books.small.taken, books.large.taken), (0, 0));
        assert!(books.small.coming.is_empty() && books.large.coming.is_empty());
        assert!(books.homes.is_empty());
    }

    #[test]
    fn the_longest_body_has_room() {
        let room = Room::default();
        let mut space = room.enter(BODY_LIMIT).unwrap();
        assert_eq!(space.settle(BODY_LIMIT, "shop"), Ok(()));
    }
}
