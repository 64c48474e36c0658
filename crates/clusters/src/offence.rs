//! What a target's watches have seen of it that no API server does, while its probe may be answered well.
//!
//! An offence stands until the watch that saw it works again, or is given up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::connection::LostReason;

/// The standing offences of one target.
#[derive(Clone, Default)]
pub(crate) struct Offences(Arc<Mutex<Standing>>);

#[derive(Default)]
struct Standing {
    last: u64,
    seen: BTreeMap<u64, LostReason>,
}

/// One watch.
pub(crate) struct Witness {
    offences: Offences,
    number: u64,
}

impl Offences {
    /// For one more watch.
    pub(crate) fn witness(&self) -> Witness {
        let mut standing = self.lock();
        standing.last = standing.last.wrapping_add(1);
        Witness {
            offences: self.clone(),
            number: standing.last,
        }
    }

    /// The oldest watch's offence, if there is one.
    pub(crate) fn worst(&self) -> Option<LostReason> {
        self.lock().seen.values().next().cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Witness {
    /// It saw this.
    pub(crate) fn accuse(&self, reason: LostReason) {
        self.offences.lock().seen.insert(self.number, reason);
    }

    /// It works again; whether that is news.
    pub(crate) fn acquit(&self) -> bool {
        self.offences.lock().seen.remove(&self.number).is_some()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.acquit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offence_stands_until_its_watch_works_or_ends() {
        let offences = Offences::default();
        let (one, two) = (offences.witness(), offences.witness());
        let reason = |text: &str| LostReason::Misbehaving(text.into());
        two.accuse(reason("two"));
        one.accuse(reason("one"));
        assert_eq!(offences.worst(), Some(reason("one")));
        assert!(one.acquit() && !one.acquit());
        assert_eq!(offences.worst(), Some(reason("two")));
        drop(two);
        assert_eq!(offences.worst(), None);
    }
}
