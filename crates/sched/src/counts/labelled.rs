//! Owns labelled things by label, to find those that a selector may select: what [`Anchored`](super::Anchored) is the
//! other way round. Knows nothing of what the things are; who asks checks each one found.

use std::collections::{BTreeMap, HashMap};

use super::anchored::Anchor;
use crate::labels::{Labels, Selector};

/// Things by number, of which each is one or several with labels of their own.
#[derive(Debug, Default)]
pub(crate) struct Labelled {
    // How many of a thing have the label.
    by_pair: HashMap<String, HashMap<String, BTreeMap<u32, usize>>>,
}

impl Labelled {
    /// One more of these has these labels.
    pub(crate) fn insert(&mut self, labels: &Labels, thing: u32) {
        for (key, value) in labels {
            if !self.by_pair.contains_key(key) {
                self.by_pair.insert(key.clone(), HashMap::new());
            }
            let Some(by_value) = self.by_pair.get_mut(key) else {
                continue;
            };
            if !by_value.contains_key(value) {
                by_value.insert(value.clone(), BTreeMap::new());
            }
            if let Some(things) = by_value.get_mut(value) {
                let count = things.entry(thing).or_default();
                *count = count.saturating_add(1);
            }
        }
    }

    /// One less.
    pub(crate) fn remove(&mut self, labels: &Labels, thing: u32) {
        for (key, value) in labels {
            let Some(by_value) = self.by_pair.get_mut(key) else {
                continue;
            };
            let Some(things) = by_value.get_mut(value) else {
                continue;
            };
            if let Some(count) = things.get_mut(&thing) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    things.remove(&thing);
                }
            }
            if things.is_empty() {
                by_value.remove(value);
            }
            if by_value.is_empty() {
                self.by_pair.remove(key);
            }
        }
    }

    /// Adds all that the selector may select, some perhaps twice; `false` if it may be any.
    pub(crate) fn find(&self, selector: &Selector, found: &mut Vec<u32>) -> bool {
        match Anchor::of(selector) {
            None => {}
            Some(Anchor::Anything) => return false,
            Some(Anchor::Key(key)) => {
                let by_value = self.by_pair.get(key).into_iter();
                found.extend(by_value.flat_map(HashMap::values).flat_map(BTreeMap::keys));
            }
            Some(Anchor::Pair(key, values)) => {
                let by_value = self.by_pair.get(key);
                let things = values.iter().filter_map(|value| by_value?.get(*value));
                found.extend(things.flat_map(BTreeMap::keys));
            }
        }
        true
    }
}
