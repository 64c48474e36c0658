//! Owns labels and annotations of a candidate: few texts in one piece of memory, which candidates can share.
//! Knows nothing of selectors.

use std::collections::BTreeMap;
use std::sync::Arc;

/// So many are looked through one by one.
const FEW: usize = 32;

/// Labels or annotations of a candidate, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedLabels(Box<[(Arc<str>, Arc<str>)]>);

impl SharedLabels {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value under a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = if self.0.len() <= FEW {
            // Lengths differ more often than not: no text is looked at then.
            self.0.iter().position(|(known, _)| **known == *key)
        } else {
            let by_key = |(known, _): &(Arc<str>, Arc<str>)| (**known).cmp(key);
            self.0.binary_search_by(by_key).ok()
        };
        Some(&self.0.get(at?)?.1)
    }

    /// Keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// All texts.
    pub(crate) fn texts_mut(&mut self) -> impl Iterator<Item = &mut Arc<str>> {
        self.0.iter_mut().flat_map(|(key, value)| [key, value])
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for SharedLabels {
    /// Of a key that comes twice the last value counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let texts = |(key, value): (K, V)| (Arc::from(key.as_ref()), Arc::from(value.as_ref()));
        let by_key: BTreeMap<Arc<str>, Arc<str>> = pairs.into_iter().map(texts).collect();
        Self(by_key.into_iter().collect())
    }
}

/// Whatever has values by key, for selectors to look at.
pub trait Labelled {
    /// The value under a key.
    fn value(&self, key: &str) -> Option<&str>;
}

impl Labelled for SharedLabels {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key)
    }
}

impl Labelled for BTreeMap<String, String> {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_equal_keys_counts() {
        let labels: SharedLabels = [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
        assert_eq!(labels.get("b"), Some("3"));
        assert_eq!(labels.get("c"), None);
        let many = (0..1000).map(|number| (number.to_string(), (number * 2).to_string()));
        let many: SharedLabels = many.collect();
        assert_eq!((many.get("999"), many.get("0")), (Some("1998"), Some("0")));
        assert_eq!((many.get("1000"), many.get("")), (None, None));
    }
}
