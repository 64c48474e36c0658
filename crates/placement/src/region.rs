//! Owns region names and how far apart two of them are by their spelling alone. Knows nothing of providers.
//!
//! The formula is that of Gardener's scheduler (strategy `MinimalDistance`): a word of orientation is taken out of
//! each name, and `2 · Levenshtein distance of the rests + penalty for the words`.

use std::fmt;
use std::sync::Arc;

use crate::limits;

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

/// How far two regions are of which one has a longer name than a region may have: farther than anything that ever wins.
const FAR: u64 = u32::MAX as u64;

/// A region, with its name taken apart once. One with a name that is longer than a label's value is equal to itself and
/// far from all others: whoever wrote it shall not make anybody compare its letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    name: Arc<str>,
    /// `None`: the name is too long.
    base: Option<Arc<[char]>>,
    orientation: Option<Orientation>,
}

impl Region {
    /// Takes a name apart: the first word of orientation that occurs in it, in the order north, south, east, west,
    /// central, is replaced once by `:`. Case counts; a word inside another one counts as well.
    pub fn new(name: &str) -> Self {
        if name.len() > limits::NAME {
            return Self {
                name: name.into(),
                base: None,
                orientation: None,
            };
        }
        let found = WORDS.iter().find(|(word, _)| name.contains(word));
        let (base, orientation) = match found {
            Some((word, orientation)) => (name.replacen(word, ":", 1), Some(*orientation)),
            None => (name.to_owned(), None),
        };
        Self {
            name: name.into(),
            base: Some(base.chars().collect()),
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

    /// The name with its word of orientation replaced by `:`; empty if it is too long.
    pub fn base(&self) -> String {
        self.base.iter().flat_map(|base| base.iter()).collect()
    }

    /// The word that was taken out.
    pub const fn orientation(&self) -> Option<Orientation> {
        self.orientation
    }

    /// `2 · lev + c`: `lev` is the Levenshtein distance of the bases over code points, each edit 1; `c` is 0 for
    /// equal orientations, 1 if only one has one, 2 if they differ. A name that is too long is far from all others.
    pub fn distance(&self, other: &Self) -> u64 {
        let (Some(own), Some(others)) = (&self.base, &other.base) else {
            return if self.name == other.name { 0 } else { FAR };
        };
        let penalty = match (self.orientation, other.orientation) {
            (a, b) if a == b => 0,
            (Some(_), Some(_)) => 2,
            _ => 1,
        };
        levenshtein(own, others)
            .saturating_mul(2)
            .saturating_add(penalty)
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Insertions, deletions and substitutions that make one of the other, a whole column of the table at a time (Myers'
/// bits, in Hyyrö's form): `rises` and `falls` say where the number below is one more or one less. `a` has 64 letters
/// at most.
fn levenshtein(a: &[char], b: &[char]) -> u64 {
    let Some(last) = a.len().checked_sub(1) else {
        return b.len() as u64;
    };
    if a == b {
        return 0;
    }
    // Where in `a` each letter is; most names have no others.
    let mut ascii = [0_u64; 128];
    for (at, letter) in a.iter().enumerate() {
        if let Some(places) = ascii.get_mut(*letter as usize) {
            *places |= 1 << at;
        }
    }
    let others = |letter: char| {
        let same = a.iter().enumerate().filter(|(_, own)| **own == letter);
        same.fold(0_u64, |places, (at, _)| places | (1 << at))
    };
    let mut edits = a.len() as u64;
    let (mut rises, mut falls) = (u64::MAX, 0_u64);
    for letter in b {
        let places = ascii.get(*letter as usize).copied();
        let places = places.unwrap_or_else(|| others(*letter));
        let same = ((places & rises).wrapping_add(rises) ^ rises) | places | falls;
        let (more, less) = (falls | !(same | rises), same & rises);
        edits = edits.saturating_add((more >> last) & 1);
        edits = edits.saturating_sub((less >> last) & 1);
        let (more, less) = ((more << 1) | 1, less << 1);
        rises = less | !(same | more);
        falls = more & same;
    }
    edits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The table itself, one row at a time.
    fn by_table(a: &[char], b: &[char]) -> u64 {
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

    #[test]
    fn a_name_that_is_too_long_is_near_to_itself_alone() {
        let long = |length: usize| Region::new(&"north".repeat(length / 5));
        let (a, b) = (long(90_000), long(200_000));
        assert_eq!(a.distance(&b), FAR);
        assert_eq!(a.distance(&Region::new("north")), FAR);
        assert_eq!(a.distance(&long(90_000)), 0);
        assert_eq!((a.base(), a.orientation()), (String::new(), None));
        let longest = Region::new(&"x".repeat(limits::NAME));
        assert_eq!(longest.distance(&Region::new("")), 126);
        assert_eq!(longest.distance(&Region::new(&"y".repeat(63))), 126);
    }

    proptest! {
        #[test]
        fn it_is_a_distance(a in "[a-z:-]{0,8}(north|south|east|west|central)?[0-9é]{0,2}", b in "\\PC{0,16}") {
            let (x, y) = (Region::new(&a), Region::new(&b));
            prop_assert_eq!(x.distance(&y), y.distance(&x));
            prop_assert_eq!(x.distance(&x), 0);
            prop_assert!(x.distance(&y) > 0 || x.base() == y.base());
        }

        #[test]
        fn bits_count_what_the_table_counts(a in "[abé]{0,64}", b in "[abé]{0,80}", near in 0..64_usize) {
            let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
            prop_assert_eq!(levenshtein(&a, &b), by_table(&a, &b));
            let mut other = a.clone();
            other.truncate(near);
            other.extend(a.iter().skip(near + 1));
            prop_assert_eq!(levenshtein(&a, &other), by_table(&a, &other));
        }
    }
}
