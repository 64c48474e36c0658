//! Owns how many Shoots each Seed has.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use pilotage_placement::{Candidate, Peers};

use crate::kinds::Shoot;

/// Name of the resource that a Shoot takes one of.
pub const SHOOTS: &str = "shoots";

/// [`SHOOTS`], shared: two that are the same need no comparison.
pub(crate) fn shoots() -> Arc<str> {
    static NAME: LazyLock<Arc<str>> = LazyLock::new(|| SHOOTS.into());
    NAME.clone()
}

/// How many Shoots each Seed has: one for each Shoot that is to be there, and one for each that is still there
/// although it is to be elsewhere. Deleting, hibernated and workerless ones count like others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    all: HashMap<Arc<str>, u64>,
    /// By namespace, which is a project's own.
    by_namespace: HashMap<String, Arc<Peers>>,
}

impl Usage {
    /// Counts Shoots.
    pub fn of<'a>(shoots: impl IntoIterator<Item = &'a Shoot>) -> Self {
        let mut usage = Self::default();
        for shoot in shoots {
            let (spec, status) = (shoot.seed.as_deref(), shoot.status_seed.as_deref());
            usage.count(&shoot.namespace, spec, status);
        }
        usage
    }

    /// Counts one Shoot of a namespace by the Seed in its spec and the one in its status.
    pub fn count(&mut self, namespace: &str, spec: Option<&str>, status: Option<&str>) {
        for seed in seeds(spec, status) {
            self.add(namespace, seed);
        }
    }

    /// One Shoot of a namespace more at a Seed; returns the Seed's name as all share it.
    pub fn add(&mut self, namespace: &str, seed: &str) -> Arc<str> {
        let shared = match self.all.get_key_value(seed) {
            Some((shared, _)) => shared.clone(),
            None => Arc::from(seed),
        };
        more(self.all.entry(shared.clone()).or_default());
        if !self.by_namespace.contains_key(namespace) {
            self.by_namespace
                .insert(namespace.to_owned(), Arc::default());
        }
        if let Some(peers) = self.by_namespace.get_mut(namespace) {
            more(Arc::make_mut(peers).entry(shared.clone()).or_default());
        }
        shared
    }

    /// One Shoot of a namespace less at a Seed.
    pub fn sub(&mut self, namespace: &str, seed: &str) {
        if let Some(peers) = self.by_namespace.get_mut(namespace) {
            let own = Arc::make_mut(peers);
            if let Some(count) = own.get_mut(seed) {
                *count = count.saturating_sub(1);
            }
            own.retain(|_, count| *count > 0);
            if own.is_empty() {
                self.by_namespace.remove(namespace);
            }
        }
        if let Some(count) = self.all.get_mut(seed) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.all.remove(seed);
            }
        }
    }

    /// How many Shoots of the project with this namespace each Seed has: those that the rule `Spread` keeps apart.
    pub fn peers(&self, namespace: &str) -> Arc<Peers> {
        self.by_namespace
            .get(namespace)
            .cloned()
            .unwrap_or_default()
    }

    /// How many a Seed has.
    pub fn at(&self, seed: &str) -> u64 {
        self.all.get(seed).copied().unwrap_or(0)
    }

    /// Writes a Seed's count into its candidate.
    pub fn fill(&self, candidate: &mut Candidate) {
        fill(candidate, self.at(&candidate.name));
    }
}

/// Counts one more.
fn more(count: &mut u64) {
    *count = count.saturating_add(1);
}

/// Writes a count into a candidate.
pub(crate) fn fill(candidate: &mut Candidate, count: u64) {
    candidate.used = count;
    for resource in &mut candidate.resources {
        if &*resource.name == SHOOTS {
            resource.used = i64::try_from(count).unwrap_or(i64::MAX);
        }
    }
}

/// Where a Shoot counts.
pub(crate) fn seeds<'a>(
    spec: Option<&'a str>,
    status: Option<&'a str>,
) -> impl Iterator<Item = &'a str> {
    let left = status.filter(|status| Some(*status) != spec);
    spec.into_iter().chain(left)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_shoot_that_moves_counts_at_both_seeds() {
        let mut usage = Usage::default();
        for (spec, status) in [
            (None, None),
            (Some("s1"), Some("s2")),
            (Some("s2"), Some("s2")),
            (Some("s3"), Some("s2")),
            (Some("s3"), Some("s4")),
        ] {
            usage.count("one", spec, status);
        }
        let counts = ["s1", "s2", "s3", "s4", "s5"].map(|seed| usage.at(seed));
        assert_eq!(counts, [1, 3, 2, 1, 0]);
        usage.sub("one", "s4");
        usage.sub("one", "s5");
        assert_eq!((usage.at("s4"), usage.at("s5")), (0, 0));
        assert!(!usage.peers("one").contains_key("s4"));
    }

    #[test]
    fn peers_are_those_of_one_namespace() {
        let shoot = |namespace: &str, seed: Option<&str>, status: Option<&str>| {
            let value = json!({
                "metadata": {"namespace": namespace, "name": "a"},
                "spec": {"seedName": seed, "region": "r", "provider": {"type": "p"}},
                "status": {"seedName": status},
            });
            Shoot::read(&value).unwrap()
        };
        let usage = Usage::of(&[
            shoot("one", Some("s1"), Some("s1")),
            shoot("one", Some("s1"), Some("s2")),
            shoot("one", None, None),
            shoot("two", Some("s2"), None),
        ]);
        let peers = |namespace: &str, seed: &str| usage.peers(namespace).get(seed).copied();
        assert_eq!(peers("one", "s1"), Some(2));
        assert_eq!(peers("one", "s2"), Some(1));
        assert_eq!(peers("two", "s1"), None);
        assert_eq!(peers("two", "s2"), Some(1));
        assert_eq!(peers("three", "s1"), None);
        assert_eq!((usage.at("s1"), usage.at("s2")), (2, 2));
    }
}
