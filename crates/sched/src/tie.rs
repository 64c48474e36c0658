//! Owns the choice among equally good nodes. Randomness comes in as a seed; knows nothing of nodes.

/// Chooses among equals. Injected, so that a run can be repeated exactly.
pub trait TieBreaker: Send {
    /// An index below `candidates`, which is at least 1.
    fn pick(&mut self, candidates: usize) -> usize;
}

/// Always the first of the equals, in search order. For tests and for explanations.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstOfEquals;

impl TieBreaker for FirstOfEquals {
    fn pick(&mut self, _candidates: usize) -> usize {
        0
    }
}

/// Uniform choice by a `SplitMix64` sequence (Steele, Lea, Flood 2014) from a seed.
#[derive(Clone, Debug)]
pub struct SeededTies(u64);

impl SeededTies {
    /// The sequence that `seed` starts.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl TieBreaker for SeededTies {
    fn pick(&mut self, candidates: usize) -> usize {
        // The high half of a 64x64 product is uniform enough: the bias is below candidates / 2^64.
        (u128::from(self.next()).saturating_mul(candidates as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::{FirstOfEquals, SeededTies, TieBreaker};

    #[test]
    fn seeded_choice_is_repeatable_and_reaches_all() {
        let (mut a, mut b) = (SeededTies::new(7), SeededTies::new(7));
        let mut seen = [0u32; 3];
        for _ in 0..3000 {
            let pick = a.pick(3);
            assert_eq!(pick, b.pick(3));
            seen[pick] += 1;
        }
        assert!(seen.iter().all(|n| (900..1100).contains(n)), "{seen:?}");
        assert_eq!(FirstOfEquals.pick(3), 0);
    }
}
