//! Seeded draws: all chance of the generator comes from here.

use pilotage_sched::{SeededTies, TieBreaker as _};

/// A generator of draws; equal seeds give equal draws.
#[derive(Clone, Debug)]
pub struct Draw(SeededTies);

impl Draw {
    /// A generator for this seed.
    pub const fn new(seed: u64) -> Self {
        Self(SeededTies::new(seed))
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0.pick(limit.max(1))
    }

    /// A number from `least` to `most`, both included.
    pub fn within(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// True in so many of 100 cases.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// One of the list, which isn't empty.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// One of the words, which are some at least.
    pub fn word(&mut self, of: &[&str]) -> String {
        (*self.one(of)).to_owned()
    }

    /// Some of the list, each at most once, in another order.
    pub fn some<T: Clone>(&mut self, of: &[T], count: usize) -> Vec<T> {
        let mut all = of.to_vec();
        self.shuffle(&mut all);
        all.truncate(count);
        all
    }

    /// Brings the list into another order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let with = self.below(last + 1);
            list.swap(last, with);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Draw;

    #[test]
    fn draws_repeat_and_stay_within_their_limits() {
        let (mut one, mut two) = (Draw::new(5), Draw::new(5));
        for _ in 0..200 {
            let drawn = one.within(3, 6);
            assert_eq!(drawn, two.within(3, 6));
            assert!((3..=6).contains(&drawn));
        }
        assert_eq!(one.below(0), 0);
        let mut shuffled = one.some(&[1, 2, 3, 4], 4);
        shuffled.sort_unstable();
        assert_eq!(shuffled, [1, 2, 3, 4]);
        assert_eq!(one.some(&[1, 2, 3], 2).len(), 2);
        assert!(!one.percent(0) && one.percent(100));
    }
}
