//! Whom a change concerns and who wasn't looked at yet: a Service may select thousands of pods, and nobody else is
//! counted while they are looked at. Namespaces come in turn, so that none keeps another one waiting. No I/O.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::super::selected::Uid;

/// Of one namespace.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Names of Services whose pods are concerned.
    pub(super) services: BTreeSet<String>,
    /// These pods are.
    pub(super) pods: BTreeSet<Uid>,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.services.len().saturating_add(self.pods.len())
    }
}

/// Of all namespaces.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Each is among the turns once.
    namespaces: HashMap<String, Waiting>,
    turns: VecDeque<String>,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.namespaces.is_empty()
    }

    pub(super) fn has(&self, namespace: &str) -> bool {
        self.namespaces.contains_key(namespace)
    }

    /// More of a namespace.
    pub(super) fn add(&mut self, namespace: &str, more: Waiting) {
        if more.len() == 0 {
            return;
        }
        if let Some(waiting) = self.namespaces.get_mut(namespace) {
            waiting.services.extend(more.services);
            waiting.pods.extend(more.pods);
            return;
        }
        self.turns.push_back(namespace.to_owned());
        self.namespaces.insert(namespace.to_owned(), more);
    }

    /// A pod is gone, or isn't sent anywhere any more.
    pub(super) fn forget(&mut self, namespace: &str, uid: &str) {
        if let Some(waiting) = self.namespaces.get_mut(namespace) {
            waiting.pods.remove(uid);
        }
    }

    /// The namespace whose turn it is; what is left of it is to be [added](Self::add) again.
    pub(super) fn next(&mut self) -> Option<(String, Waiting)> {
        let namespace = self.turns.pop_front()?;
        let waiting = self.namespaces.remove(&namespace)?;
        Some((namespace, waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(pods: &[&str], services: &[&str]) -> Waiting {
        Waiting {
            services: services.iter().map(|name| (*name).to_owned()).collect(),
            pods: pods.iter().map(|uid| Uid::from(*uid)).collect(),
        }
    }

    #[test]
    fn namespaces_come_in_turn_whatever_is_added_to_one_of_them() {
        let mut pending = Pending::default();
        pending.add("nobodys", Waiting::default());
        assert!(pending.is_empty() && !pending.has("nobodys"));
        pending.add("a", some(&["p"], &[]));
        pending.add("b", some(&["q"], &[]));
        pending.add("a", some(&["p", "r"], &["web"]));
        let (namespace, waiting) = pending.next().unwrap();
        assert_eq!((&*namespace, waiting.pods.len()), ("a", 2));
        assert_eq!(waiting.services.len(), 1);
        pending.add("a", waiting);
        let (namespace, _) = pending.next().unwrap();
        assert_eq!(namespace, "b");
        assert!(pending.has("a") && !pending.has("b"));
        let (namespace, _) = pending.next().unwrap();
        assert_eq!(namespace, "a");
        assert!(pending.is_empty() && pending.next().is_none());
    }
}
