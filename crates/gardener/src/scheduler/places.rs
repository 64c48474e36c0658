//! Owns the candidates, prepared once, each with how many Shoots it has: those that are there and those that were
//! assumed to be a moment ago. Seeds may be counted before they are seen.

use std::collections::HashMap;
use std::sync::Arc;

use pilotage_placement::{Candidate, Names, Peers};

use crate::usage::{SHOOTS, Usage};

/// All Seeds.
#[derive(Debug, Default)]
pub(super) struct Places {
    candidates: Vec<Candidate>,
    /// Where each one is in `candidates`.
    index: HashMap<Arc<str>, usize>,
    /// How many Shoots each has, those included that aren't candidates.
    usage: Usage,
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
        self.usage.fill(&mut candidate);
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
        self.usage.at(name)
    }

    /// How many Shoots of a namespace each Seed has.
    pub(super) fn peers(&self, namespace: &str) -> Arc<Peers> {
        self.usage.peers(namespace)
    }

    /// One Shoot of a namespace more; returns the name that all share.
    pub(super) fn add(&mut self, namespace: &str, name: &str) -> Arc<str> {
        let shared = self.usage.add(namespace, name);
        self.refill(name);
        shared
    }

    /// One Shoot of a namespace less.
    pub(super) fn sub(&mut self, namespace: &str, name: &str) {
        self.usage.sub(namespace, name);
        self.refill(name);
    }

    fn refill(&mut self, name: &str) {
        if let Some(at) = self.index.get(name) {
            self.usage.fill(&mut self.candidates[*at]);
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
