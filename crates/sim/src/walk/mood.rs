//! How a schedule is drawn: which faults, how many, and how fast time passes.

use crate::{rng::Rng, step::Word};

/// How often a fault of each kind is drawn, when faults are chosen for a schedule.
const FAULTS: &[(Word, usize)] = &[
    (Word::Lose, 3),
    (Word::Mute, 4),
    (Word::Delay, 6),
    (Word::Crash, 5),
    (Word::Second, 5),
    (Word::Relist, 3),
    (Word::Freeze, 5),
    (Word::Cut, 2),
    (Word::Stop, 2),
    (Word::Part, 5),
    (Word::Room, 3),
    (Word::Occupy, 3),
    (Word::Quota, 1),
    (Word::Rights, 1),
    (Word::Front, 1),
    (Word::Unseat, 2),
    (Word::Blind, 1),
    (Word::Delete, 4),
    (Word::Evict, 4),
    (Word::Unask, 3),
    (Word::Label, 1),
    (Word::Forget, 1),
    (Word::Leave, 1),
    (Word::Remove, 1),
    (Word::Lie, 3),
];

/// How a schedule is drawn.
pub(super) struct Mood {
    /// Kinds of faults, some of them several times.
    pub(super) kinds: Vec<Word>,
    /// Faults that are left.
    pub(super) budget: usize,
    /// Chance of a fault in each step.
    pub(super) chance: usize,
    /// Chance that time passes although something else could happen.
    pub(super) haste: usize,
    /// Chance that a request and its answer are two steps.
    pub(super) split: usize,
    /// Steps.
    pub(super) length: usize,
}

impl Mood {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let mut kinds = Vec::new();
        for _ in 0..=rng.below(5) {
            let all: usize = FAULTS.iter().map(|(_, weight)| weight).sum();
            let mut at = rng.below(all);
            for (word, weight) in FAULTS {
                if at < *weight {
                    kinds.push(*word);
                    break;
                }
                at -= weight;
            }
        }
        Self {
            kinds,
            budget: rng.below(10),
            chance: [3, 6, 12, 25][rng.below(4)],
            haste: [0, 1, 3, 10][rng.below(4)],
            split: [10, 50][rng.below(2)],
            length: 40 + rng.below(110),
        }
    }
}
