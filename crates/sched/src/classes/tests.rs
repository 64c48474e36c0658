use std::sync::Arc;

use super::Classes;
use crate::context::Context;
use crate::plugins::stock_profile;
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::table::NodeTable;
use crate::test_objects::{NeverBinds, Quiet, node, pod};

fn asking(cpu: usize) -> Arc<PodInfo> {
    let milli = format!("{cpu}m");
    pod("p").scheduler("test").request("cpu", &milli).info()
}

#[test]
fn the_classes_that_were_used_longest_ago_are_forgotten() {
    let profile = stock_profile("test", Arc::new(NeverBinds)).build().unwrap();
    let quiet = Quiet::default();
    let mut table = NodeTable::default();
    let nodes = 10;
    for number in 0..nodes {
        table.set_node(node(&format!("n{number}")).object());
    }
    let cx = Context::new(&profile, &table, quiet.around());
    let kept = 5;
    let max_answers = kept * nodes * 2;
    let mut classes = Classes::new(max_answers);
    let mut state = CycleState::new();
    state.skipped_filters = crate::state::PluginMask::default();
    let first = asking(1);
    for cpu in 1..2 * kept {
        // The first one is used again and again.
        for pod in [&asking(cpu), &first] {
            let mut taken = classes.take(pod, state.skipped_filters);
            taken.class.follow(&cx, &state, pod).unwrap();
            classes.give_back(taken);
        }
        assert!(classes.answers() <= max_answers);
    }
    assert_eq!(classes.known.len(), kept);
    let taken = classes.take(&first, state.skipped_filters);
    assert_eq!(taken.class.answers(), nodes * 2, "no scores yet");
}

#[test]
fn pods_with_equal_needs_are_one_class_and_others_are_not() {
    let mut classes = Classes::default();
    let (a, b) = (asking(1), asking(2));
    let mut same = (*asking(1)).clone();
    same.needs = a.needs.clone();
    let none = crate::state::PluginMask::default();
    let mut some = none;
    some.insert(3);
    for (pod, mask, known) in [
        (&*a, none, 1),
        (&same, none, 1),
        (&*b, none, 2),
        (&*a, some, 3),
    ] {
        let taken = classes.take(pod, mask);
        classes.give_back(taken);
        assert_eq!(classes.known.len(), known);
    }
}
