//! Which targets suit a pod, best first: the scheduler's own scores, and what surely fits.
//!
//! Gardener's seed-selection pipeline will take this place; what comes out stays a list of [`Ranked`].

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
};

use pilotage_api::summary::FreeShape;
use pilotage_sched::{ResourceName, Resources};

use crate::wave::Ranked;

/// What is known of a target when pods are ranked over it.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// Free room of its roomiest nodes, as it published it: how many nodes have how much.
    pub shapes: Vec<(i64, Resources)>,
    /// Pods that were asked there and aren't decided yet: each may take a place.
    pub outstanding: i64,
    /// It answered a question lately.
    pub answered_lately: bool,
}

impl Room {
    /// Reads published shapes; those that don't parse are left out.
    pub fn shapes_of(published: &[FreeShape]) -> Vec<(i64, Resources)> {
        published
            .iter()
            .filter_map(|shape| Some((shape.nodes, Resources::parse(&shape.free).ok()?)))
            .collect()
    }

    /// How many pods like this one fit by what was published.
    fn places(&self, request: &Resources) -> i64 {
        self.shapes.iter().map(|(nodes, free)| nodes * fits(free, request)).sum()
    }
}

/// How many times `request` fits into `free`.
fn fits(free: &Resources, request: &Resources) -> i64 {
    let pods = free.pods;
    request
        .iter()
        .filter(|(name, amount)| *amount > 0 && *name != ResourceName::Pods)
        .map(|(name, amount)| free.get(&name) / amount)
        .chain([pods])
        .min()
        .unwrap_or(0)
        .max(0)
}

/// Orders feasible targets: those that surely fit first, then by score, then spread by pod so that equal targets share.
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
            let surely_fits = left > 0 && room.is_some_and(|room| room.answered_lately);
            let key = (left <= 0, -score, spread(uid, node));
            (key, Ranked { node: node.clone(), surely_fits })
        })
        .collect();
    ranked.sort_by(|(a, _), (b, _)| a.cmp(b));
    ranked.into_iter().map(|(_, ranked)| ranked).collect()
}

/// A number that differs between pods, the same on each call.
fn spread(uid: &str, node: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (uid, node).hash(&mut hasher);
    hasher.finish()
}
