//! Owns region names and how far apart two of them are by their spelling alone. Knows nothing of providers.
//!
//! The formula is that of Gardener's scheduler (strategy `MinimalDistance`): a word of orientation is taken out of
//! each name, and `2 · Levenshtein distance of the rests + penalty for the words`.

use std::fmt;
use std::sync::Arc;

/// A word of orientation in a region's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Orientation {
    /// `north`
    North,
    /// `south`
    South,
    /// `east`
    East,
    /// `west`
    West,
    /// `central`
    Central,
}

/// The words, in the order in which they are looked for.
const WORDS: [(&str, Orientation); 5] = [
    ("north", Orientation::North),
    ("south", Orientation::South),
    ("east", Orientation::East),
    ("west", Orientation::West),
    ("central", Orientation::Central),
];

/// A region, with its name taken apart once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    name: Arc<str>,
    base: Arc<[char]>,
    orientation: Option<Orientation>,
}

impl Region {
    /// Takes a name apart: the first word of orientation that occurs in it, in the order north, south, east, west,
    /// central, is replaced once by `:`. Case counts; a word inside another one counts as well.
    pub fn new(name: &str) -> Self {
        let found = WORDS.iter().find(|(word, _)| name.contains(word));
        let (base, orientation) = match found {
            Some((word, orientation)) => (name.replacen(word, ":", 1), Some(*orientation)),
            None => (name.to_owned(), None),
        };
        Self {
            name: name.into(),
            base: base.chars().collect(),
            orientation,
        }
    }

    /// The whole name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole name, shared.
    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// The name with its word of orientation replaced by `:`.
    pub fn base(&self) -> String {
        self.base.iter().collect()
    }

    /// The word that was taken out.
    pub const fn orientation(&self) -> Option<Orientation> {
        self.orientation
    }

    /// `2 · lev + c`: `lev` is the Levenshtein distance of the bases over code points, each edit 1; `c` is 0 for
    /// equal orientations, 1 if only one has one, 2 if they differ.
    pub fn distance(&self, other: &Self) -> u64 {
        let penalty = match (self.orientation, other.orientation) {
            (a, b) if a == b => 0,
            (Some(_), Some(_)) => 2,
            _ => 1,
        };
        2 * levenshtein(&self.base, &other.base) + penalty
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Insertions, deletions and substitutions that make one of the other, one row of the table at a time.
fn levenshtein(a: &[char], b: &[char]) -> u64 {
    if a == b {
        return 0;
    }
    let mut row: Vec<u64> = (0..=b.len() as u64).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i as u64 + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + u64::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_distance(a in "[a-z:-]{0,8}(north|south|east|west|central)?[0-9é]{0,2}", b in "\\PC{0,16}") {
            let (x, y) = (Region::new(&a), Region::new(&b));
            prop_assert_eq!(x.distance(&y), y.distance(&x));
            prop_assert_eq!(x.distance(&x), 0);
            prop_assert!(x.distance(&y) > 0 || x.base() == y.base());
        }
    }
}
