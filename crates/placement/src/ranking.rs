//! Owns the order of those that are left: it adds up scores and sorts. It knows no rule.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::candidate::Candidate;
use crate::pipeline::{BLOCK, Context, Seat};
use crate::points::Points;
use crate::rules::{self, Rule};
use crate::selection::{InputError, Ranked, Scores};
use crate::settings::Ranking;
use crate::strategy::Distance;

/// All that decides but the name. Less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    distance: Option<Distance>,
    total: Reverse<Points>,
    used: u64,
}

/// Those that are left, best first.
pub(crate) fn rank(
    context: Context<'_>,
    seats: &[Seat<'_>],
    distances: &[Distance],
) -> Result<Vec<Ranked>, InputError> {
    let rules: &[Rule] = match &context.settings.ranking {
        Ranking::Weighted(rules) if !context.request.testing => rules,
        _ => &[],
    };
    let candidates: Vec<&Candidate> = match rules {
        [] => Vec::new(),
        _ => seats.iter().map(|seat| seat.candidate).collect(),
    };
    let mut scores = Vec::with_capacity(rules.len());
    for rule in rules {
        scores.push(rules::score(rule, context, &candidates)?);
    }
    let total = |place: usize| {
        let weighted = scores.iter().map(|scores| scores.weighted(place));
        weighted.fold(Points::ZERO, Points::plus)
    };
    // Numbers are compared first, and names only where they are equal: those are somewhere else in memory.
    let mut order: Vec<(Key, usize)> = seats
        .iter()
        .enumerate()
        .map(|(place, seat)| {
            let key = Key {
                distance: distances.get(place).copied(),
                total: Reverse(total(place)),
                used: seat.candidate.used,
            };
            (key, place)
        })
        .collect();
    order.sort_unstable();
    let mut ranking = Vec::with_capacity(order.len());
    let mut named = Vec::new();
    let mut warm = 0;
    let mut rest = &mut *order;
    while let Some((best, _)) = rest.first() {
        let equal = rest.iter().take_while(|(key, _)| key == best).count();
        if warm < equal {
            warm = rest.len().min(equal.max(BLOCK));
            warm_names(&rest[..warm], seats);
        }
        warm -= equal;
        let (tied, others) = rest.split_at_mut(equal);
        by_name(tied, seats, &mut named);
        ranking.extend(tied.iter().map(|(key, place)| Ranked {
            index: seats[*place].index,
            name: seats[*place].candidate.name.clone(),
            distance: key.distance,
            scores: Scores::default(),
            total: key.total.0,
            used: key.used,
        }));
        rest = others;
    }
    if !scores.is_empty() {
        let rows = order.iter().map(|(_, place)| *place);
        let all: Arc<[_]> = rows
            .flat_map(|place| scores.iter().map(move |scores| scores.at(place)))
            .collect();
        for (number, ranked) in ranking.iter_mut().enumerate() {
            let first = number * scores.len();
            ranked.scores = Scores::new(all.clone(), first..first + scores.len());
        }
    }
    Ok(ranking)
}

/// Reads a little of all these names. They are anywhere in memory, and a processor fetches them all at once, if
/// nothing waits for one of them.
fn warm_names(order: &[(Key, usize)], seats: &[Seat<'_>]) {
    let names = order.iter().map(|(_, place)| &seats[*place].candidate.name);
    std::hint::black_box(names.filter(|name| name.starts_with('\0')).count());
}

/// Sorts by name some that are equal otherwise. Names of many candidates begin alike, so the bytes behind their common
/// beginning are compared as numbers first.
fn by_name<'c>(
    tied: &mut [(Key, usize)],
    seats: &[Seat<'c>],
    named: &mut Vec<(u128, &'c str, usize)>,
) {
    let [(_, first), others @ ..] = &*tied else {
        return;
    };
    if others.is_empty() {
        return;
    }
    let name = |place: usize| -> &'c str { &seats[place].candidate.name };
    let first = name(*first).as_bytes();
    let common = others.iter().fold(first.len(), |common, (_, place)| {
        let both = first[..common].iter().zip(name(*place).as_bytes());
        both.take_while(|(a, b)| a == b).count()
    });
    named.clear();
    named.extend(tied.iter().map(|(_, place)| {
        let rest = &name(*place).as_bytes()[common..];
        let mut head = [0; 16];
        let length = rest.len().min(head.len());
        head[..length].copy_from_slice(&rest[..length]);
        (u128::from_be_bytes(head), name(*place), *place)
    }));
    // Equal names keep the order of the list.
    named.sort_unstable();
    for ((_, place), (_, _, sorted)) in tied.iter_mut().zip(named.iter()) {
        *place = *sorted;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_are_sorted_as_texts(
            beginning in "[ab]{0,20}", rests in proptest::collection::vec("[\\x00ab\u{e9}]{0,20}", 0..30),
        ) {
            let candidates: Vec<_> = rests
                .iter()
                .map(|rest| Candidate {
                    name: format!("{beginning}{rest}").into(),
                    ..Candidate::default()
                })
                .collect();
            let seats: Vec<_> = candidates
                .iter()
                .enumerate()
                .map(|(index, candidate)| Seat { index, candidate })
                .collect();
            let key = Key {
                distance: None,
                total: Reverse(Points::ZERO),
                used: 0,
            };
            let mut order: Vec<_> = (0..seats.len()).map(|place| (key, place)).collect();
            by_name(&mut order, &seats, &mut Vec::new());
            let mut expected: Vec<_> = (0..seats.len()).collect();
            expected.sort_by_key(|place| &candidates[*place].name);
            let places: Vec<_> = order.into_iter().map(|(_, place)| place).collect();
            prop_assert_eq!(places, expected);
        }
    }
}
