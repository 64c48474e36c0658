//! Owns the candidates, prepared once, each with how many Shoots it has: those that are there and those that were
//! assumed to be a moment ago. Seeds may be counted before they are seen.

use std::collections::HashMap;
use std::sync::Arc;

use pilotage_placement::{Candidate, Names, Peers};

use crate::usage::SHOOTS;

/// All Seeds.
#[derive(Debug, Default)]
pub(super) struct Places {
    candidates: Vec<Candidate>,
    /// Where each one is in `candidates`.
    index: HashMap<Arc<str>, usize>,
    /// How many Shoots each has, those included that aren't candidates.
    counts: HashMap<Arc<str>, u64>,
    /// The same by namespace, which is a project's own.
    peers: HashMap<String, Arc<Peers>>,
    names: Names,
}

impl Places {
    pub(super) fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    pub(super) fn get(&self, name: &str) -> Option<&Candidate> {
        self.index.get(name).map(|at| &self.candidates[*at])
    }

    /// Takes a Seed in; returns what it was.
    pub(super) fn set(&mut self, mut candidate: Candidate) -> Option<Candidate> {
        let name = candidate.name.clone();
        self.names.share(&mut candidate);
        fill(&mut candidate, self.count(&name));
        if let Some(at) = self.index.get(&name) {
            return Some(std::mem::replace(&mut self.candidates[*at], candidate));
        }
        self.index.insert(name, self.candidates.len());
        self.candidates.push(candidate);
        None
    }

    /// Takes a Seed out.
    pub(super) fn remove(&mut self, name: &str) -> Option<Candidate> {
        let at = self.index.remove(name)?;
        let removed = self.candidates.swap_remove(at);
        if let Some(moved) = self.candidates.get(at) {
            self.index.insert(moved.name.clone(), at);
        }
        Some(removed)
    }

    /// How many Shoots a Seed has.
    pub(super) fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// How many Shoots of a namespace each Seed has.
    pub(super) fn peers(&self, namespace: &str) -> Arc<Peers> {
        self.peers.get(namespace).cloned().unwrap_or_default()
    }

    /// One Shoot of a namespace more; returns the name that all share.
    pub(super) fn add(&mut self, namespace: &str, name: &str) -> Arc<str> {
        let shared = match self.counts.get_key_value(name) {
            Some((shared, _)) => shared.clone(),
            None => Arc::from(name),
        };
        *self.counts.entry(shared.clone()).or_default() += 1;
        if !self.peers.contains_key(namespace) {
            self.peers.insert(namespace.to_owned(), Arc::default());
        }
        if let Some(peers) = self.peers.get_mut(namespace) {
            *Arc::make_mut(peers).entry(shared.clone()).or_default() += 1;
        }
        self.refill(name);
        shared
    }

    /// One Shoot of a namespace less.
    pub(super) fn sub(&mut self, namespace: &str, name: &str) {
        if let Some(peers) = self.peers.get_mut(namespace) {
            let own = Arc::make_mut(peers);
            if let Some(count) = own.get_mut(name) {
                *count = count.saturating_sub(1);
            }
            own.retain(|_, count| *count > 0);
            if own.is_empty() {
                self.peers.remove(namespace);
            }
        }
        if let Some(count) = self.counts.get_mut(name) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.counts.remove(name);
            }
        }
        self.refill(name);
    }

    fn refill(&mut self, name: &str) {
        let count = self.count(name);
        if let Some(at) = self.index.get(name) {
            fill(&mut self.candidates[*at], count);
        }
    }

    /// Whether it has no room for another Shoot.
    pub(super) fn is_full(&self, name: &str) -> bool {
        self.get(name).is_some_and(|candidate| {
            candidate.resources.iter().any(|resource| {
                &*resource.name == SHOOTS
                    && resource
                        .allocatable
                        .is_some_and(|allocatable| resource.used >= allocatable)
            })
        })
    }
}

/// Writes the count into a candidate.
pub(super) fn fill(candidate: &mut Candidate, count: u64) {
    candidate.used = count;
    for resource in &mut candidate.resources {
        if &*resource.name == SHOOTS {
            resource.used = i64::try_from(count).unwrap_or(i64::MAX);
        }
    }
}
