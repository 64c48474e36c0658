//! Owns how many Shoots each Seed has.

use std::collections::HashMap;

use pilotage_placement::Candidate;

use crate::kinds::Shoot;

/// Name of the resource that a Shoot takes one of.
pub const SHOOTS: &str = "shoots";

/// How many Shoots each Seed has: one for each Shoot that is to be there, and one for each that is still there
/// although it is to be elsewhere. Deleting, hibernated and workerless ones count like others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage(HashMap<String, u64>);

impl Usage {
    /// Counts Shoots.
    pub fn of<'a>(shoots: impl IntoIterator<Item = &'a Shoot>) -> Self {
        let mut usage = Self::default();
        for shoot in shoots {
            usage.count(shoot.seed.as_deref(), shoot.status_seed.as_deref());
        }
        usage
    }

    /// Counts one Shoot by the Seed in its spec and the one in its status.
    pub fn count(&mut self, spec: Option<&str>, status: Option<&str>) {
        let left = status.filter(|status| Some(*status) != spec);
        for seed in spec.into_iter().chain(left) {
            *self.0.entry(seed.to_owned()).or_default() += 1;
        }
    }

    /// How many a Seed has.
    pub fn at(&self, seed: &str) -> u64 {
        self.0.get(seed).copied().unwrap_or(0)
    }

    /// Writes a Seed's count into its candidate.
    pub fn fill(&self, candidate: &mut Candidate) {
        candidate.used = self.at(&candidate.name);
        for resource in &mut candidate.resources {
            if &*resource.name == SHOOTS {
                resource.used = i64::try_from(candidate.used).unwrap_or(i64::MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
            usage.count(spec, status);
        }
        let counts = ["s1", "s2", "s3", "s4", "s5"].map(|seed| usage.at(seed));
        assert_eq!(counts, [1, 3, 2, 1, 0]);
    }
}
