//! Owns what the hints of waiting pods read of a node that changes: thousands of sorts read the same, which is kept
//! once, so that its address stands for it.

use std::collections::HashSet;
use std::sync::Arc;

/// What is read, by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Address(usize);

fn address(words: &Arc<Vec<String>>) -> Address {
    Address(Arc::as_ptr(words).addr())
}

/// What the hints of one sort read.
#[derive(Debug, Default)]
pub(super) struct NodeReads {
    needs: Option<Arc<Vec<String>>>,
    labels: Option<Arc<Vec<String>>>,
}

impl NodeReads {
    /// Sorts with the same hear the same of a node; `None` if it isn't told in short.
    pub(super) fn needs(&self) -> Option<Address> {
        self.needs.as_ref().map(address)
    }

    /// The keys of a node's labels that matter to those plugins that tell them.
    pub(super) fn labels(&self) -> Option<(Address, &[String])> {
        let labels = self.labels.as_ref()?;
        Some((address(labels), labels))
    }
}

/// What is read by any sort.
#[derive(Debug, Default)]
pub(super) struct AllNodeReads(HashSet<Arc<Vec<String>>>);

impl AllNodeReads {
    pub(super) fn keep(
        &mut self,
        needs: Option<Vec<String>>,
        labels: Option<Vec<String>>,
    ) -> NodeReads {
        NodeReads {
            needs: needs.map(|words| self.keep_words(words)),
            labels: labels.map(|words| self.keep_words(words)),
        }
    }

    fn keep_words(&mut self, words: Vec<String>) -> Arc<Vec<String>> {
        if let Some(known) = self.0.get(&words) {
            return known.clone();
        }
        let words = Arc::new(words);
        self.0.insert(words.clone());
        words
    }

    /// A sort ends.
    pub(super) fn release(&mut self, reads: NodeReads) {
        for words in reads.needs.into_iter().chain(reads.labels) {
            // Of this set and of this one.
            if Arc::strong_count(&words) <= 2 {
                self.0.remove(&words);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AllNodeReads;

    #[test]
    fn what_is_read_is_kept_once_and_as_long_as_a_sort_reads_it() {
        let mut all = AllNodeReads::default();
        let words = |word: &str| Some(vec![word.to_owned()]);
        let one = all.keep(words("zone"), words("zone"));
        let other = all.keep(None, words("zone"));
        let third = all.keep(words("rack"), None);
        let address = one.needs().unwrap();
        assert_eq!(other.labels(), Some((address, &["zone".to_owned()][..])));
        assert!(third.needs().is_some_and(|rack| rack != address));
        for (reads, left) in [(one, 2), (third, 1), (other, 0)] {
            all.release(reads);
            assert_eq!(all.0.len(), left);
        }
    }
}
