//! Owns which of many selectors may select a pod, found by one label that the pod must have and by its namespace, so
//! that nobody goes through all of them. Knows nothing of what the selectors are for; who asks checks each one found.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use crate::labels::{Labels, Selector, Test};

/// The number that a selector's owner gave it.
pub(crate) type SelectorId = u32;

/// In which namespaces a selector looks, as far as it is worth knowing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Where<'a> {
    /// In this one alone.
    Namespace(&'a str),
    /// In several, or in whichever a label says.
    Several,
}

/// What a pod must have to be selected.
pub(super) enum Anchor<'a> {
    /// One of these values under this key.
    Pair(&'a str, Vec<&'a str>),
    /// This key.
    Key(&'a str),
    /// Nothing that can be looked up.
    Anything,
}

impl<'a> Anchor<'a> {
    /// `None` if nothing can be selected.
    pub(super) fn of(selector: &'a Selector) -> Option<Self> {
        let requirements = match selector {
            Selector::Nothing => return None,
            Selector::All(requirements) => requirements,
        };
        let mut anchor = Self::Anything;
        for requirement in requirements {
            let key = &*requirement.key;
            match (&requirement.test, &anchor) {
                (Test::In(values), Self::Pair(_, fewest)) if fewest.len() <= values.len() => {}
                (Test::In(values), _) => {
                    anchor = Self::Pair(key, values.iter().map(String::as_str).collect());
                }
                (Test::Exists, Self::Anything) => anchor = Self::Key(key),
                _ => {}
            }
        }
        Some(anchor)
    }
}

/// Selectors that need the same. There may be thousands, with one owner several times, and each of them may go.
type Ids = BTreeSet<SelectorId>;

/// Selectors of one namespace, or of several.
#[derive(Debug, Default)]
struct ByLabel {
    by_pair: HashMap<String, HashMap<String, Ids>>,
    by_key: HashMap<String, Ids>,
    others: Ids,
}

impl ByLabel {
    fn insert(&mut self, anchor: &Anchor<'_>, id: SelectorId) {
        match anchor {
            Anchor::Pair(key, values) => {
                let by_value = self.by_pair.entry((*key).to_owned()).or_default();
                for value in values {
                    let ids = by_value.entry((*value).to_owned()).or_default();
                    ids.insert(id);
                }
            }
            Anchor::Key(key) => {
                let ids = self.by_key.entry((*key).to_owned()).or_default();
                ids.insert(id);
            }
            Anchor::Anything => drop(self.others.insert(id)),
        }
    }

    fn remove(&mut self, anchor: &Anchor<'_>, id: SelectorId) {
        match anchor {
            Anchor::Pair(key, values) => {
                let Some(by_value) = self.by_pair.get_mut(*key) else {
                    return;
                };
                for value in values {
                    take_out(by_value, value, id);
                }
                if by_value.is_empty() {
                    self.by_pair.remove(*key);
                }
            }
            Anchor::Key(key) => take_out(&mut self.by_key, key, id),
            Anchor::Anything => drop(self.others.remove(&id)),
        }
    }

    fn is_empty(&self) -> bool {
        self.by_pair.is_empty() && self.by_key.is_empty() && self.others.is_empty()
    }

    fn find(&self, labels: &Labels, found: &mut Vec<SelectorId>) {
        found.extend(&self.others);
        if self.by_pair.is_empty() && self.by_key.is_empty() {
            return;
        }
        for (key, value) in labels {
            let by_value = self.by_pair.get(key);
            found.extend(
                by_value
                    .and_then(|by_value| by_value.get(value))
                    .into_iter()
                    .flatten(),
            );
            found.extend(self.by_key.get(key).into_iter().flatten());
        }
    }
}

fn take_out<K: Eq + Hash + std::borrow::Borrow<str>>(
    all: &mut HashMap<K, Ids>,
    key: &str,
    id: SelectorId,
) {
    if let Some(ids) = all.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            all.remove(key);
        }
    }
}

/// Selectors by where they look and what they need.
#[derive(Debug, Default)]
pub(crate) struct Anchored {
    by_namespace: HashMap<Arc<str>, ByLabel>,
    anywhere: ByLabel,
}

impl Anchored {
    /// One more selector; one that selects nothing is never found.
    pub(crate) fn insert(&mut self, place: Where<'_>, selector: &Selector, id: SelectorId) {
        if let Some(anchor) = Anchor::of(selector) {
            match place {
                Where::Namespace(namespace) => {
                    let here = self.by_namespace.entry(namespace.into()).or_default();
                    here.insert(&anchor, id);
                }
                Where::Several => self.anywhere.insert(&anchor, id),
            }
        }
    }

    /// Takes out what was inserted with the same words.
    pub(crate) fn remove(&mut self, place: Where<'_>, selector: &Selector, id: SelectorId) {
        let Some(anchor) = Anchor::of(selector) else {
            return;
        };
        match place {
            Where::Namespace(namespace) => {
                if let Some(here) = self.by_namespace.get_mut(namespace) {
                    here.remove(&anchor, id);
                    if here.is_empty() {
                        self.by_namespace.remove(namespace);
                    }
                }
            }
            Where::Several => self.anywhere.remove(&anchor, id),
        }
    }

    /// All that may select a pod of this namespace with these labels, each once.
    pub(crate) fn find(&self, namespace: &str, labels: &Labels) -> Vec<SelectorId> {
        let mut found = Vec::new();
        if let Some(here) = self.by_namespace.get(namespace) {
            here.find(labels, &mut found);
        }
        self.anywhere.find(labels, &mut found);
        found
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_namespace.is_empty() && self.anywhere.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{Anchored, Where};
    use crate::labels::{Labels, Requirement, Selector, Test};

    fn test() -> impl Strategy<Value = Test> {
        let values = || proptest::collection::btree_set("[ab]", 1..3);
        prop_oneof![
            3 => values().prop_map(Test::In),
            1 => values().prop_map(Test::NotIn),
            1 => Just(Test::Exists),
            1 => Just(Test::DoesNotExist),
        ]
    }

    fn selector() -> impl Strategy<Value = Selector> {
        let requirement = ("[xyz]", test()).prop_map(|(key, test)| Requirement { key, test });
        prop_oneof![
            1 => Just(Selector::Nothing),
            9 => proptest::collection::vec(requirement, 0..4).prop_map(Selector::All),
        ]
    }

    fn labels() -> impl Strategy<Value = Labels> {
        proptest::collection::btree_map("[xyz]", "[ab]", 0..4)
    }

    fn place(number: usize) -> Where<'static> {
        [Where::Namespace("m"), Where::Namespace("n"), Where::Several][number]
    }

    proptest! {
        #[test]
        fn whoever_selects_a_pod_is_found_once(
            selectors in proptest::collection::vec((selector(), 0..3_usize, any::<bool>()), 0..12),
            pods in proptest::collection::vec((labels(), any::<bool>()), 0..6),
        ) {
            let mut anchored = Anchored::default();
            for (id, (selector, at, _)) in selectors.iter().enumerate() {
                anchored.insert(place(*at), selector, id as u32);
            }
            for (id, (selector, at, stays)) in selectors.iter().enumerate() {
                if !stays {
                    anchored.remove(place(*at), selector, id as u32);
                }
            }
            for (labels, in_m) in &pods {
                let namespace = if *in_m { "m" } else { "n" };
                let found = anchored.find(namespace, labels);
                let once: BTreeSet<_> = found.iter().copied().collect();
                prop_assert_eq!(once.len(), found.len());
                for (id, (selector, at, stays)) in selectors.iter().enumerate() {
                    let here = match place(*at) {
                        Where::Namespace(its) => its == namespace,
                        Where::Several => true,
                    };
                    let must = *stays && here && selector.matches(labels);
                    prop_assert!(!must || once.contains(&(id as u32)));
                    prop_assert!(*stays || !once.contains(&(id as u32)));
                }
            }
            for (id, (selector, at, stays)) in selectors.iter().enumerate() {
                if *stays {
                    anchored.remove(place(*at), selector, id as u32);
                }
            }
            prop_assert!(anchored.is_empty());
        }
    }

    #[test]
    fn the_label_with_the_fewest_values_finds_a_selector() {
        let one = |key: &str, values: &[&str]| Requirement {
            key: key.into(),
            test: Test::In(values.iter().map(|value| (*value).to_owned()).collect()),
        };
        let mut anchored = Anchored::default();
        let exists = Requirement {
            key: "z".into(),
            test: Test::Exists,
        };
        let selector = Selector::All(vec![exists, one("x", &["a", "b"]), one("y", &["a"])]);
        anchored.insert(Where::Several, &selector, 7);
        let labels = |pairs: &[(&str, &str)]| -> Labels {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        assert!(
            anchored
                .find("n", &labels(&[("x", "a"), ("z", "a")]))
                .is_empty()
        );
        assert_eq!(anchored.find("n", &labels(&[("y", "a")])), [7]);
    }
}
