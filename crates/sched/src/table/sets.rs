//! Owns equal parts of nodes: labels, taints and images that many nodes share get one small number, so that what was
//! said of one such part isn't worked out again for each node. Knows nothing of what they mean.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// The number of a value among those in use. Values that nobody uses any more give their numbers away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetId(u32);

impl SetId {
    /// For vectors that are indexed by it.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
struct Slot<T> {
    value: Arc<T>,
    users: usize,
}

/// Values by number, each once.
#[derive(Debug)]
pub(super) struct Sets<T> {
    by_value: HashMap<Arc<T>, SetId>,
    slots: Vec<Option<Slot<T>>>,
    free: Vec<SetId>,
}

impl<T> Default for Sets<T> {
    fn default() -> Self {
        Self {
            by_value: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T: Eq + Hash> Sets<T> {
    /// One more user of this value.
    pub(super) fn take(&mut self, value: T) -> SetId {
        if let Some(&id) = self.by_value.get(&value) {
            if let Some(slot) = &mut self.slots[id.index()] {
                slot.users = slot.users.saturating_add(1);
            }
            return id;
        }
        let value = Arc::new(value);
        let slot = Slot {
            value: value.clone(),
            users: 1,
        };
        let id = if let Some(id) = self.free.pop() {
            self.slots[id.index()] = Some(slot);
            id
        } else {
            // There are never more values than nodes.
            let id = SetId(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
            self.slots.push(Some(slot));
            id
        };
        self.by_value.insert(value, id);
        id
    }

    /// One user less.
    pub(super) fn give_back(&mut self, id: SetId) {
        let Some(slot) = self.slots.get_mut(id.index()) else {
            return;
        };
        let Some(known) = slot else { return };
        known.users = known.users.saturating_sub(1);
        if known.users == 0 {
            self.by_value.remove(&known.value);
            *slot = None;
            self.free.push(id);
        }
    }

    /// Numbers are below this.
    pub(super) const fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Sets;

    #[test]
    fn equal_values_share_a_number_until_nobody_uses_it() {
        let mut sets = Sets::default();
        let (a, b) = (sets.take("a"), sets.take("b"));
        assert_eq!(sets.take("a"), a);
        sets.give_back(a);
        assert_eq!(sets.take("a"), a, "one user was left");
        sets.give_back(a);
        sets.give_back(a);
        sets.give_back(a);
        assert_eq!(sets.take("c"), a, "the number is free again");
        assert_eq!((sets.take("b"), sets.len()), (b, 2));
    }
}
