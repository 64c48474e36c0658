//! Which targets suit a pod, best first: the scheduler's own scores, and what surely fits.
//!
//! Gardener's seed-selection pipeline will take this place; what comes out stays a list of [`Ranked`].

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
};

use pilotage_api::summary::FreeShape;
use pilotage_sched::resources::Resources;

use crate::wave::Ranked;

/// What is known of a target when pods are ranked over it.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// Free room of its roomiest nodes, as it published it: how many nodes have how much.
    pub shapes: Vec<(i64, Resources)>,
    /// Pods that were asked there and aren't decided yet: each may take a place.
    pub outstanding: i64,
    /// It let a question pass without an answer, and hasn't answered any since.
    pub silent: bool,
}

impl Room {
    /// Reads published shapes; an amount that doesn't parse counts as none, so that nothing surely fits by it.
    pub fn shapes_of(published: &[FreeShape]) -> Vec<(i64, Resources)> {
        published
            .iter()
            .map(|shape| (shape.nodes, Resources::parse(&shape.free, |_, _| {})))
            .collect()
    }

    /// How many pods like this one fit by what was published.
    fn places(&self, request: &Resources) -> i64 {
        self.shapes
            .iter()
            .map(|(nodes, free)| nodes * fits(free, request))
            .sum()
    }
}

/// How many times `request` fits into `free`.
fn fits(free: &Resources, request: &Resources) -> i64 {
    let scalars = request
        .scalars()
        .map(|(name, wanted)| (wanted, free.scalar(name)));
    [
        (request.milli_cpu, free.milli_cpu),
        (request.memory, free.memory),
        (request.ephemeral_storage, free.ephemeral_storage),
    ]
    .into_iter()
    .chain(scalars)
    .filter(|(wanted, _)| *wanted > 0)
    .map(|(wanted, free)| free / wanted)
    .chain([free.pods])
    .min()
    .unwrap_or(0)
    .max(0)
}

/// Orders feasible targets: silent ones last, those that surely fit first, then by score, then spread by pod so that equal targets share.
pub fn rank(
    uid: &str,
    request: &Resources,
    feasible: &[(String, i64)],
    rooms: &BTreeMap<String, Room>,
) -> Vec<Ranked> {
    let mut ranked: Vec<_> = feasible
        .iter()
        .map(|(node, score)| {
            let room = rooms.get(node);
            let left = room.map_or(0, |room| room.places(request) - room.outstanding);
            let silent = room.is_some_and(|room| room.silent);
            let surely_fits = left > 0 && !silent;
            let key = (silent, left <= 0, -score, spread(uid, node));
            (
                key,
                Ranked {
                    node: node.clone(),
                    surely_fits,
                },
            )
        })
        .collect();
    ranked.sort_by_key(|(key, _)| *key);
    ranked.into_iter().map(|(_, ranked)| ranked).collect()
}

/// A number that differs between pods, the same on each call.
fn spread(uid: &str, node: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (uid, node).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(milli_cpu: i64, pods: i64) -> Resources {
        let mut amount = Resources::default();
        (amount.milli_cpu, amount.pods) = (milli_cpu, pods);
        amount
    }

    fn room(nodes: i64, milli_cpu: i64, outstanding: i64) -> Room {
        Room {
            shapes: vec![(nodes, amount(milli_cpu, 10))],
            outstanding,
            silent: false,
        }
    }

    #[test]
    fn a_pod_surely_fits_where_more_places_are_free_than_questions_are_open() {
        let request = amount(500, 0);
        let feasible: Vec<_> = ["a", "b", "c", "d"].map(|n| (n.to_owned(), 50)).into();
        let quiet = Room {
            silent: true,
            ..room(1, 1000, 0)
        };
        let rooms = BTreeMap::from([
            ("a".to_owned(), room(2, 400, 0)),
            ("b".to_owned(), room(1, 1000, 1)),
            ("c".to_owned(), room(1, 1000, 2)),
            ("d".to_owned(), quiet),
        ]);
        let sure: BTreeMap<_, _> = rank("u", &request, &feasible, &rooms)
            .into_iter()
            .map(|ranked| (ranked.node, ranked.surely_fits))
            .collect();
        let want = [("a", false), ("b", true), ("c", false), ("d", false)];
        assert_eq!(
            sure,
            want.map(|(node, sure)| (node.to_owned(), sure)).into()
        );
    }

    #[test]
    fn what_fits_goes_before_what_scores_and_equals_share_the_pods() {
        let request = amount(500, 0);
        let feasible = vec![
            ("full".to_owned(), 90),
            ("low".to_owned(), 10),
            ("high".to_owned(), 20),
        ];
        let rooms = BTreeMap::from([
            ("full".to_owned(), room(0, 0, 0)),
            ("low".to_owned(), room(1, 4000, 0)),
            ("high".to_owned(), room(1, 4000, 0)),
        ]);
        let order: Vec<_> = rank("u", &request, &feasible, &rooms)
            .into_iter()
            .map(|r| r.node)
            .collect();
        assert_eq!(order, ["high", "low", "full"]);
        let mut rooms = rooms;
        if let Some(high) = rooms.get_mut("high") {
            high.silent = true;
        }
        let ranked = rank("u", &request, &feasible, &rooms);
        let order: Vec<_> = ranked.iter().map(|r| r.node.as_str()).collect();
        assert_eq!(order, ["low", "full", "high"]);
        assert!(ranked[0].surely_fits, "so that one question is enough");

        let equal = vec![("a".to_owned(), 10), ("b".to_owned(), 10)];
        let first: Vec<_> = (0..100)
            .map(|n| {
                rank(&format!("pod-{n}"), &request, &equal, &BTreeMap::new())[0]
                    .node
                    .clone()
            })
            .collect();
        let a = first.iter().filter(|node| *node == "a").count();
        assert!((25..=75).contains(&a), "{a} of 100 pods went to a first");
    }
}
