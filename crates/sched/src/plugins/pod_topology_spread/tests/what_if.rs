//! Pods that come and go in a *what if*.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{Cluster, HARD, constraint, in_zone, said, spread, web};
use crate::plugin::{PreFilter, PreFilterExtensions};
use crate::plugins::PodTopologySpread;
use crate::state::CycleState;
use crate::test_objects::{PodBuilder, node, pod};

/// Zones with three, two and two pods, where only the others may take one more.
fn cluster() -> Cluster {
    Cluster::with(vec![
        (in_zone("a", "x"), 3),
        (in_zone("b", "y"), 2),
        (in_zone("c", "z"), 2),
        (node("d"), 0),
    ])
}

/// Which nodes will do before and after pods came to a node (or left it, if so many are below none).
fn after(asking: PodBuilder, change: &[(&str, i32, PodBuilderOf)]) -> (Vec<bool>, Vec<bool>) {
    let (plugin, cluster, asking) = (PodTopologySpread::default(), cluster(), asking.info());
    let mut state = CycleState::new();
    let found = cluster.ask(|cx| plugin.pre_filter(cx, &mut state, &asking));
    found.unwrap();
    let mut what_if = state.clone();
    for (node, pods, other) in change {
        let view = cluster.table.get(cluster.id(node)).unwrap();
        let other = other("other").info();
        for _ in 0..pods.abs() {
            let state = &mut what_if;
            let changed = if *pods > 0 {
                plugin.add_pod(state, &asking, &other, view)
            } else {
                plugin.remove_pod(state, &asking, &other, view)
            };
            changed.unwrap();
        }
    }
    let open = |state: &CycleState| -> Vec<bool> {
        let said = said(&cluster.table, &plugin, state, &asking);
        said.iter().map(Option::is_none).collect()
    };
    (open(&state), open(&what_if))
}

type PodBuilderOf = fn(&str) -> PodBuilder;

#[test]
fn sums_and_the_lowest_of_them_follow() {
    let asking = || spread(web("p"), vec![constraint(HARD, "zone", 1)]);
    let before = vec![false, true, true, false];
    for (change, expected) in [
        (&[][..], [false, true, true, false]),
        // Its zone has no more than the others then.
        (
            &[("a", -1, web as PodBuilderOf)][..],
            [true, true, true, false],
        ),
        (&[("b", 1, web)], [false, false, true, false]),
        // Another zone has the fewest as well.
        (&[("b", -1, web)], [false, true, false, false]),
        (&[("b", -1, web), ("b", 1, web)], [false, true, true, false]),
        (&[("b", 1, web), ("c", 1, web)], [true, true, true, false]),
        (&[("d", 5, web)], [false, true, true, false]),
        // It doesn't count when it is counted, and does when it goes: so it is in kube-scheduler.
        (
            &[("a", -1, |name| web(name).deleting())],
            [true, true, true, false],
        ),
        (
            &[("a", -1, |name| pod(name).label("app", "db"))],
            [false, true, true, false],
        ),
        (
            &[("a", -1, |name| {
                web(name).edit(|pod| pod.metadata.namespace = Some("elsewhere".to_owned()))
            })],
            [false, true, true, false],
        ),
    ] {
        let names: Vec<_> = change.iter().map(|(node, pods, _)| (node, pods)).collect();
        assert_eq!(
            after(asking(), change),
            (before.clone(), expected.to_vec()),
            "{names:?}"
        );
    }
}

#[test]
fn pods_on_nodes_that_do_not_count_change_nothing() {
    let asking = || {
        let pod = web("p").node_selector("disk", "ssd");
        spread(pod, vec![constraint(HARD, "zone", 1)])
    };
    let all = vec![true, true, true, false];
    assert_eq!(after(asking(), &[("a", 4, web)]), (all.clone(), all));
}

#[test]
fn an_empty_selector_counts_whoever_comes() {
    let mut given = constraint(HARD, "zone", 1);
    given.label_selector = Some(LabelSelector::default());
    let (before, after) = after(spread(web("p"), vec![given]), &[("a", 1, pod)]);
    assert_eq!(before, [true, true, true, false]);
    assert_eq!(after, [false, true, true, false]);
}
