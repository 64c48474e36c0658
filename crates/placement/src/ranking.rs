//! Owns the order of those that are left: it adds up scores and sorts. It knows no rule.

use std::sync::Arc;

use crate::pipeline::{BLOCK, Context, Seat};
use crate::points::Points;
use crate::rules::{Column, Gauge, Rule};
use crate::selection::{InputError, Ranked, Scores};
use crate::settings::Ranking;
use crate::strategy::Distance;

/// All that decides but the name: distance or lack of points, then how much is placed there. Less is better.
type Key = (u64, u64);

/// What the order of those that are left rests on, read off each of them while it was at hand.
pub(crate) struct Standings<'a> {
    used: Vec<u64>,
    gauges: Vec<(&'a Rule, Box<dyn Gauge + 'a>)>,
}

impl<'a> Standings<'a> {
    /// Nobody's yet. Fails if a rule can't measure anybody.
    pub(crate) fn new(context: Context<'a>) -> Result<Self, InputError> {
        let rules: &[Rule] = match &context.settings.ranking {
            Ranking::Weighted(rules) if !context.request.testing => rules,
            _ => &[],
        };
        let gauges = rules.iter().map(|rule| Ok((rule, rule.gauge(context)?)));
        Ok(Self {
            used: Vec::new(),
            gauges: gauges.collect::<Result<_, InputError>>()?,
        })
    }

    /// Reads the next ones.
    pub(crate) fn read(&mut self, seats: &[Seat<'_>]) {
        let candidates = || seats.iter().map(|seat| seat.candidate);
        self.used.extend(candidates().map(|one| one.used));
        for (_, gauge) in &mut self.gauges {
            candidates().for_each(|candidate| gauge.read(candidate));
        }
    }

    /// Those that were read, best first. A strategy has measured all or none of them.
    pub(crate) fn rank(self, seats: &[Seat<'_>], distances: &[Distance]) -> Vec<Ranked> {
        let column = |(rule, gauge): (&Rule, Box<dyn Gauge + '_>)| -> Column {
            Column::new(rule, gauge.measured())
        };
        let columns: Vec<_> = self.gauges.into_iter().map(column).collect();
        let mut totals = Vec::new();
        for column in &columns {
            totals.resize(seats.len(), Points::ZERO);
            for (total, points) in totals.iter_mut().zip(column.weighted()) {
                *total = total.plus(points);
            }
        }
        let columns: Option<Arc<[_]>> = (!columns.is_empty()).then(|| columns.into());
        let key = |place: usize| {
            let distance = distances.get(place).map(|distance| distance.as_key());
            let points = totals
                .get(place)
                .map(|total: &Points| u64::MAX.saturating_sub(total.milli()));
            (distance.or(points).unwrap_or(0), self.used[place])
        };
        // Numbers are compared first, and names only where they are equal: those are somewhere else in memory.
        let mut order: Vec<_> = (0..seats.len()).map(|place| (key(place), place)).collect();
        order.sort_unstable();
        settle_ties(&mut order, seats);
        let ranked = order.into_iter().map(|((_, used), place)| Ranked {
            index: seats[place].index,
            name: seats[place].candidate.name.clone(),
            distance: distances.get(place).copied(),
            scores: Scores::new(columns.clone(), place),
            total: totals.get(place).copied().unwrap_or_default(),
            used,
        });
        ranked.collect()
    }
}

/// Brings those of the same key into the order of their names.
fn settle_ties(order: &mut [(Key, usize)], seats: &[Seat<'_>]) {
    let mut named = Vec::new();
    let mut warm = 0_usize;
    let mut rest = order;
    while let Some((best, _)) = rest.first() {
        let equal = rest.iter().take_while(|(key, _)| key == best).count();
        if warm < equal {
            warm = rest.len().min(equal.max(BLOCK));
            warm_names(&rest[..warm], seats);
        }
        warm = warm.saturating_sub(equal);
        let (tied, others) = rest.split_at_mut(equal);
        by_name(tied, seats, &mut named);
        rest = others;
    }
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
    use crate::candidate::Candidate;

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
            let mut order: Vec<_> = (0..seats.len()).map(|place| ((0, 0), place)).collect();
            by_name(&mut order, &seats, &mut Vec::new());
            let mut expected: Vec<_> = (0..seats.len()).collect();
            expected.sort_by_key(|place| &candidates[*place].name);
            let places: Vec<_> = order.into_iter().map(|(_, place)| place).collect();
            prop_assert_eq!(places, expected);
        }
    }
}
