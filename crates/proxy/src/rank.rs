//! Which targets suit a pod, best first: by the class that the pipeline gave them (`crate::placing`), and within a
//! class by the scheduler's own scores and what surely fits. What targets publish may be any numbers.

use std::{
    cmp::Reverse,
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use pilotage_api::summary::FreeShape;
use pilotage_sched::resources::Resources;

use crate::{
    others::Others,
    placing::Order,
    wave::{CROWDED, Ranked},
};

/// What is known of a target when pods are ranked over it.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// Free room of its roomiest nodes, as it published it: how many nodes have how much.
    pub shapes: Vec<(i64, Resources)>,
    /// Pods that were asked there and aren't decided yet: each may take a place.
    pub outstanding: i64,
}

impl Room {
    /// Reads published shapes; an amount that doesn't parse counts as none, so that nothing surely fits by it.
    pub fn shapes_of(published: &[FreeShape]) -> Vec<(i64, Resources)> {
        published
            .iter()
            .map(|shape| (shape.nodes, Resources::parse(&shape.free, |_, _| {})))
            .collect()
    }

    /// Whether a pod like this one fits beside those that are on their way, by what was published. Authors and targets
    /// may make this long, so that it is looked at no further than the answer takes.
    fn surely_fits(&self, request: &Resources) -> bool {
        let mut short = self.outstanding;
        self.shapes.iter().any(|(nodes, free)| {
            let places = (*nodes).max(0).saturating_mul(fits(free, request));
            short = short.saturating_sub(places);
            short < 0
        })
    }
}

/// How many times `request` fits into `free`.
fn fits(free: &Resources, request: &Resources) -> i64 {
    let scalars = request
        .scalars()
        .map(|(name, wanted)| (wanted, free.scalar(name)));
    let own = [
        (request.milli_cpu, free.milli_cpu),
        (request.memory, free.memory),
        (request.ephemeral_storage, free.ephemeral_storage),
    ];
    let mut most = free.pods;
    for (wanted, free) in own.into_iter().chain(scalars) {
        if most <= 0 {
            return 0;
        }
        if wanted > 0 {
            most = free
                .checked_div(wanted)
                .map_or(most, |times| most.min(times));
        }
    }
    most.max(0)
}

/// What ranking is told of one target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen<'a> {
    /// Its room, if it is known.
    pub room: Option<&'a Room>,
    /// Other pods that are placed there, or on their way, as long as the pipeline hasn't counted them.
    pub used: u64,
    /// See [`Book::is_silent`](crate::Book::is_silent).
    pub silent: bool,
    /// What other pods make of it.
    pub others: Others,
}

/// Orders feasible targets: by the pipeline's class if there is an order; of one class silent ones last, those that
/// surely fit first, then by score, then the least used, then spread by pod so that equal targets share. A target that
/// the pipeline has passed over isn't among them; those that other pods will take are behind all others.
pub fn rank<'a>(
    uid: &str,
    request: &Resources,
    feasible: &[(String, i64)],
    seen: impl Fn(&str) -> Seen<'a>,
    order: Option<&Order>,
) -> Vec<Ranked> {
    let mut ranked: Vec<_> = feasible
        .iter()
        .filter_map(|(node, score)| {
            let Seen {
                room,
                used,
                silent,
                others,
            } = seen(node);
            let (class, used) = match order {
                None => (0, used),
                Some(order) if order.passes_over(node) => return None,
                // One that came a moment ago is last.
                Some(order) => order
                    .standing(node)
                    .map_or((u32::MAX, used), |standing| (standing.class, standing.used)),
            };
            let class = match others {
                Others::WillTake => class.saturating_add(CROWDED),
                Others::Leave | Others::KeepAway => class,
            };
            let has_room = room.is_some_and(|room| room.surely_fits(request));
            let surely_fits = has_room && !silent;
            let score = Reverse(*score);
            let key = (class, silent, !has_room, score, used, spread(uid, node));
            let ranked = Ranked {
                node: node.clone(),
                surely_fits,
                class,
                kept_away: others == Others::KeepAway,
            };
            Some((key, ranked))
        })
        .collect();
    ranked.sort_by_key(|(key, _)| *key);
    ranked.into_iter().map(|(_, ranked)| ranked).collect()
}

/// How far back a target stands for a pod that is made only after the choice. Nobody holds a node there, so that of one
/// class those go first where it surely fits: a target whose nodes are all full or cordoned is chosen last. `None`: it
/// doesn't suit.
pub fn class_unheld(ranking: &[Ranked], node: &str) -> Option<u32> {
    let ranked = ranking.iter().find(|ranked| ranked.node == node)?;
    let behind = u32::from(!ranked.surely_fits);
    Some(ranked.class.saturating_mul(2).saturating_add(behind))
}

/// A number that differs between pods, the same on each call.
fn spread(uid: &str, node: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (uid, node).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn of<'a>(rooms: &'a BTreeMap<String, Room>, silent: &str) -> impl Fn(&str) -> Seen<'a> {
        move |node| Seen {
            room: rooms.get(node),
            used: 0,
            silent: node == silent,
            others: Others::Leave,
        }
    }

    fn amount(milli_cpu: i64, pods: i64) -> Resources {
        let mut amount = Resources::default();
        (amount.milli_cpu, amount.pods) = (milli_cpu, pods);
        amount
    }

    fn room(nodes: i64, milli_cpu: i64, outstanding: i64) -> Room {
        Room {
            shapes: vec![(nodes, amount(milli_cpu, 10))],
            outstanding,
        }
    }

    #[test]
    fn a_pod_surely_fits_where_more_places_are_free_than_questions_are_open() {
        let request = amount(500, 0);
        let feasible: Vec<_> = ["a", "b", "c", "d"].map(|n| (n.to_owned(), 50)).into();
        let rooms = BTreeMap::from([
            ("a".to_owned(), room(2, 400, 0)),
            ("b".to_owned(), room(1, 1000, 1)),
            ("c".to_owned(), room(1, 1000, 2)),
            ("d".to_owned(), room(1, 1000, 0)),
        ]);
        let sure: BTreeMap<_, _> = rank("u", &request, &feasible, of(&rooms, "d"), None)
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
    fn no_number_that_a_target_publishes_is_too_large_or_too_small() {
        let most = i64::MAX;
        let some = || vec![(2, amount(1000, 10)), (-5, amount(1000, 10))];
        for (shapes, outstanding, sure) in [
            (vec![(most, amount(most, most))], 0, true),
            (vec![(most, amount(most, most)); 3], most, true),
            (vec![(1, amount(most, most))], most, false),
            (some(), 3, true),
            (some(), 4, false),
            (vec![(i64::MIN, amount(most, most))], most, false),
            (vec![(i64::MIN, amount(i64::MIN, i64::MIN))], 0, false),
        ] {
            let room = Room {
                shapes,
                outstanding,
            };
            let rooms = BTreeMap::from([("a".to_owned(), room)]);
            let feasible = [("a".to_owned(), i64::MIN)];
            let ranked = rank("u", &amount(500, 0), &feasible, of(&rooms, ""), None);
            assert_eq!(ranked[0].surely_fits, sure);
        }
    }

    #[test]
    fn where_nobody_holds_a_node_a_class_goes_before_room_and_room_before_none() {
        let ranked = |node: &str, class, surely_fits| Ranked {
            node: node.to_owned(),
            surely_fits,
            class,
            kept_away: false,
        };
        let ranking = [
            ranked("full", 0, false),
            ranked("far", 1, true),
            ranked("near", 0, true),
            ranked("last", u32::MAX, true),
        ];
        let classes = ["near", "full", "far", "last"].map(|node| class_unheld(&ranking, node));
        assert_eq!(classes, [Some(0), Some(1), Some(2), Some(u32::MAX)]);
        assert_eq!(class_unheld(&ranking, "stranger"), None);
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
        let order: Vec<_> = rank("u", &request, &feasible, of(&rooms, ""), None)
            .into_iter()
            .map(|r| r.node)
            .collect();
        assert_eq!(order, ["high", "low", "full"]);
        let ranked = rank("u", &request, &feasible, of(&rooms, "high"), None);
        let order: Vec<_> = ranked.iter().map(|r| r.node.as_str()).collect();
        assert_eq!(order, ["low", "full", "high"]);
        assert!(ranked[0].surely_fits, "so that one question is enough");

        let equal = vec![("a".to_owned(), 10), ("b".to_owned(), 10)];
        let nothing = BTreeMap::new();
        let first = |n: i32| {
            let ranked = rank(
                &format!("pod-{n}"),
                &request,
                &equal,
                of(&nothing, ""),
                None,
            );
            ranked[0].node.clone()
        };
        let a = (0..100).filter(|n| first(*n) == "a").count();
        assert!((25..=75).contains(&a), "{a} of 100 pods went to a first");
        // Those that come together alternate.
        let mut used = BTreeMap::<String, u64>::new();
        for n in 0..100 {
            let seen = |node: &str| Seen {
                room: None,
                used: used.get(node).copied().unwrap_or_default(),
                silent: false,
                others: Others::Leave,
            };
            let ranked = rank(&format!("pod-{n}"), &request, &equal, seen, None);
            *used.entry(ranked[0].node.clone()).or_default() += 1;
        }
        assert_eq!(used, [("a".to_owned(), 50), ("b".to_owned(), 50)].into());
    }

    #[test]
    fn what_others_will_take_is_last_and_what_they_keep_is_marked() {
        let order = Order::of_test(&[("near", 0, 0), ("far", 1, 0), ("next", 0, 0)], &[]);
        let feasible: Vec<_> = [("near", 99), ("far", 1), ("next", 50)]
            .map(|(node, score)| (node.to_owned(), score))
            .into();
        let seen = |node: &str| Seen {
            others: match node {
                "near" => Others::WillTake,
                "next" => Others::KeepAway,
                _ => Others::Leave,
            },
            ..Seen::default()
        };
        for order in [None, Some(&order)] {
            let ranked = rank("u", &amount(500, 0), &feasible, seen, order);
            let ranked: Vec<_> = ranked
                .iter()
                .map(|ranked| (ranked.node.as_str(), ranked.kept_away))
                .collect();
            assert_eq!(ranked, [("next", true), ("far", false), ("near", false)]);
        }
    }

    #[test]
    fn an_order_decides_before_room_and_scores_and_leaves_out_whom_it_passes_over() {
        let order = Order::of_test(
            &[("near", 0, 5), ("twin", 0, 3), ("far", 1, 0)],
            &["elsewhere"],
        );
        let feasible: Vec<_> = [
            ("far", 99),
            ("new", 99),
            ("near", 1),
            ("twin", 1),
            ("elsewhere", 99),
        ]
        .map(|(node, score)| (node.to_owned(), score))
        .into();
        let rooms = BTreeMap::from([("far".to_owned(), room(1, 4000, 0))]);
        let order_of = |rooms: &BTreeMap<_, _>, silent: &str, feasible: &[_]| -> Vec<String> {
            let seen = of(rooms, silent);
            let ranked = rank("u", &amount(500, 0), feasible, seen, Some(&order));
            ranked.into_iter().map(|ranked| ranked.node).collect()
        };
        // Equal ones: the less used one; one that the order doesn't know is last.
        assert_eq!(
            order_of(&rooms, "", &feasible),
            ["twin", "near", "far", "new"]
        );
        // Equal ones are ordered as ever: silent last, room first, then by score.
        let rooms = BTreeMap::from([("near".to_owned(), room(1, 4000, 0))]);
        assert_eq!(order_of(&rooms, "", &feasible)[..2], ["near", "twin"]);
        assert_eq!(order_of(&rooms, "near", &feasible)[..2], ["twin", "near"]);
        let better = [("near".to_owned(), 2), ("twin".to_owned(), 1)];
        assert_eq!(order_of(&BTreeMap::new(), "", &better), ["near", "twin"]);
    }
}
