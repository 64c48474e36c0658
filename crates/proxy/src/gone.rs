//! Chaperons whose end is proved: by a DELETED event, by the API server's answer that it doesn't exist, or by a
//! successor of its name. Not being in a store proves nothing.

use std::collections::BTreeSet;

use pilotage_api::record::Record;

/// As many proofs are kept of one pod.
const MOST: usize = 32;

/// A chaperon: the virtual node of the target that speaks for it, and its UID there. A proof counts for nobody else's.
type Place = (String, String);

/// Proofs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone {
    chaperons: BTreeSet<Place>,
    /// After whose end a live LIST found no pod of theirs.
    with_pods: BTreeSet<Place>,
}

impl Gone {
    /// The object is gone.
    pub(crate) fn chaperon(&mut self, node: &str, uid: &str) {
        self.chaperons.insert(place(node, uid));
    }

    /// The object is gone, and a live LIST found no pod of it.
    pub(crate) fn with_pods(&mut self, node: &str, uid: &str) {
        self.chaperon(node, uid);
        self.with_pods.insert(place(node, uid));
    }

    /// Whether the object is gone.
    pub(crate) fn is_absent(&self, node: &str, uid: &str) -> bool {
        self.chaperons.contains(&place(node, uid))
    }

    /// Whether the object is gone, and a live LIST found no pod of it.
    pub(crate) fn is_without_pods(&self, node: &str, uid: &str) -> bool {
        self.with_pods.contains(&place(node, uid))
    }

    /// Whether no delegate of the recorded chaperon is left. A target that numbers no attempts never put our finalizer
    /// on it, so that there the chaperon's end proves nothing of its pod.
    pub(crate) fn proves_end_of(&self, record: &Record) -> bool {
        let recorded = place(&record.node, &record.chaperon_uid);
        match record.attempt {
            Some(_) => self.chaperons.contains(&recorded),
            None => self.with_pods.contains(&recorded),
        }
    }

    /// Forgets old proofs, but not the one that `record` may need.
    pub(crate) fn trim(&mut self, record: Option<&Record>) {
        let needed = |(node, uid): &Place| {
            record.is_some_and(|record| (&record.node, &record.chaperon_uid) == (node, uid))
        };
        if self.chaperons.len() > MOST {
            self.chaperons.retain(needed);
            self.with_pods.retain(needed);
        }
    }
}

fn place(node: &str, uid: &str) -> Place {
    (node.to_owned(), uid.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_targets_chaperon_proves_nothing_of_its_pod() {
        let mut gone = Gone::default();
        let (numbered, plain): (Record, Record) =
            ("a/u/1".parse().unwrap(), "a/u/-".parse().unwrap());
        gone.chaperon("b", "u");
        assert!(!gone.proves_end_of(&numbered), "b speaks for itself");
        gone.chaperon("a", "u");
        assert!(gone.proves_end_of(&numbered) && !gone.proves_end_of(&plain));
        gone.with_pods("b", "u");
        assert!(!gone.proves_end_of(&plain), "b speaks for itself");
        gone.with_pods("a", "u");
        assert!(gone.proves_end_of(&plain));
    }

    #[test]
    fn only_the_proof_that_is_needed_is_kept_for_ever() {
        let mut gone = Gone::default();
        for n in 0..=MOST {
            gone.chaperon("a", &format!("u{n}"));
        }
        gone.trim(Some(&"a/u0/1".parse().unwrap()));
        assert!(gone.is_absent("a", "u0") && !gone.is_absent("a", "u1"));
    }
}
