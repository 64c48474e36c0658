//! Whatever amounts nodes have, a summary tells no more than there is, in few shapes.

use pilotage_absurd::text;
use pilotage_sched::resources::Resources;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::{amounts, shapes};

pilotage_absurd::properties! {
    #[test]
    fn a_summary_is_of_bounded_size_and_says_no_more_than_there_is(
        nodes in prop::collection::vec(prop::collection::btree_map(
            prop_oneof![
                4 => select(&["cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi",
                    "a.b/gpu"][..]).prop_map(str::to_owned),
                1 => "[a-z]{1,3}/[a-z]{1,3}",
            ],
            text::quantity(), 0..6), 0..40),
    ) {
        let nodes: Vec<Resources> = nodes.into_iter()
            .map(|list| Resources::parse(&serde_json::from_value(json!(list)).unwrap(), |_, _| {}))
            .collect();
        for free in &nodes {
            let list = amounts::list(free);
            prop_assert!(list.values().all(|amount| amount.0.len() <= 24));
            // What is told is what is read again.
            let mut again = Resources::parse(&list, |name, _| panic!("{name}: {list:?}"));
            again.pods = free.pods;
            prop_assert_eq!(&again, free);
        }
        let rooms: Vec<_> = nodes.iter().filter_map(shapes::Room::of).collect();
        let told = shapes::of(&rooms);
        prop_assert!(told.len() <= shapes::LIMIT);
        prop_assert!(told.iter().all(|shape| shape.nodes > 0));
        prop_assert!(told.iter().map(|shape| shape.nodes).sum::<i64>() <= rooms.len() as i64);
        for shape in &told {
            let free = Resources::parse(&shape.free, |_, _| {});
            let fits = nodes.iter().filter(|node| {
                free.milli_cpu <= node.milli_cpu && free.memory <= node.memory && free.pods <= node.pods
            });
            prop_assert!(fits.count() as i64 >= shape.nodes);
        }
    }
}
