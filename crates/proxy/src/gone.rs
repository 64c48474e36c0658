//! Chaperons whose end is proved: by a DELETED event, by the API server's answer that it doesn't exist, or by a successor of
//! its name. Not being in a store proves nothing.

use std::collections::BTreeSet;

use pilotage_api::record::Record;

/// As many proofs are kept of one pod.
const MOST: usize = 32;

/// Proofs, by the UIDs of chaperons.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone {
    chaperons: BTreeSet<String>,
    /// After whose end a live LIST found no pod of their name.
    with_pods: BTreeSet<String>,
}

impl Gone {
    /// The object is gone.
    pub(crate) fn chaperon(&mut self, uid: &str) {
        self.chaperons.insert(uid.to_owned());
    }

    /// The object is gone, and a live LIST found no pod of its name.
    pub(crate) fn with_pods(&mut self, uid: &str) {
        self.chaperon(uid);
        self.with_pods.insert(uid.to_owned());
    }

    /// Whether the object is gone.
    pub(crate) fn is_absent(&self, uid: &str) -> bool {
        self.chaperons.contains(uid)
    }

    /// Whether no delegate of the recorded chaperon is left. A target that numbers no attempts never put our finalizer
    /// on it, so that there the chaperon's end proves nothing of its pod.
    pub(crate) fn proves_end_of(&self, record: &Record) -> bool {
        match record.attempt {
            Some(_) => self.chaperons.contains(&record.chaperon_uid),
            None => self.with_pods.contains(&record.chaperon_uid),
        }
    }

    /// Forgets old proofs, but not the one that `record` may need.
    pub(crate) fn trim(&mut self, record: Option<&Record>) {
        let needed = |uid: &String| record.is_some_and(|record| record.chaperon_uid == *uid);
        if self.chaperons.len() > MOST {
            self.chaperons.retain(needed);
            self.with_pods.retain(needed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_targets_chaperon_proves_nothing_of_its_pod() {
        let mut gone = Gone::default();
        let (numbered, plain): (Record, Record) =
            ("a/u/1".parse().unwrap(), "a/u/-".parse().unwrap());
        gone.chaperon("u");
        assert!(gone.proves_end_of(&numbered) && !gone.proves_end_of(&plain));
        gone.with_pods("u");
        assert!(gone.proves_end_of(&plain));
    }

    #[test]
    fn only_the_proof_that_is_needed_is_kept_for_ever() {
        let mut gone = Gone::default();
        for n in 0..=MOST {
            gone.chaperon(&format!("u{n}"));
        }
        gone.trim(Some(&"a/u0/1".parse().unwrap()));
        assert!(gone.is_absent("u0") && !gone.is_absent("u1"));
    }
}
